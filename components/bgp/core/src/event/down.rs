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
    /// The operator stopped it.
    Stopped,
    /// The local side ended the session with a NOTIFICATION (or would have, had OPEN been sent).
    Sent(Notification),
    /// The peer ended it with a NOTIFICATION.
    Received(Notification),
    /// The connection was closed without a word.
    ConnectionLost,
    /// No connection could be made.
    ConnectionFailed(ConnectError),
    /// The neighbor's OPEN was refused because the neighbor is of another AS than configured.
    WrongPeerAs {
        /// The AS in its OPEN.
        received: Asn,
        /// The AS in this router's configuration; 0 for a dynamic neighbor whose listen range allows several.
        configured: Asn,
    },
}

/// The cause of a connection that could not be made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectError {
    /// The neighbor's system refused it: nobody listens there.
    Refused,
    /// There is no route to the neighbor, or it is not on its link.
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
    /// Returns true if something was wrong. It was not if the connection was merely closed, or with a Cease by either side: RFC 4271,
    /// section 6.7, has that for the absence of any fatal error.
    pub fn is_error(&self) -> bool {
        match self {
            DownReason::Sent(n) | DownReason::Received(n) => n.code != code::CEASE,
            DownReason::Stopped | DownReason::ConnectionLost => false,
            DownReason::ConnectionFailed(_) | DownReason::WrongPeerAs { .. } => true,
        }
    }

    /// Returns the side that ended a session for this reason.
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

    /// Returns true if one of two connections was given up for the other (RFC 4271, section 6.8): no evidence about the session.
    pub(crate) fn is_collision(&self) -> bool {
        matches!(self, DownReason::Sent(n) | DownReason::Received(n) if n.code == code::CEASE && n.subcode == cease::COLLISION)
    }

    /// Returns true if this router ended the session with a Cease, or stopped it: an operator or a commit wanted that.
    pub(crate) fn is_own_cease(&self) -> bool {
        matches!(self, DownReason::Sent(n) if n.code == code::CEASE) || *self == DownReason::Stopped
    }

    /// Returns true if the reason names what must be put right before a session can come up. The end of another connection without
    /// a reason, which often follows, does not replace it for a while.
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

/// A failed attempt to open a session, with the statements that make packets disappear where both sides do not have them.
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
    /// Returns the causes that look like a neighbor without an answer, in parentheses; empty if there are none.
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
    /// An operator of this router, by a command.
    Operator,
    /// A commit at this router.
    Configuration,
    /// This router, for an error, an expired timer or a bound.
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
