//! The checking stage: keeps a copy of the passed routes and verifies both rules.

use crate::change::{Action, Batch, Change, Table};
use crate::stage::{Stage, Upstream};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation<T: Table> {
    /// An added key that had a route already.
    AddOfExisting(T::Key),
    /// A replaced or deleted key without a route.
    NoSuchRoute(T::Key),
    /// The old half of a replace or a delete differs from the route sent before.
    OldDiffers(T::Key),
    /// A key occurred twice in a batch.
    KeyTwice(T::Key),
    /// A look-up upstream disagrees with the route sent.
    LookupDiffers(T::Key),
}

/// Passes every change on unchanged, and records violations.
///
/// Costs a copy of the table; off unless an operator or a test plugs it in. At most [`CheckStage::LIMIT`] violations are kept.
pub struct CheckStage<T: Table> {
    sent: BTreeMap<T::Key, T::Route>,
    violations: Vec<Violation<T>>,
    /// Plugged into a live branch, the stage has not seen earlier changes: it first learns a key from upstream.
    late: bool,
}

impl<T: Table> Default for CheckStage<T> {
    fn default() -> Self {
        CheckStage { sent: BTreeMap::new(), violations: Vec::new(), late: false }
    }
}

impl<T: Table> CheckStage<T> {
    /// The largest number of recorded violations: the first ones are enough.
    pub const LIMIT: usize = 100;

    /// Returns a check for a branch without earlier changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a check for a live branch, which learns a key at its first change.
    pub fn late() -> Self {
        CheckStage { late: true, ..Self::default() }
    }

    /// Returns the violations found so far.
    pub fn violations(&self) -> &[Violation<T>] {
        &self.violations
    }

    /// Returns the current routes that have passed.
    pub fn sent(&self) -> &BTreeMap<T::Key, T::Route> {
        &self.sent
    }

    fn report(&mut self, violation: Violation<T>) {
        if self.violations.len() < Self::LIMIT {
            self.violations.push(violation);
        }
    }

    fn rule_1(&mut self, change: &Change<T>) {
        let key = change.key;
        if self.late
            && !self.sent.contains_key(&key)
            && let Some(old) = change.action.before()
        {
            self.sent.insert(key, old.clone());
        }
        let violation = match (self.sent.get(&key), &change.action) {
            (Some(_), Action::Add(_)) => Some(Violation::AddOfExisting(key)),
            (None, Action::Replace { .. } | Action::Delete(_)) => Some(Violation::NoSuchRoute(key)),
            (Some(sent), action) if action.before() != Some(sent) => Some(Violation::OldDiffers(key)),
            _ => None,
        };
        if let Some(violation) = violation {
            self.report(violation);
        }
        match change.action.after() {
            Some(new) => self.sent.insert(key, new.clone()),
            None => self.sent.remove(&key),
        };
    }
}

impl<T: Table> Stage<T> for CheckStage<T> {
    fn name(&self) -> &'static str {
        "check"
    }

    fn process(&mut self, input: &mut Batch<T>, up: Upstream<'_, T>, out: &mut Batch<T>) {
        let mut keys: Vec<T::Key> = input.as_slice().iter().map(|c| c.key).collect();
        keys.sort_unstable();
        for pair in keys.windows(2) {
            if pair[0] == pair[1] {
                self.report(Violation::KeyTwice(pair[0]));
            }
        }
        for change in input.as_slice() {
            self.rule_1(change);
        }
        for change in input.as_slice() {
            if up.lookup(change.key).as_ref() != self.sent.get(&change.key) {
                self.report(Violation::LookupDiffers(change.key));
            }
        }
        out.append(input);
    }

    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        up.lookup(key)
    }
}
