//! Another AS of the router toward a neighbor, while one network moves into another: the neighbor's side is configured with the AS of
//! before. The rules are those of FRR's `neighbor local-as` with its modes.

use serde::{Deserialize, Serialize};
use sluice_base::Asn;

/// The AS that an external neighbor knows this router by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LocalAs {
    /// The AS.
    pub number: Asn,
    /// The AS paths that have the AS.
    #[serde(default)]
    pub mode: LocalAsMode,
    /// True if the neighbor may know this router by the router's own AS too.
    #[serde(default)]
    pub dual: bool,
}

/// The AS paths that have the other AS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalAsMode {
    /// Received paths get it, and sent paths begin with it, before the router's own AS.
    #[default]
    Prepend,
    /// Sent paths begin with it, before the router's own AS; received paths stay as they came.
    NoPrepend,
    /// Sent paths begin with it, and do not have the router's own AS; received paths stay as they came.
    ReplaceAs,
}

impl LocalAs {
    /// Returns true if received paths get the AS.
    pub fn is_prepended_on_import(&self) -> bool {
        self.mode == LocalAsMode::Prepend
    }

    /// Returns true if sent paths have the AS in the place of the router's own.
    pub fn hides_router_as(&self) -> bool {
        self.mode == LocalAsMode::ReplaceAs
    }
}
