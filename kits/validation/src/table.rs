//! All VRPs and ASPAs of an epoch, and validation (RFC 6811, section 2).
//!
//! VRPs are sorted. Each distinct prefix is a node with a link to the next enclosing prefix. The covering prefixes of a route are the
//! last node not behind the route, and enclosing prefixes of the node: a binary search, then a short chain. A VRP of IPv4 takes 16 octets and
//! the node 16, without pointers: 10^6 VRPs are 32 MB at most.

use crate::aspa::{AspaSet, Providers};
use crate::changes::{ChangedPrefixes, TableChanges, VrpChanges};
use crate::record::{Record, read_records, write_record};
use crate::vrp::{AnyVrp, Vrp, VrpFamily};
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix};

/// The validation state of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Validity {
    /// No data: the route was not validated.
    #[default]
    Unknown,
    /// A covering VRP allows origin and length.
    Valid,
    /// VRPs cover the prefix, without a VRP for origin and length.
    Invalid,
    /// No VRP covers the prefix.
    NotFound,
}

impl Validity {
    /// The names of the states, in order.
    pub const NAMES: &'static [&'static str] = &["unknown", "valid", "invalid", "not-found"];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Validity::NAMES[self as usize]
    }
}

/// A distinct prefix of the table.
#[derive(Clone, Copy, Debug)]
struct Node<P> {
    prefix: P,
    /// The place of the prefix's first VRP.
    first: u32,
    /// The node of the next enclosing prefix, or [`NO_NODE`].
    around: u32,
}

/// The place of no node.
const NO_NODE: u32 = u32::MAX;

/// The VRPs of a family.
#[derive(Clone, Debug)]
pub struct VrpSet<P> {
    /// Sorted, without duplicates.
    vrps: Vec<Vrp<P>>,
    nodes: Vec<Node<P>>,
}

impl<P> Default for VrpSet<P> {
    fn default() -> Self {
        VrpSet { vrps: Vec::new(), nodes: Vec::new() }
    }
}

impl<P: PartialEq> PartialEq for VrpSet<P> {
    fn eq(&self, other: &Self) -> bool {
        self.vrps == other.vrps
    }
}

impl<P: Eq> Eq for VrpSet<P> {}

impl<P: VrpFamily> VrpSet<P> {
    /// Makes a set of VRPs in any order; duplicates count once.
    pub fn new(mut vrps: Vec<Vrp<P>>) -> Self {
        vrps.sort_unstable();
        vrps.dedup();
        Self::of_sorted(vrps)
    }

    /// Makes a set of sorted VRPs without duplicates.
    pub(crate) fn of_sorted(vrps: Vec<Vrp<P>>) -> Self {
        let mut nodes: Vec<Node<P>> = Vec::new();
        let mut around = NO_NODE;
        for (place, vrp) in vrps.iter().enumerate() {
            if nodes.last().is_some_and(|node| node.prefix == vrp.prefix) {
                continue;
            }
            while let Some(node) = nodes.get(around as usize).filter(|node| !node.prefix.covers(vrp.prefix)) {
                around = node.around;
            }
            let node = nodes.len() as u32;
            nodes.push(Node { prefix: vrp.prefix, first: place as u32, around });
            around = node;
        }
        nodes.shrink_to_fit();
        VrpSet { vrps, nodes }
    }

    /// Returns the VRPs, sorted.
    pub fn vrps(&self) -> &[Vrp<P>] {
        &self.vrps
    }

    /// Returns the number of VRPs.
    pub fn len(&self) -> usize {
        self.vrps.len()
    }

    /// Returns true if there are no VRPs.
    pub fn is_empty(&self) -> bool {
        self.vrps.is_empty()
    }

