//! Regular topologies: for tests, and for questions with known answers.

use crate::plane::{self, Bandwidth, DEFAULT_BANDWIDTH};
use crate::{Place, Topology};
use sluice_base::Rng;

fn topology(count: usize, pairs: impl IntoIterator<Item = (u32, u32)>) -> Topology {
    // Nothing is drawn: all links are alike.
    plane::linked(plane::nodes(count), pairs, Bandwidth::Constant(DEFAULT_BANDWIDTH), &mut Rng::from_seed(0))
}

fn pairs_in_a_row(count: usize) -> impl Iterator<Item = (u32, u32)> {
    (1..count as u32).map(|n| (n - 1, n))
}

/// Nodes in a row.
pub fn line(count: usize) -> Topology {
    topology(count, pairs_in_a_row(count))
}

/// Nodes in a circle; of fewer than three it is a line.
pub fn ring(count: usize) -> Topology {
    let closing = (count > 2).then(|| (count as u32 - 1, 0));
    topology(count, pairs_in_a_row(count).chain(closing))
}

/// Connects every node to the first node.
pub fn star(count: usize) -> Topology {
    topology(count, (1..count as u32).map(|n| (0, n)))
}

/// Every node linked to every other.
pub fn mesh(count: usize) -> Topology {
    let count32 = count as u32;
    topology(count, (0..count32).flat_map(|a| (a + 1..count32).map(move |b| (a, b))))
}

/// A rectangle of nodes, each linked to those left, right, above and below, 100 km apart.
pub fn grid(width: usize, height: usize) -> Topology {
    const STEP: f64 = 100.0;
    let number = move |x: usize, y: usize| (y * width + x) as u32;
    let cells = move || (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)));
    let pairs = cells().flat_map(|(x, y)| {
        let right = (x + 1 < width).then(|| (number(x, y), number(x + 1, y)));
        let down = (y + 1 < height).then(|| (number(x, y), number(x, y + 1)));
        right.into_iter().chain(down)
    });
    let mut nodes = plane::nodes(width * height);
    for (node, (x, y)) in nodes.iter_mut().zip(cells()) {
        node.place = Some(Place::Plane { x: x as f64 * STEP, y: y as f64 * STEP });
    }
    plane::linked(nodes, pairs, Bandwidth::Constant(DEFAULT_BANDWIDTH), &mut Rng::from_seed(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let check = |topology: Topology, nodes: usize, links: usize| {
            assert_eq!((topology.nodes.len(), topology.links.len()), (nodes, links));
            assert!(topology.is_connected());
        };
        check(line(0), 0, 0);
        check(line(1), 1, 0);
        check(line(5), 5, 4);
        check(ring(2), 2, 1);
        check(ring(5), 5, 5);
        check(star(6), 6, 5);
        check(mesh(7), 7, 21);
        check(grid(3, 4), 12, 17);
        check(grid(1, 1), 1, 0);
    }
}
