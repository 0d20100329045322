//! Neighbors and their sessions, and what the tables are told of them.

use super::bindings::Bindings;
use super::config::{Identity, NeighborConfig};
use super::control::{Input, Output};
use super::dynamic::{Ranges, Stay};
use super::filters::Filters;
use super::pace::Releases;
use super::peer::{Carrier, Peer};
use super::restart::Overdue;
use crate::event::{Event, PeerEvent};
use crate::family::Families;
use crate::intake::Message;
use crate::reader::ReaderCounters;
use crate::session::{self, ConnectionId, Received};
use crate::shard::{PeerIndex, Sent};
use crate::table::{Order, Retained, SessionEpoch, Spread};
use crate::writer::put_end_of_rib;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::{Instant, Provenance, Rng};
use sluice_machine::{Machine, Outbox};

/// A router's neighbors.
pub(super) struct Peers {
    pub identity: Identity,
    pub rng: Rng,
    pub peers: Vec<Option<Box<Peer>>>,
    pub by_address: BTreeMap<IpAddr, PeerIndex>,
    /// The listen ranges.
    pub ranges: Ranges,
    pub spread: Spread,
    /// The number of the newest session.
    pub life: SessionEpoch,
    /// The time at which the newest session came up.
    pub last_up: Instant,
    /// The numbers of peers whose routes tables have yet to forget: the session, and the number of such tables.
    pub(super) leaving: BTreeMap<PeerIndex, (SessionEpoch, usize)>,
    provenance: Provenance,
    /// Numbers of peers that are no longer configured and whose routes all tables have forgotten.
    pub free: BTreeSet<PeerIndex>,
    /// The next deadline of each session that has one, earliest first.
    deadlines: BTreeSet<(Instant, PeerIndex)>,
    /// The policies of neighbors.
    pub bindings: Bindings,
    /// True until all neighbors have announced all their routes.
    pub defers_export: bool,
    /// The ends of intervals between advertisements.
    pub releases: Releases,
    session_out: Outbox<session::Output>,
}

impl Peers {
    /// No neighbors. `rng` makes their timers differ.
    pub fn new(identity: Identity, rng: Rng, spread: Spread) -> Self {
        Peers {
            provenance: Provenance::new(identity.source, 0),
            identity,
            rng,
            // The first numbers are sources of the router's own.
            peers: core::iter::repeat_with(|| None).take(PeerIndex::OWN_SOURCES.into()).collect(),
            by_address: BTreeMap::new(),
            ranges: Ranges::default(),
            spread,
            life: 0,
            last_up: Instant::ZERO,
            leaving: BTreeMap::new(),
            free: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            bindings: Bindings::default(),
            defers_export: true,
            releases: Releases::new(),
            session_out: Outbox::new(),
        }
    }

