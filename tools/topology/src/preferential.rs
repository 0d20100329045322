//! Growth by preference: who has many links gets more.

use crate::Topology;
use crate::plane::{self, Bandwidth, unit};
use sluice_base::Rng;
use std::collections::BTreeSet;

/// The model of Barabási and Albert (1999): `count` nodes; the first `degree + 1` form a full mesh, each later node is
/// linked to `degree` earlier nodes, chosen with a probability proportional to their number of links. Connected; every
/// node has at least `degree` links.
pub fn barabasi_albert(count: usize, degree: usize, bandwidth: Bandwidth, rng: &mut Rng) -> Topology {
    let nodes = plane::scattered(count, rng);
    let mut growth = Growth::new(count, degree, 0.0);
    for new in growth.begun..count {
        growth.add_node(new, degree, rng);
    }
    plane::linked(nodes, growth.pairs, bandwidth, rng)
}

/// The generalised linear preference of Bu and Towsley (2002), which fits the Internet's ASes better: in each step with probability
/// `p` `degree` links are added between nodes that are there, else a node with `degree` links; a node with `k` links is chosen
/// with a probability proportional to `k - beta`. `p` and `beta` are below 1. Connected.
pub fn glp(count: usize, degree: usize, p: f64, beta: f64, bandwidth: Bandwidth, rng: &mut Rng) -> Topology {
    let nodes = plane::scattered(count, rng);
    let mut growth = Growth::new(count, degree, beta);
    let mut new = growth.begun;
    while new < count {
        if unit(rng) < p {
            growth.add_links(new, degree, rng);
        } else {
            growth.add_node(new, degree, rng);
            new += 1;
        }
    }
    plane::linked(nodes, growth.pairs, bandwidth, rng)
}

struct Growth {
    pairs: BTreeSet<(u32, u32)>,
    degrees: Vec<u32>,
    /// The ends of every link: a node appears as often as the node has links.
    ends: Vec<u32>,
    beta: f64,
    /// Nodes that are there at the beginning.
    begun: usize,
}

impl Growth {
    fn new(count: usize, degree: usize, beta: f64) -> Self {
        let begun = count.min(degree + 1);
        let mut growth =
            Growth { pairs: BTreeSet::new(), degrees: vec![0; count], ends: Vec::new(), beta, begun };
        for a in 0..begun as u32 {
            for b in a + 1..begun as u32 {
                growth.link(a, b);
            }
        }
        growth
    }

    fn link(&mut self, a: u32, b: u32) -> bool {
        let is_new = a != b && self.pairs.insert((a.min(b), a.max(b)));
        if is_new {
            self.ends.extend([a, b]);
            self.degrees[a as usize] += 1;
            self.degrees[b as usize] += 1;
        }
        is_new
    }

    /// A node with `k` links, with a probability proportional to `k - beta`: drawn by `k`, then kept with `(k - beta) / k`, as
    /// a part of what is possible at most.
    fn prefer(&self, rng: &mut Rng) -> u32 {
        let most = if self.beta < 0.0 { 1.0 - self.beta } else { 1.0 };
        loop {
            let node = self.ends[rng.below(self.ends.len() as u64) as usize];
            let k = f64::from(self.degrees[node as usize]);
            if self.beta == 0.0 || unit(rng) * most < (k - self.beta) / k {
                return node;
            }
        }
    }

    fn add_node(&mut self, new: usize, degree: usize, rng: &mut Rng) {
        let mut left = degree.min(new);
        while left > 0 {
            let old = self.prefer(rng);
            left -= usize::from(self.link(new as u32, old));
        }
    }

    /// Links among the first `there` nodes; as many tries as would do in all but a full mesh.
    fn add_links(&mut self, there: usize, degree: usize, rng: &mut Rng) {
        const TRIES: usize = 64;
        let full = there * (there - 1) / 2;
        for _ in 0..degree {
            for _ in 0..TRIES {
                if self.pairs.len() >= full {
                    return;
                }
                let (a, b) = (self.prefer(rng), self.prefer(rng));
                if self.link(a, b) {
                    break;
                }
            }
        }
    }
}
