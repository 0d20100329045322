//! MRT traces (RFC 6396): the files of route collectors, read and written.
//!
//! [`records`] takes a trace apart: BGP messages and changes of state with the session (section 4.4), tables with the peers
//! (section 4.3). [`messages`] returns only the messages. Reading stops at the first incomplete record, after the records before.
//! [`first_record`] takes one record at a time, and reports malformed records. [`Writer`] makes traces.
#![no_std]

extern crate alloc;

mod read;
mod table;
mod write;

pub use read::{
    FirstRecord, LONGEST_RECORD, Message, Record, RecordError, StateChange, first_record, first_record_len,
    messages, records,
};
pub use table::{Entry, Peer, PeerIndex, Rib};
pub use write::{MessageForm, Unwritable, Writer};

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::Asn;

/// MRT types (RFC 6396, section 4).
mod kind {
    pub const TABLE_DUMP_V2: u16 = 13;
    pub const BGP4MP: u16 = 16;
    pub const BGP4MP_ET: u16 = 17;

    /// Returns true for the types that IANA's registry of MRT has, deprecated types included.
    pub(crate) const fn is_assigned(kind: u16) -> bool {
        matches!(kind, 0..=13 | 16 | 17 | 32 | 33 | 48 | 49 | 64)
    }
}

/// Subtypes of BGP4MP and BGP4MP_ET (RFC 6396, section 4.4; RFC 8050, section 3).
mod bgp4mp {
    pub(crate) const STATE_CHANGE: u16 = 0;
    pub const MESSAGE: u16 = 1;
    pub(crate) const MESSAGE_AS4: u16 = 4;
    pub(crate) const STATE_CHANGE_AS4: u16 = 5;
    pub(crate) const MESSAGE_LOCAL: u16 = 6;
    pub(crate) const MESSAGE_AS4_LOCAL: u16 = 7;
    pub(crate) const MESSAGE_ADDPATH: u16 = 8;
    pub(crate) const MESSAGE_AS4_ADDPATH: u16 = 9;
    pub(crate) const MESSAGE_LOCAL_ADDPATH: u16 = 10;
    pub(crate) const MESSAGE_AS4_LOCAL_ADDPATH: u16 = 11;
}

/// Subtypes of TABLE_DUMP_V2 (RFC 6396, section 4.3; RFC 8050, section 4).
mod table_dump {
    pub const PEER_INDEX_TABLE: u16 = 1;
    pub(crate) const RIB_IPV4_UNICAST: u16 = 2;
    pub(crate) const RIB_IPV6_UNICAST: u16 = 4;
    pub(crate) const RIB_IPV4_UNICAST_ADDPATH: u16 = 8;
    pub(crate) const RIB_IPV6_UNICAST_ADDPATH: u16 = 10;
}

/// Both ends of a session, of one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// The session runs over IPv4.
    V4 {
        /// The peer's end.
        peer: Ipv4Addr,
        /// The end of the trace's writer.
        local: Ipv4Addr,
    },
    /// The session runs over IPv6.
    V6 {
        /// The peer's end.
        peer: Ipv6Addr,
        /// The end of the trace's writer.
        local: Ipv6Addr,
    },
}

impl Addresses {
    /// Makes both ends; `None` for different families.
    pub const fn new(peer: IpAddr, local: IpAddr) -> Option<Self> {
        match (peer, local) {
            (IpAddr::V4(peer), IpAddr::V4(local)) => Some(Addresses::V4 { peer, local }),
            (IpAddr::V6(peer), IpAddr::V6(local)) => Some(Addresses::V6 { peer, local }),
            _ => None,
        }
    }

    /// The peer's end.
    pub const fn peer(&self) -> IpAddr {
        match self {
            Addresses::V4 { peer, .. } => IpAddr::V4(*peer),
            Addresses::V6 { peer, .. } => IpAddr::V6(*peer),
        }
    }

    /// Returns the end of the trace's writer.
    pub const fn local(&self) -> IpAddr {
        match self {
            Addresses::V4 { local, .. } => IpAddr::V4(*local),
            Addresses::V6 { local, .. } => IpAddr::V6(*local),
        }
    }
}

/// A BGP session in records (RFC 6396, section 4.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// The peer's AS.
    pub peer_as: Asn,
    /// The AS of the trace's writer.
    pub local_as: Asn,
    /// The interface's number; 0 if unknown.
    pub interface: u16,
    /// Both ends.
    pub addresses: Addresses,
}

/// A state of the BGP state machine, with the number in traces (RFC 6396, section 4.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum State {
    /// No connection is wanted.
    Idle = 1,
    /// A connection is being made.
    Connect = 2,
    /// A connection is awaited.
    Active = 3,
    /// OPEN was sent.
    OpenSent = 4,
    /// OPEN was received.
    OpenConfirm = 5,
    /// Routes are exchanged.
    Established = 6,
}

impl State {
    /// The states, by number.
    pub const ALL: [State; 6] =
        [State::Idle, State::Connect, State::Active, State::OpenSent, State::OpenConfirm, State::Established];

    fn from_number(number: u32) -> Option<Self> {
        State::ALL.into_iter().find(|s| *s as u32 == number)
    }
}
