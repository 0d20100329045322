//! Named lists: read once, before the policies that use them.

use super::{ValueError, unknown};
use crate::as_path::{Automaton, Expression};
use crate::community::Member;
use crate::error::PolicyError;
use crate::limits::{MOST_ENTRIES, MOST_LISTS};
use crate::prefix_list::{ListId, PrefixLists, PrefixRange};
use crate::source::{Damping, NO_DAMPING, Policies};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;
use core::hash::BuildHasher;
use core::str::FromStr;
use foldhash::quality::FixedState;

/// Seeds of the two hashes of a prefix list: 128 bits, so that lists with different entries differ.
const SEEDS: [u64; 2] = [0x5107_1ce0, 0x9e37_79b9];

/// The named lists.
#[derive(Default)]
pub struct Lists {
    prefix_lists: BTreeMap<String, ListId>,
    /// Hashes of the entries of prefix lists.
    hashes: BTreeMap<String, [u64; 2]>,
    as_paths: BTreeMap<String, Automaton>,
    expressions: BTreeMap<String, String>,
    communities: BTreeMap<String, Vec<Member>>,
    dampings: BTreeMap<String, Damping>,
}

impl Lists {
    /// Reads all named lists; prefix lists go into `prefix_lists`.
    pub fn read(policies: &Policies, prefix_lists: &mut PrefixLists) -> Result<Self, PolicyError> {
        let mut lists = Lists::default();
        for list in &policies.prefix_list {
            let place = ["prefix-list", &list.name];
            let entries: Vec<PrefixRange> = read_all(&place, "prefix", &list.prefix)?;
            let number = prefix_lists.add(entries).filter(|number| usize::from(*number) < MOST_LISTS);
            let number = number.ok_or_else(|| too_many(&place, "prefix lists"))?;
            lists.prefix_lists.insert(list.name.clone(), number);
            let hash = SEEDS.map(|seed| FixedState::with_seed(seed).hash_one(&list.prefix));
            lists.hashes.insert(list.name.clone(), hash);
        }
        lists.read_as_paths(policies)?;
        for community in &policies.community {
            let place = ["community", &community.name];
            lists.communities.insert(community.name.clone(), read_all(&place, "member", &community.member)?);
            if lists.communities.len() > MOST_LISTS {
                return Err(too_many(&place, "sets of communities"));
            }
        }
        for damping in &policies.damping {
            let place = ["damping", &damping.name];
            if damping.name == NO_DAMPING {
                return Err(error(&place, format!("`{NO_DAMPING}` stands for no damping: use another name")));
            }
            lists.dampings.insert(damping.name.clone(), damping.clone());
            if lists.dampings.len() > MOST_LISTS {
                return Err(too_many(&place, "parameters of flap damping"));
            }
        }
        Ok(lists)
    }

    fn read_as_paths(&mut self, policies: &Policies) -> Result<(), PolicyError> {
        for path in &policies.as_path {
            let place = ["as-path", &path.name, "expression"];
            let expression: Expression = read(&place, &path.expression)?;
            let automaton = Automaton::new(&expression).map_err(|_| {
                let text = &path.expression;
                error(&place, format!("`{text}` needs more states than an expression may have: use smaller repetitions, or split it"))
            })?;
            self.as_paths.insert(path.name.clone(), automaton);
            self.expressions.insert(path.name.clone(), path.expression.clone());
            if self.as_paths.len() > MOST_LISTS {
                return Err(too_many(&place, "expressions"));
            }
        }
        Ok(())
    }

    /// Returns the number of a prefix list; an error if there is none of this name.
    pub fn prefix_list(&self, name: &str) -> Result<ListId, ValueError> {
        self.prefix_lists
            .get(name)
            .copied()
            .ok_or_else(|| unknown_list("prefix-list", name, names(&self.prefix_lists)))
    }

    /// Returns the automaton of an expression; an error if there is none of this name.
    pub fn as_path(&self, name: &str) -> Result<&Automaton, ValueError> {
        self.as_paths.get(name).ok_or_else(|| unknown_list("as-path", name, names(&self.as_paths)))
    }

    /// Returns the members of a set of communities; an error if there is none of this name.
    pub fn community(&self, name: &str) -> Result<&[Member], ValueError> {
        let members = self.communities.get(name).map(Vec::as_slice);
        members.ok_or_else(|| unknown_list("community", name, names(&self.communities)))
    }

    /// Returns the parameters of flap damping with a name; an error if there are none of this name.
    pub fn damping(&self, name: &str) -> Result<&Damping, ValueError> {
        self.dampings.get(name).ok_or_else(|| unknown_list("damping", name, names(&self.dampings)))
    }

    /// Returns a text that differs between prefix lists with different entries: a list may have a million.
    pub(crate) fn source_of_prefix_list(&self, name: &str) -> String {
        format!("prefix-list {name:?} {:x?}\n", self.hashes.get(name))
    }

    /// Returns a text that differs between different expressions.
    pub(crate) fn source_of_as_path(&self, name: &str) -> String {
        format!("as-path {name:?} {:?}\n", self.expressions.get(name))
    }

    /// Returns a text that differs between different sets of communities.
    pub(crate) fn source_of_community(&self, name: &str) -> String {
        format!("community {name:?} {:?}\n", self.communities.get(name))
    }

    /// Returns a text that differs between different parameters of flap damping.
    pub(crate) fn source_of_damping(&self, name: &str) -> String {
        format!("damping {name:?} {:?}\n", self.dampings.get(name))
    }
}

fn unknown_list<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str> + Clone) -> ValueError {
    ValueError(unknown(what, name, known))
}

fn names<T>(all: &BTreeMap<String, T>) -> impl Iterator<Item = &str> + Clone {
    all.keys().map(|name| &**name)
}

fn error(place: &[&str], message: String) -> PolicyError {
    PolicyError { place: place.iter().map(|word| (*word).to_owned()).collect(), message }
}

fn too_many(place: &[&str], what: &str) -> PolicyError {
    error(place, format!("there are more than {MOST_LISTS} {what}"))
}

fn read<T: FromStr<Err: Display>>(place: &[&str], text: &str) -> Result<T, PolicyError> {
    text.parse().map_err(|reason: T::Err| error(place, format!("{reason}")))
}

fn read_all<T: FromStr<Err: Display>>(
    place: &[&str],
    name: &str,
    texts: &[String],
) -> Result<Vec<T>, PolicyError> {
    let place = [place, &[name]].concat();
    if texts.len() > MOST_ENTRIES {
        return Err(error(&place, format!("a list has at most {MOST_ENTRIES} entries")));
    }
    texts.iter().map(|text| read(&place, text)).collect()
}
