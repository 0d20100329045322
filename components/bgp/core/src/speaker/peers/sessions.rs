//! Neighbors and their sessions, and the resulting orders to the tables.

use super::registry::Peers;
use crate::event::{DownReason, PeerEvent};
use crate::family::Families;
use crate::intake::Message;
use crate::reader::ReaderCounters;
use crate::session::{self, ConnectionId, Negotiated, Received};
use crate::shard::{PeerIndex, Sent};
use crate::speaker::messages::{Input, Output, event};
use crate::speaker::neighbor::{Carrier, Filters};
use crate::table::{Order, Retained};
use crate::writer::put_end_of_rib;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

impl Peers {
    /// A message came for the session.
    pub fn message(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        message: Message,
        out: &mut Outbox<Output>,
    ) {
        let Some(&index) = self.by_address.get(&address) else { return };
        match message {
            Message::Session(received) => {
                if let Received::Open(open) = &received {
                    self.learn_as(now, index, open, out);
                }
                self.drive(now, index, session::Input::Received(connection, received), out);
            }
            Message::Refresh(refresh) => {
                let received = session::Input::Received(connection, Received::RouteRefresh);
                self.drive(now, index, received, out);
                self.refresh(now, index, connection, &refresh, out);
            }
        }
    }

    /// UPDATEs came; this was read in the session so far.
    pub fn received(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        read: ReaderCounters,
        out: &mut Outbox<Output>,
    ) {
        let Some((index, peer)) = self.at(address) else { return };
        if peer.session.established() == Some(connection) {
            peer.read = read;
            peer.last_update = now;
            self.drive(now, index, session::Input::Received(connection, Received::Update), out);
        }
    }

    /// UPDATEs were handed to the connection, or could not be made; this was sent in the session so far.
    pub fn sent(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        sent: Sent,
        out: &mut Outbox<Output>,
    ) {
        let mut session_out = core::mem::take(&mut self.session_out);
        if let Some((index, peer)) = self.at(address)
            && peer.session.established() == Some(connection)
        {
            let before = core::mem::replace(&mut peer.sent, sent);
            // The first of a session is reported, the others are counted.
            if before.too_large == 0 && sent.too_large > 0 {
                out.push(event(address, PeerEvent::TooLarge));
            }
            if before.reduced == 0 && sent.reduced > 0 {
                out.push(event(address, PeerEvent::Reduced));
            }
            if sent.updates != before.updates {
                // It restarts a timer, no more.
                peer.session.handle(now, session::Input::UpdateSent, &mut session_out);
            }
            self.note_deadline(index);
        }
        self.session_out = session_out;
    }

    /// The neighbor took octets on a connection, or none wait to be sent there.
    pub fn written(&mut self, now: Instant, address: IpAddr, connection: ConnectionId) {
        let mut session_out = core::mem::take(&mut self.session_out);
        if let Some((index, peer)) = self.at(address)
            && peer.session.established() == Some(connection)
        {
            // It restarts a timer, no more.
            peer.session.handle(now, session::Input::Written, &mut session_out);
            self.note_deadline(index);
        }
        self.session_out = session_out;
    }

    /// Something is remarkable about what a neighbor sent.
    pub fn remark(&mut self, address: IpAddr, what: PeerEvent, out: &mut Outbox<Output>) {
        if let (PeerEvent::EndOfRib(family), Some((index, peer))) = (&what, self.at(address)) {
            peer.end_of_rib[*family] = peer.life.is_some();
            self.drop_stale(index, Families::only(*family), out);
        }
        out.push(event(address, what));
    }

    pub fn drive(&mut self, now: Instant, index: PeerIndex, input: session::Input, out: &mut Outbox<Output>) {
        let mut session_out = core::mem::take(&mut self.session_out);
        if let Some(peer) = self.peer_mut(index) {
            peer.session.handle(now, input, &mut session_out);
        }
        self.session_outputs(now, index, &mut session_out, out);
        self.session_out = session_out;
    }

