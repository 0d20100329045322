//! Forwarding engines: operations, refusals and notices between the core and the engines.
//!
//! An engine has capabilities ([`Capability`]): unicast forwarding (`unicast`), and the host's interfaces and switches. Each
//! operation needs one of them. An [`EngineSet`] drives several engines as one.

mod mending;
mod scope;
mod set;
mod unicast;

pub use mending::{EngineDigests, Mended, Objects, RoutePart};
pub(crate) use mending::{of_group, of_member, of_route};
pub use scope::{AuthorityRoutes, Scope};
pub use set::{Beside, BesideId, EngineSet, ReplayStep, Stage};
pub use unicast::{
    EngineRoute, Member, Members, NextHopId, PREFERENCE, PROTOCOL, ReadError, RouteQuery, RouteReader,
    RouteTarget,
};

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{DigestKey, Family, InterfaceAddress, InterfaceIndex, IpPrefix, Provenance, TableId};

/// A kind of work that an engine can do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Capability {
    /// Unicast routes with their members and groups, and reading them back.
    Unicast,
    /// The host's interfaces, their addresses, and the switches that let the host forward.
    Host,
}

/// An operation. Operations are carried out in order, and one that fails does not stop those after it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EngineOp {
    /// The member `id` is this from now on, whether or not it existed.
    SetMember {
        /// Its number.
        id: NextHopId,
        /// The member.
        member: Member,
    },
    /// The group `id` has these members from now on; all its routes follow.
    SetGroup {
        /// Its number.
        id: NextHopId,
        /// Its members; never empty.
        members: Members,
        /// True if it may be new. Otherwise a group that is not there, and whose routes therefore are not either, is refused as not found.
        create: bool,
    },
    /// The member or group goes: a member from its groups too, and a group, or one without members, with its routes.
    DeleteNextHop {
        /// Its number.
        id: NextHopId,
    },
    /// The prefix has this route.
    SetRoute {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The target of the route; never `Other`.
        target: RouteTarget,
        /// True if a route of ours may stand there, to be replaced. Otherwise any route there is somebody else's, and the operation is
        /// refused.
        replace: bool,
        /// The engines that get the route.
        scope: Scope,
        /// The event that caused it.
        provenance: Provenance,
    },
    /// The prefix has no route of ours.
    DeleteRoute {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The engines that lose the route.
        scope: Scope,
        /// The event that caused it.
        provenance: Provenance,
    },
    /// Routes of a family that are set from now on have this source address for the host's own packets; `None`: no source address.
    SetSource {
        /// The family.
        family: Family,
        /// The source address, which the host has.
        source: Option<IpAddr>,
    },
    /// An interface is configured.
    SetLink {
        /// The interface.
        interface: InterfaceIndex,
        /// True if it is to be up; `None` leaves it.
        up: Option<bool>,
        /// Its largest packet in octets; `None` leaves it.
        mtu: Option<u32>,
    },
    /// An interface gets an address.
    AddAddress {
        /// The interface.
        interface: InterfaceIndex,
        /// The address.
        address: InterfaceAddress,
    },
    /// An interface loses an address.
    DeleteAddress {
        /// The interface.
        interface: InterfaceIndex,
        /// The address.
        address: InterfaceAddress,
    },
    /// The host forwards packets of a family between its interfaces, or does not.
    SetForwarding {
        /// The family.
        family: Family,
        /// True if it forwards.
        enabled: bool,
    },
}

impl EngineOp {
    /// Returns the capability that an engine needs for the operation.
    pub const fn capability(&self) -> Capability {
        match self {
            EngineOp::SetMember { .. }
            | EngineOp::SetGroup { .. }
            | EngineOp::DeleteNextHop { .. }
            | EngineOp::SetRoute { .. }
            | EngineOp::DeleteRoute { .. }
            | EngineOp::SetSource { .. } => Capability::Unicast,
            EngineOp::SetLink { .. }
            | EngineOp::AddAddress { .. }
            | EngineOp::DeleteAddress { .. }
            | EngineOp::SetForwarding { .. } => Capability::Host,
        }
    }

    /// Returns the engines of a set that the operation is for.
    pub const fn scope(&self) -> Scope {
        match self {
            EngineOp::SetRoute { scope, .. } | EngineOp::DeleteRoute { scope, .. } => *scope,
            _ => Scope::All,
        }
    }

    /// Returns true if an engine is as the operation wants although the engine refused the operation with `refusal`: the address is
    /// there, or the object to delete is not.
    pub fn is_satisfied_despite(&self, refusal: &Refusal) -> bool {
        match self {
            EngineOp::DeleteRoute { .. }
            | EngineOp::DeleteNextHop { .. }
            | EngineOp::DeleteAddress { .. } => refusal.kind == RefusalKind::NotFound,
            EngineOp::AddAddress { .. } => refusal.kind == RefusalKind::Exists,
            _ => false,
        }
    }
}

/// The kind of a refusal, which decides on the next step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum RefusalKind {
    /// Somebody else's route, address or object stands there.
    Exists,
    /// The thing to delete does not exist.
    NotFound,
    /// The engine has no room or no time now.
    Resources,
    /// Anything else: it is not possible as things are.
    Invalid,
}

impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusalKind::Exists => "exists",
            RefusalKind::NotFound => "not-found",
            RefusalKind::Resources => "resources",
            RefusalKind::Invalid => "invalid",
        })
    }
}

/// The reason why an operation was refused.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// The engine's own words.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A refused operation, by its place among those that were handed over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Its place.
    pub index: usize,
    /// The refusal.
    pub refusal: Refusal,
}

/// An interface without its addresses, as engines report it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// Its number.
    pub index: InterfaceIndex,
    /// Its name.
    pub name: String,
    /// True if it is meant to be up.
    pub admin_up: bool,
    /// True if it can carry packets now.
    pub running: bool,
    /// True if it is the loopback.
    pub loopback: bool,
    /// True if it has just two ends.
    pub point_to_point: bool,
    /// True if it takes multicast.
    pub multicast: bool,
    /// Largest packet in octets.
    pub mtu: u32,
    /// Link-layer address.
    pub mac: Vec<u8>,
}

/// A notice of an engine: a change by others, or, in a snapshot, an object that the engine has. The engine's answers to its own orders are
/// not among them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// An interface is like this.
    LinkIs(Link),
    /// An interface is gone.
    LinkGone(InterfaceIndex),
    /// An interface has this address; whether a router of ours gave it to it, in this life or an earlier one.
    AddressIs(InterfaceIndex, InterfaceAddress, bool),
    /// An interface lost this address.
    AddressGone(InterfaceIndex, InterfaceAddress),
    /// A member that carries our mark is this.
    MemberIs(NextHopId, Member),
    /// A group that carries our mark has these members.
    GroupIs(NextHopId, Members),
    /// An object with a number of the core's range carries another program's mark: replaced, or taken, by that program.
    NextHopForeign(NextHopId),
    /// The member or group is gone.
    NextHopGone(NextHopId),
    /// The prefix has a route at our preference.
    RouteIs {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The target; `None` for a route of another program.
        target: Option<RouteTarget>,
        /// True if it took the place of one that was there.
        replaced: bool,
    },
    /// A route at our preference is gone, ours or somebody else's.
    RouteGone {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
    },
    /// A route of the kernel itself or of another program exists whose preference is better than [`PREFERENCE`].
    OtherRouteIs(OtherRoute),
    /// Such a route is gone, or as many of its next hops as the notice has.
    OtherRouteGone(OtherRoute),
    /// The host forwards packets of a family between its interfaces, or does not.
    ForwardingIs(Family, bool),
    /// The beginning of a snapshot, up to [`Notice::SnapshotEnd`]: all objects of the engine, of routes and next hops those with our mark.
    SnapshotBegin,
    /// The end of a snapshot.
    SnapshotEnd,
    /// Notices were lost.
    Overrun,
}

/// A route of the kernel itself or of another program that precedes the core's route of the same prefix and table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OtherRoute {
    /// The table.
    pub table: TableId,
    /// The prefix.
    pub prefix: IpPrefix,
    /// The preference among routes of one prefix and table; lower is better.
    pub metric: u32,
    /// The number of the program or protocol (`rtm_protocol`).
    pub protocol: u8,
    /// The interface of its only next hop.
    pub interface: Option<InterfaceIndex>,
    /// The number of next hops: an IPv6 route may lose some of them.
    pub next_hops: u32,
}

/// A forwarding engine.
pub trait Engine {
    /// Returns the engine's name, for people.
    fn name(&self) -> &str;

    /// Returns the engine's capabilities. They never change.
    fn capabilities(&self) -> &[Capability];

    /// Carries operations out, in order. Refused operations are added to `refused`, in order; all others are done when the call
    /// returns. The routes of one call are few enough that the caller may wait. An operation beyond the engine's capabilities is
    /// refused as invalid.
    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>);

    /// Adds pending notices to `notices`, up to a bounded number. Returns true if there may be more.
    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool;

    /// Requests a snapshot among the notices. A new request starts a snapshot that is under way afresh.
    fn request_snapshot(&mut self);

    /// Returns a reader of the unicast routes that the engine holds; `None` without [`Capability::Unicast`], and for
    /// an engine beside the authority that cannot be read on another thread, as a reader may be.
    fn reader(&self) -> Option<Box<dyn RouteReader>>;

    /// Informs an engine that joined beside an authority: the authority's objects have been replayed to the engine.
    fn replayed(&mut self) {}

    /// Begins to keep digests by this key. Called before the engine has an object.
    fn keep_digests(&mut self, _key: DigestKey) {}

    /// Returns the digests of the engine's objects; `None` if the engine keeps none.
    fn digests(&self) -> Option<EngineDigests> {
        None
    }

    /// Makes the engine's routes those of `part` in the range of `part`. Returns what differed.
    fn mend_routes(&mut self, _part: &RoutePart) -> Mended {
        Mended::default()
    }

    /// Removes members and groups that are not among `wanted`. Returns what was surplus.
    fn mend_objects(&mut self, _wanted: &Objects) -> Mended {
        Mended::default()
    }

    /// Returns the set, if the engine is a set of engines.
    fn as_set(&mut self) -> Option<&mut EngineSet> {
        None
    }
}
