//! Drives a machine: inputs on arrival, timers when due, background work when idle.

use crate::clock;
use sluice_base::Instant;
use sluice_machine::{Budget, Machine, Outbox, Progress, Request};
use std::cell::RefCell;
use tokio::sync::Notify;

/// A machine and the effects of its outputs.
///
/// Effects run after the machine has returned, so that an effect may give the machine a further input.
pub struct Driver<M: Machine> {
    machine: RefCell<M>,
    spare: RefCell<Outbox<M::Output>>,
    effect: Box<dyn Fn(M::Output)>,
    wake: Notify,
}

impl<M: Machine> Driver<M> {
    /// Drives `machine`; `effect` carries out one output.
    pub fn new(machine: M, effect: impl Fn(M::Output) + 'static) -> Self {
        Driver {
            machine: RefCell::new(machine),
            spare: RefCell::new(Outbox::new()),
            effect: Box::new(effect),
            wake: Notify::new(),
        }
    }

    fn step<R>(&self, act: impl FnOnce(&mut M, &mut Outbox<M::Output>) -> R) -> R {
        let mut out = self.spare.take();
        let result = act(&mut self.machine.borrow_mut(), &mut out);
        for output in out.drain() {
            (self.effect)(output);
        }
        self.spare.replace(out);
        result
    }

    /// Gives the machine an input and carries out the outputs.
    pub fn input(&self, input: M::Input) {
        self.input_at(clock::now(), input);
    }

    /// Gives the machine an input that arrived at the earlier time `time`.
    pub fn input_at(&self, time: Instant, input: M::Input) {
        self.step(|machine, out| machine.handle(time, input, out));
        self.wake.notify_one();
    }

    /// Makes a request of the machine, carries out the outputs, and returns the answer.
    pub fn request<R: Request<M>>(&self, request: R) -> R::Answer {
        let answer = self.step(|machine, out| request.make(machine, clock::now(), out));
        self.wake.notify_one();
        answer
    }

    /// Takes over the state of an earlier machine, before the first input.
    pub fn import(&self, state: M::State) {
        self.step(|machine, out| machine.import(clock::now(), state, out));
        self.wake.notify_one();
    }

    /// Reads the machine's state. Only inputs and requests change it.
    pub fn read<R>(&self, read: impl FnOnce(&M) -> R) -> R {
        read(&self.machine.borrow())
    }

    /// Fires timers and does background work, forever. Run as a separate task.
    pub async fn run(&self) {
        self.run_hooked(|| {}, || {}).await;
    }

    /// Runs a machine from which other tasks pull: calls `worked` after each piece of background work, which may have left results to
    /// pull.
    pub async fn run_notifying(&self, worked: impl Fn()) {
        self.run_hooked(|| {}, worked).await;
    }

    /// Runs a machine whose inputs are fetched on demand: calls `due` before timers fire, so that earlier inputs are handled first.
    pub async fn run_hooked(&self, due: impl Fn(), worked: impl Fn()) {
        let slice = || {
            let progress = self.step(|machine, out| machine.run_slice(clock::now(), Budget::SLICE, out));
            worked();
            progress
        };
        let deadline = || self.machine.borrow().next_deadline();
        let fire = || {
            due();
            self.step(|machine, out| machine.on_deadline(clock::now(), out));
            worked();
        };
        work(&self.wake, slice, deadline, fire).await;
    }
}

/// Does background work in slices and fires timers, forever: of a [`Driver`], or of a machine with a driver of its own. After `wake`, work
/// may be due again, and `deadline` may be another.
pub async fn work(
    wake: &Notify,
    slice: impl Fn() -> Progress,
    deadline: impl Fn() -> Option<Instant>,
    fire: impl Fn(),
) {
    loop {
        if slice() == Progress::More {
            tokio::task::yield_now().await;
            continue;
        }
        match deadline() {
            None => wake.notified().await,
            Some(at) => {
                tokio::select! {
                    () = wake.notified() => {}
                    () = tokio::time::sleep_until(clock::to_tokio(at)) => fire(),
                }
            }
        }
    }
}
