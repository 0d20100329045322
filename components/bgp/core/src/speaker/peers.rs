//! Neighbours, from octets to changes for the tables and back: their sessions, readers and writers.
//!
//! One thread's neighbours need not be all there are, and the tables need not be on the same thread: what is done with them is
//! [`Tables`].

use super::Output;
use super::config::{Identity, NeighborConfig};
use super::peer::Peer;
use crate::event::{Event, PeerEvent};
use crate::reader::{Batches, Framer, Remarks};
use crate::session::{self, ConnectionId, Received};
use crate::shard::PeerIndex;
use crate::shards::Tables;
use crate::wire::notification::{code, open as open_error};
use crate::wire::{
    AFI_IPV4, AFI_IPV6, Expected, Frame, MessageType, Notification, Open, RouteRefresh, SAFI_UNICAST,
};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, Rng};
use sluice_machine::{Machine, Outbox};
use smallvec::SmallVec;

/// A prefix that an UPDATE named, for latency profiles: whether it was withdrawn, and the UPDATE's id.
pub type Traced = (IpPrefix, bool, Provenance);

/// A thread's neighbours, and the tables as it sees them.
pub struct Peers<T> {
    pub(super) identity: Identity,
    pub(super) rng: Rng,
    pub(super) peers: Vec<Option<Box<Peer>>>,
    pub(super) by_address: BTreeMap<IpAddr, PeerIndex>,
    pub(super) tables: T,
    /// What is being read, for each table.
    batches: Vec<Batches>,
    provenance: Provenance,
    traced: Option<Vec<Traced>>,
    session_out: Outbox<session::Output>,
}

impl<T: Tables> Peers<T> {
    /// No neighbours. `rng` makes their timers differ.
    pub fn new(identity: Identity, rng: Rng, tables: T) -> Self {
        let batches = core::iter::repeat_with(Batches::default).take(tables.spread().tables()).collect();
        Peers {
            provenance: Provenance::new(identity.source, 0),
            identity,
            rng,
            // Number 0 is the router itself.
            peers: Vec::from([None]),
            by_address: BTreeMap::new(),
            tables,
            batches,
            traced: None,
            session_out: Outbox::new(),
        }
    }

