//! The topology of the thesis on BGP for multicore processors, section 4.1: 1,000 ASes with 10 to 15 neighbors each,
//! and a node in the center with 12 neighbors, whose trace is then fed to routers.

use crate::plane::{self, Bandwidth, SIDE, unit};
use crate::{NodeId, Place, Topology};
use sluice_base::Rng;
use std::collections::BTreeSet;

/// The thesis's number of ASes.
pub const THESIS_NODES: usize = 1000;
/// Neighbors of the node in the center, which is node 0.
pub const CENTER_DEGREE: usize = 12;
/// The fewest and the most neighbors of any node.
const DEGREES: std::ops::RangeInclusive<usize> = 10..=15;
/// The parameter of Waxman's model as used with BRITE: how much less likely a long link is than a short link.
const BETA: f64 = 0.2;
/// Exchanges tried for each link, after which only the degrees are left of the initial graph.
const EXCHANGES_A_LINK: usize = 20;

/// The fewest nodes that surely can have such degrees (Zverovich and Zverovich 1992 need 17), with some room to choose.
pub const LEAST_THESIS_NODES: usize = 32;

/// `count` nodes, at least [`LEAST_THESIS_NODES`], with 10 to 15 links each, every degree equally likely; node 0 is in
/// the middle of the plane and has exactly 12. Connected.
///
/// BRITE cannot promise degrees: the degrees result from its growth. Here the degrees are drawn first. A graph of the
/// degrees is made (Havel and Hakimi), then pairs of its links exchange ends many times; an exchange to longer links is
/// accepted as much less often as Waxman's model has longer links. The result is Waxman's model under the condition of
/// the degrees.
pub fn thesis(count: usize, rng: &mut Rng) -> Topology {
    let count = count.max(LEAST_THESIS_NODES);
    let mut nodes = plane::scattered(count, rng);
    nodes[0].place = Some(Place::Plane { x: SIDE / 2.0, y: SIDE / 2.0 });
    let places: Vec<Place> = nodes.iter().filter_map(|n| n.place).collect();
    let spread = (DEGREES.end() - DEGREES.start() + 1) as u64;
    let mut degrees: Vec<usize> = (0..count).map(|_| DEGREES.start() + rng.below(spread) as usize).collect();
    degrees[0] = CENTER_DEGREE;
    // Links have two ends: the last node makes the sum even.
    if degrees.iter().sum::<usize>() % 2 == 1 {
        let last = &mut degrees[count - 1];
        *last = if *last == *DEGREES.end() { *last - 1 } else { *last + 1 };
    }
    let mut web = Web::of_degrees(&degrees);
    for _ in 0..EXCHANGES_A_LINK * web.pairs.len() {
        web.exchange(&places, rng);
    }
    let megabit = 1_000_000;
    let bandwidth = Bandwidth::Uniform(10 * megabit, 1024 * megabit);
    let mut topology = plane::linked(nodes.clone(), web.pairs.iter().copied(), bandwidth, rng);
    // Hardly ever more than once round: with ten links each, parts that hang on nothing are rare.
    for _ in 0..count {
        if topology.is_connected() {
            break;
        }
        web.join(&topology.largest_part(), rng);
        topology = plane::linked(nodes.clone(), web.pairs.iter().copied(), bandwidth, rng);
    }
    topology
}

/// Links as pairs, the lower number first, by place and as a set.
struct Web {
    pairs: Vec<(u32, u32)>,
    known: BTreeSet<(u32, u32)>,
}

fn ordered(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

impl Web {
    /// Makes a graph by the construction of Havel and Hakimi: the node lacking the most links is linked to the next
    /// nodes in order of missing links. With nearly equal degrees and so many nodes the construction always succeeds.
    fn of_degrees(degrees: &[usize]) -> Self {
        let mut lacking: Vec<(usize, u32)> =
            degrees.iter().enumerate().map(|(n, d)| (*d, n as u32)).collect();
        let mut pairs = Vec::new();
        loop {
            lacking.sort_unstable_by_key(|(d, n)| (std::cmp::Reverse(*d), *n));
            let (wanted, node) = lacking[0];
            if wanted == 0 {
                break;
            }
            lacking[0].0 = 0;
            for (left, other) in &mut lacking[1..=wanted] {
                *left = left.saturating_sub(1);
                pairs.push(ordered(node, *other));
            }
        }
        Web { known: pairs.iter().copied().collect(), pairs }
    }

    /// Returns two links with their ends exchanged, if the result is two new links.
    fn exchanged(&self, one: usize, two: usize, crossed: bool) -> Option<[(u32, u32); 2]> {
        let ((a, b), (c, d)) = (self.pairs[one], self.pairs[two]);
        let (c, d) = if crossed { (d, c) } else { (c, d) };
        let new = [ordered(a, d), ordered(c, b)];
        let is_good = |(x, y): (u32, u32)| x != y && !self.known.contains(&(x, y));
        (new.into_iter().all(is_good) && new[0] != new[1]).then_some(new)
    }

    fn replace(&mut self, one: usize, two: usize, new: [(u32, u32); 2]) {
        for (place, pair) in [one, two].into_iter().zip(new) {
            self.known.remove(&self.pairs[place]);
            self.pairs[place] = pair;
        }
        self.known.extend(new);
    }

    /// Tries one exchange.
    fn exchange(&mut self, places: &[Place], rng: &mut Rng) {
        let mut draw = || rng.below(self.pairs.len() as u64) as usize;
        let (one, two) = (draw(), draw());
        let crossed = rng.below(2) == 1;
        let Some(new) = self.exchanged(one, two, crossed) else { return };
        let length = |pairs: [(u32, u32); 2]| -> f64 {
            pairs.iter().filter_map(|(a, b)| plane::distance(places[*a as usize], places[*b as usize])).sum()
        };
        let longer = length(new) - length([self.pairs[one], self.pairs[two]]);
        let reach = BETA * SIDE * std::f64::consts::SQRT_2;
        if longer <= 0.0 || unit(rng) < libm::exp(-longer / reach) {
            self.replace(one, two, new);
        }
    }

    /// Joins the part `inside` to the rest: a link of the part and a link of the rest exchange ends.
    fn join(&mut self, inside: &[NodeId], rng: &mut Rng) {
        let is_inside = |node: u32| inside.binary_search(&NodeId(node)).is_ok();
        let (ours, theirs): (Vec<usize>, Vec<usize>) =
            (0..self.pairs.len()).partition(|p| is_inside(self.pairs[*p].0));
        let mut pick = |from: &[usize]| from[rng.below(from.len() as u64) as usize];
        let (one, two) = (pick(&ours), pick(&theirs));
        // Between two parts there is no link yet, so that this cannot meet one.
        if let Some(new) = self.exchanged(one, two, false) {
            self.replace(one, two, new);
        }
    }
}
