//! Plugs stages into a table with routes, and removes them, while routes flow; with a guard around untrusted stages
//! (XORP, section 5.1: the consistency checking stage).

use crate::change::{Action, Batch, Change, Table};
use crate::check::Violation;
use crate::stage::{Stage, Upstream};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;
use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};

/// A stage that arrives and leaves gradually.
///
/// On arrival the stage walks its upstream in slices: keys that the walk has reached pass the inner stage, later keys
/// pass unchanged. On leaving a second walk does the reverse. Downstream sees a single change for each key for which
/// the inner stage makes a difference, and fresh changes at any time.
///
/// A guarded inner stage is not trusted to keep the rules. The guard stores the routes sent downstream, which costs a
/// copy of the table, and answers look-ups from the copy. An inner stage that breaks a rule is isolated at once: its
/// further output is dropped, and the stage leaves, so that downstream stays consistent.
pub struct LiveStage<T: Table> {
    inner: Box<dyn Stage<T>>,
    phase: Phase,
    /// The walk of the arrival: keys beyond it have not reached the inner stage.
    arrived: Walk<T::Key>,
    /// The walk of the leaving: keys up to it have left the inner stage.
    left: Walk<T::Key>,
    guard: Option<Guard<T>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Arriving,
    Working,
    Leaving,
    /// The stage can be taken out.
    Left,
}

/// The progress of a walk over the keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Walk<K> {
    /// Before the first key.
    Start,
    /// The last key visited.
    At(K),
    /// Behind every key.
    End,
}

impl<K: Copy + Ord> Walk<K> {
    fn has_passed(self, key: K) -> bool {
        match self {
            Walk::Start => false,
            Walk::At(last) => key <= last,
            Walk::End => true,
        }
    }

    fn last(self) -> Option<K> {
        match self {
            Walk::At(last) => Some(last),
            Walk::Start | Walk::End => None,
        }
    }
}

/// The record of an untrusted stage.
struct Guard<T: Table> {
    /// The routes sent downstream for the inner stage's keys.
    sent: BTreeMap<T::Key, T::Route>,
    /// The rule that the inner stage broke.
    violation: Option<Violation<T>>,
}

impl<T: Table> Guard<T> {
    /// Returns the rule that a change breaks.
    fn violation_of(&self, change: &Change<T>) -> Option<Violation<T>> {
        let key = change.key;
        match (self.sent.get(&key), change.action.before()) {
            (Some(_), None) => Some(Violation::AddOfExisting(key)),
            (None, Some(_)) => Some(Violation::NoSuchRoute(key)),
            (sent, before) => (sent != before).then_some(Violation::OldDiffers(key)),
        }
    }

    fn note(&mut self, key: T::Key, route: Option<&T::Route>) {
        match route {
            Some(route) => self.sent.insert(key, route.clone()),
            None => self.sent.remove(&key),
        };
    }
}

impl<T: Table> LiveStage<T> {
    /// Wraps a trusted stage for plugging in.
    pub fn new(inner: Box<dyn Stage<T>>) -> Self {
        LiveStage { inner, phase: Phase::Arriving, arrived: Walk::Start, left: Walk::Start, guard: None }
    }

    /// Wraps an untrusted stage for plugging in.
    pub fn guarded(inner: Box<dyn Stage<T>>) -> Self {
        let guard = Guard { sent: BTreeMap::new(), violation: None };
        LiveStage { guard: Some(guard), ..Self::new(inner) }
    }

    /// Begins to leave. Once the stage has left, its branch takes it out.
    pub fn leave(&mut self) {
        if self.phase != Phase::Left {
            self.phase = Phase::Leaving;
        }
    }

