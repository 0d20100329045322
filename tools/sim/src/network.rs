//! The simulated network: routers, and the links between them. A plain description, for readers of topologies to fill
//! in.
//!
//! Addresses follow from the numbers: link `n` has the IPv4 subnet `10.0.0.0/30 + n` and the IPv6 subnet
//! `fd00::/126 + n`. On the link, the first router has the host part 1, the second router 2.

use crate::rewrite::Rewrite;
use serde::{Deserialize, Serialize};
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, RouterId};
use sluice_bgp::relationship::Relationship;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first IPv4 subnet of the links: 10.0.0.0.
const FIRST_IPV4: u32 = 0x0a00_0000;
/// The first IPv6 subnet of the links: fd00::.
const FIRST_IPV6: u128 = 0xfd00 << 112;
/// The most links: as many /30 as 10.0.0.0/8 has.
pub const MOST_LINKS: usize = 1 << 22;

/// A router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The router's AS.
    pub asn: u32,
    /// The prefixes that the router originates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<IpPrefix>,
    /// True if the router sets itself as the next hop of external routes towards its internal neighbors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub next_hop_self: bool,
    /// True if the router has static routes to the links of its internal neighbors, as from an IGP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub static_routes: bool,
    /// The clock's offset from the other routers' clocks in nanoseconds, as after a different boot time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_offset: u64,
    /// The clock's excess rate, in millionths.
    #[serde(default, skip_serializing_if = "is_zero_rate")]
    pub clock_ppm: i32,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_zero_rate(n: &i32) -> bool {
    *n == 0
}

impl Node {
    /// A router of an AS that originates no prefix yet.
    pub const fn new(asn: u32) -> Self {
        Node {
            asn,
            networks: Vec::new(),
            next_hop_self: false,
            static_routes: false,
            clock_offset: 0,
            clock_ppm: 0,
        }
    }
}

/// A link between two routers, with a BGP session over it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Link {
    /// The number of the first router.
    pub a: u32,
    /// The number of the second router.
    pub b: u32,
    /// The travel time of an octet, in nanoseconds.
    pub delay: u64,
    /// Octets a second; 0 for no limit.
    #[serde(default)]
    pub bandwidth: u64,
    /// The cost of static routes over the link, as from an IGP.
    #[serde(default, skip_serializing_if = "is_zero_cost")]
    pub cost: u32,
    /// The relationship of `b` to `a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relationship: Option<Relationship>,
    /// The rewriting of the announcements of `a` and of `b` on the way.
    #[serde(default, skip_serializing_if = "are_none")]
    pub rewrites: [Rewrite; 2],
}

fn is_zero_cost(n: &u32) -> bool {
    *n == 0
}

fn are_none(rewrites: &[Rewrite; 2]) -> bool {
    rewrites.iter().all(|r| *r == Rewrite::default())
}

impl Link {
    /// A link without a limit, and without a relationship between its routers.
    pub fn new(a: u32, b: u32, delay: u64) -> Self {
        Link { a, b, delay, bandwidth: 0, cost: 0, relationship: None, rewrites: Default::default() }
    }

    /// The relationship of the neighbor to the router at `side`, if their ASes differ and a relationship is set.
    pub const fn neighbor_is(&self, side: usize) -> Option<Relationship> {
        match (self.relationship, side) {
            (Some(Relationship::Customer), 1) => Some(Relationship::Provider),
            (Some(Relationship::Provider), 1) => Some(Relationship::Customer),
            (Some(Relationship::RouteServer), 1) => Some(Relationship::RouteServerClient),
            (Some(Relationship::RouteServerClient), 1) => Some(Relationship::RouteServer),
            (said, _) => said,
        }
    }

    /// The router at a side (0 or 1).
    pub const fn end(&self, side: usize) -> u32 {
        if side == 0 { self.a } else { self.b }
    }
}

/// A network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Network {
    /// The routers, by number.
    pub nodes: Vec<Node>,
    /// The links, by number.
    pub links: Vec<Link>,
}

