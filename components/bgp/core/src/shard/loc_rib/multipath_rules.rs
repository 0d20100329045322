//! The rules by which several paths of a prefix share its packets.

use serde::{Deserialize, Serialize};

/// The number of paths of a prefix that forward packets side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct MultipathRules {
    /// The most paths from external neighbors; up to 1 for the best path alone.
    pub external: u8,
    /// The most paths from internal neighbors; up to 1 for the best path alone.
    pub internal: u8,
    /// True if paths are equal whose AS paths have the same length and different contents.
    pub relax_as_path: bool,
}

impl MultipathRules {
    /// The best path alone forwards packets.
    pub const OFF: MultipathRules = MultipathRules { external: 1, internal: 1, relax_as_path: false };

    /// Returns true if several paths may forward packets.
    #[inline]
    pub const fn is_on(self) -> bool {
        self.external > 1 || self.internal > 1
    }

    pub(super) const fn limit(self, is_internal: bool) -> u8 {
        if is_internal { self.internal } else { self.external }
    }
}

impl Default for MultipathRules {
    fn default() -> Self {
        MultipathRules::OFF
    }
}
