//! The requests to the tables: the routes in an order unrelated to their own, and addresses to match.

use std::collections::BTreeSet;

use sluice_base::{Prefix, Rng};

/// The requests to a family's tables; the same in every run.
pub struct Workload<P> {
    /// The routes in the order in which they arrive.
    pub arrival: Vec<P>,
    /// The routes in a different order, for look-ups and removals.
    pub asked: Vec<P>,
    /// For each route a host inside it, like real traffic.
    pub hosts: Vec<P>,
    /// The same number of hosts at random places.
    pub anywhere: Vec<P>,
    /// Large prefixes in which routes lie, each once.
    pub blocks: Vec<P>,
}

impl<P: Prefix> Workload<P> {
    /// Makes the workload from the routes; `space` bounds the random hosts, `block` is the length of large prefixes.
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
