//! A component's hand-over to a successor, step by step: the order of the steps, and the reaction when either process
//! ends, refuses or falls silent. Up to the step in which the successor takes over, the old process is the component,
//! and resumes when the successor ends; afterward the successor is the component.

use crate::Reason;
use alloc::string::String;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};
use sluice_machine::{Machine, Outbox, Timers};

/// An event that the machine handles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The start of the replacement.
    Begin,
    /// The successor's process was started and waits for what is handed over.
    Ready,
    /// The old process has handed over, or the reason why it has not.
    HandedOver(Result<(), Reason>),
    /// The old process has given up its name, or reports why not.
    Released(Result<(), Reason>),
    /// The successor has taken over, or the reason why it has not.
    TookOver(Result<(), Reason>),
    /// The old process has ended, in this way.
    OldEnded(String),
    /// The successor has ended, in this way, or could not be started.
    NewEnded(String),
    /// Cancels the replacement for this reason: the component or the whole router ends.
    Cancel(String),
}

/// An effect that the machine asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Output {
    /// Start the successor's process.
    Start,
    /// Ask the old process to hand over.
    HandOver,
    /// Ask the old process to give up its name.
    Release,
    /// Ask the successor to take over. From now on it counts as the component's process.
    TakeOver,
    /// The old process counts as the component's again.
    Return,
    /// End the successor's process at once.
    KillNew,
    /// End the old process at once.
    KillOld,
    /// The component's process has ended, in this way: the successor is of no use.
    Died(String),
    /// The result for the caller.
    Done(Result<(), Reason>),
    /// The end: no work is left.
    Over,
}

/// The steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Step {
    /// The successor's process is started.
    Starting,
    /// The old process hands over.
    HandingOver,
    /// The old process gives up its name.
    Releasing,
    /// The successor takes over.
    TakingOver,
    /// The successor does the component's work, the old process ends.
    Ending,
    /// The replacement failed: the successor ends.
    Withdrawing,
    /// The end: no work is left.
    Over,
}

impl Step {
    /// Returns the limit of the step. A component's own limit for coming to rest and handing over (10 s) is shorter.
    pub const fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Step::Starting => 10,
            Step::HandingOver => 15,
            Step::Releasing | Step::TakingOver | Step::Ending | Step::Withdrawing | Step::Over => 5,
        })
    }

    const fn is_slow(self) -> &'static str {
        match self {
            Step::Starting => "the new process did not come up in time",
            Step::HandingOver => "the state was not handed over in time",
            Step::Releasing => "the old process did not give up its name in time",
            _ => "the new process did not take over in time",
        }
    }
}

/// A hand-over.
pub struct HandOver {
    step: Step,
    timer: Timers<()>,
    old_ended: Option<String>,
    reason: String,
}

impl Default for HandOver {
    fn default() -> Self {
        Self::new()
    }
}

impl HandOver {
    /// Makes a replacement that has not begun.
    pub fn new() -> Self {
        HandOver { step: Step::Starting, timer: Timers::default(), old_ended: None, reason: String::new() }
    }

    /// Returns the present step.
    pub fn step(&self) -> Step {
        self.step
    }

    fn go(&mut self, now: Instant, step: Step) {
        self.step = step;
        match step {
            Step::Over => self.timer.stop(()),
            step => self.timer.start(now, (), step.limit()),
        }
    }

    /// Withdraws the replacement: the successor ends first, and only then the old process is alone for sure.
    fn withdraw(&mut self, now: Instant, reason: String, out: &mut Outbox<Output>) {
        if self.step == Step::TakingOver {
            out.push(Output::Return);
        }
        self.reason = reason;
        self.go(now, Step::Withdrawing);
        out.push(Output::KillNew);
    }

    /// The successor is gone, before it took over.
    fn fail(&mut self, now: Instant, reason: String, out: &mut Outbox<Output>) {
        self.go(now, Step::Over);
        if let Some(how) = self.old_ended.take() {
            out.push(Output::Died(how));
        }
        out.push(Output::Done(Err(reason)));
        out.push(Output::Over);
    }