    /// Returns true if the stage leaves.
    pub fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving | Phase::Left)
    }

    /// Returns the rule that a guarded stage broke.
    pub fn violation(&self) -> Option<&Violation<T>> {
        self.guard.as_ref()?.violation.as_ref()
    }

    /// Returns true if the inner stage has a key: the key's changes pass the inner stage, and downstream has the
    /// results.
    fn has(&self, key: T::Key) -> bool {
        self.arrived.has_passed(key) && !self.left.has_passed(key)
    }

    /// Returns downstream's route for a key of the inner stage.
    fn seen_downstream(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        match &self.guard {
            Some(guard) => guard.sent.get(&key).cloned(),
            None => self.inner.lookup(key, up),
        }
    }

    fn isolate(&mut self, violation: Violation<T>) {
        if let Some(guard) = &mut self.guard {
            guard.violation.get_or_insert(violation);
        }
        self.leave();
    }

    /// Passes on the inner stage's output. `fed` has downstream's routes of the keys just given to the inner stage.
    fn emit(
        &mut self,
        mut made: Batch<T>,
        mut fed: BTreeMap<T::Key, T::Route>,
        up: Upstream<'_, T>,
        out: &mut Batch<T>,
    ) {
        let mut keys = BTreeSet::new();
        let mut broken = None;
        for change in made.drain() {
            // Keys that have left, or never arrived, are not the inner stage's to speak of.
            if !self.has(change.key) {
                continue;
            }
            if let Some(guard) = &mut self.guard {
                broken = guard
                    .violation_of(&change)
                    .or(keys.contains(&change.key).then_some(Violation::KeyTwice(change.key)));
                if broken.is_some() {
                    break;
                }
                guard.note(change.key, change.action.after());
            }
            keys.insert(change.key);
            match fed.remove(&change.key) {
                Some(before) => {
                    out.push_between(
                        change.key,
                        Some(before),
                        change.action.after().cloned(),
                        change.provenance,
                    );
                }
                None => out.push(change),
            }
        }
        // What the inner stage keeps to itself is gone for downstream.
        for (key, before) in fed {
            out.push_between(key, Some(before), None, Provenance::NONE);
        }
        if self.guard.is_some() && broken.is_none() {
            let differs = |key: &&T::Key| self.inner.lookup(**key, up) != self.seen_downstream(**key, up);
            broken = keys.iter().find(differs).map(|key| Violation::LookupDiffers(*key));
        }
        if let Some(violation) = broken {
            self.isolate(violation);
        }
    }

    /// Gives the next keys of upstream to the inner stage.
    fn arrive(&mut self, budget: &mut Budget, up: Upstream<'_, T>, out: &mut Batch<T>) -> Progress {
        let mut fed = BTreeMap::new();
        let mut batch = Batch::new();
        let mut has_ended = true;
        while let Some((key, route)) = up.next_after(self.arrived.last()) {
            self.arrived = Walk::At(key);
            if let Some(route) = route {
                fed.insert(key, route.clone());
                batch.push(Change { key, action: Action::Add(route), provenance: Provenance::NONE });
            }
            if !budget.spend(1) {
                has_ended = false;
                break;
            }
        }
        if has_ended {
            self.arrived = Walk::End;
            self.phase = Phase::Working;
        }
        let mut made = Batch::new();
        self.inner.process(&mut batch, up, &mut made);
        self.emit(made, fed, up, out);
        Progress::More
    }

    /// Changes the next keys downstream to upstream's state.
    fn depart(&mut self, budget: &mut Budget, up: Upstream<'_, T>, out: &mut Batch<T>) -> Progress {
        while let Some((key, seen)) =
            self.next_seen(self.left.last(), up).filter(|(key, _)| self.arrived.has_passed(*key))
        {
            out.push_between(key, seen, up.lookup(key), Provenance::NONE);
            self.left = Walk::At(key);
            if let Some(guard) = &mut self.guard {
                guard.note(key, None);
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        self.left = Walk::End;
        self.phase = Phase::Left;
        Progress::Done
    }

    /// Returns the first key after `key` that upstream or the inner stage may have, and downstream's route for it.
    fn next_seen(&self, key: Option<T::Key>, up: Upstream<'_, T>) -> Option<(T::Key, Option<T::Route>)> {
        let above = up.next_after(key).map(|(key, _)| key);
        let kept = match &self.guard {
            Some(guard) => {
                let after = key.map_or(Bound::Unbounded, Bound::Excluded);
                guard.sent.range((after, Bound::Unbounded)).next().map(|(key, _)| *key)
            }
            None => self.inner.next_after(key, up).map(|(key, _)| key),
        };
        let next = above.into_iter().chain(kept).min()?;
        let seen = if self.has(next) { self.seen_downstream(next, up) } else { up.lookup(next) };
        Some((next, seen))
    }
}

impl<T: Table> Stage<T> for LiveStage<T> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn process(&mut self, input: &mut Batch<T>, up: Upstream<'_, T>, out: &mut Batch<T>) {
        let mut mine = Batch::new();
        for change in input.drain() {
            if self.has(change.key) {
                mine.push(change);
            } else {
                out.push(change);
            }
        }
        // The walk back finds the changes that an isolated stage is not given any more.
        if mine.is_empty() || self.violation().is_some() {
            return;
        }
        let mut made = Batch::new();
        self.inner.process(&mut mine, up, &mut made);
        self.emit(made, BTreeMap::new(), up, out);
    }

    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        if self.has(key) { self.seen_downstream(key, up) } else { up.lookup(key) }
    }

    fn next_after(&self, key: Option<T::Key>, up: Upstream<'_, T>) -> Option<(T::Key, Option<T::Route>)> {
        self.next_seen(key, up)
    }

    fn run_slice(&mut self, budget: &mut Budget, up: Upstream<'_, T>, out: &mut Batch<T>) -> Progress {
        match self.phase {
            Phase::Arriving => self.arrive(budget, up, out),
            Phase::Leaving => self.depart(budget, up, out),
            Phase::Left => Progress::Done,
            Phase::Working => {
                let mut made = Batch::new();
                let progress = self.inner.run_slice(budget, up, &mut made);
                self.emit(made, BTreeMap::new(), up, out);
                progress
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Left || (self.phase == Phase::Working && self.inner.is_finished())
    }
}
