//! The neighbors by number and address, and their next deadlines.

use crate::session;
use crate::shard::PeerIndex;
use crate::speaker::config::{Bindings, Identity, NeighborConfig};
use crate::speaker::neighbor::Peer;
use crate::speaker::neighbor::peer::Stay;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use super::ranges::Ranges;
use crate::table::{SessionEpoch, Spread};
use sluice_base::{Instant, Rng};
use sluice_machine::{Machine, Outbox};

/// A router's neighbors.
pub(crate) struct Peers {
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
    pub(crate) leaving: BTreeMap<PeerIndex, (SessionEpoch, usize)>,
    /// Numbers of removed peers without routes in any table.
    pub free: BTreeSet<PeerIndex>,
    /// The next deadlines of sessions, earliest first.
    pub(super) deadlines: BTreeSet<(Instant, PeerIndex)>,
    /// The policies of neighbors.
    pub bindings: Bindings,
    /// True until every neighbor has announced every route.
    pub defers_export: bool,
    /// The ends of intervals between advertisements.
    pub releases: Releases,
    pub(super) session_out: Outbox<session::Output>,
}

impl Peers {
    /// No neighbors. `rng` makes their timers differ.
    pub fn new(identity: Identity, rng: Rng, spread: Spread) -> Self {
        Peers {
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

    /// Returns true if every route of a peer is forgotten, so the number may be reused.
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

    /// Marks a peer as no longer configured: the number is free as soon as every table has forgotten the peer's routes.
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

    /// Updates a session's next deadline. To be called after each change of the session.
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

/// The ends of intervals: time, table, peer and session.
pub(crate) type Releases = BTreeSet<(Instant, usize, PeerIndex, SessionEpoch)>;
