//! Waxman's model (Waxman 1988), growing node by node like BRITE: near nodes are linked more often than far ones.

use crate::Topology;
use crate::plane::{self, Bandwidth, SIDE, unit};
use sluice_base::Rng;

/// `count` nodes; each new node is linked to `degree` existing nodes (to every node if there are fewer), to a node at
/// distance `d` with a probability proportional to `alpha * exp(-d / (beta * L))`, where `L` is the longest possible
/// distance. The topology is connected, and the mean degree is about twice `degree`.
///
/// Because every new node gets its links, `alpha` cancels out and exists only for compatibility with BRITE: only `beta`
/// shapes the topology.
pub fn waxman(
    count: usize,
    degree: usize,
    alpha: f64,
    beta: f64,
    bandwidth: Bandwidth,
    rng: &mut Rng,
) -> Topology {
    let nodes = plane::scattered(count, rng);
    let reach = beta * SIDE * std::f64::consts::SQRT_2;
    let mut pairs = Vec::new();
    let mut weights = Vec::new();
    for new in 1..count {
        weights.clear();
        weights.extend(nodes[..new].iter().map(|old| {
            let (a, b) = (old.place, nodes[new].place);
            let far = a.zip(b).and_then(|(a, b)| plane::distance(a, b)).unwrap_or(0.0);
            alpha * libm::exp(-far / reach)
        }));
        for _ in 0..degree.min(new) {
            let old = draw(&mut weights, rng);
            pairs.push((new as u32, old as u32));
        }
    }
    plane::linked(nodes, pairs, bandwidth, rng)
}

/// Draws an index by weight and removes the index. Once no weight is left, returns the first index not yet drawn.
fn draw(weights: &mut [f64], rng: &mut Rng) -> usize {
    let mut left = unit(rng) * weights.iter().filter(|w| **w >= 0.0).sum::<f64>();
    let mut drawn = None;
    for (index, weight) in weights.iter().enumerate().filter(|(_, w)| **w >= 0.0) {
        drawn = drawn.or(Some(index));
        if *weight > 0.0 {
            drawn = Some(index);
            if left < *weight {
                break;
            }
            left -= weight;
        }
    }
    let drawn = drawn.unwrap_or(0);
    weights[drawn] = -1.0;
    drawn
}
