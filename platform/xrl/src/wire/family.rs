//! Transport families: the ways of a call to its target.

use crate::idl::finder::v1::TransportFamily;
use std::fmt;
use std::str::FromStr;

/// A way to reach a target. The client is the same over each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// The target lives in the caller's process: a direct call.
    InProcess,
    /// A stream socket of the same host.
    Unix,
    /// TCP.
    Tcp,
    /// UDP: a single call at a time to each address.
    Udp,
    /// A signal to the target's process; carries only `finder.v1.Process/Signal`.
    Kill,
}

impl Family {
    /// The families, in the order in which they are preferred by default.
    pub const ALL: [Family; 5] = [Family::InProcess, Family::Unix, Family::Tcp, Family::Udp, Family::Kill];

    pub(crate) fn to_wire(self) -> TransportFamily {
        match self {
            Family::InProcess => TransportFamily::Unspecified,
            Family::Unix => TransportFamily::Unix,
            Family::Tcp => TransportFamily::Tcp,
            Family::Udp => TransportFamily::Udp,
            Family::Kill => TransportFamily::Kill,
        }
    }

    pub(crate) fn from_wire(number: i32) -> Option<Self> {
        match TransportFamily::try_from(number).ok()? {
            TransportFamily::Unspecified => None,
            TransportFamily::Unix => Some(Family::Unix),
            TransportFamily::Tcp => Some(Family::Tcp),
            TransportFamily::Udp => Some(Family::Udp),
            TransportFamily::Kill => Some(Family::Kill),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::InProcess => "inproc",
            Family::Unix => "unix",
            Family::Tcp => "tcp",
            Family::Udp => "udp",
            Family::Kill => "kill",
        })
    }
}

/// A text names no family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of inproc, unix, tcp, udp, kill")]
pub struct NotAFamily;

impl FromStr for Family {
    type Err = NotAFamily;

    fn from_str(s: &str) -> Result<Self, NotAFamily> {
        match s {
            "inproc" => Ok(Family::InProcess),
            "unix" => Ok(Family::Unix),
            "tcp" => Ok(Family::Tcp),
            "udp" => Ok(Family::Udp),
            "kill" => Ok(Family::Kill),
            _ => Err(NotAFamily),
        }
    }
}
