//! TCP from BGP's view: reliable ordered pipes. They can be refused, closed and reset, and they stall while a link is
//! cut.

use super::connections::{End, State};
use super::end::EndRef;
use super::queue::{Event, is_keepalive};
use crate::world::Fabric;
use sluice_bgp::session::ConnectionId;
use std::net::IpAddr;

/// The time that a router's own kernel takes to refuse.
const REFUSAL: u64 = 10_000;

/// The effect of an arrival.
pub enum Arrived {
    /// No effect on any router.
    Nothing,
    /// Octets, or their end, can be read; the flag is false for a mere KEEPALIVE.
    Readable(u32, EndRef, bool),
    /// A connection request.
    Asked(EndRef),
    /// The connection is there.
    Connected(u32, EndRef),
    /// The end can take octets again.
    Writable(u32, EndRef),
}

impl Fabric {
    /// `host` requests a connection over `link` from its side `side`.
    pub fn connect(&mut self, host: u32, link: u32, side: usize, id: ConnectionId) -> EndRef {
        let other = self.host_at(link, 1 - side);
        let neighbor = crate::network::ipv4(link, 1 - side).into();
        let own = crate::network::ipv4(link, side).into();
        // The number of the other end is given when it accepts.
        let ends = [End::new(host, neighbor, id, State::Waiting), End::new(other, own, id, State::Waiting)];
        let at = self.connections.add(link, ends);
        let arrival = self.links[link as usize].arrival(self.now, side, 60, &mut self.rng);
        self.queue.push(arrival, Event::Syn(at.other()));
        at
    }

    /// The router's own kernel refuses to connect.
    pub fn refuse(&mut self, host: u32, neighbor: IpAddr, id: ConnectionId) -> EndRef {
        let ends =
            [End::new(host, neighbor, id, State::Waiting), End::new(host, neighbor, id, State::Closed)];
        let at = self.connections.add(0, ends);
        self.queue.push(self.now + REFUSAL, Event::Reset(at));
        at
    }

    /// Opens the end that received the request.
    pub fn accept(&mut self, at: EndRef, id: ConnectionId) {
        if let Some(end) = self.connections.end_mut(at) {
            end.id = id;
            end.state = State::Open;
        }
        self.send_event(at, 60, Event::SynAck(at.other()));
    }

    /// Rejects the request.
    pub fn reject(&mut self, at: EndRef) {
        self.send_event(at, 60, Event::Reset(at.other()));
        self.connections.close(at);
    }

    /// Sends an event to the opposite end, behind earlier events.
    fn send_event(&mut self, from: EndRef, octets: usize, event: Event) {
        let Some(connection) = self.connections.get(from) else { return };
        let link = connection.link as usize;
        let side = usize::from(self.sides(connection.link, connection.ends[usize::from(from.end)].host));
        let at = self.links[link].arrival(self.now, side, octets, &mut self.rng);
        let other = &mut self.connections.all[from.connection as usize].ends[usize::from(1 - from.end)];
        other.last = other.last.max(at);
        let at = other.last;
        self.queue.push(at, event);
    }

    /// Returns true if an end has room for more.
    pub fn has_room(&mut self, at: EndRef) -> bool {
        let window = self.settings.window;
        let Some(end) = self.connections.end_mut(at) else { return false };
        end.blocked = end.in_flight >= window;
        !end.blocked
    }

    /// Sends octets behind earlier octets.
    pub fn send(&mut self, at: EndRef, octets: Vec<u8>) {
        let Some(end) = self.connections.end_mut(at) else { return };
        end.in_flight += octets.len();
        let len = octets.len();
        self.send_event(at, len, Event::Segment(at.other(), octets));
    }

    /// Closes an end: the opposite end notices behind the last octet.
    pub fn close(&mut self, at: EndRef) {
        if self.connections.end_mut(at).is_some() {
            self.send_event(at, 40, Event::Fin(at.other()));
            self.connections.close(at);
        }
    }

    /// Removes an end with its router, without a notice to the opposite end.
    pub fn vanish(&mut self, at: EndRef) {
        self.connections.close(at);
    }

