//! The states of a session.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The states of RFC 4271, section 8.2.2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum State {
    /// No connection is attempted.
    Idle,
    /// A connection is being made.
    Connect,
    /// Waiting for a connection from the peer, or to try again.
    Active,
    /// OPEN was sent.
    OpenSent,
    /// The peer's OPEN was accepted.
    OpenConfirm,
    /// Routes flow.
    Established,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Idle => "Idle",
            State::Connect => "Connect",
            State::Active => "Active",
            State::OpenSent => "OpenSent",
            State::OpenConfirm => "OpenConfirm",
            State::Established => "Established",
        })
    }
}
