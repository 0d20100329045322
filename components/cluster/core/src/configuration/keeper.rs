//! The keeper on each element: has the element take the newest configuration, and ends the wait for a confirmation.

use super::shared::{DecisionId, Shared};
use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use sluice_base::Instant;

/// The pause before a failed configuration is tried again, at first and at most.
const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The next step of the keeper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The store has no configuration, and the element leads: write the own configuration, if the store still has none.
    Seed,
    /// Have the element run a configuration.
    Take(Box<Shared>),
    /// Replace the value of the given revision: the wait for a confirmation is over.
    Revert(Box<Shared>, u64),
    /// Wait for a change of the value, until the time at most.
    Wait(Option<Instant>),
}

/// The wait for a confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Unconfirmed {
    decision: Option<DecisionId>,
    until: Instant,
}

/// A failure to take a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Failure {
    reason: String,
    again: Instant,
    pause: Duration,
}

/// The keeper of an element.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Keeper {
    newest: Option<Shared>,
    /// The revision of the value's last change.
    revision: u64,
    /// The number of the running configuration.
    taken: Option<u64>,
    failure: Option<Failure>,
    unconfirmed: Option<Unconfirmed>,
}

impl Keeper {
    /// Notes the value of the store, and the revision of the last change.
    pub fn seen(&mut self, now: Instant, shared: Option<Shared>, revision: u64) {
        let number =
            |shared: &Option<Shared>| shared.as_ref().map(|shared| (shared.number, shared.decision()));
        if number(&shared) != number(&self.newest) {
            self.failure = None;
            self.taken = None;
        }
        let wait = shared.as_ref().and_then(|shared| {
            let within = Duration::from_secs(shared.back.as_ref()?.within_s.into());
            Some(Unconfirmed { decision: shared.decision(), until: now + within })
        });
        // The wait begins when this element sees the configuration: clocks of elements differ.
        if wait.map(|wait| wait.decision) != self.unconfirmed.map(|wait| wait.decision) {
            self.unconfirmed = wait;
        }
        (self.newest, self.revision) = (shared, revision);
    }

    /// Notes a possible change of the element's own configuration: the newest configuration is compared again.
    pub fn recheck(&mut self) {
        self.taken = None;
        self.failure = None;
    }

    /// Notes the end of [`Step::Take`] of a number, with the reason of a failure.
    pub fn took(&mut self, now: Instant, number: u64, failure: Option<String>) {
        if self.newest.as_ref().is_none_or(|newest| newest.number != number) {
            return;
        }
        match failure {
            None => {
                self.taken = Some(number);
                self.failure = None;
            }
            Some(reason) => {
                let before = self.failure.take().map(|failure| failure.pause);
                let pause = before.map_or(RETRY, |pause| (pause * 2).min(LONGEST_RETRY));
                self.failure = Some(Failure { reason, again: now + pause, pause });
            }
        }
    }

    /// Returns the next step. `leads` is true on the leader, the writer of the first configuration; `id` and `time_ms` are for a decision of
    /// the element.
    pub fn step(&self, now: Instant, leads: bool, id: DecisionId, time_ms: u64) -> Step {
        let Some(newest) = &self.newest else {
            return if leads { Step::Seed } else { Step::Wait(None) };
        };
        let until = self.unconfirmed.map(|wait| wait.until);
        if until.is_some_and(|until| until <= now)
            && let Some(reverted) = newest.reverted(id, time_ms)
        {
            return Step::Revert(Box::new(reverted), self.revision);
        }
        if self.taken == Some(newest.number) {
            return Step::Wait(until);
        }
        match &self.failure {
            Some(failure) if failure.again > now => {
                Step::Wait(Some(until.map_or(failure.again, |until| until.min(failure.again))))
            }
            _ => Step::Take(Box::new(newest.clone())),
        }
    }

    /// Returns the newest configuration, and the revision of the last change.
    pub fn newest(&self) -> Option<(&Shared, u64)> {
        self.newest.as_ref().map(|newest| (newest, self.revision))
    }

    /// Returns the number of the running configuration; `None` if the newest configuration does not run, or is not known.
    pub fn taken(&self) -> Option<u64> {
        self.taken
    }

    /// Returns the reason why the element cannot run the newest configuration.
    pub fn problem(&self) -> Option<&str> {
        self.failure.as_ref().map(|failure| failure.reason.as_str())
    }
}
