//! A change of configuration made everywhere or nowhere.
//!
//! First every component concerned is asked to accept its share, and nothing changes. Then the components apply their
//! shares in sequence, in the order of need; components whose share holds for the life of a process are restarted, new
//! components are started. Then the new configuration is stored: from then on the new configuration is the running one,
//! and a component that dies starts again with the new configuration. A failure before is undone, and a component that
//! dies before starts again with the old configuration.
//!
//! A change shared by several machines is offered to the remote machines after the local components have accepted their shares. Nothing has changed
//! by then. After all local components have applied the change, the machine asks for a decision for all machines, and stores the new
//! configuration last.

use crate::Reason;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The components that take part in a change. Every list is in the order of need: a needed component comes first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Running components that apply their share as they run.
    pub changed: Vec<String>,
    /// Running components restarted for their share.
    pub restarted: Vec<String>,
    /// Components added by the change.
    pub started: Vec<String>,
    /// True if remote machines share the change.
    pub is_shared: bool,
}

/// An event that the machine handles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input<E> {
    /// A component reports the effects of its share, or the reason of a refusal.
    Prepared(String, Result<Vec<E>, Reason>),
    /// A component took its share, or did not.
    Applied(String, Result<(), Reason>),
    /// A component was started (anew), runs and has its configuration.
    Ready(String),
    /// A component's process ended, or the component refused its configuration at the start.
    Failed(String, String),
    /// A component has the old configuration again, or is restarting with the old configuration, or has ended because
    /// it did not run before.
    Restored(String),
    /// The remote machines accept the change, or a machine refuses.
    Offered(Result<(), Reason>),
    /// The change is decided for all machines, or is not.
    Decided(Result<(), Reason>),
    /// The new configuration is stored, or could not be.
    Stored(Result<(), Reason>),
}

/// An effect that the machine asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output<E> {
    /// Ask the component to accept its share.
    Prepare(String),
    /// Have the component apply the prepared share.
    Apply(String),
    /// Have the component forget the prepared share.
    Abandon(String),
    /// Restart the component with the configuration of [`Commit::takes_new`].
    Restart(String),
    /// Start the component with the new configuration.
    Start(String),
    /// End what was started.
    Stop(String),
    /// Give the component its old configuration back.
    Restore(String),
    /// Ask the remote machines to accept the change.
    Offer,
    /// Have the change decided for all machines.
    Decide,
    /// Store the new configuration.
    Store,
    /// The end: the effects, or the reason why nothing changed.
    Done(Result<BTreeMap<String, Vec<E>>, Reason>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Apply(String),
    Restart(String),
    Start(String),
}

impl Step {
    fn class(&self) -> &str {
        match self {
            Step::Apply(class) | Step::Restart(class) | Step::Start(class) => class,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    Preparing {
        waiting: BTreeSet<String>,
    },
    Offering,
    /// The step under way; every step before is done.
    Applying {
        step: usize,
    },
    Deciding,
    Storing,
    Undoing {
        waiting: BTreeSet<String>,
        reason: String,
    },
    Over,
}

/// A change under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit<E> {
    steps: Vec<Step>,
    check_only: bool,
    is_shared: bool,
    phase: Phase,
    effects: BTreeMap<String, Vec<E>>,
}

impl<E: Clone> Commit<E> {
    /// Begins. With `check_only` the transaction ends once every component has answered.
    pub fn begin(plan: Plan, check_only: bool, out: &mut Vec<Output<E>>) -> Self {
        let asked = plan.changed.iter().chain(&plan.restarted).cloned().collect();
        let steps = plan.changed.into_iter().map(Step::Apply);
        let steps = steps.chain(plan.restarted.into_iter().map(Step::Restart));
        let steps = steps.chain(plan.started.into_iter().map(Step::Start)).collect();
        let mut commit = Commit {
            steps,
            check_only,
            is_shared: plan.is_shared,
            phase: Phase::Preparing { waiting: asked },
            effects: BTreeMap::new(),
        };
        out.extend(commit.asked().map(Output::Prepare));
        commit.go_on(out);
        commit
    }

    /// Returns true if a component that starts now gets the new configuration.
    pub fn takes_new(&self, class: &str) -> bool {
        let place =
            self.steps.iter().position(|step| !matches!(step, Step::Apply(_)) && step.class() == class);
        match self.phase {
            Phase::Applying { step } => place.is_some_and(|place| place <= step),
            Phase::Deciding | Phase::Storing => place.is_some(),
            Phase::Preparing { .. } | Phase::Offering | Phase::Undoing { .. } | Phase::Over => false,
        }
    }

