//! Unicast forwarding: the objects of an engine, and reading routes back.
//!
//! An engine holds *members* (a way to forward each), *groups* of members, and routes that point to a group. A change
//! of a group moves every route of the group at once. Members and groups are the kernel's next-hop objects and share one number space.

use alloc::string::String;
use core::fmt;
use core::net::IpAddr;
use core::ops::ControlFlow;
use serde::{Deserialize, Serialize};
use sluice_base::{Family, Forwarding, InterfaceIndex, IpPrefix, NextHop, TableId};
use smallvec::SmallVec;

/// The mark of Sluice's routes, next hops and addresses (`rtm_protocol`, `nh_protocol`, `IFA_PROTO`): a number unknown to
/// iproute2 and FRR.
pub const PROTOCOL: u8 = 83;

/// The preference of Sluice's routes among several programs' routes of a prefix (`RTA_PRIORITY`); FRR's value.
pub const PREFERENCE: u32 = 20;

/// An engine's number for a member or a group. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NextHopId(pub u32);

impl NextHopId {
    /// The core's first number for next-hop objects: far above the numbers of foreign programs, which count from 1.
    pub(crate) const FIRST: u32 = 0x534c_0000;

    /// The number after the last. Numbers are reused only after the whole range was used.
    pub(crate) const END: u32 = 0x7fff_ffff;

    /// Returns true for a number of the core's range: an object with such a number concerns the core, with any mark.
    pub const fn is_in_own_range(self) -> bool {
        self.0 >= Self::FIRST && self.0 < Self::END
    }
}

impl fmt::Display for NextHopId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A way to forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Member {
    /// To a neighbor on an interface.
    Via {
        /// The neighbor; possibly of a family different from the routes' (RFC 8950).
        gateway: IpAddr,
        /// The neighbor's interface.
        interface: InterfaceIndex,
    },
    /// Straight out of an interface.
    Direct {
        /// The family of the routes.
        family: Family,
        /// The interface.
        interface: InterfaceIndex,
    },
    /// Nowhere, in silence.
    Blackhole {
        /// The family of the routes.
        family: Family,
    },
}

impl Member {
    /// The interface, if known.
    pub const fn interface(&self) -> Option<InterfaceIndex> {
        match self {
            Member::Via { interface, .. } | Member::Direct { interface, .. } => Some(*interface),
            Member::Blackhole { .. } => None,
        }
    }

    /// Returns the member as a next hop with the share `weight`; `None` for a dropping member.
    pub fn next_hop(&self, weight: u8) -> Option<NextHop> {
        let hop = match *self {
            Member::Via { gateway, interface } => NextHop::via_on(gateway, interface),
            Member::Direct { interface, .. } => NextHop::on(interface),
            Member::Blackhole { .. } => return None,
        };
        Some(NextHop { weight, ..hop })
    }
}

/// The members of a group with the weights (1 to 255).
pub type Members = SmallVec<[(NextHopId, u8); 2]>;

/// The target of a route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RouteTarget {
    /// Packets are forwarded by a group.
    Group(NextHopId),
    /// Packets are answered: the destination is unreachable.
    Unreachable,
    /// A target that is found only, never requested.
    Other,
}

/// A selection of an engine's routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteQuery {
    /// The routes' family.
    pub family: Family,
    /// The routes' table.
    pub table: TableId,
    /// Selects Sluice's routes only.
    pub ours_only: bool,
    /// Selects the routes of a prefix only.
    pub exact: Option<IpPrefix>,
}

impl RouteQuery {
    /// Returns true if the query selects `route`.
    pub fn selects(&self, route: &EngineRoute) -> bool {
        route.table == self.table
            && route.prefix.family() == self.family
            && (route.is_ours() || !self.ours_only)
            && self.exact.is_none_or(|exact| exact == route.prefix)
    }
}

/// A route in an engine, of any program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineRoute {
    /// The table.
    pub table: TableId,
    /// The prefix.
    pub prefix: IpPrefix,
    /// The mark of the route's program (`rtm_protocol`).
    pub protocol: u8,
    /// The preference among routes of a prefix; lower is better.
    pub metric: u32,
    /// The treatment of packets.
    pub forwarding: Forwarding,
    /// The source address of the host's own packets, if any.
    pub source: Option<IpAddr>,
}

impl EngineRoute {
    /// Returns true for a route of Sluice's.
    pub const fn is_ours(&self) -> bool {
        self.protocol == PROTOCOL
    }
}

/// The reason why routes could not be read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// The engine did not answer in time.
    Silent,
    /// The engine refused, with a reason.
    Refused(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Silent => f.write_str("the engine does not answer"),
            ReadError::Refused(reason) => f.write_str(reason),
        }
    }
}

impl core::error::Error for ReadError {}

/// Reads an engine's own routes: the engine's table and not the core's copy.
pub trait RouteReader: Send {
    /// Passes each route selected by `query` to `each`, in the engine's order, until `each` breaks. Blocks while reading.
    fn dump(
        &mut self,
        query: &RouteQuery,
        each: &mut dyn FnMut(EngineRoute) -> ControlFlow<()>,
    ) -> Result<(), ReadError>;

    /// Returns the route by which the engine forwards packets to `addr`.
    fn lookup(&mut self, addr: IpAddr) -> Result<Option<EngineRoute>, ReadError>;
}
