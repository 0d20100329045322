//! A route by itself, outside of any table: for questions of people, and for tests.

use crate::community::Kind;
use crate::edit::{added, deleted, is_private, mapped, prepended};
use crate::machine::{Edit, Route};
use crate::program::{Fact, NextHop};
use crate::source::NO_DAMPING;
use crate::vocabulary::VariableId;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::AnyPrefix;

/// A route with its attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// The prefix.
    pub prefix: AnyPrefix,
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
    /// The name of the flap damping of a policy's action.
    pub damping: Option<String>,
}

impl Draft {
    /// Returns a route without attributes.
    pub fn new(prefix: AnyPrefix) -> Self {
        Draft {
            prefix,
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            as_path: Vec::new(),
            communities: BTreeMap::new(),
            facts: Vec::new(),
            next_hop: None,
            damping: None,
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
    fn prefix(&self) -> Option<AnyPrefix> {
        Some(self.prefix)
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
            Edit::Damping(damping) => {
                self.damping =
                    Some(damping.map_or_else(|| NO_DAMPING.into(), |damping| damping.name.clone()));
            }
        }
    }
}
