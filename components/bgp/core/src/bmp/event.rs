//! Reports about stations.

use alloc::string::String;
use core::fmt;

/// The end of a connection to a station, or of an attempt to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StationFailure {
    /// No connection could be made: the system's reason.
    Connect(String),
    /// The station closed the connection, or the connection broke.
    Closed,
    /// The station read so slowly that changes were dropped.
    Behind,
}

impl fmt::Display for StationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StationFailure::Connect(error) => write!(f, "no connection: {error}"),
            StationFailure::Closed => f.write_str("the station closed the connection"),
            StationFailure::Behind => {
                f.write_str("the station reads too slowly; it is sent all routes again on a new connection")
            }
        }
    }
}

/// An event of a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StationEvent {
    /// A connection is made.
    Connected,
    /// The station was sent all routes from before, the number of messages.
    Synchronized(u64),
    /// A connection ended, or an attempt failed.
    Lost(StationFailure),
}

impl StationEvent {
    /// Returns the stable name (docs/events.md).
    pub const fn id(&self) -> &'static str {
        match self {
            StationEvent::Connected => "bgp.bmp.connected",
            StationEvent::Synchronized(_) => "bgp.bmp.synchronized",
            StationEvent::Lost(_) => "bgp.bmp.lost",
        }
    }
}

impl fmt::Display for StationEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StationEvent::Connected => f.write_str("connected to a monitoring station"),
            StationEvent::Synchronized(messages) => {
                write!(f, "a monitoring station was sent all routes, in {messages} messages")
            }
            StationEvent::Lost(failure) => write!(f, "monitoring station: {failure}"),
        }
    }
}
