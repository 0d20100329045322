//! Aggregates: the attributes of a shorter route that stands for its contributors (RFC 4271, section 9.2.2.2).
//!
//! Each table adds up its contributing routes ([`Totals`]), and control merges the tables' sums ([`Contributors`]), so the result does
//! not depend on the spread of the prefixes. Without AS_SET (RFC 9774 deprecates AS_SET) the AS_PATH of the aggregate is
//! empty: the route begins at this router, as in other implementations.

use crate::attributes::{Origin, View, canonical};
use crate::wire::as_path::{AS_SEQUENCE, AS_SET, Segments};
use crate::wire::attribute::code;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::Asn;

/// The most AS numbers of a segment (RFC 4271, section 4.3 b).
const SEGMENT: usize = 255;

/// The properties of a route relevant for the attributes of an aggregate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contribution {
    origin: Origin,
    /// True if the route has ATOMIC_AGGREGATE.
    is_atomic: bool,
    /// True if the AS_PATH is not empty.
    has_path: bool,
    /// The canonical AS_PATH; `None` without AS_SET.
    path: Option<Arc<[u8]>>,
}

impl Contribution {
    /// Returns the contribution of a route with these canonical attributes. `keeps_path` is true for an aggregate with AS_SET.
    pub fn of(octets: &[u8], view: &View, keeps_path: bool) -> Self {
        let path = canonical::find(octets, code::AS_PATH).unwrap_or_default();
        Contribution {
            origin: view.origin,
            is_atomic: canonical::find(octets, code::ATOMIC_AGGREGATE).is_some(),
            has_path: !path.is_empty(),
            path: keeps_path.then(|| path.into()),
        }
    }
}

/// The sum of contributions, from which single contributions can be taken out again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    by_origin: BTreeMap<Origin, u32>,
    atomic: u32,
    with_path: u32,
    paths: BTreeMap<Arc<[u8]>, u32>,
}

/// Increments or decrements a count. A count of 0 is removed.
fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, adds: bool) {
    let known = counts.get(&key).copied().unwrap_or(0);
    match if adds { known + 1 } else { known.saturating_sub(1) } {
        0 => drop(counts.remove(&key)),
        new => drop(counts.insert(key, new)),
    }
}

impl Totals {
    /// Adds a contribution.
    pub fn add(&mut self, contribution: &Contribution) {
        self.change(contribution, true);
    }

    /// Removes an earlier contribution.
    pub fn remove(&mut self, contribution: &Contribution) {
        self.change(contribution, false);
    }

    fn change(&mut self, contribution: &Contribution, adds: bool) {
        let Contribution { origin, is_atomic, has_path, path } = contribution;
        count(&mut self.by_origin, *origin, adds);
        if let Some(path) = path {
            count(&mut self.paths, path.clone(), adds);
        }
        for (total, is_counted) in [(&mut self.atomic, *is_atomic), (&mut self.with_path, *has_path)] {
            let one = u32::from(is_counted);
            *total = if adds { *total + one } else { total.saturating_sub(one) };
        }
    }

    /// Returns the sum; `None` without contributions.
    pub fn contributors(&self) -> Option<Contributors> {
        let (origin, _) = self.by_origin.last_key_value()?;
        let paths = self.paths.keys().map(|path| AggregatedPath::of(path));
        Some(Contributors {
            count: self.by_origin.values().sum(),
            origin: *origin,
            is_atomic: self.atomic > 0,
            has_path: self.with_path > 0,
            path: paths.reduce(AggregatedPath::merged),
        })
    }
}

/// The contributors of an aggregate in one table or in several.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Contributors {
    /// The number of routes.
    pub count: u32,
    /// The highest ORIGIN.
    origin: Origin,
    /// True if a route has ATOMIC_AGGREGATE.
    is_atomic: bool,
    /// True if a route has ASes in the AS_PATH.
    has_path: bool,
    /// The aggregated AS_PATH; `None` without AS_SET.
    path: Option<AggregatedPath>,
}

