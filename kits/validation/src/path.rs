//! Verification of AS paths by ASPAs (draft-ietf-sidrops-aspa-verification, section 6).
//!
//! A path without a leak climbs from customers to providers, then crosses at most one hop between peers, and descends to customers. From the
//! origin's side the *up-ramp* is measured, from the receiver's side the *down-ramp*. A denied hop bounds a ramp's longest length, an
//! unattested hop its shortest length. A path whose longest ramps do not meet is invalid; a path whose shortest ramps meet is valid.

use crate::aspa::{AspaSet, Authorization};
use alloc::vec::Vec;
use sluice_base::Asn;

/// The result of the verification of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PathValidity {
    /// No data, or the ASes of the path attest too little.
    #[default]
    Unknown,
    /// No AS of the path leaked the route.
    Valid,
    /// An AS of the path leaked the route, or the path is malformed.
    Invalid,
}

impl PathValidity {
    /// The names of the results, in order.
    pub const NAMES: &'static [&'static str] = &["unknown", "valid", "invalid"];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        PathValidity::NAMES[self as usize]
    }
}

/// The direction in which a path must lead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// The neighbor is a customer, a peer, a route server or a route server's client: the path climbs alone (section 6.2).
    Upstream,
    /// The neighbor is a provider: the path climbs and descends (section 6.3).
    Downstream,
}

/// A path as the verification takes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// The ASes from the neighbor to the origin.
    asns: Vec<Asn>,
    has_set: bool,
}

impl Path {
    /// Adds the next AS toward the origin. An AS repeated in a row counts once.
    pub fn push(&mut self, asn: Asn) {
        if self.asns.last() != Some(&asn) {
            self.asns.push(asn);
        }
    }

    /// Notes an AS_SET, whose order is lost.
    pub fn push_set(&mut self) {
        self.has_set = true;
    }

    /// Returns the ASes from the neighbor to the origin.
    pub fn asns(&self) -> &[Asn] {
        &self.asns
    }

    /// Verifies the path. `neighbor` is the AS that must come first; `None` for a route server, which leaves its AS out. Without any ASPA,
    /// no path is verified.
    pub fn verify(&self, aspas: &AspaSet, direction: Direction, neighbor: Option<Asn>) -> PathValidity {
        if aspas.is_empty() {
            return PathValidity::Unknown;
        }
        let is_other = neighbor.is_some_and(|neighbor| self.asns.first() != Some(&neighbor));
        if self.asns.is_empty() || self.has_set || is_other {
            return PathValidity::Invalid;
        }
        let len = self.asns.len();
        let hops = self.asns.windows(2);
        let up = ramp(len, hops.clone().rev().map(|hop| aspas.authorized(hop[1], hop[0])));
        let down = match direction {
            Direction::Upstream => Ramp { shortest: 0, longest: 0 },
            Direction::Downstream => ramp(len, hops.map(|hop| aspas.authorized(hop[0], hop[1]))),
        };
        if up.longest + down.longest < len {
            PathValidity::Invalid
        } else if up.shortest + down.shortest < len {
            PathValidity::Unknown
        } else {
            PathValidity::Valid
        }
    }
}

/// The bounds of a ramp's length in ASes.
struct Ramp {
    shortest: usize,
    longest: usize,
}

/// Measures a ramp by the answers for its hops, from the bottom up. `len` is the length of the path.
fn ramp(len: usize, hops: impl Iterator<Item = Authorization>) -> Ramp {
    let mut ramp = Ramp { shortest: len, longest: len };
    for (place, answer) in hops.enumerate() {
        if answer != Authorization::Provider {
            ramp.shortest = ramp.shortest.min(place + 1);
        }
        if answer == Authorization::NotProvider {
            ramp.longest = place + 1;
            break;
        }
    }
    ramp
}
