//! Sets of path attributes: from the received octets to the stored set.
//!
//! A stored set is *canonical octets* plus a [`View`]. The octets are attributes in the order of their codes, 4-octet AS
//! numbers everywhere, without NEXT_HOP, MP_REACH_NLRI and MP_UNREACH_NLRI (parts of a family's routes) and without
//! attributes that a router must not keep. Unknown transitive attributes are kept byte for byte, marked Partial. A route is announced again
//! by a copy with small edits. The view holds the values for the decision, so a decision reads no octets.
//!
//! [`Scan`] walks received attributes and judges them by RFC 7606; [`canonical`] writes the set.

pub mod canonical;
pub mod link_bandwidth;
pub mod private;
mod problem;
mod rules;
mod scan;
#[cfg(test)]
mod tests;

pub use problem::{AttributeError, Problem, Verdict};
pub use rules::{REMOVABLE, Treatment};
pub use scan::{ReceiveRules, Scan};

pub(crate) use crate::wire::attribute::DEFAULT_LOCAL_PREF;

use core::fmt;
use core::num::NonZeroU32;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, RouterId};

/// The ORIGIN attribute (RFC 4271, section 5.1.1); lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Interior to the originating AS.
    Igp,
    /// By the EGP protocol.
    Egp,
    /// By other means.
    Incomplete,
}

impl Origin {
    /// Returns the origin with a code; `None` for an unknown code.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Origin::Igp,
            1 => Origin::Egp,
            2 => Origin::Incomplete,
            _ => return None,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Igp => "igp",
            Origin::Egp => "egp",
            Origin::Incomplete => "incomplete",
        })
    }
}

/// The values of a set for the decision process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct View {
    /// LOCAL_PREF, or [`DEFAULT_LOCAL_PREF`].
    pub local_pref: u32,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// The AS from which the route was learned; the router's own without an AS in the path (RFC 4271, section 9.1.2.2 c).
    pub neighbor_as: Asn,
    /// Length of the AS path.
    pub path_length: u16,
    /// ORIGIN.
    pub origin: Origin,
    /// The reach allowed by communities and ONLY_TO_CUSTOMER.
    pub reach: Reach,
    /// ORIGINATOR_ID; `None` for a route that was not reflected.
    pub originator_id: Option<NonZeroU32>,
    /// The number of identifiers in CLUSTER_LIST; 0 if the route was not reflected.
    pub cluster_list_length: u16,
    /// The weight from policy ([`private::Private`]).
    pub weight: u16,
}

impl View {
    /// Returns the BGP Identifier for the comparison of a route of the peer `router_id`: the originator's for a reflected route
    /// (RFC 4456, section 9).
    pub fn compared_id(&self, router_id: RouterId) -> RouterId {
        self.originator_id.map_or(router_id, |id| RouterId(id.get()))
    }
}

/// The neighbors to which a route may be announced, by its well-known communities (RFC 1997) and by ONLY_TO_CUSTOMER (RFC 9234).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// To no neighbor: NO_ADVERTISE.
    Nobody,
    /// Within the AS: NO_EXPORT, and NO_EXPORT_SUBCONFED where there is no confederation.
    OwnAs,
    /// Within the AS and to neighbors other than providers and peers: ONLY_TO_CUSTOMER.
    Customers,
    /// To every neighbor.
    Everybody,
}

impl Reach {
    /// The reach by the value of a COMMUNITIES attribute.
    pub fn of(communities: &[u8]) -> Self {
        let of_one = |community: &[u8]| match community {
            [0xff, 0xff, 0xff, 0x02] => Reach::Nobody,
            [0xff, 0xff, 0xff, 0x01 | 0x03] => Reach::OwnAs,
            _ => Reach::Everybody,
        };
        communities.chunks_exact(4).map(of_one).min().unwrap_or(Reach::Everybody)
    }
}
