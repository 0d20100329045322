//! A configured route.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{
    Address, AnyPrefix, Distance, Forwarding, InterfaceIndex, Metric, NextHop, RouteSet, Tags,
};

/// A configured next hop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaticNextHop {
    /// The neighbor, or the XID to which packets are redirected; `None`: straight out of the interface. An XID with an interface is the
    /// neighbor's link-layer address ([`sluice_base::Xid::of_link_address`]).
    pub gateway: Option<Address>,
    /// The interface's name; `None`: where the gateway is found.
    pub interface: Option<String>,
    /// Share of the traffic, 1 to 255.
    pub weight: u8,
}

/// The treatment of packets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RouteKind {
    /// Packets are sent to a next hop of the list.
    NextHops(Vec<StaticNextHop>),
    /// Packets are dropped in silence.
    Discard,
    /// Packets are dropped and the sender is notified.
    Reject,
    /// This host is the destination; for XIDs only.
    Local,
}

/// A configured route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaticRoute {
    /// The destination.
    pub prefix: AnyPrefix,
    /// The treatment of the route's packets.
    pub kind: RouteKind,
    /// A distance other than the default of static routes, as for a route of last resort.
    pub distance: Option<Distance>,
    /// The cost, for policy and redistribution.
    pub metric: Metric,
    /// For policy.
    pub tags: Tags,
}

impl StaticRoute {
    /// The currently usable form of the route; `running` returns the index of a running interface. `None`: unusable.
    pub fn usable(&self, running: impl Fn(&str) -> Option<InterfaceIndex>) -> Option<RouteSet> {
        let forwarding = match &self.kind {
            RouteKind::Discard => Forwarding::Discard,
            RouteKind::Reject => Forwarding::Reject,
            RouteKind::Local => Forwarding::Local,
            RouteKind::NextHops(hops) => Forwarding::many(hops.iter().filter_map(|hop| {
                let interface = match &hop.interface {
                    Some(name) => Some(running(name)?),
                    None => None,
                };
                Some(NextHop { weight: hop.weight.max(1), ..NextHop::new(hop.gateway, interface) })
            }))?,
        };
        Some(RouteSet {
            distance: self.distance,
            metric: self.metric,
            tags: self.tags.clone(),
            ..RouteSet::plain(forwarding)
        })
    }
}
