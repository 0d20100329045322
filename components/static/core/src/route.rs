//! A configured route.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Address, Distance, Forwarding, InterfaceIndex, IpPrefix, NextHop, RouteSet, Tags};

/// A next hop as it is configured.
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
    /// Packets are sent to one of the next hops.
    NextHops(Vec<StaticNextHop>),
    /// Packets are dropped in silence.
    Discard,
    /// Packets are dropped and the sender is notified.
    Reject,
}

/// A route as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StaticRoute {
    /// The destination.
    pub prefix: IpPrefix,
    /// The treatment of its packets.
    pub kind: RouteKind,
    /// A distance other than the default of static routes, as for a route of last resort.
    pub distance: Option<Distance>,
    /// For policy.
    pub tags: Tags,
}

impl StaticRoute {
    /// The route as it can be used now; `running` finds the index of an interface that runs. `None`: not at all.
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
        Some(RouteSet { distance: self.distance, tags: self.tags.clone(), ..RouteSet::plain(forwarding) })
    }
}