    /// Delivers an event at an end, if the link lets the event through.
    pub fn arrive(&mut self, event: Event) -> Arrived {
        let (Event::Syn(at)
        | Event::SynAck(at)
        | Event::Segment(at, _)
        | Event::Fin(at)
        | Event::Reset(at)
        | Event::Writable(at)) = event
        else {
            return Arrived::Nothing;
        };
        let Some(connection) = self.connections.get(at) else { return Arrived::Nothing };
        let end = &connection.ends[usize::from(at.end)];
        let (host, closed, hold) = (end.host, end.state == State::Closed, end.hold);
        let link = connection.link;
        if let Event::Writable(_) = event {
            return if closed { Arrived::Nothing } else { Arrived::Writable(host, at) };
        }
        if self.now < hold {
            self.queue.push(hold, event);
            return Arrived::Nothing;
        }
        // A kernel that refuses its own router needs no link.
        let is_own = connection.ends[0].host == connection.ends[1].host;
        if !is_own && !self.links[link as usize].is_up() {
            self.stall(link, at, event);
            return Arrived::Nothing;
        }
        if closed {
            if matches!(event, Event::Segment(..)) && self.is_host_up(host) {
                self.queue_reset(at);
            }
            return Arrived::Nothing;
        }
        self.deliver(host, at, event)
    }

    /// Handles an event at a cut: octets are retransmitted after the repair. A connection request is lost, because its
    /// sender gives up and tries anew.
    fn stall(&mut self, link: u32, at: EndRef, event: Event) {
        if matches!(event, Event::Syn(_)) {
            self.connections.close(at);
        } else {
            self.links[link as usize].stalled.push(event);
        }
    }

    /// Notifies the sender of an unknown connection.
    fn queue_reset(&mut self, at: EndRef) {
        self.send_event(at, 40, Event::Reset(at.other()));
    }

    fn deliver(&mut self, host: u32, at: EndRef, event: Event) -> Arrived {
        let Some(end) = self.connections.end_mut(at) else { return Arrived::Nothing };
        match event {
            Event::Syn(_) => return self.asked(at),
            Event::SynAck(_) => {
                end.state = State::Open;
                return Arrived::Connected(host, at);
            }
            Event::Segment(_, octets) => {
                let is_work = !is_keepalive(&octets);
                self.received(at, octets);
                return Arrived::Readable(host, at, is_work);
            }
            Event::Fin(_) => end.finished = true,
            _ => {
                end.received.clear();
                end.finished = true;
            }
        }
        Arrived::Readable(host, at, true)
    }

    fn asked(&mut self, at: EndRef) -> Arrived {
        if self.connections.end_mut(at.other()).is_none() {
            // Who asked has given up meanwhile.
            self.connections.close(at);
            return Arrived::Nothing;
        }
        Arrived::Asked(at)
    }

    fn received(&mut self, at: EndRef, mut octets: Vec<u8>) {
        let len = octets.len();
        let delay = self.connections.get(at).map_or(0, |c| self.links[c.link as usize].delay);
        if let Some(sender) = self.connections.end_mut(at.other()) {
            sender.in_flight -= len.min(sender.in_flight);
            if sender.blocked && sender.in_flight < self.settings.window {
                sender.blocked = false;
                self.queue.push(self.now + delay, Event::Writable(at.other()));
            }
        }
        if let Some(end) = self.connections.end_mut(at) {
            if end.received.is_empty() {
                end.received = octets;
            } else {
                end.received.append(&mut octets);
            }
        }
    }

    /// Repairs a cut link: held-up octets are retransmitted, and later octets do not overtake them.
    pub fn resume(&mut self, link: u32) {
        if !self.links[link as usize].is_up() {
            return;
        }
        let again = self.links[link as usize].again(self.now);
        for event in std::mem::take(&mut self.links[link as usize].stalled) {
            let (Event::SynAck(to) | Event::Segment(to, _) | Event::Fin(to) | Event::Reset(to)) = &event
            else {
                continue;
            };
            if self.connections.get(*to).is_some() {
                let end = &mut self.connections.all[to.connection as usize].ends[usize::from(to.end)];
                // What is still in flight was sent later: it is held up until after what stalled.
                if end.hold <= self.now {
                    end.hold = again.max(end.last + 1);
                    end.last = end.hold;
                }
                let at = end.hold;
                self.queue.push(at, event);
            }
        }
    }
}
