//! The parameters that never change in the life of a process.

use crate::family::FamilyCodes;
use crate::shard::{DecisionRules, OwnRouter};
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, Instant, RouterId};

/// The parameters that never change in the life of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The router's AS.
    pub local_as: Asn,
    /// The router's BGP Identifier.
    pub router_id: RouterId,
    /// The driver's secret: seeds hash tables and jitter.
    pub seed: u64,
    /// The number of tables over which prefixes are spread, at least 1: as many as there are threads.
    pub tables: u16,
    /// The source number of the process's provenance ids.
    pub source: u16,
    /// The families on the wire.
    pub codes: FamilyCodes,
    /// The rules of the decision.
    pub decision: DecisionRules,
    /// The start of the process.
    pub started: Instant,
    /// True if the RIB has kept the routes of the process before, which did not end in an orderly way.
    pub is_restarted: bool,
}

impl Identity {
    /// Returns the properties that tables need.
    pub(crate) const fn router(&self) -> OwnRouter {
        OwnRouter { local_as: self.local_as, router_id: self.router_id, decision: self.decision }
    }
}
