//! Forwarding engines: operations, refusals and notices between the core and the engines.
//!
//! An engine has capabilities ([`Capability`]): unicast forwarding (`unicast`), and the host's interfaces and switches. Each
//! operation needs a capability. An [`EngineSet`] drives several engines together.

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

/// A kind of work of an engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Capability {
    /// Unicast routes with members and groups, and reading them back.
    Unicast,
    /// The host's interfaces, the addresses, and the switches for forwarding.
    Host,
}

/// An operation. Operations are carried out in order; later operations follow after a failed one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EngineOp {
    /// Writes the member `id`, new or not.
    SetMember {
        /// The number.
        id: NextHopId,
        /// The member.
        member: Member,
    },
    /// Writes the group `id` with these members; the group's routes follow.
    SetGroup {
        /// The number.
        id: NextHopId,
        /// The members; never empty.
        members: Members,
        /// True if the group may be new. Otherwise an absent group, which has no routes in the engine either, is refused as not found.
        create: bool,
    },
    /// Removes the member or group: a member from the groups too; a group, or a group left without members, with the routes.
    DeleteNextHop {
        /// The number.
        id: NextHopId,
    },
    /// Writes the route of a prefix.
    SetRoute {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The target of the route; never `Other`.
        target: RouteTarget,
        /// True if a route of Sluice's may stand there, to be replaced. Otherwise a present route is foreign, and the operation is
        /// refused.
        replace: bool,
        /// The engines of the route.
        scope: Scope,
        /// The cause.
        provenance: Provenance,
    },
    /// The prefix has no route of ours.
    DeleteRoute {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The engines of the route.
        scope: Scope,
        /// The cause.
        provenance: Provenance,
    },
    /// Sets the source address, for the host's own packets, of routes written later; `None`: no source address.
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
        /// True for up; `None` leaves the state.
        up: Option<bool>,
        /// The largest packet in octets; `None` leaves the size.
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
    /// Switches the host's forwarding of a family between interfaces.
    SetForwarding {
        /// The family.
        family: Family,
        /// True for on.
        enabled: bool,
    },
}

impl EngineOp {
    /// Returns the capability needed for the operation.
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

    /// Returns the operation's engines of a set.
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
    /// A foreign route, address or object stands there.
    Exists,
    /// The thing to delete does not exist.
    NotFound,
    /// The engine has no room or no time now.
    Resources,
    /// Any further reason: not possible at present.
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

/// A refused operation, by the place in the batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The place.
    pub index: usize,
    /// The refusal.
    pub refusal: Refusal,
}

/// An interface without its addresses, in the form of engines' reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The number.
    pub index: InterfaceIndex,
    /// The name.
    pub name: String,
    /// True if set up.
    pub admin_up: bool,
    /// True if packets can pass now.
    pub running: bool,
    /// True for the loopback.
    pub loopback: bool,
    /// True for a link of two ends.
    pub point_to_point: bool,
    /// True if multicast is supported.
    pub multicast: bool,
    /// Largest packet in octets.
    pub mtu: u32,
    /// Link-layer address.
    pub mac: Vec<u8>,
}

/// A notice of an engine: a foreign change, or, in a snapshot, an object of the engine. The results of the core's own operations are no
/// notices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// The present state of an interface.
    LinkIs(Link),
    /// An interface is gone.
    LinkGone(InterfaceIndex),
    /// An interface has an address; true if Sluice set the address, in the present process or an earlier one.
    AddressIs(InterfaceIndex, InterfaceAddress, bool),
    /// An interface lost an address.
    AddressGone(InterfaceIndex, InterfaceAddress),
    /// The present state of a member with Sluice's mark.
    MemberIs(NextHopId, Member),
    /// The present members of a group with Sluice's mark.
    GroupIs(NextHopId, Members),
    /// An object with a number of the core's range carries a foreign mark: replaced or created by the foreign program.
    NextHopForeign(NextHopId),
    /// The member or group is gone.
    NextHopGone(NextHopId),
    /// The prefix has a route at our preference.
    RouteIs {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
        /// The target; `None` for a foreign route.
        target: Option<RouteTarget>,
        /// True if the route replaced a former one.
        replaced: bool,
    },
    /// A route at Sluice's preference is gone, own or foreign.
    RouteGone {
        /// The table.
        table: TableId,
        /// The prefix.
        prefix: IpPrefix,
    },
    /// A route of the kernel itself or of a foreign program exists with a better preference than [`PREFERENCE`].
    OtherRouteIs(OtherRoute),
    /// Such a route is gone, or as many next hops as in the notice.
    OtherRouteGone(OtherRoute),
    /// The present state of the host's forwarding of a family.
    ForwardingIs(Family, bool),
    /// The beginning of a snapshot, up to [`Notice::SnapshotEnd`]: every object of the engine; of routes and next hops only Sluice's.
    SnapshotBegin,
    /// The end of a snapshot.
    SnapshotEnd,
    /// Notices were lost.
    Overrun,
}

/// A route of the kernel itself or of a foreign program before the core's route of the same prefix and table.
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
    /// The interface of the only next hop.
    pub interface: Option<InterfaceIndex>,
    /// The number of next hops: an IPv6 route may lose a part.
    pub next_hops: u32,
}

/// A forwarding engine.
pub trait Engine {
    /// Returns the engine's name, for people.
    fn name(&self) -> &str;

    /// Returns the engine's capabilities. Constant.
    fn capabilities(&self) -> &[Capability];

    /// Carries operations out, in order. Refused operations are added to `refused`, in order; the rest is done when the call
    /// returns. A call has few enough routes for the caller to wait. An operation beyond the engine's capabilities is
    /// refused as invalid.
    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>);

    /// Adds pending notices to `notices`, up to a bounded number. Returns true if there may be more.
    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool;

    /// Requests a snapshot among the notices. A new request restarts a running snapshot.
    fn request_snapshot(&mut self);

    /// Returns a reader of the engine's unicast routes, which may be used on a further thread; `None` without
    /// [`Capability::Unicast`], and for an engine beside the authority without such a reader.
    fn reader(&self) -> Option<Box<dyn RouteReader>>;

    /// Informs an engine beside an authority that the replay of the authority's objects is complete.
    fn replayed(&mut self) {}

    /// Begins to keep digests by a key. Called while the engine is empty.
    fn keep_digests(&mut self, _key: DigestKey) {}

    /// Returns the digests of the engine's objects; `None` if the engine keeps no digests.
    fn digests(&self) -> Option<EngineDigests> {
        None
    }

    /// Replaces the engine's routes in the range of `part` by the routes of `part`. Returns the differences.
    fn mend_routes(&mut self, _part: &RoutePart) -> Mended {
        Mended::default()
    }

    /// Removes members and groups outside `wanted`. Returns the removed objects.
    fn mend_objects(&mut self, _wanted: &Objects) -> Mended {
        Mended::default()
    }

    /// Returns the set, if the engine is a set of engines.
    fn as_set(&mut self) -> Option<&mut EngineSet> {
        None
    }
}
