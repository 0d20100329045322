//! Business relationships with external neighbors: BGP roles (RFC 9234), and the preferences of Gao and
//! Rexford ("Stable Internet Routing Without Global Coordination", 2001).
//!
//! * Route servers and their clients have roles of their own; a route server's routes count as a peer's routes.
//! * In: LOCAL_PREF follows the relationship, so that a customer's route wins over a peer's route and a peer's route over a provider's.
//!   Routes from peers and providers get ONLY_TO_CUSTOMER, if the attribute is absent; a route with an ONLY_TO_CUSTOMER that must not be
//!   there is a leak and counts as withdrawn (RFC 9234, section 5).
//! * Out: routes with ONLY_TO_CUSTOMER are advertised to customers only; routes advertised to customers and peers get ONLY_TO_CUSTOMER.
//!
//! ONLY_TO_CUSTOMER and LOCAL_PREF are attributes, so every router of the AS sees both.

use crate::wire::attribute::DEFAULT_LOCAL_PREF;
use serde::{Deserialize, Serialize};

/// The role of an external neighbor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relationship {
    /// The neighbor buys transit from this AS.
    Customer,
    /// Both ASes carry the traffic of each other's customers.
    Peer,
    /// The neighbor sells transit to this AS.
    Provider,
    /// The neighbor is a route server of an exchange point (RFC 7947).
    RouteServer,
    /// The neighbor is a client of this route server.
    RouteServerClient,
}

/// Values of the role capability (RFC 9234, section 4.1): the role of the sender.
mod role {
    pub(crate) const PROVIDER: u8 = 0;
    pub(crate) const ROUTE_SERVER: u8 = 1;
    pub(crate) const ROUTE_SERVER_CLIENT: u8 = 2;
    pub const CUSTOMER: u8 = 3;
    pub const PEER: u8 = 4;
}

/// Returns the name of a role (RFC 9234, table 1), as the sender of the capability has it; `None` for unassigned values.
pub const fn role_name(role: u8) -> Option<&'static str> {
    Some(match role {
        role::PROVIDER => "provider",
        role::ROUTE_SERVER => "route-server",
        role::ROUTE_SERVER_CLIENT => "route-server-client",
        role::CUSTOMER => "customer",
        role::PEER => "peer",
        _ => return None,
    })
}

impl Relationship {
    /// Returns the name, as in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Relationship::Customer => "customer",
            Relationship::Peer => "peer",
            Relationship::Provider => "provider",
            Relationship::RouteServer => "route-server",
            Relationship::RouteServerClient => "route-server-client",
        }
    }

    /// Returns the LOCAL_PREF of the neighbor's routes. Routes of neighbors without a relationship, and the AS's own routes, have
    /// [`DEFAULT_LOCAL_PREF`], as customers' routes have: no neighbor's route may be preferred to an own route, or two
    /// ASes with a common prefix, each preferring the neighbor's route, would never settle. The shorter path makes the own route win.
    pub const fn local_pref(self) -> u32 {
        match self {
            Relationship::Customer | Relationship::RouteServerClient => DEFAULT_LOCAL_PREF,
            Relationship::Peer | Relationship::RouteServer => 90,
            Relationship::Provider => 80,
        }
    }

    /// Returns the router's announced role (RFC 9234, table 1).
    pub(crate) const fn own_role(self) -> u8 {
        match self {
            Relationship::Customer => role::PROVIDER,
            Relationship::Peer => role::PEER,
            Relationship::Provider => role::CUSTOMER,
            Relationship::RouteServer => role::ROUTE_SERVER_CLIENT,
            Relationship::RouteServerClient => role::ROUTE_SERVER,
        }
    }

    /// Returns the required role of a neighbor that announces a role (RFC 9234, table 2).
    pub(crate) const fn neighbors_role(self) -> u8 {
        match self {
            Relationship::Customer => role::CUSTOMER,
            Relationship::Peer => role::PEER,
            Relationship::Provider => role::PROVIDER,
            Relationship::RouteServer => role::ROUTE_SERVER,
            Relationship::RouteServerClient => role::ROUTE_SERVER_CLIENT,
        }
    }

    /// Returns true if the neighbor's routes are for customers only.
    pub(crate) const fn marks_received(self) -> bool {
        !self.is_for_everybody()
    }

    /// Returns true if routes advertised to the neighbor are for the neighbor's customers only.
    pub const fn marks_sent(self) -> bool {
        !matches!(self, Relationship::Provider | Relationship::RouteServer)
    }

    /// Returns true if routes from the neighbor may go to every neighbor, and marked routes to the neighbor.
    pub(crate) const fn is_for_everybody(self) -> bool {
        matches!(self, Relationship::Customer | Relationship::RouteServerClient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The preferences of Gao and Rexford, with the AS's own routes at the top.
    #[test]
    fn who_pays_is_preferred() {
        let preferences = [Relationship::Customer, Relationship::Peer, Relationship::Provider]
            .map(Relationship::local_pref);
        assert!(preferences.is_sorted_by(|a, b| a > b), "{preferences:?}");
        assert!(preferences[0] <= DEFAULT_LOCAL_PREF);
    }

    /// RFC 9234, table 2: the roles of both ends of a session must correspond.
    #[test]
    fn roles_fit() {
        let ends = [
            (Relationship::Customer, Relationship::Provider),
            (Relationship::Peer, Relationship::Peer),
            (Relationship::Provider, Relationship::Customer),
            (Relationship::RouteServer, Relationship::RouteServerClient),
            (Relationship::RouteServerClient, Relationship::RouteServer),
        ];
        for (here, there) in ends {
            assert_eq!(here.neighbors_role(), there.own_role());
            assert_eq!(role_name(here.neighbors_role()), Some(here.name()));
            // What one end marks, the other would have marked.
            assert_eq!(here.marks_sent(), there.marks_received(), "{here:?}");
        }
    }
}
