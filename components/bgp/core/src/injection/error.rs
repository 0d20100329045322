//! Errors of injected traces.

use crate::wire::{HeaderError, Notification};
use core::fmt;
use sluice_mrt::RecordError;

/// The error of a trace, with the place. Reading stops at the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectionError {
    /// The number of the record, from 1 on.
    pub record: u64,
    /// The octets before the record.
    pub offset: u64,
    /// The cause.
    pub cause: InjectionCause,
}

/// The cause of an error in a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InjectionCause {
    /// The record is malformed.
    Record(RecordError),
    /// The BGP message has a wrong header.
    Header(HeaderError),
    /// The BGP message is shorter or longer than stated by the header.
    MessageLength,
    /// A session would end with a NOTIFICATION (RFC 7606).
    Update(Notification),
    /// A route stands before the record with the peers.
    NoPeers,
    /// A route's peer number is missing in the record with the peers.
    Peer(u16),
    /// The attributes of a route do not fit into the length, or have no readable next hop.
    Attributes,
    /// The trace ends in the middle of the record.
    Torn,
}

impl fmt::Display for InjectionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectionCause::Record(error) => error.fmt(f),
            InjectionCause::Header(error) => error.fmt(f),
            InjectionCause::MessageLength => f.write_str("the message is not as long as its header states"),
            InjectionCause::Update(notification) => notification.fmt(f),
            InjectionCause::NoPeers => f.write_str("a route stands before PEER_INDEX_TABLE"),
            InjectionCause::Peer(number) => write!(f, "PEER_INDEX_TABLE has no peer {number}"),
            InjectionCause::Attributes => f.write_str("malformed attributes"),
            InjectionCause::Torn => f.write_str("the trace ends in the middle of the record"),
        }
    }
}

impl fmt::Display for InjectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}, which begins at octet {}: {}", self.record, self.offset, self.cause)
    }
}

impl core::error::Error for InjectionError {}