    pub fn session_outputs(
        &mut self,
        now: Instant,
        index: PeerIndex,
        session_out: &mut Outbox<session::Output>,
        out: &mut Outbox<Output>,
    ) {
        self.note_deadline(index);
        for output in session_out.drain() {
            let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
                return;
            };
            let address = peer.config.address;
            match output {
                session::Output::Connect(connection) => out.push(Output::Connect(address, connection)),
                session::Output::Close(connection) => {
                    peer.forget(connection);
                    out.push(Output::Close(address, connection));
                }
                session::Output::Send(connection, octets) => {
                    out.push(Output::Send(address, connection, octets))
                }
                session::Output::Up(connection, negotiated) => {
                    self.session_up(now, index, connection, &negotiated, out);
                }
                session::Output::Down(reason) => self.session_down(now, index, reason, out),
                // A dynamic neighbor may come and go as often as it likes; what its range refuses is reported for the range.
                session::Output::NotOpened(_) if peer.config.range.is_some() => {}
                session::Output::NotOpened(reason) => {
                    let failed = peer.config.not_opened(reason);
                    out.push(event(address, PeerEvent::NotOpened(failed)));
                }
                session::Output::Event(what) => out.push(event(address, PeerEvent::Session(what))),
            }
        }
        self.settle(now, index);
    }

    /// Opens the tables to a neighbor whose session is up.
    #[cold]
    fn session_up(
        &mut self,
        now: Instant,
        index: PeerIndex,
        connection: ConnectionId,
        negotiated: &Negotiated,
        out: &mut Outbox<Output>,
    ) {
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let address = peer.config.address;
        self.life += 1;
        self.last_up = now;
        peer.last_update = now;
        let life = self.life;
        let carrier = Carrier { peer: index, life, spread: self.spread, source: self.identity.source };
        let info = peer.info(negotiated.router_id);
        peer.filters = Filters::begin(now, negotiated.filters_received);
        let without_policy = peer.config.without_policy(self.identity.local_as);
        let Some((mut link, import, outlet)) = peer.up(carrier, connection, negotiated, &mut self.bindings)
        else {
            return;
        };
        let untold = negotiated.families.without(outlet.families);
        link.writer.sent.updates += untold.iter().count() as u64;
        let lost = peer.restart.resume(now, peer.config.graceful_restart, negotiated);
        out.push(Output::Order(None, Order::PeerUp { peer: index, life, info, import }));
        if !lost.is_empty() {
            out.push(Output::Order(None, Order::DropStale(index, lost)));
        }
        if let Some(export) = self.opened(index, outlet) {
            out.push(Output::Order(None, Order::Open(index, export)));
        }
        self.note_deadline(index);
        out.push(Output::Up(address, connection, Box::new(link)));
        out.push(Output::SessionsChanged);
        self.send_filters(index, out);
        out.push(event(address, PeerEvent::Up));
        if let Some(without) = self.peer_mut(index).and_then(|peer| peer.without_refresh()) {
            out.push(event(address, PeerEvent::NoRefresh(without)));
        }
        let (import, export) = without_policy;
        if import || export {
            out.push(event(address, PeerEvent::NoPolicy { import, export }));
        }
        // RFC 4724, section 2: the marker is due also where there is nothing to announce.
        for family in untold.iter() {
            let mut octets = Vec::new();
            put_end_of_rib(family, &self.identity.codes, &mut octets);
            out.push(Output::Send(address, connection, octets));
            out.push(event(address, PeerEvent::NoNextHop(family)));
        }
    }

    /// Takes a neighbor's routes out of the tables, or retains the routes of a neighbor that restarts.
    #[cold]
    fn session_down(&mut self, now: Instant, index: PeerIndex, reason: DownReason, out: &mut Outbox<Output>) {
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let address = peer.config.address;
        let mut retained = Retained::default();
        if let Some(life) = peer.down() {
            retained = peer.restart.begin(now, peer.config.graceful_restart, &reason);
            self.leaving.insert(index, (life, self.spread.tables()));
            out.push(Output::Order(None, Order::PeerDown(index, life, retained)));
            out.push(Output::SessionsChanged);
        }
        out.push(event(address, PeerEvent::Down(reason)));
        if !retained.families.is_empty() {
            out.push(event(address, PeerEvent::Restarts(retained.families)));
        }
    }

    /// A connection came or went.
    pub fn connection_input(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Connected(address, connection, endpoints)
            | Input::Accepted(address, connection, endpoints) => {
                let known = self.by_address.get(&address).copied();
                // A trace has no connection, whoever comes from that address.
                let Some(index) = known.filter(|_| !self.is_injected(address)) else {
                    return out.push(Output::Close(address, connection));
                };
                if let Some(peer) = self.peer_mut(index) {
                    peer.opened(connection, endpoints);
                }
                let input = match connection.direction {
                    session::Direction::Outgoing => session::Input::Connected(connection),
                    session::Direction::Incoming => session::Input::Accepted(connection),
                };
                self.drive(now, index, input, out);
            }
            Input::Closed(address, connection) => {
                self.closed(now, address, connection, session::Input::Closed(connection), out);
            }
            Input::Failed(address, connection, error) => {
                self.closed(now, address, connection, session::Input::Failed(connection, error), out);
            }
            _ => {}
        }
    }

    fn closed(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        input: session::Input,
        out: &mut Outbox<Output>,
    ) {
        let Some(&index) = self.by_address.get(&address) else { return };
        self.drive(now, index, input, out);
        if let Some(peer) = self.peer_mut(index) {
            peer.forget(connection);
        }
        self.settle(now, index);
    }

    /// Fires the sessions' timers that are due.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let mut session_out = core::mem::take(&mut self.session_out);
        while let Some((at, index)) = self.deadlines.first().copied()
            && at <= now
        {
            if let Some(peer) = self.peer_mut(index) {
                peer.session.on_deadline(now, &mut session_out);
                if peer.restart.deadline().is_some_and(|until| until <= now) {
                    self.end_restart(now, index, out);
                }
                if self
                    .peer_mut(index)
                    .is_some_and(|peer| peer.refreshes.until.is_some_and(|until| until <= now))
                {
                    self.end_late_refresh(index, out);
                }
                if self
                    .peer_mut(index)
                    .is_some_and(|peer| peer.filters.until.is_some_and(|until| until <= now))
                {
                    self.end_wait_for_filters(index, out);
                }
            }
            self.session_outputs(now, index, &mut session_out, out);
            self.end_stay(now, index, out);
        }
        self.session_out = session_out;
    }
}
