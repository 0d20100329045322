//! Places, distances, delays and bandwidths.

use crate::{Link, Node, NodeId, Place, Relationship, Topology};
use sluice_base::{Asn, Duration, Rng};

/// The side of the square that generated nodes lie in, in kilometers: BRITE's default.
pub(crate) const SIDE: f64 = 1000.0;
/// Kilometers a millisecond in glass: two thirds of light in vacuum.
const KILOMETERS_A_MILLISECOND: f64 = 200.0;
/// No link is faster: the routers at both ends take this long too.
const LEAST_DELAY: Duration = Duration::from_micros(10);
/// The delay of a link between nodes without a position.
pub(crate) const DEFAULT_DELAY: Duration = Duration::from_millis(1);
/// The bandwidth of a link without a bandwidth.
pub(crate) const DEFAULT_BANDWIDTH: u64 = 1_000_000_000;

/// The distribution of bandwidths, in bits a second: BRITE's four choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bandwidth {
    /// The same bandwidth for all links.
    Constant(u64),
    /// Every one between both equally likely.
    Uniform(u64, u64),
    /// Exponentially distributed with the first as the mean, and never more than the second.
    Exponential(u64, u64),
    /// By a Pareto distribution of shape 1.2 between both: many low values, few very high values.
    HeavyTailed(u64, u64),
}

impl Bandwidth {
    fn draw(self, rng: &mut Rng) -> u64 {
        const SHAPE: f64 = 1.2;
        let (low, high) = match self {
            Bandwidth::Constant(all) => return all.max(1),
            Bandwidth::Uniform(low, high)
            | Bandwidth::Exponential(low, high)
            | Bandwidth::HeavyTailed(low, high) => (low.max(1), high.max(low).max(1)),
        };
        let part = unit(rng);
        let drawn = match self {
            Bandwidth::Constant(_) => low,
            Bandwidth::Uniform(..) => return low + rng.below((high - low).saturating_add(1)),
            Bandwidth::Exponential(..) => (-(low as f64) * libm::log(1.0 - part)) as u64,
            Bandwidth::HeavyTailed(..) => {
                let ratio = libm::pow(low as f64 / high as f64, SHAPE);
                (low as f64 * libm::pow(1.0 - part * (1.0 - ratio), -1.0 / SHAPE)) as u64
            }
        };
        drawn.clamp(1, high)
    }
}

/// A number in `0..1`, the same on every machine.
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns the AS of the node with a number: higher by one, and never 23456, which is reserved as AS_TRANS (RFC 6793,
/// section 9).
pub(crate) fn asn_of(number: usize) -> Asn {
    let asn = number as u32 + 1;
    Asn(if asn < Asn::TRANS.0 { asn } else { asn + 1 })
}

/// `count` nodes without a place, each an AS of its own.
pub(crate) fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|n| Node { asn: asn_of(n), name: format!("as{}", asn_of(n).0), place: None }).collect()
}

/// `count` nodes anywhere in the square; places are whole kilometers, as in BRITE.
pub(crate) fn scattered(count: usize, rng: &mut Rng) -> Vec<Node> {
    let mut nodes = nodes(count);
    for node in &mut nodes {
        let mut draw = || rng.below(SIDE as u64) as f64;
        node.place = Some(Place::Plane { x: draw(), y: draw() });
    }
    nodes
}

/// Returns the kilometers between two places; `None` for places of different kinds.
pub(crate) fn distance(a: Place, b: Place) -> Option<f64> {
    const EARTH_RADIUS: f64 = 6371.0;
    match (a, b) {
        (Place::Plane { x, y }, Place::Plane { x: x2, y: y2 }) => {
            Some(((x - x2) * (x - x2) + (y - y2) * (y - y2)).sqrt())
        }
        (
            Place::Earth { latitude, longitude },
            Place::Earth { latitude: latitude2, longitude: longitude2 },
        ) => {
            // The haversine formula.
            let half = |degrees: f64| libm::sin(degrees.to_radians() / 2.0);
            let (dy, dx) = (half(latitude2 - latitude), half(longitude2 - longitude));
            let cosines = libm::cos(latitude.to_radians()) * libm::cos(latitude2.to_radians());
            let chord = (dy * dy + cosines * dx * dx).clamp(0.0, 1.0);
            Some(2.0 * EARTH_RADIUS * libm::asin(chord.sqrt()))
        }
        _ => None,
    }
}

/// Returns the delay of an octet between two nodes.
pub(crate) fn delay(a: &Node, b: &Node) -> Duration {
    let kilometers = a.place.zip(b.place).and_then(|(a, b)| distance(a, b));
    kilometers.map_or(DEFAULT_DELAY, |kilometers| {
        let nanos = kilometers / KILOMETERS_A_MILLISECOND * 1e6;
        LEAST_DELAY.max(Duration::from_nanos(nanos as u64))
    })
}

/// Makes a topology of node pairs, with the delay of each link from the distance, and the bandwidth drawn.
pub(crate) fn linked(
    nodes: Vec<Node>,
    pairs: impl IntoIterator<Item = (u32, u32)>,
    bandwidth: Bandwidth,
    rng: &mut Rng,
) -> Topology {
    let links = pairs
        .into_iter()
        .map(|(a, b)| Link {
            a: NodeId(a),
            b: NodeId(b),
            delay: delay(&nodes[a as usize], &nodes[b as usize]),
            bandwidth: bandwidth.draw(rng),
            relationship: Relationship::None,
        })
        .collect();
    Topology { nodes, links }
}
