//! Processes outside that decide for a type of XIDs each (`xip.v1.Principal`): who holds which type, and what they said.
//!
//! A process registers, is asked in batches, and answers. Between batches the process has time: the next one leaves after the process
//! took the one before. Each wrong message of a process is counted by reason; none of it reaches another type.

use crate::counters::reasons;
use alloc::collections::BTreeMap;
use core::fmt::{self, Display};
use sluice_base::{Instant, XidType};

/// The most types that processes outside decide for.
pub const MOST_TYPES: usize = 16;
/// The most answers and tokens of a type in a second. Others are refused.
pub const PER_SECOND: u32 = 20_000;

/// The number of a registration. Later registrations of the same type have larger numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Registration(pub u64);

reasons! {
    /// What became of questions and answers, for counting.
    OutsideReason:
    /// A question was sent to the process.
    Asked = "asked",
    /// An answer in time, or in place of an earlier one.
    Answered = "answered",
    /// An answer after packets took the next edge.
    Late = "late",
    /// Answers with a token were taken back.
    TakenBack = "taken-back",
    /// An answer to no question.
    NotAsked = "not-asked",
    /// An answer about an XID of another type.
    WrongType = "wrong-type",
    /// A redirect to the type of the XID.
    SameTypeRedirect = "same-type-redirect",
    /// More answers and tokens than a second allows.
    TooMany = "too-many",
    /// A question that was not answered in time: the packets take the next edge.
    Unanswered = "unanswered",
    /// A question that the process did not take.
    NotTaken = "not-taken",
    /// The process ended without a word.
    Died = "died",
}

/// A type that a process outside decides for.
#[derive(Clone, Debug)]
pub struct Outsider {
    pub(crate) registration: Registration,
    pub(crate) is_present: bool,
    /// True while the process has not taken the last batch.
    pub(crate) is_asking: bool,
    /// The second in which answers are counted, and their number.
    pub(crate) second: (u64, u32),
    pub(crate) counts: [u64; OutsideReason::ALL.len()],
}

impl Outsider {
    pub(crate) fn count(&mut self, reason: OutsideReason, more: u64) {
        self.counts[reason as usize] += more;
    }

    /// Returns true while the process is present.
    pub const fn is_present(&self) -> bool {
        self.is_present
    }

    /// Returns a count.
    pub const fn of(&self, reason: OutsideReason) -> u64 {
        self.counts[reason as usize]
    }

    pub(crate) fn may_say(&mut self, now: Instant) -> bool {
        let second = now.saturating_since(Instant::ZERO).as_secs();
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 = self.second.1.saturating_add(1);
        self.second.1 <= PER_SECOND
    }
}

/// The types that processes outside decide for.
#[derive(Clone, Debug, Default)]
pub struct Outsiders {
    pub(crate) by_type: BTreeMap<XidType, Outsider>,
    pub(crate) last: u64,
}

impl Outsiders {
    /// Returns the types with their counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (XidType, &Outsider)> {
        self.by_type.iter().map(|(kind, outsider)| (*kind, outsider))
    }

    /// Returns a type; `None` if no process has registered it.
    pub fn get(&self, kind: XidType) -> Option<&Outsider> {
        self.by_type.get(&kind)
    }

    /// Returns the type if this registration holds it.
    pub(crate) fn holder(&mut self, kind: XidType, registration: Registration) -> Option<&mut Outsider> {
        self.by_type
            .get_mut(&kind)
            .filter(|outsider| outsider.is_present && outsider.registration == registration)
    }
}

/// The reason why a process may not decide for a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// The type is 0, which is no type.
    NotAType,
    /// The router has a principal of its own for the type.
    BuiltIn,
    /// A process that is present has the type.
    Taken,
    /// [`MOST_TYPES`] types are taken.
    Full,
}

impl Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::NotAType => f.write_str("0 is not a type"),
            RegisterError::BuiltIn => f.write_str("the router has a principal of its own for this type"),
            RegisterError::Taken => f.write_str("another process decides for this type"),
            RegisterError::Full => write!(f, "processes decide for {MOST_TYPES} types already"),
        }
    }
}

impl core::error::Error for RegisterError {}
