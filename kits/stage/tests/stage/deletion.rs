//! The deletion stage: withdraws the routes of a dead origin in the background (XORP, section 5.1.2).

use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};
use sluice_stage::{Action, Batch, Change, Stage, Table, Upstream};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Holds a dead origin's table, and deletes the table downstream in slices.
///
/// The origin restarts at once with an empty table. An announcement of a held key goes downstream as a replace of the
/// old route. Therefore downstream never notices the deletion, and a key is held by at most one deletion stage however
/// often its origin dies.
pub struct DeletionStage<T: Table> {
    held: BTreeMap<T::Key, T::Route>,
    provenance: Provenance,
}

impl<T: Table> DeletionStage<T> {
    /// Returns a stage that deletes `held`, which was sent downstream before, because of the event `provenance`.
    pub fn new(held: BTreeMap<T::Key, T::Route>, provenance: Provenance) -> Self {
        DeletionStage { held, provenance }
    }
}

impl<T: Table> Stage<T> for DeletionStage<T> {
    fn name(&self) -> &'static str {
        "deletion"
    }

    fn process(&mut self, input: &mut Batch<T>, _up: Upstream<'_, T>, out: &mut Batch<T>) {
        for mut change in input.drain() {
            // What is held here the origin no longer knows, so that it can only add it.
            if let Some(old) = self.held.remove(&change.key) {
                let (_, new) = change.action.into_halves();
                match Action::between(Some(old), new) {
                    Some(action) => change = Change { action, ..change },
                    None => continue,
                }
            }
            out.push(change);
        }
    }

    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        self.held.get(&key).cloned().or_else(|| up.lookup(key))
    }

    fn next_after(&self, key: Option<T::Key>, up: Upstream<'_, T>) -> Option<(T::Key, Option<T::Route>)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let held = self.held.range((from, Bound::Unbounded)).next();
        match (held, up.next_after(key)) {
            (Some((held, route)), Some((above, _))) if *held <= above => Some((*held, Some(route.clone()))),
            (Some((held, route)), None) => Some((*held, Some(route.clone()))),
            (_, above) => above,
        }
    }

    fn run_slice(&mut self, budget: &mut Budget, _up: Upstream<'_, T>, out: &mut Batch<T>) -> Progress {
        while let Some((key, old)) = self.held.pop_first() {
            out.push(Change { key, action: Action::Delete(old), provenance: self.provenance });
            if !budget.spend(1) {
                break;
            }
        }
        if self.held.is_empty() { Progress::Done } else { Progress::More }
    }

    fn is_finished(&self) -> bool {
        self.held.is_empty()
    }
}
