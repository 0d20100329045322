//! From a topology to a network.

use crate::network::{Link, Network, Node};
use sluice_bgp::relationship::Relationship;
use sluice_topology::{Role, Topology};

impl From<&Topology> for Network {
    fn from(topology: &Topology) -> Self {
        let nodes = topology.nodes.iter().map(|n| Node { next_hop_self: true, ..Node::new(n.asn.0) });
        let links = topology.links.iter().map(|l| Link {
            bandwidth: (l.bandwidth / 8).max(1),
            relationship: l.role_seen_from(l.a).map(|role| match role {
                Role::Customer => Relationship::Customer,
                Role::Peer => Relationship::Peer,
                Role::Provider => Relationship::Provider,
            }),
            ..Link::new(l.a.0, l.b.0, u64::try_from(l.delay.as_nanos()).unwrap_or(u64::MAX))
        });
        Network { nodes: nodes.collect(), links: links.collect() }
    }
}
