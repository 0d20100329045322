//! The errors that a check of the settings finds.

use crate::shard::DampingRules;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};
use core::net::IpAddr;
use sluice_base::{Asn, IpPrefix};
use sluice_policy::{NameError, PolicyError};

/// The owner of a neighbor's statements: a neighbor, or a listen range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A neighbor.
    Neighbor(IpAddr),
    /// A listen range.
    Range(IpPrefix),
}

impl Display for Owner {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Neighbor(address) => write!(f, "neighbor {address}"),
            Owner::Range(prefix) => write!(f, "listen-range {prefix}"),
        }
    }
}

/// A contradiction between values of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingsError {
    /// The BGP Identifier is 0.0.0.0 (RFC 6286, section 2.1).
    NoRouterId,
    /// The local address of a neighbor is of the other address family.
    LocalAddress(Owner),
    /// A neighbor is this router itself.
    Itself(Owner),
    /// An internal neighbor has a statement for external neighbors, or an external neighbor a statement for internal neighbors:
    /// the statement, and true for a statement for external neighbors.
    Side(Owner, &'static str, bool),
    /// The cluster is 0.0.0.0.
    NoCluster,
    /// A neighbor offers no address family.
    NoFamily(Owner),
    /// A neighbor exchanges XIDs, and no XID of this router is configured as the next hop.
    NoXidNextHop(Owner),
    /// The SendHoldTime of a neighbor is not above its hold time (RFC 9687, section 6), in seconds.
    SendHoldTime(Owner, u16),
    /// The local AS for a neighbor equals the neighbor's AS, or the router's.
    LocalAs(Owner, Asn),
    /// Neither a neighbor nor the neighbor's group has an AS.
    NoAs(Owner),
    /// A neighbor names an unknown group; the text names the known groups.
    NoGroup(Owner, String),
    /// A prefix is to be originated in any case, and under a condition.
    TwoNetworks(IpPrefix),
    /// A neighbor or a group names an unknown prefix list to send; the text names the known lists.
    NoList(String, String),
    /// Two listen ranges are of this prefix.
    TwoRanges(IpPrefix),
    /// A listen range allows the router's AS and further AS numbers.
    MixedAs(IpPrefix, Asn),
    /// A neighbor or a listen range without a password is inside a listen range with a password.
    NoPassword(Owner, IpPrefix),
    /// The reuse threshold of flap damping is not below the suppress threshold. The text is the statement with the parameters.
    ReuseThreshold(String, DampingRules),
    /// Penalties cannot exceed the suppress threshold of flap damping: their ceiling, which is given, is no higher. The text is the
    /// statement with the parameters.
    DampingCeiling(String, DampingRules, u32),
    /// Two aggregates are of this prefix.
    TwoAggregates(IpPrefix),
    /// The local address of a monitoring station is of the other address family.
    StationAddress(String),
    /// A policy is not valid.
    Policy(PolicyError),
    /// A statement names an unknown policy, or a policy for use by policies only: the statement, and the reason.
    NoPolicy(String, NameError),
    /// A policy for routes from a neighbor makes this router the next hop: the statement, and the policy.
    OwnNextHop(String, String),
}

/// The direction of routes between this router and a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the neighbor.
    Import,
    /// To the neighbor.
    Export,
}

impl Direction {
    /// Returns the name of the statement with the policies.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Import => "import",
            Direction::Export => "export",
        }
    }
}

impl Display for SettingsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::NoRouterId => f.write_str("router-id: 0.0.0.0 identifies no router"),
            SettingsError::LocalAddress(owner) => {
                write!(f, "{owner}: local-address is of the other family")
            }
            SettingsError::Itself(owner) => {
                write!(f, "{owner}: expected the address of another router: this router has it itself")
            }
            SettingsError::Side(owner, statement, is_for_external) => {
                let side = if *is_for_external { "external" } else { "internal" };
                write!(f, "{owner}: {statement} is for {side} neighbors")
            }
            SettingsError::NoCluster => f.write_str("cluster-id: 0.0.0.0 identifies no cluster"),
            SettingsError::NoFamily(owner) => write!(f, "{owner}: no family is enabled"),
            SettingsError::NoXidNextHop(owner) => write!(
                f,
                "{owner}: xid is enabled without a next hop; set `xid next-hop XID` here or in the neighbor's group, an XID of this router"
            ),
            SettingsError::SendHoldTime(owner, hold_time) => {
                write!(f, "{owner}: send-hold-time must be more than hold-time ({hold_time})")
            }
            SettingsError::TwoNetworks(prefix) => write!(
                f,
                "network-while-present: `{prefix}` is in `network` too, which originates it in any case; delete one of the two"
            ),
            SettingsError::NoList(owner, reason) => write!(f, "{owner} prefix-filter-send: {reason}"),
            SettingsError::TwoRanges(prefix) => {
                write!(
                    f,
                    "listen-range {prefix}: two statements are about this prefix; delete one of the two"
                )
            }
            SettingsError::MixedAs(prefix, asn) => write!(
                f,
                "listen-range {prefix}: peer-as has this router's AS {asn} and others; internal neighbors need a range of their own, with `peer-as {asn}` alone"
            ),
            SettingsError::NoPassword(owner, range) => write!(
                f,
                "{owner}: expected `password` here or in the group, because the kernel asks for the password of the listen range {range}, which has the address too"
            ),
            SettingsError::ReuseThreshold(statement, DampingRules { reuse, suppress, .. }) => {
                write!(f, "{statement} reuse: {reuse} must be less than suppress ({suppress})")
            }
            SettingsError::DampingCeiling(statement, DampingRules { suppress, .. }, ceiling) => write!(
                f,
                "{statement} suppress: no penalty exceeds {ceiling}, so that none exceeds {suppress}; the ceiling follows from reuse, half-life and max-suppress-time"
            ),
            SettingsError::TwoAggregates(prefix) => {
                write!(f, "aggregate {prefix}: two statements are about this prefix; delete one of the two")
            }
            SettingsError::StationAddress(name) => {
                write!(f, "bmp station {name}: local-address is of the other family")
            }
            SettingsError::Policy(error) => error.fmt(f),
            SettingsError::LocalAs(owner, asn) => write!(
                f,
                "{owner}: local-as number {asn} must be neither this router's AS nor the neighbor's"
            ),
            SettingsError::NoAs(owner) => {
                write!(f, "{owner}: expected `peer-as` here or in the neighbor's group")
            }
            SettingsError::NoGroup(owner, reason) => write!(f, "{owner} group: {reason}"),
            SettingsError::NoPolicy(statement, reason) => write!(f, "{statement}: {reason}"),
            SettingsError::OwnNextHop(statement, policy) => write!(
                f,
                "{statement}: `{policy}` has the action `next-hop self`, which is for routes to a neighbor: no route leads from this router to itself; use `{policy}` in `export`, or `next-hop-self` of the neighbors that are told the routes"
            ),
        }
    }
}

impl core::error::Error for SettingsError {}