    /// Iterates over the covering VRPs of a prefix, the longest prefix first.
    pub fn covering(&self, prefix: P) -> impl Iterator<Item = &Vrp<P>> {
        let last = self.nodes.partition_point(|node| node.prefix <= prefix).checked_sub(1);
        let first = last.map_or(NO_NODE, |last| last as u32);
        let chain =
            core::iter::successors(self.nodes.get(first as usize).map(|node| (first, node)), |(_, node)| {
                self.nodes.get(node.around as usize).map(|next| (node.around, next))
            });
        chain.filter(move |(_, node)| node.prefix.covers(prefix)).flat_map(|(place, node)| {
            let end = self.nodes.get(place as usize + 1).map_or(self.vrps.len(), |next| next.first as usize);
            &self.vrps[node.first as usize..end]
        })
    }

    /// Returns the state of a route of `prefix`; `origin` is the last AS of the path, `None` for an AS_SET.
    pub fn validate(&self, prefix: P, origin: Option<Asn>) -> Validity {
        let mut state = Validity::NotFound;
        for vrp in self.covering(prefix) {
            if vrp.matches(prefix, origin) {
                return Validity::Valid;
            }
            state = Validity::Invalid;
        }
        state
    }

    /// Returns the difference from this set to `other`.
    pub fn changes_to(&self, other: &Self) -> VrpChanges<P> {
        let mut changes = VrpChanges::default();
        let (mut old, mut new) = (self.vrps.iter().peekable(), other.vrps.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (None, None) => return changes,
                (Some(a), Some(b)) if a == b => {
                    old.next();
                    new.next();
                }
                (Some(a), b) if b.is_none_or(|b| a < b) => {
                    changes.removed.push(**a);
                    old.next();
                }
                (_, Some(b)) => {
                    changes.added.push(**b);
                    new.next();
                }
                (Some(_), None) => old.by_ref().for_each(|vrp| changes.removed.push(*vrp)),
            }
        }
    }

    /// Returns the set after changes. Removing an absent VRP, or adding a present VRP, has no effect.
    pub fn changed(&self, changes: &VrpChanges<P>) -> Self {
        let mut added = changes.added.clone();
        let mut removed = changes.removed.clone();
        added.sort_unstable();
        removed.sort_unstable();
        let is_removed = |vrp: &Vrp<P>| removed.binary_search(vrp).is_ok();
        let mut vrps = Vec::with_capacity(self.vrps.len() + added.len());
        let mut new = added.into_iter().peekable();
        for vrp in self.vrps.iter().filter(|vrp| removed.is_empty() || !is_removed(vrp)) {
            while let Some(next) = new.next_if(|next| next < vrp) {
                vrps.push(next);
            }
            vrps.push(*vrp);
        }
        vrps.extend(new);
        vrps.dedup();
        Self::of_sorted(vrps)
    }
}

/// The VRPs of both families, and the ASPAs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VrpTable {
    /// The VRPs of IPv4.
    pub ipv4: VrpSet<Ipv4Prefix>,
    /// The VRPs of IPv6.
    pub ipv6: VrpSet<Ipv6Prefix>,
    /// The ASPAs.
    pub aspas: AspaSet,
}

impl VrpTable {
    /// Makes a table of VRPs in any order; duplicates count once.
    pub fn new(vrps: impl IntoIterator<Item = AnyVrp>) -> Self {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for vrp in vrps {
            match vrp {
                AnyVrp::V4(vrp) => ipv4.push(vrp),
                AnyVrp::V6(vrp) => ipv6.push(vrp),
            }
        }
        VrpTable { ipv4: VrpSet::new(ipv4), ipv6: VrpSet::new(ipv6), aspas: AspaSet::default() }
    }

    /// Makes a table of the added VRPs and ASPAs of records.
    pub fn of_records(records: Vec<Record>) -> Self {
        let mut aspas: Vec<(Asn, Providers)> = Vec::new();
        let vrps = records.into_iter().filter_map(|record| match record {
            Record::Vrp(vrp, is_added) => Some(vrp).filter(|_| is_added),
            Record::Aspa(customer, providers) => {
                aspas.extend(providers.map(|providers| (customer, providers)));
                None
            }
        });
        let table = VrpTable::new(vrps);
        VrpTable { aspas: AspaSet::new(aspas), ..table }
    }

