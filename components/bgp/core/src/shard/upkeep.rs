//! The upkeep of a shard: items that all readers have passed are dropped, queue and logs are compacted.

use super::entry::Path;
use super::queue::Cursor;
use super::{Core, Shard};
use crate::wire::FamilyKey;
use alloc::vec::Vec;

impl<P: FamilyKey> Shard<P> {
    /// Compacts a queue with too many stale items.
    pub(crate) fn compact(&mut self) {
        let rib = &mut self.rib.branch.cursor;
        let Core { queue, entries, aggregates, .. } = &mut self.core;
        if queue.needs_compaction(entries.len()) {
            let mut cursors: Vec<&mut Cursor> =
                self.groups.cursors().chain([rib]).chain(aggregates.cursor()).collect();
            queue.compact(entries, &mut cursors);
        }
    }

    /// Drops the items that all readers of the queue have passed. The RIB's branch is mostly the last reader.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.rib.branch.cursor.is_past(self.core.queue.start()) {
            self.trim_passed();
        }
    }

    fn trim_passed(&mut self) {
        let others = self.core.aggregates.cursor().map(|c| *c).into_iter().chain([self.rib.branch.cursor]);
        let place = self.groups.cursors().map(|c| *c).chain(others).fold(self.core.queue.end(), Cursor::min);
        self.slice.clear();
        let (core, freed) = (&mut self.core, &mut self.slice);
        core.queue.trim(&mut core.entries, place, |id| freed.push(id));
        for id in self.slice.drain(..) {
            self.core.free_if_vacant(id);
        }
    }

    pub(super) fn squeeze_log(&mut self) {
        let Some((hop, mut log)) = self.core.resolver.next_bloated() else { return };
        let core = &self.core;
        log.sort_unstable();
        log.dedup();
        let leads_there =
            |p: &Path| core.sets.accepted(p.attributes).is_some_and(|set| core.sets[set].hop == hop);
        log.retain(|id| core.entries.paths(*id).iter().any(leads_there));
        self.core.resolver.squeezed(hop, log);
    }
}
