//! The difference between two epochs, and the routes whose states may change.

use crate::aspa::AspaChanges;
use crate::record::Record;
use crate::vrp::{AnyVrp, Vrp, VrpFamily};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix};

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

/// Added and removed VRPs, and changed ASPAs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableChanges {
    /// Changes of IPv4.
    pub ipv4: VrpChanges<Ipv4Prefix>,
    /// Changes of IPv6.
    pub ipv6: VrpChanges<Ipv6Prefix>,
    /// Changed ASPAs.
    pub aspas: AspaChanges,
}

impl TableChanges {
    /// Returns the number of changed VRPs and ASPAs.
    pub fn len(&self) -> usize {
        let of = |added: usize, removed: usize| added + removed;
        of(self.ipv4.added.len(), self.ipv4.removed.len())
            + of(self.ipv6.added.len(), self.ipv6.removed.len())
            + self.aspas.len()
    }

    /// Returns true without changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a change of a VRP.
    pub fn push(&mut self, vrp: AnyVrp, is_added: bool) {
        match (vrp, is_added) {
            (AnyVrp::V4(vrp), true) => self.ipv4.added.push(vrp),
            (AnyVrp::V4(vrp), false) => self.ipv4.removed.push(vrp),
            (AnyVrp::V6(vrp), true) => self.ipv6.added.push(vrp),
            (AnyVrp::V6(vrp), false) => self.ipv6.removed.push(vrp),
        }
    }

    /// Adds the change of a record.
    pub(crate) fn push_record(&mut self, record: Record) {
        match record {
            Record::Vrp(vrp, is_added) => self.push(vrp, is_added),
            Record::Aspa(customer, providers) => drop(self.aspas.insert(customer, providers)),
        }
    }

    /// Iterates over the changed VRPs, removed VRPs first; true for added VRPs.
    pub fn vrps(&self) -> impl Iterator<Item = (AnyVrp, bool)> + '_ {
        let removed = self.ipv4.removed.iter().copied().map(AnyVrp::V4);
        let removed = removed.chain(self.ipv6.removed.iter().copied().map(AnyVrp::V6));
        let added = self.ipv4.added.iter().copied().map(AnyVrp::V4);
        let added = added.chain(self.ipv6.added.iter().copied().map(AnyVrp::V6));
        removed.map(|vrp| (vrp, false)).chain(added.map(|vrp| (vrp, true)))
    }

    /// Iterates over all changes as records, removed VRPs first.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let aspas = self.aspas.iter().map(|(customer, providers)| Record::Aspa(*customer, providers.clone()));
        self.vrps().map(|(vrp, is_added)| Record::Vrp(vrp, is_added)).chain(aspas)
    }

    /// Returns the routes whose states may differ.
    pub fn prefixes(&self) -> ChangedPrefixes {
        ChangedPrefixes::Some {
            ipv4: outermost(&self.ipv4),
            ipv6: outermost(&self.ipv6),
            customers: self.aspas.keys().copied().collect(),
        }
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

/// Routes whose validation states may differ from the epoch before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ChangedPrefixes {
    /// Every route.
    All,
    /// Routes of prefixes inside sorted, disjoint prefixes, and routes with one of the customers in their AS path.
    Some {
        /// Prefixes of IPv4.
        ipv4: Vec<Ipv4Prefix>,
        /// Prefixes of IPv6.
        ipv6: Vec<Ipv6Prefix>,
        /// Customers whose ASPA changed, sorted.
        customers: Vec<Asn>,
    },
}

impl ChangedPrefixes {
    /// Returns true if the validation of the origin of a route of `prefix` may differ. Costs a binary search.
    pub fn covers(&self, prefix: IpPrefix) -> bool {
        match (self, prefix) {
            (ChangedPrefixes::All, _) => true,
            (ChangedPrefixes::Some { ipv4, .. }, IpPrefix::V4(prefix)) => is_inside(ipv4, prefix),
            (ChangedPrefixes::Some { ipv6, .. }, IpPrefix::V6(prefix)) => is_inside(ipv6, prefix),
        }
    }

    /// Returns true if no verification of an AS path differs.
    pub fn has_no_customers(&self) -> bool {
        matches!(self, ChangedPrefixes::Some { customers, .. } if customers.is_empty())
    }

    /// Returns true if the verification of an AS path with one of these ASes may differ. Costs a binary search for each AS.
    pub fn meets(&self, mut path: impl Iterator<Item = Asn>) -> bool {
        match self {
            ChangedPrefixes::All => true,
            ChangedPrefixes::Some { customers, .. } => path.any(|asn| customers.binary_search(&asn).is_ok()),
        }
    }

    /// Returns the routes of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (
                ChangedPrefixes::Some { ipv4, ipv6, customers },
                ChangedPrefixes::Some { ipv4: more4, ipv6: more6, customers: more },
            ) => {
                let customers: BTreeSet<Asn> = customers.iter().chain(more).copied().collect();
                ChangedPrefixes::Some {
                    ipv4: disjoint(ipv4.iter().chain(more4).copied().collect()),
                    ipv6: disjoint(ipv6.iter().chain(more6).copied().collect()),
                    customers: customers.into_iter().collect(),
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
