//! Stale routes: routes of a peer that wait for being announced again, over a restart (RFC 4724) or in a route refresh (RFC 7313).
//!
//! Another process that takes the router over takes stale routes too, and they wait there.

use super::entry::PathNumber;
use super::peer_in::Retention;
use super::{Core, PeerIndex, Shard};
use crate::wire::FamilyKey;

impl<P: FamilyKey> Shard<P> {
    /// Makes the routes of a peer stale whose session goes on: routes that are not announced again go with [`Shard::drop_stale`] (RFC 7313).
    pub fn mark_stale(&mut self, peer: PeerIndex) {
        if let Some(peer) = self.core.peers.get_mut(usize::from(peer.0)) {
            let is_full = peer.is_full;
            peer.end_session(Retention::Session);
            peer.is_full = is_full;
            self.deletion.is_on = true;
        }
    }

    /// Gives the stale routes of a peer to the deletion stage.
    pub fn drop_stale(&mut self, peer: PeerIndex) {
        if let Some(peer) = self.core.peers.get_mut(usize::from(peer.0)) {
            (peer.overdue, peer.stale_sessions) = (peer.stale, 0);
            self.deletion.is_on = true;
        }
    }
}

impl<P: FamilyKey> Core<P> {
    /// Makes a path stale that another process had as a stale path.
    pub(super) fn make_stale(&mut self, entry: u32, path: PathNumber) {
        let peer = self.lanes.peer(path);
        let Some(position) = self.entries.position(entry, path) else { return };
        let known = &mut self.peers[usize::from(peer.0)];
        known.stale_sessions = 1;
        known.stale += 1;
        self.entries.paths_mut(entry)[position].generation = known.generation.wrapping_sub(1);
    }
}
