//! The reasons for ends of sessions and failed connections, and the events of a session.

use crate::state::State;
use crate::wire::Notification;
use crate::wire::notification::{cease, code};
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};
use sluice_base::Asn;

/// The reason why a connection or a session ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DownReason {
    /// The operator stopped the session.
    Stopped,
    /// The local side ended the session with a NOTIFICATION (or would have, had OPEN been sent).
    Sent(Notification),
    /// The peer ended the session with a NOTIFICATION.
    Received(Notification),
    /// The connection was closed without a word.
    ConnectionLost,
    /// No connection could be made.
    ConnectionFailed(ConnectError),
    /// The neighbor's OPEN was refused because of an AS other than the configured AS.
    WrongPeerAs {
        /// The AS in the neighbor's OPEN.
        received: Asn,
        /// The configured AS; 0 for a dynamic neighbor of a listen range with several ASes.
        configured: Asn,
    },
}

/// The cause of a failed connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectError {
    /// The neighbor's system refused the connection: no listener.
    Refused,
    /// No route to the neighbor, or the neighbor is not on the link.
    Unreachable,
    /// No answer arrived in time.
    NoAnswer,
    /// Anything else, in the words of the system; empty without any.
    Other(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Refused => f.write_str("connection refused"),
            ConnectError::Unreachable => f.write_str("no route to the neighbor, or it is not there"),
            ConnectError::NoAnswer => f.write_str("no answer to the attempt to connect"),
            ConnectError::Other(text) if text.is_empty() => f.write_str("connection failed"),
            ConnectError::Other(text) => write!(f, "connection failed: {text}"),
        }
    }
}

impl DownReason {
    /// Returns true for an error. A closed connection and a Cease by either side are no errors (RFC 4271, section 6.7: a Cease in
    /// absence of any fatal error).
    pub fn is_error(&self) -> bool {
        match self {
            DownReason::Sent(n) | DownReason::Received(n) => n.code != code::CEASE,
            DownReason::Stopped | DownReason::ConnectionLost => false,
            DownReason::ConnectionFailed(_) | DownReason::WrongPeerAs { .. } => true,
        }
    }

    /// Returns the side that ended the session.
    pub fn ended_by(&self) -> EndedBy {
        match self {
            DownReason::Stopped => EndedBy::Configuration,
            DownReason::Sent(n) => {
                let inside = n.reason();
                let n = inside.as_ref().unwrap_or(n);
                match (n.code, n.subcode) {
                    (code::CEASE, cease::RESET) => EndedBy::Operator,
                    (code::CEASE, cease::CONFIGURATION | cease::SHUTDOWN | cease::DECONFIGURED) => {
                        EndedBy::Configuration
                    }
                    _ => EndedBy::ThisRouter,
                }
            }
            DownReason::WrongPeerAs { .. } => EndedBy::ThisRouter,
            DownReason::Received(_) => EndedBy::Neighbor,
            DownReason::ConnectionLost | DownReason::ConnectionFailed(_) => EndedBy::Connection,
        }
    }

    /// Returns true for a NOTIFICATION after which sessions with graceful notifications keep routes (RFC 8538, section 4).
    pub fn is_graceful_notification(&self) -> bool {
        matches!(self, DownReason::Sent(n) | DownReason::Received(n) if !n.is_hard_reset())
    }

    /// Returns true if a connection was given up after a collision (RFC 4271, section 6.8): no evidence about the session.
    pub(crate) fn is_collision(&self) -> bool {
        matches!(self, DownReason::Sent(n) | DownReason::Received(n) if n.code == code::CEASE && n.subcode == cease::COLLISION)
    }

    /// Returns true if the router ended the session with a Cease, or stopped the session, for an operator or a commit.
    pub(crate) fn is_own_cease(&self) -> bool {
        matches!(self, DownReason::Sent(n) if n.code == code::CEASE) || *self == DownReason::Stopped
    }

    /// Returns true if the reason names a fault to correct before a session can come up. The end of a further connection without
    /// a reason, which often follows, does not replace such a reason for a while.
    pub(crate) fn is_specific(&self) -> bool {
        match self {
            DownReason::Sent(_) => !self.is_own_cease(),
            DownReason::Received(_) | DownReason::WrongPeerAs { .. } => true,
            DownReason::Stopped | DownReason::ConnectionLost | DownReason::ConnectionFailed(_) => false,
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
            DownReason::ConnectionFailed(error) => error.fmt(f),
            DownReason::WrongPeerAs { received, configured: Asn(0) } => {
                write!(f, "neighbor sent AS {received}, which its listen range does not allow")
            }
            DownReason::WrongPeerAs { received, configured } => {
                write!(f, "neighbor sent AS {received}, configured {configured}")
            }
        }
    }
}

/// A failed attempt to open a session, with the statements that make packets disappear unless both sides have them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NotOpened {
    /// The reason.
    pub reason: DownReason,
    /// True if the neighbor has a password here.
    pub has_password: bool,
    /// True if the neighbor has `ttl-security` here.
    pub has_ttl_security: bool,
}

impl NotOpened {
    /// Returns the causes that look like a neighbor without an answer, in parentheses; empty without causes.
    pub const fn hint(has_password: bool, has_ttl_security: bool) -> &'static str {
        match (has_password, has_ttl_security) {
            (true, true) => " (another password, or ttl-security, looks the same)",
            (true, false) => " (another password looks the same)",
            (false, true) => " (ttl-security that does not fit looks the same)",
            (false, false) => "",
        }
    }
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.reason {
            DownReason::ConnectionFailed(ConnectError::NoAnswer) => {
                f.write_str(Self::hint(self.has_password, self.has_ttl_security))
            }
            _ => Ok(()),
        }
    }
}

/// The side that ended a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndedBy {
    /// An operator of the router, by a command.
    Operator,
    /// A commit at the router.
    Configuration,
    /// The router, for an error, an expired timer or a bound.
    ThisRouter,
    /// The neighbor, by a NOTIFICATION.
    Neighbor,
    /// The neighbor or the network between both: the connection was lost without a NOTIFICATION.
    Connection,
}

impl EndedBy {
    /// Returns the name in output.
    pub const fn name(self) -> &'static str {
        match self {
            EndedBy::Operator => "operator",
            EndedBy::Configuration => "configuration",
            EndedBy::ThisRouter => "this router",
            EndedBy::Neighbor => "neighbor",
            EndedBy::Connection => "connection",
        }
    }
}

/// A report of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SessionEvent {
    /// The state changed.
    State {
        /// The lower bound.
        from: State,
        /// The upper bound.
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
