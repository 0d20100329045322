//! The router's properties in tables.

use super::loc_rib::{DecisionRules, MultipathRules};
use sluice_base::{Asn, RouterId};

/// The properties of the router, for the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnRouter {
    /// The AS.
    pub local_as: Asn,
    /// The BGP Identifier.
    pub router_id: RouterId,
    /// The rules of the decision.
    pub decision: DecisionRules,
}

impl OwnRouter {
    /// A router with the usual decision.
    pub const fn new(local_as: Asn, router_id: RouterId) -> Self {
        let decision = DecisionRules {
            always_compare_med: false,
            missing_med_worst: false,
            prefer_oldest: false,
            multipath: MultipathRules::OFF,
        };
        OwnRouter { local_as, router_id, decision }
    }
}
