//! The parameters of flap damping (RFC 2439).

use super::decay::decayed;
use serde::{Deserialize, Serialize};
use sluice_policy::source::Damping;

/// The penalty of a withdrawal (RFC 7196, section 3).
pub const WITHDRAWAL: u32 = 1000;

/// The penalty of changed attributes (RFC 7196, section 3). A re-advertisement has no penalty.
pub const ATTRIBUTE_CHANGE: u32 = 500;

/// The highest ceiling of penalties.
pub(crate) const HIGHEST: u32 = 1_000_000;

/// The parameters of flap damping (RFC 7196, section 3), as in `damping` of `bgp.yang`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct DampingRules {
    /// The minutes in which a penalty decays by half.
    pub half_life: u8,
    /// The penalty up to which a suppressed route is used again.
    pub reuse: u32,
    /// The penalty above which a route is suppressed.
    pub suppress: u32,
    /// The most minutes for which a route without further flaps stays suppressed.
    pub max_suppress_time: u8,
    /// The most histories of a family in all tables; further routes are not damped.
    pub histories: u32,
}

impl DampingRules {
    /// The recommended values (RFC 7196, sections 3 and 6).
    pub const DEFAULT: DampingRules = DampingRules {
        half_life: 15,
        reuse: 750,
        suppress: 6000,
        max_suppress_time: 60,
        histories: 1_000_000,
    };

    /// Returns the parameters that policy chose for a route.
    pub const fn by(damping: &Damping) -> Self {
        DampingRules {
            half_life: damping.half_life,
            reuse: damping.reuse,
            suppress: damping.suppress,
            max_suppress_time: damping.max_suppress_time,
            ..DampingRules::DEFAULT
        }
    }

    /// Returns the ceiling of penalties: from there a penalty decays to the reuse threshold in the longest suppress time (RFC 2439, section
    /// 4.2). At most 1,000,000.
    pub fn ceiling(&self) -> u32 {
        let half_life = u32::from(self.half_life.max(1)) * 600;
        // The decay the other way round: the ceiling is the reuse threshold divided by what is left of 1.
        let left = decayed(1 << 30, u32::from(self.max_suppress_time) * 600, half_life).max(1);
        let ceiling = (u64::from(self.reuse) << 30) / u64::from(left);
        u32::try_from(ceiling).unwrap_or(HIGHEST).min(HIGHEST)
    }
}

impl Default for DampingRules {
    fn default() -> Self {
        DampingRules::DEFAULT
    }
}

/// Returns the most histories of a shard.
pub(super) fn most(rules: &DampingRules, parts: usize) -> usize {
    (rules.histories as usize).div_ceil(parts.max(1))
}
