//! Customer relationships for topologies without measured relationships.
//!
//! A node's *level* is its distance, in links, from the *core*. The core is a full mesh inside the topology: nodes by
//! falling degree (by number for equal degrees), each added if linked to every node of the core so far. Then:
//!
//! * two nodes of the core are peers;
//! * of two nodes on different levels the node farther from the core is the customer;
//! * of two nodes on the same level the node with fewer links is the customer if its neighbor has at least twice as
//!   many; else both are peers.
//!
//! Guarantees on any connected topology:
//!
//! 1. There are no cycles of providers: along "is a customer of" the pair of level and degree falls. With the
//!    preferences and export rules of Gao and Rexford (2001), BGP therefore has a single stable state and reaches that
//!    state.
//! 2. Any two nodes have a path without a valley (up to providers, over at most one link of peers, down to customers):
//!    each climbs by its levels to a node of the core, and any two nodes of the core are peers or equal. So every node
//!    receives the prefixes of every node.

use crate::graph::Adjacency;
use crate::{Link, NodeId, Relationship, Role, Topology};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// The least ratio of links between a provider and its customer on the same level.
const PROVIDER_RATIO: usize = 2;

/// Assigns customers and providers on every link. Links outside the core's connected part keep their relationships: no
/// path connects the nodes there with the core.
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

/// Forgets the customers of all nodes.
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

/// Returns the nodes that receive the announcements of `origin`, if every node exports everything to customers, and
/// only its own and its customers' routes to peers and providers (Gao and Rexford): the nodes with a valley-free path
/// to `origin`. Links without a relationship are not used.
pub fn reached(topology: &Topology, adjacency: &Adjacency, origin: NodeId) -> Vec<bool> {
    // A node is visited at most twice: first perhaps as a node that announces to all neighbors, then as one that announces to its customers.
    let mut announces_to_all = vec![false; topology.nodes.len()];
    let mut receives = vec![false; topology.nodes.len()];
    let mut queue = VecDeque::from([(origin, true)]);
    (announces_to_all[origin.index()], receives[origin.index()]) = (true, true);
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
            let is_new = !receives[other.index()] || from_customer && !announces_to_all[other.index()];
            if is_new {
                receives[other.index()] = true;
                announces_to_all[other.index()] |= from_customer;
                queue.push_back((other, from_customer));
            }
        }
    }
    receives
}
