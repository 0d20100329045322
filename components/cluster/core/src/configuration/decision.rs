//! The decision: a write into the store replaces the configuration, unless the configuration has changed since the commit began.
//!
//! A write without an answer may be done, refused or still on the way. A read of the store finds out: a value remembers its last decisions. If
//! the value is still the old one, the same write is sent again. The store carries out a single write, since both expect the old value.

use super::shared::{DecisionId, Shared};

/// The most steps of a decision without answers.
pub const ATTEMPTS: u8 = 8;

/// The next step of a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Replace the value of the given revision.
    Write(Shared, u64),
    /// Read the value.
    Read,
    /// Nothing more is to do.
    Over(Outcome),
}

/// The end of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The configuration holds for all elements, or held until the next decision.
    Decided,
    /// A different decision was first. The configuration never holds.
    Overtaken,
    /// The outcome is not known. All elements take the value of the store when the store answers again.
    Unknown,
}

/// The answer to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The value is replaced.
    Done,
    /// Somebody else changed the value before.
    Conflict,
    /// No answer came.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Writing,
    Reading,
    WritingAgain,
    Over(Outcome),
}

/// A decision under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    id: DecisionId,
    after: Shared,
    /// The revision of the last change of the value before.
    base: u64,
    phase: Phase,
    left: u8,
}

impl Decision {
    /// Begins: `after` is to follow the value of the revision `base`.
    pub fn new(id: DecisionId, base: u64, after: Shared) -> Self {
        Decision { id, after, base, phase: Phase::Writing, left: ATTEMPTS }
    }

    /// Returns the next step.
    pub fn step(&self) -> Step {
        match self.phase {
            Phase::Writing | Phase::WritingAgain => Step::Write(self.after.clone(), self.base),
            Phase::Reading => Step::Read,
            Phase::Over(outcome) => Step::Over(outcome),
        }
    }

    /// Notes the answer to a write.
    pub fn written(&mut self, written: Written) {
        self.phase = match (self.phase, written) {
            (Phase::Writing | Phase::WritingAgain, Written::Done) => Phase::Over(Outcome::Decided),
            (Phase::Writing, Written::Conflict) => Phase::Over(Outcome::Overtaken),
            // The first write may have arrived meanwhile.
            (Phase::Writing | Phase::WritingAgain, _) => self.again(),
            (other, _) => other,
        };
    }

    /// Notes the value of a read, with the revision of the last change; `None` without an answer.
    pub fn found(&mut self, found: Option<(Option<&Shared>, u64)>) {
        if self.phase != Phase::Reading {
            return;
        }
        self.phase = match found {
            None => self.again(),
            Some((value, _)) if value.is_some_and(|value| value.follows(self.id)) => {
                Phase::Over(Outcome::Decided)
            }
            Some((_, revision)) if revision == self.base => Phase::WritingAgain,
            Some(_) => Phase::Over(Outcome::Overtaken),
        };
    }

    fn again(&mut self) -> Phase {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Phase::Reading
            }
            None => Phase::Over(Outcome::Unknown),
        }
    }
}
