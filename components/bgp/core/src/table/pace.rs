//! The pace of advertisements (RFC 4271, section 9.2.1.1): a peer with MinRouteAdvertisementInterval is sent nothing for a time after it was
//! sent everything.
//!
//! A table has no clock: it holds back what comes for the peer and reports that. Control has the timer, and releases the peer. Changes of a
//! prefix that come meanwhile are one: a peer with an interval is alone in its update group. Each prefix is in one table, so that the intervals of tables need not be the same.

use super::{PeerOut, SessionEpoch, Table, TableEvent};
use crate::shard::PeerIndex;
use alloc::collections::BTreeSet;
use sluice_machine::Outbox;

/// The peers that are sent nothing at present.
#[derive(Debug, Default)]
pub(super) struct Holds {
    peers: BTreeSet<PeerIndex>,
    /// Peers whose hold control does not know yet.
    fresh: BTreeSet<PeerIndex>,
}

impl Holds {
    /// Returns true if a peer is sent nothing.
    #[inline]
    pub fn has(&self, peer: PeerIndex) -> bool {
        !self.peers.is_empty() && self.peers.contains(&peer)
    }

    /// Returns true if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Holds back what comes for a peer.
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

    /// Ends all holds: what waits is sent before another process takes over.
    pub fn release_all(&mut self) {
        self.holds = Holds::default();
    }

    /// Reports the peers that are sent nothing from now on. To be called after [`Table::fill`].
    #[inline]
    pub fn report_holds(&mut self, out: &mut Outbox<TableEvent>) {
        while let Some(peer) = self.holds.fresh.pop_first() {
            if let Some(Some(PeerOut { life, .. })) = self.peers.get(usize::from(peer.0)) {
                out.push(TableEvent::Held(peer, *life));
            }
        }
    }
}
