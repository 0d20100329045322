//! The checking stage: keeps a copy of what flowed by and verifies both rules.

use crate::change::{Action, Batch, Change, Table};
use crate::stage::{Stage, Upstream};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation<T: Table> {
    /// A key was added that had a route already.
    AddOfExisting(T::Key),
    /// A key was replaced or deleted that had no route.
    NoSuchRoute(T::Key),
    /// The old half of a replace or a delete is not what was sent before.
    OldDiffers(T::Key),
    /// A key occurred twice in one batch.
    KeyTwice(T::Key),
    /// A look-up upstream disagrees with what was sent.
    LookupDiffers(T::Key),
}

/// Passes everything on as it came, and remembers what was wrong with it.
///
/// Costs a copy of the table; off unless an operator or a test plugs it in. At most [`CheckStage::LIMIT`] violations are kept.
pub struct CheckStage<T: Table> {
    sent: BTreeMap<T::Key, T::Route>,
    violations: Vec<Violation<T>>,
    /// Plugged into a live branch, it has not seen what went by before: a key is then first learned from upstream.
    late: bool,
}

impl<T: Table> Default for CheckStage<T> {
    fn default() -> Self {
        CheckStage { sent: BTreeMap::new(), violations: Vec::new(), late: false }
    }
}

impl<T: Table> CheckStage<T> {
    /// More violations than this are not kept: the first ones tell the story.
    pub const LIMIT: usize = 100;

    /// A check for a branch through which nothing has flowed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A check for a live branch: it learns a key when it first changes.
    pub fn late() -> Self {
        CheckStage { late: true, ..Self::default() }
    }

    /// Returns the violations found so far.
    pub fn violations(&self) -> &[Violation<T>] {
        &self.violations
    }

    /// Returns the routes that have passed and stand.
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