impl Network {
    /// Returns true if both routers of a link are in the same AS.
    pub fn is_internal(&self, link: u32) -> bool {
        let link = &self.links[link as usize];
        self.nodes[link.a as usize].asn == self.nodes[link.b as usize].asn
    }

    /// The links of a router, each with the router's side.
    pub fn links_of(&self, node: u32) -> impl Iterator<Item = (u32, usize)> {
        let side = move |l: &Link| (l.a == node).then_some(0).or((l.b == node).then_some(1));
        self.links.iter().enumerate().filter_map(move |(n, l)| Some((n as u32, side(l)?)))
    }

    /// Returns the fault in the description; `None` if the description is valid.
    pub fn fault(&self) -> Option<String> {
        if self.links.len() > MOST_LINKS {
            return Some(format!("{} links: at most {MOST_LINKS}", self.links.len()));
        }
        let bad =
            |l: &Link| l.a == l.b || l.a as usize >= self.nodes.len() || l.b as usize >= self.nodes.len();
        let link = self.links.iter().position(bad)?;
        Some(format!("link {link} does not join two routers"))
    }
}

/// The BGP Identifier of router `node`.
pub fn router_id(node: u32) -> RouterId {
    RouterId(node + 1)
}

/// The AS of a router in BGP's type.
pub const fn asn(node: &Node) -> Asn {
    Asn(node.asn)
}

/// The IPv4 address of a link's side (0 or 1).
pub fn ipv4(link: u32, side: usize) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_IPV4 + link * 4 + 1 + side as u32)
}

/// The IPv6 address of a link's side (0 or 1).
pub fn ipv6(link: u32, side: usize) -> Ipv6Addr {
    Ipv6Addr::from(FIRST_IPV6 + u128::from(link) * 4 + 1 + side as u128)
}

/// The link and side of an address; `None` for a foreign address.
pub fn place(address: IpAddr) -> Option<(u32, usize)> {
    let (link, host) = match address {
        IpAddr::V4(a) => {
            let n = u32::from(a).checked_sub(FIRST_IPV4)?;
            (n / 4, n % 4)
        }
        IpAddr::V6(a) => {
            let n = u128::from(a).checked_sub(FIRST_IPV6)?;
            (u32::try_from(n / 4).ok()?, (n % 4) as u32)
        }
    };
    ((link as usize) < MOST_LINKS && (1..=2).contains(&host)).then(|| (link, host as usize - 1))
}

/// A link's IPv4 subnet.
pub fn subnet_ipv4(link: u32) -> Ipv4Prefix {
    Ipv4Prefix::host(V4Addr(ipv4(link, 0))).truncate(30)
}

/// A link's IPv6 subnet.
pub fn subnet_ipv6(link: u32) -> Ipv6Prefix {
    Ipv6Prefix::host(V6Addr(ipv6(link, 0))).truncate(126)
}

/// The `index`-th prefix of a router, for networks where every router originates some: 20.0.0.0/24 onwards.
pub fn prefix_of(node: u32, index: u32, per_node: u32) -> Ipv4Prefix {
    let number = node * per_node + index;
    Ipv4Prefix::host(V4Addr(Ipv4Addr::from(0x1400_0000 + (number << 8)))).truncate(24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_place() {
        for link in [0, 1, 77, MOST_LINKS as u32 - 1] {
            for side in 0..2 {
                assert_eq!(place(ipv4(link, side).into()), Some((link, side)));
                assert_eq!(place(ipv6(link, side).into()), Some((link, side)));
            }
        }
        assert_eq!(place("192.0.2.1".parse().unwrap()), None);
        assert_eq!(place("10.0.0.0".parse().unwrap()), None);
        assert_eq!(subnet_ipv4(1).to_string(), "10.0.0.4/30");
        assert_eq!(prefix_of(1, 2, 3).to_string(), "20.0.5.0/24");
    }
}
