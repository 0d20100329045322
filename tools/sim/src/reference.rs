//! The reference: the decision rules of RFC 4271 in their simplest form, and a path-vector fixpoint over the rules.
//!
//! The reference shares no code with the cores: no codec, no table, no order of events. A router has a single best
//! route a prefix, computed anew from the announcements of its neighbors' best routes.

use crate::network::{self, Network};
use crate::policy::{self, Rule};
use sluice_base::IpPrefix;
use sluice_bgp::relationship::Relationship;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A route as stored by a router.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    /// The link that the route arrived over; `None` if the router originates the route.
    pub from: Option<u32>,
    /// True if the route came from the router's own AS.
    pub internal: bool,
    /// LOCAL_PREF.
    pub local_pref: u32,
    /// The AS path.
    pub path: Vec<u32>,
    /// ORIGIN.
    pub origin: u8,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// NO_EXPORT (RFC 1997).
    pub no_export: bool,
    /// ONLY_TO_CUSTOMER (RFC 9234).
    pub only_to_customer: Option<u32>,
    /// The next hop.
    pub next_hop: Option<IpAddr>,
}

impl Route {
    /// A route of the router's own.
    pub const fn own() -> Self {
        Route {
            from: None,
            internal: false,
            local_pref: PLAIN,
            path: Vec::new(),
            origin: 0,
            med: None,
            no_export: false,
            only_to_customer: None,
            next_hop: None,
        }
    }
}

/// LOCAL_PREF of routes without a relationship.
const PLAIN: u32 = 100;
/// The code of the attribute that IPv6 routes do not need.
const NEXT_HOP: u8 = 3;

/// LOCAL_PREF of routes from a neighbor with the given relationship, in the terms of Gao and Rexford. The AS's own
/// routes have at least the same preference.
const fn preference(neighbor: Relationship) -> u32 {
    match neighbor {
        Relationship::Customer | Relationship::RouteServerClient => PLAIN,
        Relationship::Peer | Relationship::RouteServer => 90,
        Relationship::Provider => 80,
    }
}

/// Returns true if the neighbor receives routes that are for customers only (RFC 9234, section 5).
const fn receives_marked(neighbor: Relationship) -> bool {
    matches!(neighbor, Relationship::Customer | Relationship::RouteServerClient)
}

/// The reference's view of the current network.
pub struct View<'a> {
    /// The network's description.
    pub network: &'a Network,
    /// Links whose session is up.
    pub sessions: Vec<bool>,
    /// Links whose ends have a carrier.
    pub carriers: Vec<bool>,
    /// For each side of each link, true if the router sets itself as next hop towards internal neighbors.
    pub next_hop_self: Vec<[bool; 2]>,
    /// The prefixes that each router originates.
    pub networks: Vec<Vec<IpPrefix>>,
    /// For each side of each link, the import and the export policy for the neighbor.
    pub policies: Vec<[Policies<'a>; 2]>,
}

/// The policies for a neighbor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policies<'a> {
    /// On routes from the neighbor.
    pub import: &'a [Rule],
    /// On routes to the neighbor.
    pub export: &'a [Rule],
}

/// The way of packets to a next hop out of a router: the link, and the gateway on the link.
pub type Way = (u32, IpAddr);

