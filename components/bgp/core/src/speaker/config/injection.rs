//! The configuration of a peer whose routes come from a trace.

use super::neighbor::NeighborConfig;
use serde::Serialize;

/// The source of injected routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InjectionConfig {
    /// The peer, as if it were a neighbor.
    pub neighbor: NeighborConfig,
    /// True if the RIB is sent the routes.
    pub is_installed: bool,
}
