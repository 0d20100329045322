//! The removal of stale routes, in the background.

use super::family::FamilyRib;
use super::walk::Sweep;
use crate::entry::origin::OriginId;
use crate::entry::routes::Shared;
use sluice_base::Provenance;
use sluice_machine::Budget;
use sluice_stage::{Cursor, TableKey};
use smallvec::SmallVec;

impl<P: TableKey> FamilyRib<P> {
    /// Starts to remove an origin's stale routes in the background.
    pub(crate) fn start_sweep(&mut self, origin: OriginId, provenance: Provenance) {
        if !self.sweeps.iter().any(|s| s.origin == origin && s.cursor == Cursor::Start) {
            self.sweeps.push(Sweep { origin, cursor: Cursor::Start, removed: 0, provenance });
        }
    }

    /// Returns true while a sweep of an origin is in progress.
    pub(crate) fn is_sweeping(&self, origin: OriginId) -> bool {
        self.sweeps.iter().any(|s| s.origin == origin)
    }

    /// A slice of a walk. Returns true at its end.
    pub(crate) fn sweep_slice(
        &mut self,
        shared: &mut Shared,
        sweep: &mut Sweep<P>,
        budget: &mut Budget,
    ) -> bool {
        let generation = shared.origin(sweep.origin).generation;
        let mut last = None;
        let mut stale: SmallVec<[P; 64]> = SmallVec::new();
        for (prefix, entry) in self.entries.iter_after(sweep.cursor).take(budget.0 as usize) {
            last = Some(prefix);
            if entry.paths().iter().any(|p| p.origin == sweep.origin && p.generation != generation) {
                stale.push(prefix);
            }
            budget.spend(1);
        }
        for prefix in &stale {
            self.change(shared, sweep.origin, *prefix, None, sweep.provenance);
        }
        sweep.removed += stale.len() as u64;
        match last {
            Some(last) => {
                sweep.cursor = Cursor::After(last);
                false
            }
            None => true,
        }
    }
}
