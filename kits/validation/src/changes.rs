//! The difference between two epochs, and the prefixes under which states may change.

use crate::vrp::{AnyVrp, Vrp, VrpFamily};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix};

/// Added and removed VRPs of a family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VrpChanges<P> {
    /// Added VRPs.
    pub added: Vec<Vrp<P>>,
    /// Removed VRPs.
    pub removed: Vec<Vrp<P>>,
}

impl<P> Default for VrpChanges<P> {
    fn default() -> Self {
        VrpChanges { added: Vec::new(), removed: Vec::new() }
    }
}

/// Added and removed VRPs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableChanges {
    /// Of IPv4.
    pub ipv4: VrpChanges<Ipv4Prefix>,
    /// Of IPv6.
    pub ipv6: VrpChanges<Ipv6Prefix>,
}

impl TableChanges {
    /// Returns the number of changed VRPs.
    pub fn len(&self) -> usize {
        let of = |added: usize, removed: usize| added + removed;
        of(self.ipv4.added.len(), self.ipv4.removed.len())
            + of(self.ipv6.added.len(), self.ipv6.removed.len())
    }

    /// Returns true without changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a change.
    pub fn push(&mut self, vrp: AnyVrp, is_added: bool) {
        match (vrp, is_added) {
            (AnyVrp::V4(vrp), true) => self.ipv4.added.push(vrp),
            (AnyVrp::V4(vrp), false) => self.ipv4.removed.push(vrp),
            (AnyVrp::V6(vrp), true) => self.ipv6.added.push(vrp),
            (AnyVrp::V6(vrp), false) => self.ipv6.removed.push(vrp),
        }
    }

    /// Iterates over the changes, removed VRPs first; true for added VRPs.
    pub fn iter(&self) -> impl Iterator<Item = (AnyVrp, bool)> + '_ {
        let removed = self.ipv4.removed.iter().copied().map(AnyVrp::V4);
        let removed = removed.chain(self.ipv6.removed.iter().copied().map(AnyVrp::V6));
        let added = self.ipv4.added.iter().copied().map(AnyVrp::V4);
        let added = added.chain(self.ipv6.added.iter().copied().map(AnyVrp::V6));
        removed.map(|vrp| (vrp, false)).chain(added.map(|vrp| (vrp, true)))
    }

    /// Returns the prefixes under which states may differ.
    pub fn prefixes(&self) -> ChangedPrefixes {
        ChangedPrefixes::Some { ipv4: outermost(&self.ipv4), ipv6: outermost(&self.ipv6) }
    }
}

/// Returns the outermost prefixes of changed VRPs, sorted.
fn outermost<P: VrpFamily>(changes: &VrpChanges<P>) -> Vec<P> {
    disjoint(changes.added.iter().chain(&changes.removed).map(|vrp| vrp.prefix).collect())
}

fn disjoint<P: VrpFamily>(mut prefixes: Vec<P>) -> Vec<P> {
    prefixes.sort_unstable();
    let mut kept: Vec<P> = Vec::new();
    for prefix in prefixes {
        if kept.last().is_none_or(|last| !last.covers(prefix)) {
            kept.push(prefix);
        }
    }
    kept
}

/// Prefixes under which validation states may differ from the epoch before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChangedPrefixes {
    /// Every prefix.
    All,
    /// Prefixes inside sorted, disjoint prefixes.
    Some {
        /// Prefixes of IPv4.
        ipv4: Vec<Ipv4Prefix>,
        /// Prefixes of IPv6.
        ipv6: Vec<Ipv6Prefix>,
    },
}

impl ChangedPrefixes {
    /// Returns true if the state of a route of `prefix` may differ. Costs a binary search.
    pub fn covers(&self, prefix: IpPrefix) -> bool {
        match (self, prefix) {
            (ChangedPrefixes::All, _) => true,
            (ChangedPrefixes::Some { ipv4, .. }, IpPrefix::V4(prefix)) => is_inside(ipv4, prefix),
            (ChangedPrefixes::Some { ipv6, .. }, IpPrefix::V6(prefix)) => is_inside(ipv6, prefix),
        }
    }

    /// Returns the prefixes of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (ChangedPrefixes::Some { ipv4, ipv6 }, ChangedPrefixes::Some { ipv4: more4, ipv6: more6 }) => {
                ChangedPrefixes::Some {
                    ipv4: disjoint(ipv4.iter().chain(more4).copied().collect()),
                    ipv6: disjoint(ipv6.iter().chain(more6).copied().collect()),
                }
            }
            _ => ChangedPrefixes::All,
        }
    }
}

fn is_inside<P: VrpFamily>(sorted: &[P], prefix: P) -> bool {
    let last = sorted.partition_point(|known| *known <= prefix).checked_sub(1);
    last.is_some_and(|last| sorted[last].covers(prefix))
}
