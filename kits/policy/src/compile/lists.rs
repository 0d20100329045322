//! Named lists: read once, before the policies that use them.

use super::{ValueError, unknown};
use crate::as_path::{Automaton, Expression};
use crate::community::Pattern;
use crate::error::PolicyError;
use crate::limits::{MOST_ENTRIES, MOST_LISTS};
use crate::prefix_list::{ListId, PrefixLists, PrefixRange};
use crate::source::Policies;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;

/// All named lists.
#[derive(Default)]
pub struct Lists {
    prefix_lists: BTreeMap<String, ListId>,
    as_paths: BTreeMap<String, Automaton>,
    communities: BTreeMap<String, Vec<Pattern>>,
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
        }
        for path in &policies.as_path {
            let place = ["as-path", &path.name, "expression"];
            let expression: Expression = read(&place, &path.expression)?;
            let automaton = Automaton::new(&expression).map_err(|_| {
                let text = &path.expression;
                error(&place, format!("`{text}` needs more states than an expression may have: use smaller repetitions, or split it"))
            })?;
            lists.as_paths.insert(path.name.clone(), automaton);
            if lists.as_paths.len() > MOST_LISTS {
                return Err(too_many(&place, "expressions"));
            }
        }
        for community in &policies.community {
            let place = ["community", &community.name];
            lists.communities.insert(community.name.clone(), read_all(&place, "member", &community.member)?);
            if lists.communities.len() > MOST_LISTS {
                return Err(too_many(&place, "sets of communities"));
            }
        }
        Ok(lists)
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
    pub fn community(&self, name: &str) -> Result<&[Pattern], ValueError> {
        let members = self.communities.get(name).map(Vec::as_slice);
        members.ok_or_else(|| unknown_list("community", name, names(&self.communities)))
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
