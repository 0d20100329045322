//! The core contract.
//!
//! A *machine* is a protocol's state and rules without any I/O. A machine takes inputs (a message, a configuration
//! change, the time *now*) and puts outputs into an outbox owned by the driver. The crate of a machine is `no_std`: no socket, no task, no
//! clock, no log, and only randomness from outside.
//!
//! The driver's loop is three lines, equal in production, in a test and in a simulation:
//!
//! ```text
//! on input:     machine.handle(now, input, &mut out)
//! on deadline:  machine.on_deadline(now, &mut out)       // when machine.next_deadline() has come
//! when idle:    machine.run_slice(now, budget, &mut out) // while it returns More
//! ```
//!
//! and after each, the outputs are carried out. Inputs and outputs are values. Parallelism is more machines without shared data, never a
//! lock around a machine.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::vec::{Drain, Vec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sluice_base::{Duration, Instant};

/// A protocol's state and rules, driven from outside.
pub trait Machine {
    /// The events for the machine. An input is a value: it can be recorded, to be replayed on another machine.
    type Input: Serialize;
    /// The effects requested by the machine.
    type Output;
    /// The exported state, for a hand-over to a new process.
    type State: Serialize + DeserializeOwned;

    /// Takes an input. Total: whatever the input, the answer is outputs (a report, a NOTIFICATION, a drop), never an error
    /// and never a panic.
    fn handle(&mut self, now: Instant, input: Self::Input, out: &mut Outbox<Self::Output>);

    /// The time of the next call of [`Machine::on_deadline`]; `None` without a running timer.
    fn next_deadline(&self) -> Option<Instant>;

    /// Fires every timer due at `now`. Harmless without a due timer.
    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Self::Output>);

    /// Does background work (deletions, dumps, re-filtering) of about `budget` units. Called only when no input waits.
    fn run_slice(&mut self, _now: Instant, _budget: Budget, _out: &mut Outbox<Self::Output>) -> Progress {
        Progress::Done
    }

    /// Returns a copy of the state, for [`Machine::import`].
    fn export(&self) -> Self::State;

    /// Takes over exported state; called on a fresh machine before the first input.
    fn import(&mut self, now: Instant, state: Self::State, out: &mut Outbox<Self::Output>);
}

/// A request to a machine with an immediate answer, such as "the next batch of routes".
///
/// Requests are values, as inputs are. Only inputs and requests change a machine: a driver with a record of both can replay the
/// machine's history without knowledge of the protocol.
pub trait Request<M: Machine> {
    /// The answer.
    type Answer;

    /// Makes the request. Never fails, as [`Machine::handle`] never does.
    fn make(self, machine: &mut M, now: Instant, out: &mut Outbox<M::Output>) -> Self::Answer;
}

/// The effects requested by a machine. The driver owns and reuses the outbox: no allocation per event.
#[derive(Debug)]
pub struct Outbox<O>(Vec<O>);

impl<O> Default for Outbox<O> {
    fn default() -> Self {
        Outbox(Vec::new())
    }
}

impl<O> Outbox<O> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an output at the end.
    pub fn push(&mut self, output: O) {
        self.0.push(output);
    }

    /// Takes the outputs, in order; keeps the space.
    pub fn drain(&mut self) -> Drain<'_, O> {
        self.0.drain(..)
    }

    /// Returns true if there is no effect.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of outputs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the outputs without taking them, for tests.
    pub fn as_slice(&self) -> &[O] {
        &self.0
    }
}

/// The amount of work of a background slice, in the unit of the work at hand (routes, entries).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget(pub u32);

impl Budget {
    /// A slice short enough for reactions to fresh events far below a millisecond.
    pub const SLICE: Budget = Budget(1024);

    /// Spends `n` units; `false` when the budget is used up.
    pub fn spend(&mut self, n: u32) -> bool {
        self.0 = self.0.saturating_sub(n);
        self.0 > 0
    }
}

/// The remaining background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Call again when idle.
    More,
    /// No work is left.
    Done,
}

impl Progress {
    /// `More` if either has more.
    #[must_use]
    pub fn or(self, other: Progress) -> Progress {
        if self == Progress::More { self } else { other }
    }
}

/// A set of named timers inside a machine; `K` is usually a small enum.
///
/// A machine has few timers, so a sorted vector is smaller and faster than a heap, with a deterministic
/// order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timers<K> {
    running: Vec<(Instant, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { running: Vec::new() }
    }
}

impl<K: Copy + Eq> Timers<K> {
    /// Starts (or restarts) `timer` to fire `after` from `now`.
    pub fn start(&mut self, now: Instant, timer: K, after: Duration) {
        self.stop(timer);
        let at = now + after;
        let index = self.running.partition_point(|(t, _)| *t <= at);
        self.running.insert(index, (at, timer));
    }

    /// Stops `timer`, if running.
    pub fn stop(&mut self, timer: K) {
        self.running.retain(|(_, k)| *k != timer);
    }

    /// Stops every timer.
    pub fn clear(&mut self) {
        self.running.clear();
    }

    /// Returns the deadline of `timer`; `None` for a stopped timer.
    pub fn deadline(&self, timer: K) -> Option<Instant> {
        self.running.iter().find(|(_, k)| *k == timer).map(|(t, _)| *t)
    }

    /// Returns the deadline of the first timer.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.running.first().map(|(t, _)| *t)
    }

    /// Takes the earliest timer due at `now`; call until `None`.
    pub fn pop_due(&mut self, now: Instant) -> Option<K> {
        (self.next_deadline()? <= now).then(|| self.running.remove(0).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut t = Timers::default();
        let t0 = Instant::ZERO;
        t.start(t0, 'b', Duration::from_secs(2));
        t.start(t0, 'a', Duration::from_secs(1));
        t.start(t0, 'c', Duration::from_secs(3));
        t.start(t0, 'a', Duration::from_secs(4));
        t.stop('c');
        assert_eq!(t.next_deadline(), Some(t0 + Duration::from_secs(2)));
        let late = t0 + Duration::from_secs(9);
        assert_eq!(
            (t.pop_due(t0), t.pop_due(late), t.pop_due(late), t.pop_due(late)),
            (None, Some('b'), Some('a'), None)
        );
    }

    #[test]
    fn a_budget_ends() {
        let mut b = Budget(3);
        assert!(b.spend(2));
        assert!(!b.spend(1));
        assert!(!b.spend(1));
    }
}
