//! A route by itself, outside of any table: for questions of people, and for tests.

use crate::community::{Community, Kind, communities, put};
use crate::machine::{Edit, Route};
use crate::program::{CommunitySets, Fact, NextHop};
use crate::vocabulary::VariableId;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::IpPrefix;

/// The segment type of ASes in order (RFC 4271, section 4.3).
const AS_SEQUENCE: u8 = 2;
/// The most ASes of a segment.
const LONGEST_SEGMENT: usize = 255;

/// A route with its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// The prefix.
    pub prefix: IpPrefix,
    /// Numbers by variable.
    pub numbers: BTreeMap<VariableId, u32>,
    /// Texts by variable.
    pub texts: BTreeMap<VariableId, String>,
    /// Addresses by variable.
    pub addresses: BTreeMap<VariableId, IpAddr>,
    /// The octets of the AS path, with AS numbers of 4 octets.
    pub as_path: Vec<u8>,
    /// The octets of the communities, by kind.
    pub communities: BTreeMap<Kind, Vec<u8>>,
    /// The true facts.
    pub facts: Vec<Fact>,
    /// The next hop of a policy's action.
    pub next_hop: Option<NextHop>,
}

impl Draft {
    /// Returns a route without attributes.
    pub fn new(prefix: IpPrefix) -> Self {
        Draft {
            prefix,
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            as_path: Vec::new(),
            communities: BTreeMap::new(),
            facts: Vec::new(),
            next_hop: None,
        }
    }

    fn each_kind(&mut self, change: impl Fn(Kind, &[u8]) -> Option<Vec<u8>>) {
        for kind in Kind::ALL {
            if let Some(value) = change(kind, self.communities.get(&kind).map_or(&[], Vec::as_slice)) {
                self.communities.insert(kind, value);
            }
        }
    }
}

impl Route for Draft {
    fn prefix(&self) -> IpPrefix {
        self.prefix
    }

    fn number(&self, variable: VariableId) -> Option<u32> {
        self.numbers.get(&variable).copied()
    }

    fn text(&self, variable: VariableId) -> Option<&str> {
        self.texts.get(&variable).map(|text| &**text)
    }

    fn address(&self, variable: VariableId) -> Option<IpAddr> {
        self.addresses.get(&variable).copied()
    }

    fn as_path(&self) -> &[u8] {
        &self.as_path
    }

    fn communities(&self, kind: Kind) -> &[u8] {
        self.communities.get(&kind).map_or(&[], Vec::as_slice)
    }

    fn holds(&self, fact: &Fact) -> bool {
        self.facts.contains(fact)
    }

    fn change(&mut self, edit: Edit<'_>) {
        match edit {
            Edit::Number(variable, number) => drop(self.numbers.insert(variable, number)),
            Edit::AddCommunities(sets) => self.each_kind(|kind, value| added(kind, value, sets)),
            Edit::DeleteCommunities(sets) => self.each_kind(|kind, value| deleted(kind, value, sets)),
            Edit::ReplaceCommunities(sets) => {
                self.each_kind(|kind, _| added(kind, &[], sets));
            }
            Edit::Prepend(asns) => self.as_path = prepended(&self.as_path, asns),
            Edit::ReplaceAs(ranges, asn) => {
                let is_in = |old: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&old));
                self.as_path = mapped(&self.as_path, |old| Some(if is_in(old) { asn } else { old }));
            }
            Edit::RemovePrivateAs => {
                self.as_path = mapped(&self.as_path, |asn| Some(asn).filter(|asn| !is_private(*asn)));
            }
            Edit::NextHop(hop) => self.next_hop = Some(hop),
        }
    }
}

/// Returns the communities with the missing members of a set; `None` if the set has none of the kind.
fn added(kind: Kind, value: &[u8], sets: &CommunitySets) -> Option<Vec<u8>> {
    let set = sets.of(kind);
    if set.exact().is_empty() {
        return None;
    }
    let present: Vec<Community> = communities(kind, value).collect();
    let mut value = value.to_vec();
    let missing = set.exact().iter().filter(|community| !present.contains(community));
    missing.for_each(|community| put(kind, *community, &mut value));
    Some(value)
}

/// Returns the communities outside a set; `None` if the set has none of the kind.
fn deleted(kind: Kind, value: &[u8], sets: &CommunitySets) -> Option<Vec<u8>> {
    let set = sets.of(kind);
    if set.is_empty() {
        return None;
    }
    let mut kept = Vec::new();
    communities(kind, value).filter(|c| !set.contains(*c)).for_each(|c| put(kind, c, &mut kept));
    Some(kept)
}

/// Returns true for AS numbers of private use (RFC 6996).
pub fn is_private(asn: u32) -> bool {
    (64_512..=65_534).contains(&asn) || (4_200_000_000..=4_294_967_294).contains(&asn)
}

/// Returns a path with AS numbers before it, in segments of at most 255.
fn prepended(path: &[u8], asns: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, rest) = match path {
        [AS_SEQUENCE, count, rest @ ..] if usize::from(*count) + asns.len() <= LONGEST_SEGMENT => {
            (asns.len() + usize::from(*count), rest)
        }
        path => (asns.len(), path),
    };
    if first > 0 {
        out.extend([AS_SEQUENCE, first as u8]);
        asns.iter().for_each(|asn| out.extend(asn.to_be_bytes()));
    }
    out.extend_from_slice(rest);
    out
}

/// Returns a path with other AS numbers, or without some. Segments without AS numbers go.
fn mapped(path: &[u8], map: impl Fn(u32) -> Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path;
    while let [kind, count, after @ ..] = rest
        && let Some((members, behind)) = after.split_at_checked(usize::from(*count) * 4)
    {
        let members = members.as_chunks::<4>().0.iter().filter_map(|asn| map(u32::from_be_bytes(*asn)));
        let members: Vec<u32> = members.collect();
        if !members.is_empty() {
            out.extend([*kind, members.len() as u8]);
            members.iter().for_each(|asn| out.extend(asn.to_be_bytes()));
        }
        rest = behind;
    }
    out
}
