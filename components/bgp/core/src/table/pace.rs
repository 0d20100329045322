//! The pace of advertisements (RFC 4271, section 9.2.1.1): a peer with MinRouteAdvertisementInterval receives no advertisement
//! for a time after a complete advertisement.
//!
//! A table has no clock: the table holds back changes for the peer and reports the hold. Control has the timer, and releases the
//! peer. Changes of a prefix during a hold become a single change, because a peer with an interval is alone in the update group.
//! Each prefix is in a single table, so the intervals of tables need not coincide.

use super::{PeerOut, SessionEpoch, Table, TableEvent};
use crate::shard::PeerIndex;
use alloc::collections::BTreeSet;
use sluice_machine::Outbox;

/// The peers on hold.
#[derive(Debug, Default)]
pub(super) struct Holds {
    peers: BTreeSet<PeerIndex>,
    /// Peers with a hold not reported to control yet.
    fresh: BTreeSet<PeerIndex>,
}

impl Holds {
    /// Returns true if a peer is on hold.
    #[inline]
    pub fn has(&self, peer: PeerIndex) -> bool {
        !self.peers.is_empty() && self.peers.contains(&peer)
    }

    /// Returns true if no peer is on hold.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Begins the hold of a peer.
    pub fn begin(&mut self, peer: PeerIndex) {
        if self.peers.insert(peer) {
            self.fresh.insert(peer);
        }
    }

    /// Ends the hold of a peer.
    pub fn end(&mut self, peer: PeerIndex) {
        self.peers.remove(&peer);
        self.fresh.remove(&peer);
    }
}

impl Table {
    /// Ends the hold of a peer in a session.
    pub(super) fn release(&mut self, peer: PeerIndex, life: SessionEpoch) {
        if self.is_up(peer, life) {
            self.holds.end(peer);
        }
    }

    /// Ends every hold: pending changes are sent before a live upgrade.
    pub fn release_all(&mut self) {
        self.holds = Holds::default();
    }

    /// Reports the peers newly on hold. To be called after [`Table::fill`].
    #[inline]
    pub fn report_holds(&mut self, out: &mut Outbox<TableEvent>) {
        while let Some(peer) = self.holds.fresh.pop_first() {
            if let Some(Some(PeerOut { life, .. })) = self.peers.get(usize::from(peer.0)) {
                out.push(TableEvent::Held(peer, *life));
            }
        }
    }
}
