//! A router's BGP on one thread: sessions, readers, shards and writers, and what passes between them.
//!
//! ```text
//! octets -> Framer -> session messages -> Session -> octets
//!                  \-> UPDATEs -> Reader -> Batches -> Shards -> change queue -> groups -> Writer -> octets
//!                                                      |  ^ \-> RIB branch -> route batches
//!                                          interest <--+  +-- answers
//! ```
//!
//! Each arrow is a seam at which threads can be set apart later: batches from a reader to a shard are self-contained,
//! blocks from a shard to a writer are immutable and shared.
//!
//! Pressure goes backwards: the driver pulls octets ([`Speaker::fill`]) and route batches ([`Speaker::rib_batch`]) when who
//! takes them can. Nothing that waits to be pulled grows.

mod config;
mod neighbors;
mod peer;
mod view;

pub use config::{Config, Identity, NeighborConfig};
pub use view::{NeighborView, Summary};

use crate::event::{Event, PeerEvent};
use crate::hash::HashSeed;
use crate::reader::{Batches, Framer, Remarks};
use crate::session::{self, ConnectionId, Received};
use crate::shard::{Interest, PeerIndex};
use crate::shards::{Sharded, Shards, Spread};
use crate::wire::notification::{cease, code, open as open_error};
use crate::wire::{
    AFI_IPV4, AFI_IPV6, Expected, Frame, MessageType, Notification, Open, RouteRefresh, SAFI_UNICAST,
};
use crate::writer::Endpoints;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use peer::Peer;
use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::{Family, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, Rng, RouteBatch};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use smallvec::SmallVec;

/// What can happen to a router's BGP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// This is the configuration from now on.
    Configure(Config),
    /// A connection that was asked for is there.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// A neighbour connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// Octets came on a connection.
    Received(IpAddr, ConnectionId, Vec<u8>),
    /// The RIB says how IPv4 next hops are reached.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB says how IPv6 next hops are reached.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// An answer of the RIB holds no longer.
    Invalid(IpPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The operator wants a session closed and opened again, with a word to the other operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator wants a neighbour asked for all its routes (RFC 2918).
    Refresh(IpAddr),
}

/// What a router's BGP wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Connect to the neighbour as its configuration says.
    Connect(IpAddr, ConnectionId),
    /// Close a connection when what was sent on it is written.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind what was written before.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// There are UPDATEs: call [`Speaker::fill`] when the connection can take them, until it says that there are no more.
    Transmit(IpAddr, ConnectionId),
    /// There are routes: call [`Speaker::rib_batch`] until it says that there are no more.
    RibReady(Family),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// For the log.
    Event(Event),
}

/// The state that outlives a process: what was configured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpeakerState {
    /// The configuration.
    pub config: Config,
}

/// A prefix that an UPDATE named, for latency profiles: whether it was withdrawn, and the UPDATE's id.
pub type Traced = (IpPrefix, bool, Provenance);

/// A router's BGP.
pub struct Speaker {
    identity: Identity,
    rng: Rng,
    peers: Vec<Option<Box<Peer>>>,
    by_address: BTreeMap<IpAddr, PeerIndex>,
    networks: BTreeSet<IpPrefix>,
    shards: Shards,
    /// What is being read, for each table.
    batches: Vec<Batches>,
    provenance: Provenance,
    rib_offered: [bool; 2],
    traced: Option<Vec<Traced>>,
    session_out: Outbox<session::Output>,
    interest4: Outbox<Interest<Ipv4Prefix>>,
    interest6: Outbox<Interest<Ipv6Prefix>>,
}

impl Speaker {
    /// A router without neighbours.
    pub fn new(identity: Identity) -> Self {
        let mut rng = Rng::from_seed(identity.seed);
        let (local_as, router_id) = (identity.local_as, identity.router_id);
        let spread = Spread::new(HashSeed(rng.next_u64()), identity.tables);
        Speaker {
            provenance: Provenance::new(identity.source, 0),
            identity,
            rng,
            // Number 0 is the router itself.
            peers: Vec::from([None]),
            by_address: BTreeMap::new(),
            networks: BTreeSet::new(),
            shards: Shards::new(local_as, router_id, spread),
            batches: core::iter::repeat_with(Batches::default).take(spread.tables()).collect(),
            rib_offered: [false; 2],
            traced: None,
            session_out: Outbox::new(),
            interest4: Outbox::new(),
            interest6: Outbox::new(),
        }
    }

