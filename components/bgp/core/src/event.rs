//! Every text and reason that BGP can report. The core emits events; whoever drives it logs and counts them.

use crate::attributes::AttributeError;
use crate::session::State;
use crate::wire::Notification;
use crate::wire::notification::code;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::Family;

/// Why a connection or a session ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DownReason {
    /// The operator stopped it.
    Stopped,
    /// This side ended it with a NOTIFICATION (or would have, had OPEN been sent).
    Sent(Notification),
    /// The peer ended it with a NOTIFICATION.
    Received(Notification),
    /// The connection was closed without a word.
    ConnectionLost,
    /// No connection could be made.
    ConnectionFailed,
}

impl DownReason {
    /// Whether something was wrong. It was not if the connection was merely closed, or with a Cease by either side: RFC 4271, section
    /// 6.7, has that for the absence of any fatal error.
    pub fn is_error(&self) -> bool {
        match self {
            DownReason::Sent(n) | DownReason::Received(n) => n.code != code::CEASE,
            DownReason::Stopped | DownReason::ConnectionLost => false,
            DownReason::ConnectionFailed => true,
        }
    }
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DownReason::Stopped => f.write_str("stopped by the operator"),
            DownReason::Sent(n) => write!(f, "sent NOTIFICATION: {n}"),
            DownReason::Received(n) => write!(f, "received NOTIFICATION: {n}"),
            DownReason::ConnectionLost => f.write_str("connection lost"),
            DownReason::ConnectionFailed => f.write_str("connection failed"),
        }
    }
}

/// What a session reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionEvent {
    /// The state changed.
    State {
        /// From this.
        from: State,
        /// To this.
        to: State,
    },
    /// A NOTIFICATION was sent.
    NotificationSent(Notification),
    /// A NOTIFICATION arrived.
    NotificationReceived(Notification),
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionEvent::State { from, to } => write!(f, "state {from} -> {to}"),
            SessionEvent::NotificationSent(n) => write!(f, "sent NOTIFICATION: {n}"),
            SessionEvent::NotificationReceived(n) => write!(f, "received NOTIFICATION: {n}"),
        }
    }
}

/// What the router reports of a neighbour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The neighbour.
    pub peer: IpAddr,
    /// What happened.
    pub what: PeerEvent,
}

/// What can happen with a neighbour that is worth a line in the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PeerEvent {
    /// Its session is up.
    Up,
    /// Its session is down.
    Down(DownReason),
    /// Its session did something else.
    Session(SessionEvent),
    /// It has told all its routes of a family (RFC 4724).
    EndOfRib(Family),
    /// It sent an UPDATE that is wrong, but not so wrong that the session ends (RFC 7606, section 6).
    Malformed {
        /// The worst error.
        error: AttributeError,
        /// Whether the routes count as withdrawn for it.
        withdrawn: bool,
        /// The whole body of the UPDATE.
        update: Vec<u8>,
    },
    /// It cannot be had: there are too many.
    TooManyNeighbors,
    /// A route is not announced to it, for the first time in this session: its attributes do not fit in a message.
    TooLarge,
}

impl Event {
    /// Its stable name (docs/events.md).
    pub fn id(&self) -> &'static str {
        match self.what {
            PeerEvent::Up => "bgp.session.up",
            PeerEvent::Down(_) => "bgp.session.down",
            PeerEvent::Session(_) => "bgp.session.state",
            PeerEvent::EndOfRib(_) => "bgp.session.end-of-rib",
            PeerEvent::Malformed { .. } => "bgp.update.malformed",
            PeerEvent::TooManyNeighbors => "bgp.neighbor.refused",
            PeerEvent::TooLarge => "bgp.route.too-large",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbor {}: ", self.peer)?;
        match &self.what {
            PeerEvent::Up => f.write_str("session is up"),
            PeerEvent::Down(reason) => write!(f, "session is down: {reason}"),
            PeerEvent::Session(event) => event.fmt(f),
            PeerEvent::EndOfRib(family) => write!(f, "End-of-RIB for {family}"),
            PeerEvent::Malformed { error, withdrawn, update } => {
                let done = if *withdrawn { "treated as withdrawal" } else { "attribute discarded" };
                write!(f, "malformed UPDATE, {done}: {error}; message:")?;
                update.iter().try_for_each(|octet| write!(f, " {octet:02x}"))
            }
            PeerEvent::TooManyNeighbors => f.write_str("too many neighbors"),
            PeerEvent::TooLarge => f.write_str(
                "a route is not announced: too large for a message; `show bgp neighbor` counts the others",
            ),
        }
    }
}
