//! The output of a table: UPDATEs for neighbors, and routes for the RIB.

use super::any_shard::Filling;
use super::{FillResult, PeerOut, Sharded, Table};
use crate::family::FamilyIndex;
use crate::shard::{PeerIndex, Sent};
use alloc::vec::Vec;
use sluice_base::RouteBatch;

impl Table {
    /// Returns true if [`Table::fill`] has anything for `peer`.
    #[inline]
    pub fn has_output(&self, peer: PeerIndex) -> bool {
        if self.holds.has(peer) {
            return false;
        }
        let known = self.peers.get(usize::from(peer.0)).and_then(Option::as_ref);
        known.and_then(|p| p.outlet.as_ref()).is_some_and(|outlet| {
            let mut shards = self.shards.iter();
            shards.any(|(family, shard)| outlet.families.has(family) && shard.has_output(peer))
        })
    }

    /// Fills `out` with exactly the peers for which [`Table::has_output`] is true, ordered by number.
    pub fn with_output(&self, out: &mut Vec<PeerIndex>) {
        out.clear();
        self.shards.values().for_each(|shard| shard.with_output(out));
        if !self.holds.is_empty() {
            out.retain(|peer| !self.holds.has(*peer));
        }
        out.sort_unstable();
        out.dedup();
    }

    /// Appends UPDATEs for `peer` to `out` until it is about `end` octets long. Families take turns.
    pub fn fill(&mut self, peer: PeerIndex, end: usize, out: &mut Vec<u8>, sent: &mut Sent) -> FillResult {
        let mut portion = FillResult::default();
        if self.holds.has(peer) {
            return portion;
        }
        let before = out.len();
        let Table { shards, peers, holds, .. } = self;
        let known = peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut);
        let Some(PeerOut { outlet: Some(export), turn, .. }) = known else { return portion };
        let mut filling = Filling { export, end, out, sent, marks: &mut portion.marks };
        for _ in FamilyIndex::all() {
            *turn = turn.next();
            let is_full = export.families.has(*turn) && shards[*turn].fill(peer, &mut filling);
            if is_full {
                portion.more = true;
                break;
            }
        }
        if export.paced && !portion.more && out.len() > before {
            holds.begin(peer);
        }
        portion
    }

    /// Returns true if the RIB has anything of a family to be sent.
    pub fn has_rib_changes(&self, family: FamilyIndex) -> bool {
        self.shards[family].has_rib_changes()
    }

    /// Adds about `limit` changes for the RIB to `batch`; returns whether there are more. After a `false`, [`TableEvent::RibReady`] reports
    /// when there are some again.
    pub fn rib_batch<P: Sharded>(&mut self, limit: usize, batch: &mut RouteBatch<P>) -> bool {
        let (shard, _) = self.shard_mut::<P>();
        shard.rib_batch(limit, batch);
        let more = shard.has_rib_changes();
        self.rib_offered[P::INDEX] = more;
        more
    }
}
