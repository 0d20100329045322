//! The dump stage: sends a late reader the existing routes, consistently with concurrent changes (XORP, section
//! 5.1.2).

use crate::change::{Action, Batch, Change, Table};
use crate::stage::{Stage, Upstream};
use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};

/// Stands at the head of a branch added to a table with routes. The stage walks the table in slices. A change of a key
/// beyond the walk is held back (the walk will meet the key's new state); a change before the walk's place is passed
/// on unchanged.
pub struct DumpStage<T: Table> {
    /// The last key sent; every key up to it is downstream.
    last: Option<T::Key>,
    done: bool,
}

impl<T: Table> Default for DumpStage<T> {
    fn default() -> Self {
        DumpStage { last: None, done: false }
    }
}

impl<T: Table> DumpStage<T> {
    /// A dump from the first key on.
    pub fn new() -> Self {
        Self::default()
    }

    fn is_sent(&self, key: T::Key) -> bool {
        self.done || self.last.is_some_and(|last| key <= last)
    }
}

impl<T: Table> Stage<T> for DumpStage<T> {
    fn name(&self) -> &'static str {
        "dump"
    }

    fn process(&mut self, input: &mut Batch<T>, _up: Upstream<'_, T>, out: &mut Batch<T>) {
        for change in input.drain() {
            if self.is_sent(change.key) {
                out.push(change);
            }
        }
    }

    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        if self.is_sent(key) { up.lookup(key) } else { None }
    }

    fn run_slice(&mut self, budget: &mut Budget, up: Upstream<'_, T>, out: &mut Batch<T>) -> Progress {
        if self.done {
            return Progress::Done;
        }
        while let Some((key, route)) = up.next_after(self.last) {
            self.last = Some(key);
            if let Some(route) = route {
                out.push(Change { key, action: Action::Add(route), provenance: Provenance::NONE });
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        self.done = true;
        Progress::Done
    }

    fn is_finished(&self) -> bool {
        self.done
    }
}
