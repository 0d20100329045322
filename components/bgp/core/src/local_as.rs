//! A different AS of the router toward a neighbor, during the merger of networks: the neighbor's side is configured with the former
//! AS. The rules are as in FRR's `neighbor local-as` with its modes.

use serde::{Deserialize, Serialize};
use sluice_base::Asn;

/// The router's AS toward an external neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LocalAs {
    /// The AS.
    pub number: Asn,
    /// The AS paths with the AS.
    #[serde(default)]
    pub mode: LocalAsMode,
    /// True if the neighbor may know this router by the router's own AS too.
    #[serde(default)]
    pub dual: bool,
}

/// The AS paths with the different AS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalAsMode {
    /// Received and sent paths: received paths get the AS, and sent paths begin with the AS, before the router's own.
    #[default]
    Prepend,
    /// Sent paths only: they begin with the AS, before the router's own; received paths stay unchanged.
    NoPrepend,
    /// Sent paths only: they begin with the AS and lack the router's own; received paths stay unchanged.
    ReplaceAs,
}

impl LocalAs {
    /// Returns true if received paths get the AS.
    pub(crate) fn is_prepended_on_import(&self) -> bool {
        self.mode == LocalAsMode::Prepend
    }

    /// Returns true if sent paths have the AS in the place of the router's own.
    pub fn hides_router_as(&self) -> bool {
        self.mode == LocalAsMode::ReplaceAs
    }
}