    fn peer_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index.0))?.as_deref_mut()
    }

    fn draw_provenance(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }

    /// Octets came on a connection: the same as [`Input::Received`] without a copy.
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
        self.settle(out);
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
        self.shards.apply(index, &self.batches, &mut self.interest4);
        self.shards.apply(index, &self.batches, &mut self.interest6);
        for batches in &mut self.batches {
            batches.ipv4.clear();
            batches.ipv6.clear();
        }
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

    fn drive(&mut self, now: Instant, index: PeerIndex, input: session::Input, out: &mut Outbox<Output>) {
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
                    self.shards.peer_up(index, info);
                    peer.up(index, connection, &negotiated, &mut self.shards);
                    out.push(event(address, PeerEvent::Up));
                }
                session::Output::Down(reason) => {
                    self.shards.peer_down(index);
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
            AFI_IPV4 => self.shards.refresh::<Ipv4Prefix>(index, None),
            AFI_IPV6 => self.shards.refresh::<Ipv6Prefix>(index, None),
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
        let more = link.writer.fill(&mut self.shards, limit, octets);
        link.offered = more;
        if octets.len() > before {
            peer.session.handle(now, session::Input::UpdateSent, &mut self.session_out);
        }
        more
    }

    /// Adds about `limit` best routes for the RIB to `batch`; returns whether there are more. After a `false`,
    /// [`Output::RibReady`] says when there are some again.
    pub fn rib_batch_ipv4(&mut self, limit: usize, batch: &mut RouteBatch<Ipv4Prefix>) -> bool {
        self.rib_batch(limit, batch)
    }

    /// As [`Speaker::rib_batch_ipv4`].
    pub fn rib_batch_ipv6(&mut self, limit: usize, batch: &mut RouteBatch<Ipv6Prefix>) -> bool {
        self.rib_batch(limit, batch)
    }

    fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) -> bool {
        self.shards.rib_batch(limit, batch);
        let more = self.shards.has_rib_changes::<P>();
        self.rib_offered[P::FAMILY as usize] = more;
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

    /// The shards, to look into.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Puts checking stages before every PeerOut, or takes them out.
    pub fn check(&mut self, on: bool) {
        self.shards.check(on);
    }

    /// Passes on what the shards want, and says who can be told something that could not before.
    fn settle(&mut self, out: &mut Outbox<Output>) {
        for interest in self.interest4.drain() {
            out.push(Output::InterestIpv4(interest));
        }
        for interest in self.interest6.drain() {
            out.push(Output::InterestIpv6(interest));
        }
        let ready =
            [self.shards.has_rib_changes::<Ipv4Prefix>(), self.shards.has_rib_changes::<Ipv6Prefix>()];
        for family in Family::ALL {
            let offered = &mut self.rib_offered[family as usize];
            if ready[family as usize] && !core::mem::replace(offered, ready[family as usize]) {
                out.push(Output::RibReady(family));
            }
        }
        for peer in self.peers.iter_mut().flatten() {
            let Some(connection) = peer.session.established() else { continue };
            if let Some(link) = &mut peer.link
                && !link.offered
                && link.writer.has_output(&self.shards)
            {
                link.offered = true;
                out.push(Output::Transmit(peer.config.address, connection));
            }
        }
    }

    fn ask_for_refresh(&mut self, index: PeerIndex, out: &mut Outbox<Output>) {
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

    fn connection_input(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
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

fn event(peer: IpAddr, what: PeerEvent) -> Output {
    Output::Event(Event { peer, what })
}

impl Machine for Speaker {
    type Input = Input;
    type Output = Output;
    type State = SpeakerState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Configure(config) => self.configure(now, config, out),
            Input::Received(address, connection, octets) => {
                return self.receive(now, address, connection, &octets, out);
            }
            Input::AnswerIpv4(answer) => {
                let provenance = self.draw_provenance();
                self.shards.answer(&answer, provenance, &mut self.interest4);
            }
            Input::AnswerIpv6(answer) => {
                let provenance = self.draw_provenance();
                self.shards.answer(&answer, provenance, &mut self.interest6);
            }
            Input::Invalid(IpPrefix::V4(prefix)) => self.shards.invalid(prefix, &mut self.interest4),
            Input::Invalid(IpPrefix::V6(prefix)) => self.shards.invalid(prefix, &mut self.interest6),
            Input::RibRestarted => {
                self.shards.rib_restarted(&mut self.interest4);
                self.shards.rib_restarted(&mut self.interest6);
                self.rib_offered = [false; 2];
            }
            Input::Reset(address, text) => {
                if let Some(&index) = self.by_address.get(&address) {
                    self.drive(now, index, session::Input::Reset { subcode: cease::RESET, text }, out);
                }
            }
            Input::Refresh(address) => {
                if let Some(&index) = self.by_address.get(&address) {
                    self.ask_for_refresh(index, out);
                }
            }
            Input::Connected(..) | Input::Accepted(..) | Input::Closed(..) => {
                self.connection_input(now, input, out);
            }
        }
        self.settle(out);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.peers.iter().flatten().filter_map(|p| p.session.next_deadline()).min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let mut session_out = core::mem::take(&mut self.session_out);
        for index in 1..self.peers.len() {
            if let Some(peer) = &mut self.peers[index] {
                peer.session.on_deadline(now, &mut session_out);
            }
            self.session_outputs(PeerIndex(index as u16), &mut session_out, out);
        }
        self.session_out = session_out;
        self.settle(out);
    }

    fn run_slice(&mut self, _now: Instant, budget: Budget, out: &mut Outbox<Output>) -> Progress {
        let ipv4 = self.shards.run_slice(budget, &mut self.interest4);
        let ipv6 = self.shards.run_slice(budget, &mut self.interest6);
        self.settle(out);
        ipv4.or(ipv6)
    }

    fn export(&self) -> SpeakerState {
        let peers = self.by_address.values().filter_map(|i| self.peers[usize::from(i.0)].as_ref());
        SpeakerState {
            config: Config {
                neighbors: peers.map(|p| p.config.clone()).collect(),
                networks: self.networks.iter().copied().collect(),
            },
        }
    }

    fn import(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        self.handle(now, Input::Configure(state.config), out);
    }
}
