//! Every text and reason that BGP can report. The core emits events; whoever drives it logs and counts them.

use crate::session::State;
use crate::wire::Notification;
use core::fmt;
use serde::{Deserialize, Serialize};

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