impl Contributors {
    /// Returns the contributors of both.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Contributors {
            count: self.count + other.count,
            origin: self.origin.max(other.origin),
            is_atomic: self.is_atomic || other.is_atomic,
            has_path: self.has_path || other.has_path,
            path: match (self.path, other.path) {
                (Some(one), Some(other)) => Some(one.merged(other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// Returns the attributes of the aggregate. An AS_PATH without some ASes makes the route an atomic aggregate (RFC 4271, section
    /// 5.1.6), as does an atomic contributor.
    pub fn attributes(&self) -> AggregateAttributes {
        AggregateAttributes {
            origin: self.origin,
            is_atomic: self.is_atomic || (self.path.is_none() && self.has_path),
            path: self.path.as_ref().map(AggregatedPath::octets).unwrap_or_default(),
        }
    }
}

/// The attributes of an aggregate that depend on the contributors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AggregateAttributes {
    /// ORIGIN.
    pub origin: Origin,
    /// True with ATOMIC_AGGREGATE.
    pub is_atomic: bool,
    /// The canonical AS_PATH.
    pub path: Vec<u8>,
}

/// The AS_PATH of an aggregate with AS_SET.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
struct AggregatedPath {
    /// The longest common leading sequence of ASes, with the segment type of each.
    lead: Vec<(u8, Asn)>,
    /// The remaining ASes.
    rest: BTreeSet<Asn>,
}

impl AggregatedPath {
    /// Returns the path of one route.
    fn of(path: &[u8]) -> Self {
        let segments = Segments::canonical(path).flatten();
        let lead = segments.flat_map(|segment| segment.asns().map(move |asn| (segment.kind, asn)));
        AggregatedPath { lead: lead.collect(), rest: BTreeSet::new() }
    }

    /// Returns the path of the routes of both.
    fn merged(mut self, mut other: Self) -> Self {
        let common = self.lead.iter().zip(&other.lead).take_while(|(one, other)| one == other).count();
        self.rest.append(&mut other.rest);
        let tails = self.lead.drain(common..).chain(other.lead.drain(common..));
        self.rest.extend(tails.map(|(_, asn)| asn));
        self
    }

    /// Returns the octets: the common sequence, then a set of the remaining ASes.
    fn octets(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        for run in self.lead.chunk_by(|one, other| one.0 == other.0) {
            for segment in run.chunks(SEGMENT) {
                put_segment(run[0].0, segment.iter().map(|(_, asn)| *asn), &mut octets);
            }
        }
        let is_new = |asn: &&Asn| !self.lead.iter().any(|(_, known)| known == *asn);
        let rest: Vec<Asn> = self.rest.iter().filter(is_new).copied().collect();
        for segment in rest.chunks(SEGMENT) {
            put_segment(AS_SET, segment.iter().copied(), &mut octets);
        }
        octets
    }
}

fn put_segment(kind: u8, asns: impl ExactSizeIterator<Item = Asn>, octets: &mut Vec<u8>) {
    debug_assert!(kind == AS_SET || kind == AS_SEQUENCE);
    octets.extend_from_slice(&[kind, asns.len() as u8]);
    asns.for_each(|asn| octets.extend_from_slice(&asn.0.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    fn sequence(asns: &[u32]) -> Vec<u8> {
        let mut octets = Vec::new();
        if !asns.is_empty() {
            put_segment(AS_SEQUENCE, asns.iter().map(|asn| Asn(*asn)), &mut octets);
        }
        octets
    }

    fn contribution(origin: Origin, is_atomic: bool, path: &[u32], keeps_path: bool) -> Contribution {
        let octets = sequence(path);
        let has_path = !octets.is_empty();
        Contribution { origin, is_atomic, has_path, path: keeps_path.then(|| octets.into()) }
    }

    fn attributes(contributions: &[Contribution]) -> Option<AggregateAttributes> {
        let mut totals = Totals::default();
        contributions.iter().for_each(|contribution| totals.add(contribution));
        totals.contributors().map(|contributors| contributors.attributes())
    }

    /// An AS path in text, sets in braces.
    fn text(path: &[u8]) -> String {
        let segment = |segment: crate::wire::as_path::Segment<'_>| {
            let asns: Vec<String> = segment.asns().map(|asn| std::format!("{}", asn.0)).collect();
            if segment.kind == AS_SET { std::format!("{{{}}}", asns.join(",")) } else { asns.join(" ") }
        };
        Segments::canonical(path).flatten().map(segment).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_highest_origin_wins() {
        let of = |origins: &[Origin]| {
            let all: Vec<_> = origins.iter().map(|origin| contribution(*origin, false, &[], false)).collect();
            attributes(&all).map(|attributes| attributes.origin)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Origin::Igp, Origin::Igp]), Some(Origin::Igp));
        assert_eq!(of(&[Origin::Egp, Origin::Igp]), Some(Origin::Egp));
        assert_eq!(of(&[Origin::Igp, Origin::Incomplete, Origin::Egp]), Some(Origin::Incomplete));
    }

    #[test]
    fn an_aggregate_is_atomic_if_ases_are_left_out_or_a_contributor_is() {
        let is_atomic = |of_contributor, path: &[u32], keeps_path| {
            let one = contribution(Origin::Igp, of_contributor, path, keeps_path);
            attributes(&[one]).map(|attributes| attributes.is_atomic)
        };
        assert_eq!(is_atomic(false, &[], false), Some(false));
        assert_eq!(is_atomic(false, &[7], false), Some(true));
        assert_eq!(is_atomic(false, &[7], true), Some(false));
        assert_eq!(is_atomic(true, &[], false), Some(true));
        assert_eq!(is_atomic(true, &[7], true), Some(true));
    }

    #[test]
    fn sets_have_the_ases_behind_the_common_sequence() {
        let of = |paths: &[&[u32]]| {
            let all: Vec<_> = paths.iter().map(|path| contribution(Origin::Igp, false, path, true)).collect();
            text(&attributes(&all).unwrap().path)
        };
        assert_eq!(of(&[&[1, 2, 3], &[1, 2, 3]]), "1 2 3");
        assert_eq!(of(&[&[1, 2, 3], &[1, 2, 4], &[1, 2, 4, 5]]), "1 2 {3,4,5}");
        assert_eq!(of(&[&[1, 2], &[3, 2]]), "{1,2,3}");
        assert_eq!(of(&[&[1, 1, 2], &[1, 3, 1]]), "1 {2,3}");
        assert_eq!(of(&[&[], &[4]]), "{4}");
        assert_eq!(of(&[&[], &[]]), "");
    }

    #[test]
    fn long_sets_are_several_segments() {
        let all: Vec<_> = (0..300).map(|asn| contribution(Origin::Igp, false, &[asn + 1], true)).collect();
        let path = attributes(&all).unwrap().path;
        let lengths: Vec<usize> = Segments::canonical(&path).flatten().map(|s| s.asns().count()).collect();
        assert_eq!(lengths, [255, 45]);
    }

    proptest! {
        /// However the contributors are spread, and whatever came and went before, the aggregate is the same.
        #[test]
        fn sums_of_parts_are_the_sum(
            all in prop::collection::vec((0..3_u8, any::<bool>(), prop::collection::vec(1..5_u32, 0..4), 0..3_usize), 0..12),
            gone in prop::collection::vec((0..3_u8, any::<bool>(), prop::collection::vec(1..5_u32, 0..4), 0..3_usize), 0..6),
            keeps_path in any::<bool>(),
        ) {
            let of = |(origin, is_atomic, path, _): &(u8, bool, Vec<u32>, usize)| {
                contribution(Origin::from_code(*origin).unwrap(), *is_atomic, path, keeps_path)
            };
            let mut tables = [Totals::default(), Totals::default(), Totals::default()];
            all.iter().chain(&gone).for_each(|one| tables[one.3].add(&of(one)));
            gone.iter().for_each(|one| tables[one.3].remove(&of(one)));
            let merged = tables.iter().filter_map(Totals::contributors).reduce(Contributors::merged);
            let whole: Vec<Contribution> = all.iter().map(of).collect();
            prop_assert_eq!(merged.as_ref().map_or(0, |all| all.count), whole.len() as u32);
            prop_assert_eq!(merged.map(|all| all.attributes()), attributes(&whole));
        }
    }
}
