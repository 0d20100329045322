//! Bounds on the prefixes of a neighbor, and the judgment of counts by them.

use crate::event::LimitReached;
use serde::{Deserialize, Serialize};

/// The bounds of a family, as in `maximum-prefixes` of `bgp.yang`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct MaximumPrefixes {
    /// The most prefixes that the neighbor may announce.
    pub received: Option<u32>,
    /// The most prefixes that import policy may accept.
    pub accepted: Option<u32>,
    /// The percentage of a bound at which a warning is due; [`WARN_PERCENT`] if absent.
    pub warn_percent: Option<u8>,
    /// The consequence of a bound that is exceeded; [`LimitAction::Shutdown`] if absent.
    pub action: Option<LimitAction>,
    /// Seconds after which a session that ended for a bound is opened again; never if absent.
    pub restart_after: Option<u32>,
}

/// The percentage of a bound at which a warning is due by default.
pub const WARN_PERCENT: u8 = 75;

/// The consequence of a bound that is exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitAction {
    /// A warning.
    Warn,
    /// New prefixes are ignored as long as the bound is reached.
    Discard,
    /// The session ends with a Cease, Maximum Number of Prefixes Reached (RFC 4486, section 4).
    Shutdown,
}

impl MaximumPrefixes {
    /// No bounds.
    pub const NONE: MaximumPrefixes = MaximumPrefixes {
        received: None,
        accepted: None,
        warn_percent: None,
        action: None,
        restart_after: None,
    };

    /// Returns true if a bound is configured.
    pub const fn is_set(&self) -> bool {
        self.received.is_some() || self.accepted.is_some()
    }

    /// Returns the consequence of a bound that is exceeded.
    pub fn action(&self) -> LimitAction {
        self.action.unwrap_or(LimitAction::Shutdown)
    }

    /// Returns the percentage of a bound at which a warning is due.
    pub fn warn_percent(&self) -> u8 {
        self.warn_percent.unwrap_or(WARN_PERCENT)
    }

    /// Returns the bounds, with absent bounds from `from`.
    pub fn inherit(self, from: MaximumPrefixes) -> MaximumPrefixes {
        MaximumPrefixes {
            received: self.received.or(from.received),
            accepted: self.accepted.or(from.accepted),
            warn_percent: self.warn_percent.or(from.warn_percent),
            action: self.action.or(from.action),
            restart_after: self.restart_after.or(from.restart_after),
        }
    }

    /// Returns the stage of counts after the stage `before`. Counts fall back to a lower stage at a tenth below the reached
    /// threshold, so counts that oscillate at a threshold are reported once.
    pub(crate) fn stage(&self, before: Stage, counts: PrefixCount) -> Stage {
        let of = |counts| match self.judge(counts) {
            (Some(_), _) => Stage::Exceeded,
            (None, Some(_)) => Stage::Warned,
            (None, None) => Stage::Below,
        };
        let raise = |count: u32| count.saturating_add(count / 9);
        let raised = PrefixCount { received: raise(counts.received), accepted: raise(counts.accepted) };
        of(counts).max(of(raised).min(before))
    }

    /// Returns the first exceeded bound, and the first bound with a reached warning.
    pub(crate) fn judge(&self, counts: PrefixCount) -> (Option<LimitReached>, Option<LimitReached>) {
        let bounds = [(self.received, counts.received, false), (self.accepted, counts.accepted, true)];
        let set = bounds.into_iter().filter_map(|(bound, count, is_accepted)| {
            Some(LimitReached { bound: bound?, count, is_accepted })
        });
        let percent = u64::from(self.warn_percent());
        let is_near = |l: &LimitReached| u64::from(l.count) * 100 >= u64::from(l.bound) * percent;
        (set.clone().find(|l| l.count > l.bound), set.clone().find(is_near))
    }
}

/// The prefixes of a neighbor in a table or in all tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrefixCount {
    /// Announced by the neighbor.
    pub received: u32,
    /// Accepted by import policy.
    pub accepted: u32,
}

/// The reported relation of a family's counts to the bounds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Below,
    Warned,
    Exceeded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_judged_by_both_counts() {
        let bounds =
            MaximumPrefixes { received: Some(100), accepted: Some(10), ..MaximumPrefixes::default() };
        let judge = |received, accepted| {
            let (exceeded, near) = bounds.judge(PrefixCount { received, accepted });
            (exceeded.map(|l| l.is_accepted), near.map(|l| l.is_accepted))
        };
        assert_eq!(judge(74, 7), (None, None));
        assert_eq!(judge(75, 7), (None, Some(false)));
        assert_eq!(judge(74, 8), (None, Some(true)));
        assert_eq!(judge(100, 10), (None, Some(false)));
        assert_eq!(judge(101, 10), (Some(false), Some(false)));
        assert_eq!(judge(50, 11), (Some(true), Some(true)));
        assert!(!MaximumPrefixes::default().is_set());
    }
}