    fn new_ended(&mut self, now: Instant, how: String, out: &mut Outbox<Output>) {
        let mut reason = core::mem::take(&mut self.reason);
        match self.step {
            Step::Withdrawing => {}
            // A successor that refuses sends the reason to the old process, whose report is on its way.
            Step::HandingOver if self.old_ended.is_none() => {
                self.reason = alloc::format!("the new process ended: {how}");
                return;
            }
            Step::TakingOver => {
                out.push(Output::Return);
                reason = alloc::format!("the new process ended: {how}");
            }
            _ => reason = alloc::format!("the new process ended: {how}"),
        }
        self.fail(now, reason, out);
    }

    fn old_ended(&mut self, now: Instant, how: String, out: &mut Outbox<Output>) {
        match self.step {
            Step::Ending => {
                self.go(now, Step::Over);
                out.push(Output::Over);
            }
            // The successor has everything: it need not be asked to leave any more.
            Step::Releasing => {
                self.old_ended = Some(how);
                self.go(now, Step::TakingOver);
                out.push(Output::TakeOver);
            }
            Step::TakingOver | Step::Withdrawing => self.old_ended = Some(how),
            Step::Starting | Step::HandingOver => {
                let gone = !self.reason.is_empty();
                self.old_ended = Some(how);
                match gone {
                    true => self.fail(now, "both processes ended".into(), out),
                    false => self.withdraw(now, "the old process ended by itself".into(), out),
                }
            }
            Step::Over => {}
        }
    }
}

impl Machine for HandOver {
    type Input = Input;
    type Output = Output;
    type State = Step;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match (self.step, input) {
            (Step::Starting, Input::Begin) => {
                self.go(now, Step::Starting);
                out.push(Output::Start);
            }
            (Step::Starting, Input::Ready) => {
                self.go(now, Step::HandingOver);
                out.push(Output::HandOver);
            }
            (Step::HandingOver, Input::HandedOver(Ok(()))) if self.reason.is_empty() => {
                self.go(now, Step::Releasing);
                out.push(Output::Release);
            }
            (Step::HandingOver, Input::HandedOver(Ok(()))) => {
                let reason = core::mem::take(&mut self.reason);
                self.fail(now, reason, out);
            }
            // The successor has ended already.
            (Step::HandingOver, Input::HandedOver(Err(reason))) if !self.reason.is_empty() => {
                self.fail(now, reason, out);
            }
            (Step::Releasing, Input::Released(Ok(()))) => {
                self.go(now, Step::TakingOver);
                out.push(Output::TakeOver);
            }
            (Step::TakingOver, Input::TookOver(Ok(()))) => {
                out.push(Output::Done(Ok(())));
                match self.old_ended.take() {
                    None => self.go(now, Step::Ending),
                    Some(_) => {
                        self.go(now, Step::Over);
                        out.push(Output::Over);
                    }
                }
            }
            (Step::HandingOver, Input::HandedOver(Err(reason)))
            | (Step::Releasing, Input::Released(Err(reason)))
            | (Step::TakingOver, Input::TookOver(Err(reason)))
            | (Step::Starting | Step::HandingOver | Step::Releasing, Input::Cancel(reason)) => {
                self.withdraw(now, reason, out);
            }
            (Step::Ending | Step::Over, Input::NewEnded(_)) => {}
            (_, Input::OldEnded(how)) => self.old_ended(now, how, out),
            (_, Input::NewEnded(how)) => self.new_ended(now, how, out),
            // An answer to a question of a step that is over.
            _ => {}
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.timer.next_deadline()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while self.timer.pop_due(now).is_some() {
            match self.step {
                Step::Ending => {
                    self.go(now, Step::Ending);
                    out.push(Output::KillOld);
                }
                // It was killed; it is looked at again until the kernel is done with it.
                Step::Withdrawing => {
                    self.go(now, Step::Withdrawing);
                    out.push(Output::KillNew);
                }
                Step::Over => {}
                Step::HandingOver if !self.reason.is_empty() => {
                    let reason = core::mem::take(&mut self.reason);
                    self.fail(now, reason, out);
                }
                slow => self.withdraw(now, slow.is_slow().into(), out),
            }
        }
    }

    fn export(&self) -> Step {
        self.step
    }

    fn import(&mut self, _now: Instant, step: Step, _out: &mut Outbox<Output>) {
        self.step = step;
    }
}

#[cfg(test)]
mod tests;
