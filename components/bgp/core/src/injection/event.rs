//! Reports about injections.

use super::InjectionError;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;

/// The reason for the end of an injection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InjectionEnd {
    /// An operator ended it.
    Request,
    /// A neighbor with the address of the source is configured.
    Neighbor,
    /// The configuration does not allow the source any more, for a reason in words.
    Configuration(String),
    /// Another process takes over.
    Upgrade,
}

impl fmt::Display for InjectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectionEnd::Request => f.write_str("on request"),
            InjectionEnd::Neighbor => f.write_str("a neighbor has the address of the source"),
            InjectionEnd::Configuration(reason) => write!(f, "the configuration changed: {reason}"),
            InjectionEnd::Upgrade => f.write_str("another process takes over"),
        }
    }
}

/// An event of an injection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InjectionEvent {
    /// The routes of this peer of a trace come.
    Begun(IpAddr),
    /// The trace is whole, with so many UPDATEs and routes.
    Whole(u64),
    /// The trace cannot be read on. The routes so far stay.
    Failed(InjectionError),
    /// The routes are removed.
    Ended(InjectionEnd),
}

impl InjectionEvent {
    /// Returns the stable name (docs/events.md).
    pub const fn id(&self) -> &'static str {
        match self {
            InjectionEvent::Begun(_) => "bgp.injection.begun",
            InjectionEvent::Whole(_) => "bgp.injection.whole",
            InjectionEvent::Failed(_) => "bgp.injection.failed",
            InjectionEvent::Ended(_) => "bgp.injection.ended",
        }
    }
}

impl fmt::Display for InjectionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectionEvent::Begun(peer) => write!(f, "routes of {peer} in a trace are injected"),
            InjectionEvent::Whole(updates) => {
                write!(f, "a trace is injected: UPDATEs and routes of a table: {updates}")
            }
            InjectionEvent::Failed(error) => write!(f, "a trace cannot be read on, its routes stay: {error}"),
            InjectionEvent::Ended(end) => write!(f, "injected routes are removed: {end}"),
        }
    }
}