    /// Returns the table with other ASPAs.
    #[must_use]
    pub fn with_aspas(self, aspas: AspaSet) -> Self {
        VrpTable { aspas, ..self }
    }

    /// Returns true if a VRP is in the table.
    pub fn contains(&self, vrp: &AnyVrp) -> bool {
        match vrp {
            AnyVrp::V4(vrp) => self.ipv4.vrps.binary_search(vrp).is_ok(),
            AnyVrp::V6(vrp) => self.ipv6.vrps.binary_search(vrp).is_ok(),
        }
    }

    /// Returns the number of VRPs.
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Returns true if there are no VRPs and no ASPAs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.aspas.is_empty()
    }

    /// Iterates over all VRPs and ASPAs as records, VRPs first.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let aspas = self.aspas.iter();
        let aspas = aspas.map(|(customer, providers)| Record::Aspa(customer, Some(providers.clone())));
        self.iter().map(|vrp| Record::Vrp(vrp, true)).chain(aspas)
    }

    /// Iterates over the VRPs, IPv4 first, each family in order.
    pub fn iter(&self) -> impl Iterator<Item = AnyVrp> + '_ {
        let ipv4 = self.ipv4.vrps().iter().copied().map(AnyVrp::V4);
        ipv4.chain(self.ipv6.vrps().iter().copied().map(AnyVrp::V6))
    }

    /// Returns the covering VRPs of a prefix, the longest prefix first.
    pub fn covering(&self, prefix: IpPrefix) -> Vec<AnyVrp> {
        match prefix {
            IpPrefix::V4(prefix) => self.ipv4.covering(prefix).copied().map(AnyVrp::V4).collect(),
            IpPrefix::V6(prefix) => self.ipv6.covering(prefix).copied().map(AnyVrp::V6).collect(),
        }
    }

    /// Returns the state of a route of `prefix`; `origin` is the last AS of the path, `None` for an AS_SET.
    pub fn validate(&self, prefix: IpPrefix, origin: Option<Asn>) -> Validity {
        match prefix {
            IpPrefix::V4(prefix) => self.ipv4.validate(prefix, origin),
            IpPrefix::V6(prefix) => self.ipv6.validate(prefix, origin),
        }
    }

    /// Returns the difference from this table to `other`.
    pub fn changes_to(&self, other: &Self) -> TableChanges {
        TableChanges {
            ipv4: self.ipv4.changes_to(&other.ipv4),
            ipv6: self.ipv6.changes_to(&other.ipv6),
            aspas: self.aspas.changes_to(&other.aspas),
        }
    }

    /// Returns the routes whose states may differ after `changes`, which lead to `other`. The first ASPA, and the loss of the last one,
    /// concern every path.
    pub fn changed_states(&self, other: &Self, changes: &TableChanges) -> ChangedPrefixes {
        if self.aspas.is_empty() == other.aspas.is_empty() {
            changes.prefixes()
        } else {
            ChangedPrefixes::All
        }
    }

    /// Returns the table after changes. Removing an absent VRP, or adding a present VRP, has no effect.
    pub fn changed(&self, changes: &TableChanges) -> Self {
        VrpTable {
            ipv4: self.ipv4.changed(&changes.ipv4),
            ipv6: self.ipv6.changed(&changes.ipv6),
            aspas: self.aspas.changed(&changes.aspas),
        }
    }
}

/// A table is serialized as its records.
impl Serialize for VrpTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut octets = Vec::new();
        self.records().for_each(|record| write_record(&record, &mut octets));
        octets.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VrpTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let octets = Vec::<u8>::deserialize(deserializer)?;
        let records = read_records(&octets).map_err(serde::de::Error::custom)?;
        Ok(VrpTable::of_records(records))
    }
}
