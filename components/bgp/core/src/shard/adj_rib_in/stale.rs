//! Stale routes: routes of a peer waiting for a new announcement, over a restart (RFC 4724, RFC 9494) or in a route refresh (RFC
//! 7313).
//!
//! A live upgrade exports stale routes too, which go on waiting in the new process.

use crate::attributes::canonical;
use crate::long_lived;
use crate::shard::Shard;
use crate::shard::entry::{AdjRibIn, Path, PathNumber, PeerIndex, Retention, SetId};
use crate::shard::resolver::{Interest, Resolver};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use sluice_base::Asn;
use sluice_machine::Outbox;

impl<P: FamilyKey> Shard<P> {
    /// Makes the routes of a peer stale whose session goes on: routes that are not announced again go with [`Shard::drop_stale`] (RFC 7313).
    pub fn mark_stale(&mut self, peer: PeerIndex) {
        if let Some(peer) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0)) {
            let is_full = peer.is_full;
            peer.end_session(Retention::Session);
            peer.is_full = is_full;
            self.deletion.is_on = true;
        }
    }

    /// Makes the stale routes of a peer long-lived stale ones, by the community LLGR_STALE; routes with NO_LLGR are removed (RFC 9494,
    /// section 4.2). The walk of changed policies visits the routes.
    pub fn mark_long_lived(&mut self, peer: PeerIndex) {
        if let Some(known) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0))
            && known.stale > 0
        {
            known.long_lived = Some(known.generation.wrapping_sub(1));
            self.refilter.begin(peer);
        }
    }

    /// Gives the stale routes of a peer to the deletion stage.
    pub fn drop_stale(&mut self, peer: PeerIndex) {
        if let Some(peer) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0)) {
            (peer.overdue, peer.stale_sessions, peer.long_lived) = (peer.stale, 0, None);
            self.deletion.is_on = true;
        }
    }
}

/// The attributes of a path that is decided on again.
pub(crate) enum Received {
    /// The set, with a reference for the caller if the path becomes a long-lived stale one.
    Set(SetId, bool),
    /// The path must not become a long-lived stale one.
    Refused,
}

impl<P: FamilyKey> AdjRibIn<P> {
    /// Returns the attributes with which a path of a peer counts as received.
    pub(crate) fn received_again(
        &mut self,
        resolver: &mut Resolver<P::Hop>,
        local_as: Asn,
        (peer, path): (PeerIndex, &Path),
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> Received {
        let set = self.sets.received(path.attributes);
        let octets = self.sets.octets(&self.sets[set]);
        if !self.peers[usize::from(peer.0)].is_long_lived(path.generation) || long_lived::is_stale(octets) {
            return Received::Set(set, false);
        }
        if long_lived::is_refused(octets) {
            return Received::Refused;
        }
        let mut marked = Vec::new();
        long_lived::put_stale(octets, &mut marked);
        let Some(next_hop) = resolver.next_hop(self.sets[set].hop).cloned() else {
            return Received::Refused;
        };
        let view = canonical::view(&marked, local_as);
        Received::Set(self.intern_octets(resolver, &marked, next_hop, view, out), true)
    }

    /// Restores a stale path of the old process.
    pub(crate) fn make_stale(&mut self, entry: u32, path: PathNumber) {
        let peer = self.lanes.peer(path);
        let Some(position) = self.entries.position(entry, path) else { return };
        let known = &mut self.peers[usize::from(peer.0)];
        known.stale_sessions = 1;
        known.stale += 1;
        self.entries.paths_mut(entry)[position].generation = known.generation.wrapping_sub(1);
    }
}
