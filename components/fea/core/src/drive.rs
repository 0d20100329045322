//! The core and its engine together: a loop shared by the process, tests and the simulator.

use crate::engine::{BesideId, Engine, EngineOp, EngineSet, Notice, Refused, ReplayStep};
use crate::machine::{Fea, Input};
use crate::output::{Effect, Output};
use alloc::vec::Vec;
use sluice_base::Instant;
use sluice_machine::{Budget, Machine, Outbox, Progress};

/// A core and an engine.
#[derive(Debug)]
pub struct Drive<E> {
    core: Fea,
    engine: E,
    out: Outbox<Output>,
    ops: Vec<EngineOp>,
    replayed: Vec<(BesideId, ReplayStep)>,
    refused: Vec<Refused>,
    notices: Vec<Notice>,
}

impl<E: Engine> Drive<E> {
    /// Makes an empty core with an engine, and requests a snapshot of the engine's objects; see [`Drive::poll`].
    pub fn new(core: Fea, mut engine: E) -> Self {
        engine.request_snapshot();
        let (out, ops, replayed) = (Outbox::new(), Vec::new(), Vec::new());
        Drive { core, engine, out, ops, replayed, refused: Vec::new(), notices: Vec::new() }
    }

    /// The core, to look at.
    pub fn core(&mut self) -> &mut Fea {
        &mut self.core
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    /// Replaces the engine, as after a lost connection; the next snapshot lists the new engine's objects.
    pub fn with_engine<F: Engine>(self, engine: F) -> Drive<F> {
        let Drive { core, out, ops, replayed, refused, notices, .. } = self;
        Drive { core, engine, out, ops, replayed, refused, notices }
    }

    /// Hands an input to the core, and returns after the engine has carried out the resulting operations.
    pub fn handle(&mut self, now: Instant, input: Input, effects: &mut Vec<Effect>) {
        self.core.handle(now, input, &mut self.out);
        self.settle(now, effects);
    }

    /// Handles the engine's notices, up to the engine's bound; returns true if more may wait.
    pub fn poll(&mut self, now: Instant, effects: &mut Vec<Effect>) -> Progress {
        let mut notices = core::mem::take(&mut self.notices);
        // A notice may make the core ask for more, as a snapshot: only silence is the end.
        let more = self.engine.poll(&mut notices) || !notices.is_empty();
        for notice in notices.drain(..) {
            self.core.handle(now, Input::Notice(notice), &mut self.out);
        }
        self.notices = notices;
        self.settle(now, effects);
        if more { Progress::More } else { Progress::Done }
    }

    /// The next moment at which [`Drive::on_deadline`] is to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.core.next_deadline()
    }

    /// Fires due timers.
    pub fn on_deadline(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.core.on_deadline(now, &mut self.out);
        self.settle(now, effects);
    }

    /// Does a slice of background work. Passes the engines that joined beside the authority since the last slice to the
    /// core.
    pub fn run_slice(&mut self, now: Instant, budget: Budget, effects: &mut Vec<Effect>) -> Progress {
        let key = self.core.digest_key();
        let joined = self.engine.as_set().map(|set| set.take_joined(key)).unwrap_or_default();
        for (engine, capabilities) in joined {
            self.handle(now, Input::Join { engine, capabilities }, effects);
        }
        let progress = self.core.run_slice(now, budget, &mut self.out);
        self.settle(now, effects);
        progress
    }

    /// Compares the engines beside the authority with the core, if no work is left. Mending is background work. Call about once a
    /// second, or soon again after `true`.
    pub fn compare(&mut self, now: Instant, effects: &mut Vec<Effect>) -> bool {
        if self.core.is_comparable() {
            let digests = self.engine.as_set().map(|set| set.digests()).unwrap_or_default();
            for (engine, digests) in digests {
                self.handle(now, Input::Compare(engine, digests), effects);
            }
        }
        self.core.is_comparison_urgent()
    }

    /// Polls and works until no work is left.
    pub fn quiesce(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        loop {
            let polled = self.poll(now, effects);
            if polled.or(self.run_slice(now, Budget::SLICE, effects)) == Progress::Done {
                return;
            }
        }
    }

    /// Carries operations out and hands refusals back, until no refusal is left.
    fn settle(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while !self.out.is_empty() {
            for output in self.out.drain() {
                match output {
                    Output::Engine(op) => self.ops.push(op),
                    Output::Replay(engine, step) => self.replayed.push((engine, step)),
                    Output::RequestSnapshot => self.engine.request_snapshot(),
                    Output::Effect(effect) => effects.push(effect),
                }
            }
            self.engine.apply(&self.ops, &mut self.refused);
            if let Some(set) = self.engine.as_set().filter(|_| !self.replayed.is_empty()) {
                set.replay(self.replayed.drain(..));
            }
            self.replayed.clear();
            if !self.refused.is_empty() {
                let pair = |r: Refused| (self.ops[r.index].clone(), r.refusal);
                let refused = self.refused.drain(..).map(pair).collect();
                self.core.handle(now, Input::Refused(refused), &mut self.out);
            }
            self.ops.clear();
            let first = self.engine.as_set().map(EngineSet::take_first_refusals).unwrap_or_default();
            for (engine, op, refusal) in first {
                self.core.handle(now, Input::RefusedBeside(engine, op, refusal), &mut self.out);
            }
            let mended = self.engine.as_set().map(EngineSet::take_mended).unwrap_or_default();
            for (engine, mended) in mended {
                self.core.handle(now, Input::Mended(engine, mended), &mut self.out);
            }
        }
    }
}
