//! The origin of a route change: one id from the wire to the kernel.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The id of the event that caused a route change: the process that received the event, and a number that grows with every event of the
/// process.
///
/// A component that takes an event from outside (an UPDATE, a configuration change, an interface going down) draws an
/// id and puts the id on every change that follows; every receiver passes the id on with the change. `explain` and the latency profile rest
/// on these ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Provenance(u64);

impl Provenance {
    /// No event is known, as for routes found at a start.
    pub const NONE: Provenance = Provenance(0);
    const SEQUENCE_BITS: u32 = 48;

    /// The id of event number `sequence` (the low 48 bits) of the source `source`.
    pub const fn new(source: u16, sequence: u64) -> Self {
        let low = sequence & ((1 << Self::SEQUENCE_BITS) - 1);
        Provenance(((source as u64) << Self::SEQUENCE_BITS) | low)
    }

    /// The id from 64 bits.
    pub const fn from_bits(bits: u64) -> Self {
        Provenance(bits)
    }

    /// The id as 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the process that received the event; 0: unknown.
    pub const fn source(self) -> u16 {
        (self.0 >> Self::SEQUENCE_BITS) as u16
    }

    /// The number of the event at the source.
    pub const fn sequence(self) -> u64 {
        self.0 & ((1 << Self::SEQUENCE_BITS) - 1)
    }

    /// The id of the source's next event.
    #[must_use]
    pub const fn next(self) -> Self {
        Provenance::new(self.source(), self.sequence() + 1)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.source(), self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let p = Provenance::new(7, 41).next();
        assert_eq!((p.source(), p.sequence()), (7, 42));
        assert_eq!(Provenance::from_bits(p.bits()), p);
        assert_eq!(Provenance::new(7, (1 << 48) - 1).next(), Provenance::new(7, 0));
    }
}
