//! Problems of received attributes, and the verdict on an UPDATE.

use crate::wire::Notification;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The error of an attribute or a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Problem {
    /// The flags do not match the type.
    Flags,
    /// The value does not match the type.
    Value,
    /// The attribute is repeated in the message.
    Repeated,
    /// A mandatory attribute is missing.
    Missing,
    /// The attribute or its successor does not fit in the attributes' length.
    Overrun,
    /// The attribute is marked well-known, and is unknown.
    Unrecognized,
    /// The path contains AS 0 (RFC 7607).
    AsZero,
    /// The path does not begin with the peer's AS.
    FirstAs,
    /// The next hop is not a host, or is the router itself.
    NextHop,
    /// Segments of a confederation are in an AS4_PATH, and were left out (RFC 6793, section 6).
    Confederation,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Flags => "wrong flags",
            Problem::Value => "malformed value",
            Problem::Repeated => "repeated",
            Problem::Missing => "missing",
            Problem::Overrun => "runs over the end",
            Problem::Unrecognized => "unrecognized well-known attribute",
            Problem::AsZero => "AS 0",
            Problem::FirstAs => "first AS is not the peer's",
            Problem::NextHop => "next hop cannot be used",
            Problem::Confederation => "segments of a confederation",
        })
    }
}

/// The worst problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AttributeError {
    /// The attribute's type code.
    pub code: u8,
    /// The error.
    pub problem: Problem,
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attribute {}: {}", self.code, self.problem)
    }
}

/// The treatment of an UPDATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The routes are good.
    Accept,
    /// The routes loop through the router's AS (RFC 4271, section 9.1.2). Such routes count as withdrawn, without an error.
    Loop,
    /// The routes were reflected back to the router or its cluster (RFC 4456, section 8), and count as withdrawn, too.
    Reflected,
    /// The peer should not have sent the routes, which count as withdrawn (RFC 9234, section 5).
    Leak,
    /// The announced routes count as withdrawn (RFC 7606: treat-as-withdraw).
    Withdraw,
    /// The session ends with a NOTIFICATION.
    Reset(Notification),
}
