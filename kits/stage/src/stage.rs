//! The stage contract.

use crate::change::{Batch, Table};
use alloc::boxed::Box;
use core::any::Any;
use sluice_machine::{Budget, Progress};

/// A part of a routing table: receives route changes and passes them on, changed or not.
pub trait Stage<T: Table>: Any + Send {
    /// Returns the stage's name, for the operator who looks at the plumbing.
    fn name(&self) -> &'static str;

    /// Consumes `input` (left empty) and adds the passed-on changes to `out`. Both rules hold on both sides.
    fn process(&mut self, input: &mut Batch<T>, up: Upstream<'_, T>, out: &mut Batch<T>);

    /// Returns the route that the stage has sent downstream for `key` and not withdrawn. `up` answers for the stages
    /// above.
    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route>;

    /// Returns the first key after `key` (the very first for `None`) with a possible route here, and its route. A
    /// stage that keeps keys which its upstream no longer has must walk them too.
    fn next_after(&self, key: Option<T::Key>, up: Upstream<'_, T>) -> Option<(T::Key, Option<T::Route>)> {
        let (next, _) = up.next_after(key)?;
        Some((next, self.lookup(next, up)))
    }

    /// Does a bounded piece of background work. Called only when no fresh change waits.
    fn run_slice(&mut self, _budget: &mut Budget, _up: Upstream<'_, T>, _out: &mut Batch<T>) -> Progress {
        Progress::Done
    }

    /// Returns true if the stage's work is done: removing the stage does not change the routes downstream.
    fn is_finished(&self) -> bool {
        false
    }
}

/// The head of a branch: a store of routes, or a junction of branches.
pub trait Source<T: Table> {
    /// The route of `key`, as sent downstream.
    fn lookup(&self, key: T::Key) -> Option<T::Route>;

    /// Returns the first key after `key` (the very first for `None`) that has a route, with the route.
    fn next_after(&self, key: Option<T::Key>) -> Option<(T::Key, T::Route)>;
}

/// The source and the stages above a stage, for look-ups only.
pub struct Upstream<'a, T: Table> {
    source: &'a dyn Source<T>,
    stages: &'a [Box<dyn Stage<T>>],
}

impl<T: Table> Clone for Upstream<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Table> Copy for Upstream<'_, T> {}

impl<'a, T: Table> Upstream<'a, T> {
    /// The upstream of a stage below `stages`, which hang on `source`.
    pub fn new(source: &'a dyn Source<T>, stages: &'a [Box<dyn Stage<T>>]) -> Self {
        Upstream { source, stages }
    }

    /// Returns the route that was sent downstream for `key`.
    pub fn lookup(self, key: T::Key) -> Option<T::Route> {
        match self.stages.split_last() {
            Some((last, above)) => last.lookup(key, Upstream { source: self.source, stages: above }),
            None => self.source.lookup(key),
        }
    }

    /// Returns the first key after `key` with a possible route here, and its route.
    pub fn next_after(self, key: Option<T::Key>) -> Option<(T::Key, Option<T::Route>)> {
        match self.stages.split_last() {
            Some((last, above)) => last.next_after(key, Upstream { source: self.source, stages: above }),
            None => self.source.next_after(key).map(|(key, route)| (key, Some(route))),
        }
    }
}
