//! Who is whose customer, where nobody has measured it.
//!
//! A node's *level* is its distance, in links, from the *core*. The core is a full mesh inside the topology: nodes by falling degree (by number
//! where that is equal), each taken in if it is linked to all that were. Then:
//!
//! * two nodes of the core are peers;
//! * of two nodes on different levels the one farther from the core is the customer;
//! * of two nodes on the same level the one with the fewer links is the customer if the other has twice as many or more; else they
//!   are peers.
//!
//! What that guarantees on any connected topology:
//!
//! 1. Nobody is its own provider's provider, however far around: along "is a customer of" the pair of level and degree
//!    falls. With the preferences and export rules of Gao and Rexford (2001), BGP therefore has one stable state and
//!    reaches it.
//! 2. Any two nodes have a path without a valley (up to providers, over at most one link of peers, down to customers): each
//!    climbs by its levels to a node of the core, and any two of these are peers or the same. So every node hears of every
//!    other one's prefixes.

use crate::graph::Adjacency;
use crate::{Link, NodeId, Relationship, Role, Topology};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The least ratio of links between a provider and its customer on the same level.
const PROVIDER_RATIO: usize = 2;

/// Says who is whose customer, for all links. Links in a part that the core is not in remain as they are among themselves: nothing
/// connects these nodes.
pub fn assign(topology: &mut Topology) {
    let adjacency = topology.adjacency();
    let core = core(topology, &adjacency);
    let levels = topology.hops(&core);
    for link in &mut topology.links {
        let (Some(a), Some(b)) = (levels[link.a.index()], levels[link.b.index()]) else { continue };
        let (a_degree, b_degree) = (adjacency.degree(link.a), adjacency.degree(link.b));
        let in_core = a == 0 && b == 0;
        let a_is_customer = !in_core && (a > b || a == b && b_degree >= PROVIDER_RATIO * a_degree);
        let b_is_customer = !in_core && (b > a || a == b && a_degree >= PROVIDER_RATIO * b_degree);
        link.relationship = if a_is_customer || b_is_customer {
            if b_is_customer {
                (link.a, link.b) = (link.b, link.a);
            }
            Relationship::CustomerOf
        } else {
            Relationship::Peer
        };
    }
}

/// Says nothing about anybody's customers any more.
pub fn forget(topology: &mut Topology) {
    for link in &mut topology.links {
        link.relationship = Relationship::None;
    }
}

/// The full mesh in the middle, in the order in which it was found.
pub fn core(topology: &Topology, adjacency: &Adjacency) -> Vec<NodeId> {
    let mut order: Vec<NodeId> = topology.ids().collect();
    order.sort_by_key(|n| (Reverse(adjacency.degree(*n)), *n));
    let mut core: Vec<NodeId> = Vec::new();
    for node in order {
        let linked = adjacency.links(node).filter(|l| core.contains(&topology.links[*l].other(node))).count();
        if linked == core.len() {
            core.push(node);
        }
    }
    core
}

/// The nodes that hear of what `origin` announces, if everybody tells customers everything and peers and providers only its own and
/// its customers' routes (Gao and Rexford): those with a path without a valley to it. Links without a relationship are not used.
pub fn reached(topology: &Topology, adjacency: &Adjacency, origin: NodeId) -> Vec<bool> {
    // A node is visited at most twice: first perhaps as one that tells everybody, then as one that tells its customers.
    let mut tells_all = vec![false; topology.nodes.len()];
    let mut hears = vec![false; topology.nodes.len()];
    let mut queue = VecDeque::from([(origin, true)]);
    (tells_all[origin.index()], hears[origin.index()]) = (true, true);
    while let Some((node, to_all)) = queue.pop_front() {
        for link in adjacency.links(node) {
            let link: &Link = &topology.links[link];
            let other = link.other(node);
            let from_customer = match link.role_seen_from(node) {
                Some(Role::Customer) => false,
                Some(Role::Peer) if to_all => false,
                Some(Role::Provider) if to_all => true,
                _ => continue,
            };
            let is_new = !hears[other.index()] || from_customer && !tells_all[other.index()];
            if is_new {
                hears[other.index()] = true;
                tells_all[other.index()] |= from_customer;
                queue.push_back((other, from_customer));
            }
        }
    }
    hears
}
