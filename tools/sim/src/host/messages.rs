//! The words of the XRL interfaces of the RIB and the FEA, as far as processes of a router use them.

use sluice_base::interest::InterestAnswer;
use sluice_base::{
    AnyPrefix, FibBatch, InterfaceEvent, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, RouteBatch, TableId,
    XidPrefix,
};
use sluice_clients::Request;
use sluice_rib::OriginSettings;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Calls of `rib.v1.Rib`.
#[derive(Debug)]
pub enum ToRib {
    /// Registers an origin of the caller.
    RegisterOrigin(OriginSettings),
    /// Announces and withdraws IPv4 routes of the caller's origin.
    UpdateIpv4(RouteBatch<Ipv4Prefix>),
    /// Announces and withdraws IPv6 routes of the caller's origin.
    UpdateIpv6(RouteBatch<Ipv6Prefix>),
    /// Announces and withdraws routes of XIDs of the caller's origin.
    UpdateXids(RouteBatch<XidPrefix>),
    /// Reports whether packets can be sent through a gateway of the caller's routes.
    GatewayUsable(IpAddr, bool),
    /// Ends the refresh of the caller's origin.
    EndOfRefresh,
    /// Deregisters and registers interest in next hops.
    Interest(Request),
}

/// Replies of the RIB, and its calls to clients (`rib.v1.InterestHolder`).
#[derive(Debug)]
pub enum FromRib {
    /// The origin is registered.
    Registered,
    /// A batch of routes is taken.
    RoutesTaken,
    /// Answers to an interest request, in the order of its addresses.
    Answers(Vec<Answer>),
    /// Prefixes of invalidated answers.
    InterestInvalid(Vec<AnyPrefix>),
}

/// An answer about an address of any family.
#[derive(Clone, Debug)]
pub enum Answer {
    /// For an IPv4 address.
    Ipv4(InterestAnswer<Ipv4Prefix>),
    /// For an IPv6 address.
    Ipv6(InterestAnswer<Ipv6Prefix>),
    /// For an XID.
    Xid(InterestAnswer<XidPrefix>),
}

/// Calls of `fea.v1.Fib` and `fea.v1.Interfaces`.
#[derive(Debug)]
pub enum ToFea {
    /// Makes the caller the owner of the forwarding tables.
    SetOwner,
    /// Begins a resync of these tables.
    BeginResync(BTreeSet<TableId>),
    /// Subscribes the caller to interfaces.
    Subscribe,
    /// Installs and removes IPv4 routes of a table.
    UpdateIpv4(TableId, FibBatch<Ipv4Prefix>),
    /// Installs and removes IPv6 routes of a table.
    UpdateIpv6(TableId, FibBatch<Ipv6Prefix>),
    /// Ends the resync of these tables.
    EndResync(BTreeSet<TableId>),
}

/// Replies of the FEA, and its calls to clients (`fea.v1.FibOwner`, `fea.v1.InterfaceObserver`).
#[derive(Debug)]
pub enum FromFea {
    /// Confirms ownership of the forwarding tables, with the engine's known tables.
    Owned(BTreeSet<TableId>),
    /// Changes of interfaces.
    Interfaces(Vec<InterfaceEvent>),
    /// A batch of routes is taken.
    FibTaken,
    /// The routes of earlier lives are swept.
    Resynced,
    /// Routes that the kernel refused, with its reasons.
    RoutesRejected(TableId, Vec<(IpPrefix, Provenance, String)>),
}
