//! The inputs and outputs of a router's BGP on one thread.

use crate::endpoints::Endpoints;
use crate::event::Event;
use crate::family::FamilyIndex;
use crate::policy::OriginData;
use crate::session::ConnectionId;
use crate::shard::Interest;
use crate::speaker::config::Config;
use crate::speaker::control::handover::SpeakerState;
use crate::speaker::rib::{PresenceQuestion, Redistributed};
use crate::table::TablePart;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::interest::InterestAnswer;
use sluice_base::{AnyPrefix, Ipv4Prefix, Ipv6Prefix, XidPrefix};

/// An input of a router's BGP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// A new configuration.
    Configure(Config),
    /// A connection that was asked for is there.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// A neighbor connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// Octets came on a connection.
    Received(IpAddr, ConnectionId, Vec<u8>),
    /// The RIB's answer: how IPv4 next hops are reached.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB's answer: how IPv6 next hops are reached.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// The RIB's answer: how next hops that are XIDs are reached.
    AnswerXid(InterestAnswer<XidPrefix>),
    /// An answer of the RIB holds no longer.
    Invalid(AnyPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The RIB's answer: whether it has routes.
    Presence(Vec<(PresenceQuestion, bool)>),
    /// The neighbors with a session when the process before ended.
    EstablishedBefore(BTreeSet<IpAddr>),
    /// Another epoch of validated ROA payloads.
    Origins(OriginData),
    /// Selected routes of redistributed origins changed at the RIB.
    Redistributed(Vec<Redistributed>),
    /// The operator wants a session closed and opened again, with a message to the other operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator requests a route refresh from a neighbor (RFC 2918).
    Refresh(IpAddr),
    /// The operator wants the history of a prefix, or all histories, forgotten by flap damping.
    ClearDamping(Option<AnyPrefix>),
}

/// An effect requested by a router's BGP.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Connect to the neighbor by its configuration.
    Connect(IpAddr, ConnectionId),
    /// Close a connection after writing queued messages.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind what was written before.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// UPDATEs wait: call [`Speaker::fill`] when the connection has room, until no more UPDATEs are left.
    Transmit(IpAddr, ConnectionId),
    /// Routes wait for the RIB: call [`Speaker::rib_batch`] until no more routes are left.
    RibReady(FamilyIndex),
    /// Notify the RIB whether packets can be sent through a neighbor's address.
    GatewayUsable(IpAddr, bool),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// Ask the RIB.
    InterestXid(Interest<XidPrefix>),
    /// Ask the RIB whether it has routes, and to report changes.
    WatchPresence(Vec<PresenceQuestion>),
    /// Take such questions back.
    UnwatchPresence(Vec<PresenceQuestion>),
    /// For the log.
    Event(Event),
}

/// A whole router's state: to be exported when every peer was sent everything.
#[derive(Debug, Serialize, Deserialize)]
pub struct RouterState {
    /// The neighbors, and the established sessions.
    pub control: SpeakerState,
    /// The paths.
    pub parts: Vec<TablePart>,
    /// The beginnings of incomplete messages.
    pub pending: Vec<(IpAddr, ConnectionId, Vec<u8>)>,
}
