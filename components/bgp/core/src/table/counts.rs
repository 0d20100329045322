//! Counts of the prefixes of peers with bounds, for control, which judges them.

use super::{PeerOut, Table, TableEvent};
use crate::family::ByFamily;
use crate::shard::PeerIndex;
use sluice_machine::Outbox;

impl Table {
    /// Reports the prefixes of a peer with bounds, if their number changed.
    #[inline]
    pub(super) fn report_count(&mut self, peer: PeerIndex, out: &mut Outbox<TableEvent>) {
        let Table { shards, peers, .. } = self;
        let known = peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut);
        let Some(PeerOut { outlet: Some(outlet), life, reported, .. }) = known else { return };
        for family in outlet.counted.iter() {
            let shard = &shards[family];
            let (received, rejected) = (shard.received(peer), shard.rejected(peer));
            if core::mem::replace(&mut reported[family], (received, rejected)) != (received, rejected) {
                let accepted = received.saturating_sub(rejected);
                out.push(TableEvent::Prefixes { peer, life: *life, family, received, accepted });
            }
        }
    }

    /// Reports the prefixes of a peer whose bounds changed.
    pub(super) fn report_again(&mut self, peer: PeerIndex, out: &mut Outbox<TableEvent>) {
        if let Some(known) = self.peer_mut(peer) {
            known.reported = ByFamily::default();
        }
        self.report_count(peer, out);
    }

    /// Reports changed counts of every peer with bounds after background work: a new policy, or a new epoch of validation, may
    /// accept different prefixes.
    pub(super) fn report_counts(&mut self, out: &mut Outbox<TableEvent>) {
        if self.counts_prefixes && !self.has_work() {
            (0..self.peers.len()).for_each(|peer| self.report_count(PeerIndex(peer as u16), out));
        }
    }
}