impl View<'_> {
    /// The announcement of the best route by the router at `side` over `link`, as written; `None` if no route is
    /// announced.
    pub fn announced(&self, link: u32, side: usize, best: &Route, prefix: IpPrefix) -> Option<Route> {
        let is_ipv6 = matches!(prefix, IpPrefix::V6(_));
        let description = &self.network.links[link as usize];
        let internal = self.network.is_internal(link);
        let hidden = if internal { best.internal } else { best.no_export };
        if !self.sessions[link as usize] || best.from == Some(link) || hidden {
            return None;
        }
        let asn = self.network.nodes[description.end(side) as usize].asn;
        let own: IpAddr = match is_ipv6 {
            true => network::ipv6(link, side).into(),
            false => network::ipv4(link, side).into(),
        };
        let rules = self.policies[link as usize][side].export;
        let route = Route { from: Some(link), internal, ..best.clone() };
        let mut route = policy::apply(rules, prefix, route)?;
        if !internal {
            route.path.insert(0, asn);
            route.med = route.med.filter(|_| best.from.is_none() || policy::sets_med(rules, prefix));
            route.local_pref = PLAIN;
            let neighbor = description.neighbor_is(side);
            // RFC 9234, section 5, egress.
            let is_for_customers_only = best.only_to_customer.is_some();
            if is_for_customers_only && neighbor.is_some_and(|neighbor| !receives_marked(neighbor)) {
                return None;
            }
            if neighbor.is_some_and(|neighbor| receives_marked(neighbor) || neighbor == Relationship::Peer) {
                route.only_to_customer = route.only_to_customer.or(Some(asn));
            }
        }
        let keeps = internal && best.from.is_some() && !self.next_hop_self[link as usize][side];
        if !keeps {
            route.next_hop = Some(own);
        }
        Some(route)
    }

    /// The announcement of the router at `side` of `link` as it arrives at the neighbor; `None` if the neighbor has to
    /// treat it as a withdrawal (RFC 7606, section 7).
    fn on_the_way(&self, link: u32, side: usize, mut route: Route, is_ipv6: bool) -> Option<Route> {
        let rewrite = &self.network.links[link as usize].rewrites[side];
        if rewrite.omits.is_some_and(|attribute| !is_ipv6 || attribute != NEXT_HOP) {
            return None;
        }
        route.origin = rewrite.origin.unwrap_or(route.origin);
        route.med = rewrite.med.or(route.med);
        route.no_export |= rewrite.no_export;
        if let Some(mark) = rewrite.only_to_customer {
            route.only_to_customer = Some(mark).filter(|asn| *asn > 0);
        }
        if let Some(hop) = rewrite.next_hop.filter(|_| !is_ipv6) {
            route.next_hop = Some(hop.into());
        }
        if let Some(first) = route.path.first().copied() {
            (0..rewrite.prepend).for_each(|_| route.path.insert(0, first));
        }
        Some(route)
    }

    /// A route as the router at `side` of `link` accepts it; `None` if the router rejects the route.
    fn accepted(&self, link: u32, side: usize, prefix: IpPrefix, mut route: Route) -> Option<Route> {
        let description = &self.network.links[link as usize];
        let asn = self.network.nodes[description.end(side) as usize].asn;
        let peer = self.network.nodes[description.end(1 - side) as usize].asn;
        if route.path.contains(&asn) {
            return None;
        }
        if let Some(neighbor) = description.neighbor_is(side).filter(|_| !route.internal) {
            // RFC 9234, section 5, ingress.
            let leak = match neighbor {
                Relationship::Customer | Relationship::RouteServerClient => route.only_to_customer.is_some(),
                Relationship::Peer => route.only_to_customer.is_some_and(|marked| marked != peer),
                Relationship::Provider | Relationship::RouteServer => false,
            };
            if leak {
                return None;
            }
            route.local_pref = preference(neighbor);
            if !receives_marked(neighbor) {
                route.only_to_customer = route.only_to_customer.or(Some(peer));
            }
        }
        policy::apply(self.policies[link as usize][side].import, prefix, route)
    }

    /// The way to a next hop from a router, by its own links and its static routes.
    pub fn way(&self, node: u32, next_hop: IpAddr) -> Option<Way> {
        let (target, side) = network::place(next_hop)?;
        let has = |(l, _): &(u32, usize)| self.carriers[*l as usize];
        if self.network.links_of(node).filter(has).any(|(l, own)| l == target && own != side) {
            return Some((target, next_hop));
        }
        if !self.network.nodes[node as usize].static_routes {
            return None;
        }
        let mut ways = self.network.links_of(node).filter(|(l, own)| {
            let neighbor = self.network.links[*l as usize].end(1 - own);
            let leads = self.network.links_of(neighbor).any(|(outer, _)| outer == target);
            self.network.is_internal(*l) && !self.network.is_internal(target) && leads
        });
        let (link, own) = ways.next()?;
        let gateway: IpAddr = match next_hop {
            IpAddr::V4(_) => network::ipv4(link, 1 - own).into(),
            IpAddr::V6(_) => network::ipv6(link, 1 - own).into(),
        };
        self.carriers[link as usize].then_some((link, gateway))
    }

    /// The cost of the way to a next hop: 0 on a link of the router's own.
    fn cost(&self, node: u32, next_hop: IpAddr) -> u32 {
        let target = network::place(next_hop).map(|(link, _)| link);
        let way = self.way(node, next_hop).map(|(link, _)| link).filter(|link| Some(*link) != target);
        way.map_or(0, |link| self.network.links[link as usize].cost)
    }

    /// A router's routes for a prefix from every neighbor, if `best` has the neighbors' best routes.
    pub fn received<'b>(
        &self,
        node: u32,
        prefix: IpPrefix,
        best: impl Fn(u32) -> Option<&'b Route>,
    ) -> Vec<Route> {
        let from = |(link, side): (u32, usize)| {
            let neighbor = self.network.links[link as usize].end(1 - side);
            let is_ipv6 = matches!(prefix, IpPrefix::V6(_));
            let route = self.announced(link, 1 - side, best(neighbor)?, prefix)?;
            let route = self.on_the_way(link, 1 - side, route, is_ipv6)?;
            self.accepted(link, side, prefix, route)
        };
        let mut routes: Vec<Route> = self.network.links_of(node).filter_map(from).collect();
        if self.networks[node as usize].contains(&prefix) {
            routes.push(Route::own());
        }
        routes
    }

    /// RFC 4271, section 9.1.2, word by word.
    pub fn decide(&self, node: u32, received: &[Route]) -> Option<Route> {
        if let Some(own) = received.iter().find(|r| r.from.is_none()) {
            return Some(own.clone());
        }
        let usable = |r: &&Route| {
            let way = r.next_hop.and_then(|hop| self.way(node, hop));
            way.is_some_and(|(link, _)| r.internal || Some(link) == r.from)
        };
        let mut field: Vec<&Route> = received.iter().filter(usable).collect();
        keep(&mut field, |r| std::cmp::Reverse(r.local_pref));
        keep(&mut field, |r| r.path.len());
        keep(&mut field, |r| r.origin);
        let all = field.clone();
        let med = |r: &Route| r.med.unwrap_or(0);
        field.retain(|m| !all.iter().any(|n| n.path.first() == m.path.first() && med(n) < med(m)));
        keep(&mut field, |r| r.internal);
        keep(&mut field, |r| r.next_hop.map(|hop| self.cost(node, hop)));
        keep(&mut field, |r| {
            let link = r.from.unwrap_or_default();
            let description = &self.network.links[link as usize];
            let side = usize::from(description.a == node);
            (description.end(side), network::ipv4(link, side))
        });
        field.first().map(|r| (*r).clone())
    }

    /// The best route of each router for a prefix at rest; `None` if the result depends on the order of events, or no
    /// fixpoint exists.
    pub fn fixpoint(&self, prefix: IpPrefix) -> Option<BTreeMap<u32, Route>> {
        let count = self.network.nodes.len() as u32;
        let forward = self.iterate(prefix, &(0..count).collect::<Vec<_>>())?;
        let backward = self.iterate(prefix, &(0..count).rev().collect::<Vec<_>>())?;
        (forward == backward).then_some(forward)
    }

    fn iterate(&self, prefix: IpPrefix, order: &[u32]) -> Option<BTreeMap<u32, Route>> {
        let mut best: BTreeMap<u32, Route> = BTreeMap::new();
        for _ in 0..4 * order.len() + 10 {
            let mut changed = false;
            for &node in order {
                let decided = self.decide(node, &self.received(node, prefix, |n| best.get(&n)));
                if best.get(&node) != decided.as_ref() {
                    changed = true;
                    match decided {
                        Some(route) => best.insert(node, route),
                        None => best.remove(&node),
                    };
                }
            }
            if !changed {
                return Some(best);
            }
        }
        None
    }
}

fn keep<K: Ord>(field: &mut Vec<&Route>, key: impl Fn(&Route) -> K) {
    if let Some(best) = field.iter().map(|r| key(r)).min() {
        field.retain(|r| key(r) == best);
    }
}
