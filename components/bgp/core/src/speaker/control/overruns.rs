//! The bounds on prefixes that a new configuration would exceed at once.

use super::router::Control;
use super::view::PrefixCounts;
use crate::event::LimitReached;
use crate::family::FamilyIndex;
use crate::shard::PeerIndex;
use crate::speaker::config::{Config, LimitAction, PrefixCount};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

/// A bound that a change of the configuration sets below a neighbor's prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overrun {
    /// The neighbor.
    pub neighbor: IpAddr,
    /// The family with the bound.
    pub family: FamilyIndex,
    /// The bound, and the exceeding count.
    pub reached: LimitReached,
    /// The consequence.
    pub action: LimitAction,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrun { neighbor, family, reached, action } = self;
        let consequence = match action {
            LimitAction::Warn => "a warning",
            LimitAction::Discard => "new prefixes are ignored",
            LimitAction::Shutdown => "the session ends and stays down",
        };
        write!(f, "{neighbor} {family}: {reached}: {consequence}")
    }
}

impl Control {
    /// Returns the bounds set by a change to `new` below the prefixes of neighbors with an established session; `counts` returns
    /// the prefixes of a neighbor. Unchanged bounds are left out.
    pub fn overruns(&self, new: &Config, counts: impl Fn(PeerIndex) -> PrefixCounts) -> Vec<Overrun> {
        let mut overruns = Vec::new();
        for (neighbor, after) in self.config().followed_by(new) {
            let known = self.peers.of(neighbor).filter(|peer| peer.life.is_some() && after.enabled);
            let (Some(peer), Some(index)) = (known, self.neighbor_index(neighbor)) else { continue };
            let counts = counts(index);
            for family in FamilyIndex::all() {
                let bounds = after.maximum_prefixes(family);
                let (received, rejected) = (counts.received[family], counts.rejected[family]);
                let count = PrefixCount { received, accepted: received.saturating_sub(rejected) };
                let is_other = bounds != peer.config.maximum_prefixes(family);
                if let (true, (Some(reached), _)) = (is_other, bounds.judge(count)) {
                    overruns.push(Overrun { neighbor, family, reached, action: bounds.action() });
                }
            }
        }
        overruns
    }
}