    pub fn peer_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index.0))?.as_deref_mut()
    }

    pub fn at(&mut self, address: IpAddr) -> Option<(PeerIndex, &mut Peer)> {
        let index = *self.by_address.get(&address)?;
        Some((index, self.peer_mut(index)?))
    }

    pub fn draw_provenance(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }

    /// Returns true if all routes of a peer are forgotten, so that its number may be given to another.
    pub fn is_clean(&self, peer: PeerIndex) -> bool {
        !self.leaving.contains_key(&peer)
    }

    /// A table has forgotten the routes of a session. Returns the neighbor's address when that was the last table.
    pub fn clean(&mut self, peer: PeerIndex, life: SessionEpoch) -> Option<IpAddr> {
        let (_, tables) = self.leaving.get_mut(&peer).filter(|(last, _)| *last == life)?;
        *tables -= 1;
        if *tables > 0 {
            return None;
        }
        self.leaving.remove(&peer);
        let address = self.peer_mut(peer).map(|peer| peer.config.address);
        self.free_if_retired(peer);
        address
    }

    /// Marks a peer as no longer configured: its number is free as soon as all tables have forgotten its routes.
    pub fn retire(&mut self, index: PeerIndex) {
        if let Some(peer) = self.peer_mut(index) {
            peer.retired = true;
        }
        self.free_if_retired(index);
    }

    fn free_if_retired(&mut self, index: PeerIndex) {
        let is_retired = self.peer_mut(index).is_some_and(|peer| peer.retired);
        if is_retired && self.is_clean(index) {
            self.free.insert(index);
        }
    }

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
    pub fn heard(
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
                    self.life += 1;
                    self.last_up = now;
                    peer.last_update = now;
                    let life = self.life;
                    let carrier =
                        Carrier { peer: index, life, spread: self.spread, source: self.identity.source };
                    let info = peer.info(negotiated.router_id);
                    peer.filters = Filters::begin(now, negotiated.filters_received);
                    let without_policy = peer.config.without_policy(self.identity.local_as);
                    let Some((mut link, import, outlet)) =
                        peer.up(carrier, connection, &negotiated, &mut self.bindings)
                    else {
                        continue;
                    };
                    let untold = negotiated.families.without(outlet.families);
                    link.writer.sent.updates += untold.iter().count() as u64;
                    let lost = peer.restart.resume(now, peer.config.graceful_restart, &negotiated);
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
                session::Output::Down(reason) => {
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

    /// Keeps a session's next deadline among those of all. To be called whenever the session has done something.
    pub fn note_deadline(&mut self, index: PeerIndex) {
        let Some(peer) = self.peers.get_mut(usize::from(index.0)).and_then(|p| p.as_deref_mut()) else {
            return;
        };
        let (restart, refresh, filters) = (peer.restart.deadline(), peer.refreshes.until, peer.filters.until);
        let stay = peer.stay.map(Stay::until);
        let next =
            [peer.session.next_deadline(), restart, refresh, filters, stay].into_iter().flatten().min();
        let known = core::mem::replace(&mut peer.deadline, next);
        if known != next {
            known.map(|at| self.deadlines.remove(&(at, index)));
            next.map(|at| self.deadlines.insert((at, index)));
        }
    }

    /// The next deadline of any session.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Neighbors whose sessions have a timer that is due.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = IpAddr> {
        let due = self.deadlines.range(..=(now, PeerIndex(u16::MAX)));
        due.filter_map(|(_, index)| self.peers[usize::from(index.0)].as_ref().map(|p| p.config.address))
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

    /// Begins to advertise to neighbors that have waited for this router's restart.
    pub fn end_deferral(&mut self, out: &mut Outbox<Output>) {
        self.defers_export = false;
        let all: Vec<PeerIndex> = self.by_address.values().copied().collect();
        all.into_iter().for_each(|index| self.open_deferred(index, out));
    }

    /// Removes routes that stayed while a neighbor restarts, or makes them long-lived stale ones: the time for the restart is over.
    fn end_restart(&mut self, now: Instant, index: PeerIndex, out: &mut Outbox<Output>) {
        let Some(peer) = self.peer_mut(index) else { return };
        let has_session = peer.session.established().is_some();
        let Overdue { long_lived, removed } =
            peer.restart.expire(now, peer.config.graceful_restart, has_session);
        let address = peer.config.address;
        if !long_lived.is_empty() {
            out.push(Output::Order(None, Order::MarkLongLived(index, long_lived)));
            out.push(event(address, PeerEvent::LongLivedStale(long_lived)));
            self.note_deadline(index);
        }
        if !removed.is_empty() {
            self.drop_stale(index, removed, out);
            out.push(event(address, PeerEvent::RestartTookTooLong(removed)));
        }
    }

    /// Removes routes of earlier sessions of a neighbor, where such routes stayed.
    pub(super) fn drop_stale(&mut self, index: PeerIndex, families: Families, out: &mut Outbox<Output>) {
        let ended = self.peer_mut(index).map(|peer| peer.restart.end(families)).unwrap_or_default();
        if !ended.is_empty() {
            out.push(Output::Order(None, Order::DropStale(index, ended)));
            self.note_deadline(index);
        }
    }

    /// The addresses of the configured neighbors, in order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.configured().filter(|peer| peer.injection.is_none()).map(|peer| peer.config.address)
    }

    /// The configured neighbors.
    pub fn configured(&self) -> impl Iterator<Item = &Peer> {
        self.by_address.values().filter_map(|index| self.peers[usize::from(index.0)].as_deref())
    }

    /// A neighbor.
    pub fn of(&self, address: IpAddr) -> Option<&Peer> {
        let index = self.by_address.get(&address)?;
        self.peers[usize::from(index.0)].as_deref()
    }

    /// The configuration of a neighbor.
    pub fn config(&self, address: IpAddr) -> Option<&NeighborConfig> {
        self.of(address).map(|p| &p.config)
    }
}

pub(super) fn event(peer: IpAddr, what: PeerEvent) -> Output {
    Output::Event(Event { peer, what })
}
