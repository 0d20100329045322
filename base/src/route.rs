//! Routes as they cross component boundaries: protocol to RIB, RIB to FEA, RIB to subscribers.
//!
//! Changes travel in batches. Many routes share a next hop, so that a batch carries each distinct set once and its
//! routes point to it.

use crate::{Distance, InterfaceIndex, Metric, Provenance, Tag};
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// One way to forward: through a gateway, out of an interface, or both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NextHop {
    /// The neighbour to send to; it may be of the other family (RFC 8950). `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The interface to send out of; `None`: to be found by resolving the gateway.
    pub interface: Option<InterfaceIndex>,
    /// Share of the traffic among the next hops of one route, 1 to 255.
    pub weight: u8,
}

impl NextHop {
    /// Through `gateway`, wherever that resolves to.
    pub const fn via(gateway: IpAddr) -> Self {
        NextHop { gateway: Some(gateway), interface: None, weight: 1 }
    }

    /// Straight out of `interface`.
    pub const fn on(interface: InterfaceIndex) -> Self {
        NextHop { gateway: None, interface: Some(interface), weight: 1 }
    }

    /// Through `gateway` on `interface`.
    pub const fn via_on(gateway: IpAddr, interface: InterfaceIndex) -> Self {
        NextHop { gateway: Some(gateway), interface: Some(interface), weight: 1 }
    }
}

/// What is done with packets of a route.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Forwarding {
    /// They are sent to one of the next hops: never empty, sorted, each once.
    NextHops(SmallVec<[NextHop; 1]>),
    /// They are dropped in silence.
    Discard,
    /// They are dropped and the sender is told (ICMP unreachable).
    Reject,
}

impl Forwarding {
    /// Forwarding through one next hop.
    pub fn one(hop: NextHop) -> Self {
        Forwarding::NextHops(SmallVec::from_buf([hop]))
    }

    /// Forwarding over several next hops, sorted and each once; `None` if there are none.
    pub fn many(hops: impl IntoIterator<Item = NextHop>) -> Option<Self> {
        let mut hops: SmallVec<[NextHop; 1]> = hops.into_iter().collect();
        hops.sort_unstable();
        hops.dedup_by(|a, b| (a.gateway, a.interface) == (b.gateway, b.interface));
        (!hops.is_empty()).then_some(Forwarding::NextHops(hops))
    }

    /// The next hops; none where packets are dropped.
    pub fn next_hops(&self) -> &[NextHop] {
        match self {
            Forwarding::NextHops(hops) => hops,
            Forwarding::Discard | Forwarding::Reject => &[],
        }
    }
}

/// What routes of a batch share.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RouteSet {
    /// Where packets go.
    pub forwarding: Forwarding,
    /// The protocol's cost.
    pub metric: Metric,
    /// A distance other than the origin's own, as eBGP and iBGP routes of one process have.
    pub distance: Option<Distance>,
    /// For policy.
    pub tag: Tag,
}

/// What happens to a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RouteAction {
    /// The prefix has this route now, whether or not it had one: an index into [`RouteBatch::sets`].
    Set(u32),
    /// The prefix has no route of this origin any more.
    Delete,
}

/// A change of one prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteUpdate<P> {
    /// The prefix.
    pub prefix: P,
    /// What happens to it.
    pub action: RouteAction,
    /// The event that caused it.
    pub provenance: Provenance,
}

/// Route changes of one origin, table and family, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteBatch<P> {
    /// What the routes share; every index in `updates` is below its length.
    pub sets: Vec<RouteSet>,
    /// The changes. A prefix may occur more than once; the last one stands.
    pub updates: Vec<RouteUpdate<P>>,
}

impl<P> Default for RouteBatch<P> {
    fn default() -> Self {
        RouteBatch { sets: Vec::new(), updates: Vec::new() }
    }
}

impl<P> RouteBatch<P> {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }
}

/// The RIB's number for a next-hop group, kept as long as a route uses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u32);

/// A route for the forwarding engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FibRoute<P> {
    /// The prefix.
    pub prefix: P,
    /// The group to forward by; `None` deletes the route.
    pub group: Option<GroupId>,
    /// The event that caused it.
    pub provenance: Provenance,
}

/// Changes of one table and family for the forwarding engine. The three parts are applied in order, so that a route
/// never points to a group that does not exist.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FibBatch<P> {
    /// Groups that are new, or known ones that forward differently from now on (all their routes follow at once).
    pub groups: Vec<(GroupId, Forwarding)>,
    /// Routes.
    pub routes: Vec<FibRoute<P>>,
    /// Groups that no route uses any more.
    pub unused: Vec<GroupId>,
}

impl<P> Default for FibBatch<P> {
    fn default() -> Self {
        FibBatch { groups: Vec::new(), routes: Vec::new(), unused: Vec::new() }
    }
}

impl<P> FibBatch<P> {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.routes.is_empty() && self.unused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_are_sorted_and_each_once() {
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let f = Forwarding::many([NextHop::via(b), NextHop::via(a), NextHop::via(b)]).unwrap();
        assert_eq!(f.next_hops(), [NextHop::via(a), NextHop::via(b)]);
        assert_eq!(Forwarding::many([]), None);
        assert_eq!(Forwarding::Discard.next_hops(), []);
    }
}
