//! A configured route.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Address, Distance, Forwarding, InterfaceIndex, IpPrefix, Metric, NextHop, RouteSet, Tags};

/// A configured next hop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaticNextHop {
    /// The neighbour; `None`: straight out of the interface.
    pub gateway: Option<IpAddr>,
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
}

/// A configured route.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaticRoute {
    /// The destination.
    pub prefix: IpPrefix,
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
            RouteKind::NextHops(hops) => Forwarding::many(hops.iter().filter_map(|hop| {
                let interface = match &hop.interface {
                    Some(name) => Some(running(name)?),
                    None => None,
                };
                let gateway = hop.gateway.map(Address::Ip);
                Some(NextHop { weight: hop.weight.max(1), ..NextHop::new(gateway, interface) })
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
