//! The upkeep of a shard: items passed by every reader are dropped, queue and logs are compacted.

use super::entry::{AdjRibIn, Path};
use super::loc_rib::LocRib;
use super::queue::Cursor;
use super::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::vec::Vec;

impl<P: FamilyKey> Shard<P> {
    /// Compacts a queue with too many stale items.
    pub(crate) fn compact(&mut self) {
        let rib = &mut self.rib.branch.cursor;
        let Core { adj_rib_in: AdjRibIn { entries, .. }, loc_rib: LocRib { queue, aggregates, .. }, .. } =
            &mut self.core;
        if queue.needs_compaction(entries.len()) {
            let mut cursors: Vec<&mut Cursor> =
                self.adj_rib_out.cursors().chain([rib]).chain(aggregates.cursor()).collect();
            queue.compact(entries, &mut cursors);
        }
    }

    /// Drops the items passed by every reader of the queue. The RIB's branch is mostly the last reader.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.rib.branch.cursor.is_past(self.core.loc_rib.queue.start()) {
            self.trim_passed();
        }
    }

    fn trim_passed(&mut self) {
        let others =
            self.core.loc_rib.aggregates.cursor().map(|c| *c).into_iter().chain([self.rib.branch.cursor]);
        let place = self
            .adj_rib_out
            .cursors()
            .map(|c| *c)
            .chain(others)
            .fold(self.core.loc_rib.queue.end(), Cursor::min);
        self.slice.clear();
        let (core, freed) = (&mut self.core, &mut self.slice);
        core.loc_rib.queue.trim(&mut core.adj_rib_in.entries, place, |id| freed.push(id));
        for id in self.slice.drain(..) {
            self.core.adj_rib_in.free_if_vacant(id);
        }
    }

    pub(super) fn squeeze_log(&mut self) {
        let Some((hop, mut log)) = self.core.resolver.next_bloated() else { return };
        let core = &self.core;
        log.sort_unstable();
        log.dedup();
        let leads_there = |p: &Path| {
            core.adj_rib_in
                .sets
                .accepted(p.attributes)
                .is_some_and(|set| core.adj_rib_in.sets[set].hop == hop)
        };
        log.retain(|id| core.adj_rib_in.entries.paths(*id).iter().any(leads_there));
        self.core.resolver.squeezed(hop, log);
    }
}
