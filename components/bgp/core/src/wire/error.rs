//! Errors of octets from a peer, with the place.

use core::fmt;
use sluice_wire::Truncated;

/// An error in octets: the format is violated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireError {
    /// The place, in octets from the start of the message body (the octet after the header).
    pub offset: usize,
    /// The expected value.
    pub expected: Expected,
}

/// The expected value at the place of a [`WireError`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// More octets.
    Octets {
        /// The number of octets of the value.
        needed: usize,
        /// The number of remaining octets.
        left: usize,
    },
    /// A section length within the message (RFC 4271, section 6.3).
    SectionLength,
    /// A prefix length of the family; with the found length (RFC 7606, section 5.3).
    PrefixLength(u8),
    /// A next hop length of the family; with the found length (RFC 7606, section 7.11).
    NextHopLength(u8),
    /// A path segment of a known type with at least one AS number (RFC 7606, section 7.2).
    PathSegment,
    /// A known OPEN parameter; with the found type (RFC 4271, section 6.2).
    Parameter(u8),
    /// A capability that fills the parameter (RFC 5492, section 4).
    Capability,
}

impl From<Truncated> for WireError {
    fn from(t: Truncated) -> Self {
        WireError { offset: t.offset, expected: Expected::Octets { needed: t.needed, left: t.left } }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at octet {}: ", self.offset)?;
        match self.expected {
            Expected::Octets { needed, left } => write!(f, "expected {needed} octets, {left} left"),
            Expected::SectionLength => f.write_str("expected section lengths that fit in the message"),
            Expected::PrefixLength(n) => write!(f, "prefix length {n} is not one of this family"),
            Expected::NextHopLength(n) => write!(f, "next hop length {n} is not one of this family"),
            Expected::PathSegment => f.write_str("expected a non-empty AS_SET or AS_SEQUENCE that fits"),
            Expected::Parameter(n) => write!(f, "unknown OPEN parameter {n}"),
            Expected::Capability => f.write_str("expected capabilities that fill their parameter"),
        }
    }
}

impl core::error::Error for WireError {}
