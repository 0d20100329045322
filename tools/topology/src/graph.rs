//! Questions about any topology, and parts of a topology.

use crate::{Link, NodeId, Topology};
use std::collections::{BTreeSet, VecDeque};

/// The links of every node, by node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Adjacency {
    starts: Vec<u32>,
    links: Vec<u32>,
}

impl Adjacency {
    /// The numbers of a node's links in [`Topology::links`], in order.
    pub fn links(&self, node: NodeId) -> impl Iterator<Item = usize> {
        let (start, end) = (self.starts[node.index()], self.starts[node.index() + 1]);
        self.links[start as usize..end as usize].iter().map(|l| *l as usize)
    }

    /// Returns the number of a node's links.
    pub fn degree(&self, node: NodeId) -> usize {
        (self.starts[node.index() + 1] - self.starts[node.index()]) as usize
    }
}

impl Topology {
    /// Every node's number.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The links of every node.
    pub fn adjacency(&self) -> Adjacency {
        let mut starts = vec![0; self.nodes.len() + 1];
        for end in self.links.iter().flat_map(|l| [l.a, l.b]) {
            starts[end.index() + 1] += 1;
        }
        for node in 0..self.nodes.len() {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut links = vec![0; 2 * self.links.len()];
        for (number, link) in self.links.iter().enumerate() {
            for end in [link.a, link.b] {
                links[next[end.index()] as usize] = number as u32;
                next[end.index()] += 1;
            }
        }
        Adjacency { starts, links }
    }

    /// Hops from the nearest of `from`, for every node; `None` where there is no way.
    pub fn hops(&self, from: &[NodeId]) -> Vec<Option<u32>> {
        let adjacency = self.adjacency();
        let mut hops = vec![None; self.nodes.len()];
        let mut queue: VecDeque<NodeId> = VecDeque::new();
        for node in from {
            hops[node.index()] = Some(0);
            queue.push_back(*node);
        }
        while let Some(node) = queue.pop_front() {
            let next = hops[node.index()].map(|h: u32| h + 1);
            for link in adjacency.links(node) {
                let other = self.links[link].other(node);
                if hops[other.index()].is_none() {
                    hops[other.index()] = next;
                    queue.push_back(other);
                }
            }
        }
        hops
    }

    /// Returns true if there is a way between any two nodes.
    pub fn is_connected(&self) -> bool {
        self.nodes.is_empty() || self.hops(&[NodeId(0)]).iter().all(Option::is_some)
    }

    /// Returns the nodes of the largest connected part, in order; of equally large parts the part with the lowest
    /// number.
    pub fn largest_part(&self) -> Vec<NodeId> {
        let mut seen = vec![false; self.nodes.len()];
        let mut best: Vec<NodeId> = Vec::new();
        let adjacency = self.adjacency();
        for start in self.ids() {
            if seen[start.index()] {
                continue;
            }
            seen[start.index()] = true;
            let mut part = vec![start];
            let mut next = 0;
            while let Some(node) = part.get(next).copied() {
                next += 1;
                for link in adjacency.links(node) {
                    let other = self.links[link].other(node);
                    if !std::mem::replace(&mut seen[other.index()], true) {
                        part.push(other);
                    }
                }
            }
            if part.len() > best.len() {
                best = part;
            }
        }
        best.sort_unstable();
        best
    }

    /// Returns the topology of the given nodes and the links between them, in the old order.
    #[must_use]
    pub fn induced(&self, nodes: &[NodeId]) -> Topology {
        let wanted: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let mut renamed = vec![None; self.nodes.len()];
        for (new, old) in wanted.iter().enumerate() {
            renamed[old.index()] = Some(NodeId(new as u32));
        }
        let links = self.links.iter().filter_map(|link| {
            let (a, b) = (renamed[link.a.index()]?, renamed[link.b.index()]?);
            Some(Link { a, b, ..*link })
        });
        Topology {
            nodes: wanted.iter().map(|n| self.nodes[n.index()].clone()).collect(),
            links: links.collect(),
        }
    }

    /// The `count` nodes with the most links, of equal nodes the lowest numbers, and of the topology between them the
    /// largest connected part: fewer than `count` nodes if the rest is connected only by nodes left out.
    #[must_use]
    pub fn top(&self, count: usize) -> Topology {
        let adjacency = self.adjacency();
        let mut order: Vec<NodeId> = self.ids().collect();
        order.sort_by_key(|n| (std::cmp::Reverse(adjacency.degree(*n)), *n));
        order.truncate(count);
        let core = self.induced(&order);
        core.induced(&core.largest_part())
    }
}
