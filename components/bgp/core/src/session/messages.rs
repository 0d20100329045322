//! The inputs and outputs of a session.

use super::config::ConnectionId;
use super::negotiation::Negotiated;
use crate::event::{ConnectError, DownReason, SessionEvent};
use crate::wire::{Notification, Open};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// An event of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The operator wants the session (events 1 and 4).
    Start,
    /// The session is no longer wanted (event 2), with the Cease to send.
    Stop(Notification),
    /// The session is to be closed and opened again (event 8).
    Reset {
        /// Subcode of the Cease.
        subcode: u8,
        /// A text for the peer's operator (RFC 9003); may be empty.
        text: String,
    },
    /// A connection requested by [`Output::Connect`] is made (event 16).
    Connected(ConnectionId),
    /// The peer made a connection (event 17).
    Accepted(ConnectionId),
    /// A connection could not be made, or is gone (event 18).
    Closed(ConnectionId),
    /// A connection requested by [`Output::Connect`] failed, with the reason (event 18).
    Failed(ConnectionId, ConnectError),
    /// A message arrived.
    Received(ConnectionId, Received),
    /// UPDATEs were sent, which is as good as a KEEPALIVE.
    UpdateSent,
    /// The peer took octets on the connection with routes, or no octets wait there.
    Written,
}

/// A message from the peer, as far as the session cares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Received {
    /// OPEN (events 19 and 20, or 22 if it is unacceptable).
    Open(Open),
    /// KEEPALIVE (event 26).
    Keepalive,
    /// NOTIFICATION (events 24 and 25).
    Notification(Notification),
    /// Good UPDATEs arrived, at least one (event 27).
    Update,
    /// ROUTE-REFRESH; like an UPDATE, good only in Established.
    RouteRefresh,
    /// Octets that end the session, with the NOTIFICATION to send (events 21, 22 and 28).
    Error(Notification),
}

/// An effect requested by a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Make a connection to the peer.
    Connect(ConnectionId),
    /// Close a connection, after the sent octets are written.
    Close(ConnectionId),
    /// Write a whole message.
    Send(ConnectionId, Vec<u8>),
    /// The session is up: routes may flow.
    Up(ConnectionId, Negotiated),
    /// The established session is down: the routes are void.
    Down(DownReason),
    /// An attempt to open the session failed, for a report.
    NotOpened(DownReason),
    /// For the log.
    Event(SessionEvent),
}

/// Messages counted by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MessageCounters {
    /// OPEN.
    pub open: u64,
    /// UPDATE.
    pub update: u64,
    /// NOTIFICATION.
    pub notification: u64,
    /// KEEPALIVE.
    pub keepalive: u64,
    /// ROUTE-REFRESH.
    pub route_refresh: u64,
}
