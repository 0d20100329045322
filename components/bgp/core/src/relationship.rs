//! What an external neighbour is to this AS, and what follows from it: BGP roles (RFC 9234), and the preferences of Gao and
//! Rexford ("Stable Internet Routing Without Global Coordination", 2001).
//!
//! * In: a route's LOCAL_PREF says who it is from, so that a customer's route wins over a peer's and that over a provider's. What came from a peer
//!   or a provider is marked with ONLY_TO_CUSTOMER, if it does not come marked; what is marked and must not be is a leak
//!   and counts as withdrawn (RFC 9234, section 5).
//! * Out: what is marked goes to customers and not to peers and providers; what is told to customers and peers is marked.
//!
//! The mark and LOCAL_PREF are attributes, so that other routers of this AS know them too.

use crate::wire::attribute::DEFAULT_LOCAL_PREF;
use serde::{Deserialize, Serialize};

/// The role of an external neighbor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relationship {
    /// The neighbor buys transit from this AS.
    Customer,
    /// Each carries the other's customers' traffic.
    Peer,
    /// The neighbor sells transit to this AS.
    Provider,
}

/// Values of the role capability (RFC 9234, section 4.1): what the sender is to the receiver.
mod role {
    pub const PROVIDER: u8 = 0;
    pub const CUSTOMER: u8 = 3;
    pub const PEER: u8 = 4;
}

impl Relationship {
    /// LOCAL_PREF of its routes. What comes from neighbours without a relationship, and what this AS originates, has
    /// [`DEFAULT_LOCAL_PREF`], as a customer's have: no neighbour's route may be preferred to one of the AS's own, or two ASes
    /// that originate the same prefix, each preferring the other's, would never settle. Its shorter path makes the AS's own win.
    pub const fn local_pref(self) -> u32 {
        match self {
            Relationship::Customer => DEFAULT_LOCAL_PREF,
            Relationship::Peer => 90,
            Relationship::Provider => 80,
        }
    }

    /// The role that this router announces (RFC 9234, table 1).
    pub const fn own_role(self) -> u8 {
        match self {
            Relationship::Customer => role::PROVIDER,
            Relationship::Peer => role::PEER,
            Relationship::Provider => role::CUSTOMER,
        }
    }

    /// The role that the neighbour must have if it announces one (RFC 9234, table 2).
    pub const fn neighbors_role(self) -> u8 {
        match self {
            Relationship::Customer => role::CUSTOMER,
            Relationship::Peer => role::PEER,
            Relationship::Provider => role::PROVIDER,
        }
    }

    /// Returns true if its routes are for customers only.
    pub const fn marks_received(self) -> bool {
        !matches!(self, Relationship::Customer)
    }

    /// Returns true if what it is told is for its customers only.
    pub const fn marks_sent(self) -> bool {
        !matches!(self, Relationship::Provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The preferences of Gao and Rexford, and none above what the AS itself originates.
    #[test]
    fn who_pays_is_preferred() {
        let preferences = [Relationship::Customer, Relationship::Peer, Relationship::Provider]
            .map(Relationship::local_pref);
        assert!(preferences.is_sorted_by(|a, b| a > b), "{preferences:?}");
        assert!(preferences[0] <= DEFAULT_LOCAL_PREF);
    }

    /// RFC 9234, table 2: both ends of a session must be told things that fit.
    #[test]
    fn roles_fit() {
        let ends = [
            (Relationship::Customer, Relationship::Provider),
            (Relationship::Peer, Relationship::Peer),
            (Relationship::Provider, Relationship::Customer),
        ];
        for (here, there) in ends {
            assert_eq!(here.neighbors_role(), there.own_role());
            // What one end marks, the other would have marked.
            assert_eq!(here.marks_sent(), there.marks_received());
        }
    }
}