    /// Returns true if the change is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes an input. Late inputs are ignored.
    pub fn handle(&mut self, input: Input<E>, out: &mut Vec<Output<E>>) {
        match input {
            Input::Prepared(class, Ok(effects)) => {
                if let Phase::Preparing { waiting } = &mut self.phase
                    && waiting.remove(&class)
                {
                    self.effects.insert(class, effects);
                }
            }
            Input::Prepared(class, Err(reason)) => {
                self.fail(&class, &format!("{class} refuses it: {reason}"), out)
            }
            Input::Applied(class, Ok(())) => self.done(&Step::Apply(class), out),
            Input::Applied(class, Err(reason)) => {
                self.fail(&class, &format!("{class} did not take it: {reason}"), out);
            }
            Input::Ready(class) => {
                self.done(&Step::Restart(class.clone()), out);
                self.done(&Step::Start(class.clone()), out);
                self.restored(&class);
            }
            Input::Failed(class, reason) => {
                self.fail(&class, &format!("{class} failed: {reason}"), out);
                self.restored(&class);
            }
            Input::Restored(class) => self.restored(&class),
            Input::Offered(Ok(())) if self.phase == Phase::Offering => self.accepted(out),
            Input::Offered(Err(reason)) if self.phase == Phase::Offering => self.refuse(&reason, out),
            Input::Decided(Ok(())) if self.phase == Phase::Deciding => self.store(out),
            Input::Decided(Err(reason)) if self.phase == Phase::Deciding => self.undo(&reason, out),
            Input::Offered(_) | Input::Decided(_) => {}
            Input::Stored(Ok(())) if self.phase == Phase::Storing => {
                self.phase = Phase::Over;
                out.push(Output::Done(Ok(core::mem::take(&mut self.effects))));
            }
            Input::Stored(Ok(())) => {}
            Input::Stored(Err(reason)) => {
                if self.phase == Phase::Storing {
                    self.undo(&format!("it could not be stored: {reason}"), out);
                }
            }
        }
        self.go_on(out);
    }

    /// Iterates over the components that are asked before anything changes.
    fn asked(&self) -> impl Iterator<Item = String> {
        self.steps.iter().filter(|step| !matches!(step, Step::Start(_))).map(|step| step.class().to_string())
    }

    /// The step whose turn it is may be done.
    fn done(&mut self, done: &Step, out: &mut Vec<Output<E>>) {
        if let Phase::Applying { step } = &mut self.phase
            && self.steps.get(*step) == Some(done)
        {
            *step += 1;
            self.emit_turn(out);
        }
    }

    fn restored(&mut self, class: &str) {
        if let Phase::Undoing { waiting, .. } = &mut self.phase {
            waiting.remove(class);
        }
    }

    fn fail(&mut self, class: &str, reason: &str, out: &mut Vec<Output<E>>) {
        if !self.steps.iter().any(|step| step.class() == class) {
            return; // it has no share in this
        }
        match self.phase {
            Phase::Preparing { .. } | Phase::Offering => self.refuse(reason, out),
            Phase::Applying { .. } => self.undo(reason, out),
            // It may be decided or stored already; who dies now starts with what is stored in the end.
            Phase::Deciding | Phase::Storing | Phase::Undoing { .. } | Phase::Over => {}
        }
    }

    /// Ends before anything has changed.
    fn refuse(&mut self, reason: &str, out: &mut Vec<Output<E>>) {
        out.extend(self.asked().map(Output::Abandon));
        self.phase = Phase::Over;
        out.push(Output::Done(Err(reason.into())));
    }

    /// Goes on after all have accepted the change.
    fn accepted(&mut self, out: &mut Vec<Output<E>>) {
        if self.check_only {
            out.extend(self.asked().map(Output::Abandon));
            self.phase = Phase::Over;
            out.push(Output::Done(Ok(core::mem::take(&mut self.effects))));
        } else {
            self.phase = Phase::Applying { step: 0 };
            self.emit_turn(out);
        }
    }

    fn store(&mut self, out: &mut Vec<Output<E>>) {
        self.phase = Phase::Storing;
        out.push(Output::Store);
    }

    /// Restores the old configuration of every component that may have the new one.
    fn undo(&mut self, reason: &str, out: &mut Vec<Output<E>>) {
        let begun = match self.phase {
            Phase::Applying { step } => step + 1,
            _ => self.steps.len(),
        };
        let mut waiting = BTreeSet::new();
        for (index, step) in self.steps.iter().enumerate().rev() {
            match step {
                Step::Apply(class) if index < begun => {
                    waiting.insert(class.clone());
                    out.push(Output::Restore(class.clone()));
                }
                Step::Restart(class) if index < begun => {
                    waiting.insert(class.clone());
                    out.push(Output::Restart(class.clone()));
                }
                Step::Start(class) if index < begun => {
                    waiting.insert(class.clone());
                    out.push(Output::Stop(class.clone()));
                }
                Step::Apply(class) | Step::Restart(class) => out.push(Output::Abandon(class.clone())),
                Step::Start(_) => {}
            }
        }
        self.phase = Phase::Undoing { waiting, reason: reason.into() };
    }

    /// Goes as far as nobody has to be waited for.
    fn go_on(&mut self, out: &mut Vec<Output<E>>) {
        match &self.phase {
            Phase::Preparing { waiting } if waiting.is_empty() && self.is_shared => {
                self.phase = Phase::Offering;
                out.push(Output::Offer);
            }
            Phase::Preparing { waiting } if waiting.is_empty() => self.accepted(out),
            Phase::Undoing { waiting, reason } if waiting.is_empty() => {
                let reason = reason.clone();
                self.phase = Phase::Over;
                out.push(Output::Done(Err(reason)));
            }
            _ => {}
        }
    }

    /// Emits whose turn it is.
    fn emit_turn(&mut self, out: &mut Vec<Output<E>>) {
        let Phase::Applying { step } = self.phase else { return };
        match self.steps.get(step) {
            Some(Step::Apply(class)) => out.push(Output::Apply(class.clone())),
            Some(Step::Restart(class)) => out.push(Output::Restart(class.clone())),
            Some(Step::Start(class)) => out.push(Output::Start(class.clone())),
            None if self.is_shared => {
                self.phase = Phase::Deciding;
                out.push(Output::Decide);
            }
            None => self.store(out),
        }
    }
}

#[cfg(test)]
mod tests;
