//! What the tables are asked: the routes in an order that has nothing to do with theirs, and addresses to match.

use std::collections::BTreeSet;

use sluice_base::{Prefix, Rng};

/// Everything that is asked of one family's tables; the same in every run.
pub struct Workload<P> {
    /// The routes in the order in which they arrive.
    pub arrival: Vec<P>,
    /// The same in another order, for look-ups and removals.
    pub asked: Vec<P>,
    /// For each route a host inside it: what traffic looks like.
    pub hosts: Vec<P>,
    /// As many hosts that lie anywhere.
    pub anywhere: Vec<P>,
    /// Large prefixes in which routes lie, each once.
    pub blocks: Vec<P>,
}

impl<P: Prefix> Workload<P> {
    /// Makes it from the routes; `space` is where hosts that lie anywhere lie, `block` the length of large prefixes.
    pub fn new(routes: &[P], space: P, block: u8) -> Self {
        let mut rng = Rng::from_seed(2005);
        let arrival = shuffled(routes, &mut rng);
        let asked = shuffled(routes, &mut rng);
        let hosts = shuffled(routes, &mut rng).into_iter().map(|p| host(p, &mut rng)).collect();
        let anywhere = routes.iter().map(|_| host(space, &mut rng)).collect();
        let long = routes.iter().filter(|p| p.len() >= block);
        let blocks: BTreeSet<P> = long.map(|p| p.truncate(block)).collect();
        let blocks = shuffled(&blocks.into_iter().collect::<Vec<_>>(), &mut rng);
        Workload { arrival, asked, hosts, anywhere, blocks }
    }
}

fn shuffled<P: Copy>(all: &[P], rng: &mut Rng) -> Vec<P> {
    let mut all = all.to_vec();
    for i in (1..all.len()).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

/// Some host inside a prefix.
fn host<P: Prefix>(mut prefix: P, rng: &mut Rng) -> P {
    while let Some(longer) = prefix.child(rng.below(2) == 1) {
        prefix = longer;
    }
    prefix
}