    pub(super) fn peer_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index.0))?.as_deref_mut()
    }

    pub(super) fn draw_provenance(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }

    /// Octets came on a connection.
    pub fn receive(
        &mut self,
        now: Instant,
        address: IpAddr,
        connection: ConnectionId,
        octets: &[u8],
        out: &mut Outbox<Output>,
    ) {
        if let Some(&index) = self.by_address.get(&address) {
            self.read(now, index, connection, octets, out);
        }
    }

    fn read(
        &mut self,
        now: Instant,
        index: PeerIndex,
        connection: ConnectionId,
        mut octets: &[u8],
        out: &mut Outbox<Output>,
    ) {
        let Some(mut framer) = self.peer_mut(index).and_then(|p| p.take_framer(connection)) else { return };
        let mut updates = false;
        loop {
            let frame = match framer.next(&mut octets) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    self.session_input(now, index, connection, Received::Error(error.into()), out);
                    break;
                }
            };
            if frame.kind == MessageType::Update && self.is_established(index, connection) {
                updates = true;
                if let Some(notification) = self.update(index, &frame, out) {
                    self.session_input(now, index, connection, Received::Error(notification), out);
                }
                continue;
            }
            match message(&frame) {
                Ok(Message::Session(received)) => self.session_input(now, index, connection, received, out),
                Ok(Message::Refresh(refresh)) => {
                    self.session_input(now, index, connection, Received::RouteRefresh, out);
                    self.refresh(index, connection, refresh);
                }
                Err(notification) => {
                    self.session_input(now, index, connection, Received::Error(notification), out);
                }
            }
        }
        self.apply(index);
        if updates {
            self.session_input(now, index, connection, Received::Update, out);
        }
        self.give_framer(index, connection, framer);
    }

    fn give_framer(&mut self, index: PeerIndex, connection: ConnectionId, framer: Framer) {
        if let Some(peer) = self.peer_mut(index) {
            peer.give_framer(connection, framer);
        }
    }

    fn is_established(&mut self, index: PeerIndex, connection: ConnectionId) -> bool {
        self.peer_mut(index).is_some_and(|p| p.link.is_some() && p.session.established() == Some(connection))
    }

    /// Reads an UPDATE of an established session; returns what to send if it ends the session.
    fn update(
        &mut self,
        index: PeerIndex,
        frame: &Frame<'_>,
        out: &mut Outbox<Output>,
    ) -> Option<Notification> {
        let provenance = self.draw_provenance();
        let peer = self.peers.get_mut(usize::from(index.0))?.as_deref_mut()?;
        let link = peer.link.as_mut()?;
        let before: SmallVec<[(usize, usize); 1]> = match self.traced {
            Some(_) => self.batches.iter().map(Batches::len).collect(),
            None => SmallVec::new(),
        };
        let remarks = match link.reader.update(frame.body, provenance, &mut self.batches) {
            Err(notification) => return Some(notification),
            Ok(remarks) => remarks,
        };
        if let Some(traced) = &mut self.traced {
            for (batches, (ipv4, ipv6)) in self.batches.iter().zip(before) {
                traced.extend(batches.ipv4.changes()[ipv4..].iter().map(|c| c.traced(provenance)));
                traced.extend(batches.ipv6.changes()[ipv6..].iter().map(|c| c.traced(provenance)));
            }
        }
        if remarks != Remarks::default() {
            let address = peer.config.address;
            if let Some((error, withdrawn)) = remarks.malformed {
                let update = frame.body.to_vec();
                out.push(event(address, PeerEvent::Malformed { error, withdrawn, update }));
            }
            if let Some(family) = remarks.end_of_rib {
                link.end_of_rib[family as usize] = true;
                out.push(event(address, PeerEvent::EndOfRib(family)));
            }
        }
        if self.batches.iter().any(Batches::is_full) {
            self.apply(index);
        }
        None
    }

    /// Hands what was read to the shards.
    fn apply(&mut self, index: PeerIndex) {
        if self.batches.iter().all(Batches::is_empty) {
            return;
        }
        self.tables.apply(index, &mut self.batches);
    }

    /// Gives a message to the session; what was read before it takes effect before it.
    fn session_input(
        &mut self,
        now: Instant,
        index: PeerIndex,
        connection: ConnectionId,
        received: Received,
        out: &mut Outbox<Output>,
    ) {
        self.apply(index);
        self.drive(now, index, session::Input::Received(connection, received), out);
    }

    pub(super) fn drive(
        &mut self,
        now: Instant,
        index: PeerIndex,
        input: session::Input,
        out: &mut Outbox<Output>,
    ) {
        let mut session_out = core::mem::take(&mut self.session_out);
        if let Some(peer) = self.peer_mut(index) {
            peer.session.handle(now, input, &mut session_out);
        }
        self.session_outputs(index, &mut session_out, out);
        self.session_out = session_out;
    }

    fn session_outputs(
        &mut self,
        index: PeerIndex,
        session_out: &mut Outbox<session::Output>,
        out: &mut Outbox<Output>,
    ) {
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
                    let info = peer.info(&negotiated);
                    self.tables.peer_up(index, info);
                    peer.up(index, connection, &negotiated, &mut self.tables);
                    out.push(event(address, PeerEvent::Up));
                }
                session::Output::Down(reason) => {
                    self.tables.peer_down(index);
                    peer.down();
                    out.push(event(address, PeerEvent::Down(reason)));
                }
                session::Output::Event(what) => out.push(event(address, PeerEvent::Session(what))),
            }
        }
    }

    /// The peer wants all routes of a family once more (RFC 2918, section 4); of others than agreed on it is ignored.
    fn refresh(&mut self, index: PeerIndex, connection: ConnectionId, refresh: RouteRefresh) {
        if !self.is_established(index, connection) || refresh.safi != SAFI_UNICAST {
            return;
        }
        match refresh.afi {
            AFI_IPV4 => self.tables.refresh::<Ipv4Prefix>(index, None),
            AFI_IPV6 => self.tables.refresh::<Ipv6Prefix>(index, None),
            _ => {}
        }
    }

    /// Appends messages for an established connection to `octets`, up to about `limit`; returns whether there are more. After
    /// a `false`, [`Output::Transmit`] says when there are some again.
    pub fn fill(&mut self, now: Instant, address: IpAddr, limit: usize, octets: &mut Vec<u8>) -> bool {
        let Some(&index) = self.by_address.get(&address) else { return false };
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return false;
        };
        let Some(link) = &mut peer.link else { return false };
        let before = octets.len();
        let more = link.writer.fill(&mut self.tables, limit, octets);
        link.offered = more;
        if octets.len() > before {
            peer.session.handle(now, session::Input::UpdateSent, &mut self.session_out);
        }
        more
    }

    /// Starts or stops noting the prefixes of UPDATEs. Who starts it takes them after every input that brings octets.
    pub fn trace(&mut self, on: bool) {
        if on != self.traced.is_some() {
            self.traced = on.then(Vec::new);
        }
    }

    /// The prefixes noted since the last call.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        self.traced.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Asks a neighbour for all its routes (RFC 2918).
    pub(super) fn ask_for_refresh(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
        let Some(peer) = self.peer_mut(index) else { return };
        let (Some(connection), Some(negotiated)) = (peer.session.established(), peer.session.negotiated())
        else {
            return;
        };
        if !negotiated.route_refresh {
            return;
        }
        let families = negotiated.families;
        let mut octets = Vec::new();
        for (wanted, afi) in [(families.ipv4, AFI_IPV4), (families.ipv6, AFI_IPV6)] {
            if wanted {
                RouteRefresh { afi, safi: SAFI_UNICAST }.put(&mut octets);
                peer.session.sent.route_refresh += 1;
            }
        }
        out.push(Output::Send(peer.config.address, connection, octets));
    }

    /// A connection came or went.
    pub(super) fn connection_input(&mut self, now: Instant, input: super::Input, out: &mut Outbox<Output>) {
        use super::Input;
        match input {
            Input::Connected(address, connection, endpoints)
            | Input::Accepted(address, connection, endpoints) => {
                let Some(&index) = self.by_address.get(&address) else {
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
                if let Some(&index) = self.by_address.get(&address) {
                    self.drive(now, index, session::Input::Closed(connection), out);
                    if let Some(peer) = self.peer_mut(index) {
                        peer.forget(connection);
                    }
                }
            }
            _ => {}
        }
    }

    /// The next deadline of any session.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.peers.iter().flatten().filter_map(|p| p.session.next_deadline()).min()
    }

    /// Fires the sessions' timers that are due.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let mut session_out = core::mem::take(&mut self.session_out);
        for index in 1..self.peers.len() {
            if let Some(peer) = &mut self.peers[index] {
                peer.session.on_deadline(now, &mut session_out);
            }
            self.session_outputs(PeerIndex(index as u16), &mut session_out, out);
        }
        self.session_out = session_out;
    }

    /// Says which neighbours can be told something that could not before.
    pub fn offer(&mut self, out: &mut Outbox<Output>) {
        for peer in self.peers.iter_mut().flatten() {
            let Some(connection) = peer.session.established() else { continue };
            if let Some(link) = &mut peer.link
                && !link.offered
                && link.writer.has_output(&self.tables)
            {
                link.offered = true;
                out.push(Output::Transmit(peer.config.address, connection));
            }
        }
    }

    /// The addresses of the configured neighbours, in order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().copied()
    }

    /// The configuration of a neighbour.
    pub fn config(&self, address: IpAddr) -> Option<&NeighborConfig> {
        let index = self.by_address.get(&address)?;
        self.peers[usize::from(index.0)].as_ref().map(|p| &p.config)
    }
}

enum Message {
    Session(Received),
    Refresh(RouteRefresh),
}

/// Reads a message that is for the session; the error is what to send.
fn message(frame: &Frame<'_>) -> Result<Message, Notification> {
    Ok(Message::Session(match frame.kind {
        MessageType::Open => Received::Open(Open::decode(frame.body).map_err(|e| {
            let subcode = match e.expected {
                Expected::Parameter(_) => open_error::PARAMETER,
                // RFC 4271, section 6.2: malformed, without a word for how.
                _ => 0,
            };
            Notification::new(code::OPEN, subcode)
        })?),
        MessageType::Keepalive => Received::Keepalive,
        MessageType::Update => Received::Update,
        MessageType::Notification => Received::Notification(
            Notification::decode(frame.body).unwrap_or_else(|_| Notification::new(0, 0)),
        ),
        MessageType::RouteRefresh => {
            let bad_length = |_| Notification { code: code::HEADER, subcode: 2, data: Vec::new() };
            return RouteRefresh::decode(frame.body).map(Message::Refresh).map_err(bad_length);
        }
    }))
}

pub(super) fn event(peer: IpAddr, what: PeerEvent) -> Output {
    Output::Event(Event { peer, what })
}
