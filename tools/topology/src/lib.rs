//! Topologies as data: nodes and links, generated or read from published measurements.
//!
//! [`Topology::parse_spec`] makes a topology from a command line's word, such as `thesis`, `ba:200,m=3` or
//! `zoo/Abilene.graphml`; [`spec`] lists the words. The same words and the same seed give the same topology on every
//! machine: randomness is [`sluice_base::Rng`], and no number depends on a machine's mathematical library.
//!
//! [`hierarchy`] assigns customers and providers where measurements are missing.

#![warn(clippy::disallowed_macros)]

mod brite;
mod caida;
mod error;
mod file;
mod graph;
mod graphml;
pub mod hierarchy;
mod plane;
mod preferential;
mod regular;
pub mod spec;
mod thesis;
mod waxman;

pub use error::{Problem, TopologyError};
pub use plane::Bandwidth;
pub use preferential::{barabasi_albert, glp};
pub use regular::{grid, line, mesh, ring, star};
pub use thesis::{CENTER_DEGREE, LEAST_THESIS_NODES, THESIS_NODES, thesis};
pub use waxman::waxman;

use sluice_base::{Asn, Duration};

/// A node's place in [`Topology::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The place as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    /// On a plane, in kilometers.
    Plane {
        /// To the right.
        x: f64,
        /// Up.
        y: f64,
    },
    /// On Earth, in degrees.
    Earth {
        /// North of the equator.
        latitude: f64,
        /// East of Greenwich.
        longitude: f64,
    },
}

/// A router, or an AS seen as one.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The node's AS; routers of an AS share the number. Never 0, nor 23456 (AS_TRANS).
    pub asn: Asn,
    /// The name for people; need not be unique.
    pub name: String,
    /// The place, if known.
    pub place: Option<Place>,
}

/// The relationship of the node at a link's end `a` to the node at `b`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Relationship {
    /// No relationship is known.
    #[default]
    None,
    /// `a` is a customer of `b`: `b` sells it transit.
    CustomerOf,
    /// Both carry each other's customers' traffic, and nobody pays.
    Peer,
}

/// A neighbor's role as seen from a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The neighbor buys transit from the node.
    Customer,
    /// The neighbor is a peer.
    Peer,
    /// The neighbor sells transit to the node.
    Provider,
}

/// A link between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    /// The first end.
    pub a: NodeId,
    /// The other end; never the same node.
    pub b: NodeId,
    /// The delay of an octet in either direction.
    pub delay: Duration,
    /// Bits per second, in either direction; at least 1.
    pub bandwidth: u64,
    /// The relationship of `a` to `b`.
    pub relationship: Relationship,
}

impl Link {
    /// The end that is not `node`.
    pub fn other(&self, node: NodeId) -> NodeId {
        if self.a == node { self.b } else { self.a }
    }

    /// Returns the role of the far end as seen from `node`, an end of the link; `None` if no relationship is known.
    pub fn role_seen_from(&self, node: NodeId) -> Option<Role> {
        match self.relationship {
            Relationship::None => None,
            Relationship::Peer => Some(Role::Peer),
            Relationship::CustomerOf if node == self.a => Some(Role::Provider),
            Relationship::CustomerOf => Some(Role::Customer),
        }
    }
}

/// Nodes and links. Two nodes have at most one link, and no node has a link to itself.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links.
    pub links: Vec<Link>,
}

impl Topology {
    /// The most nodes that are read or generated.
    pub const MOST_NODES: usize = 1_000_000;
    /// The most links that are read or generated.
    pub const MOST_LINKS: usize = 4_000_000;

    /// A topology from a word of a command line; [`spec`] lists the possible words.
    pub fn parse_spec(spec: &str, seed: u64) -> Result<Self, TopologyError> {
        spec::parse(spec, seed)
    }
}
