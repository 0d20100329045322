//! Conditions of terms: a row and a function each. A condition becomes tests, of which one must hold.

use super::lists::Lists;
use super::{Compiler, ValueError, unknown};
use crate::community::Member;
use crate::error::{PolicyError, shown};
use crate::prefix_list::PrefixRange;
use crate::program::{CommunitySets, Fact, Test};
use crate::source::Values;
use crate::vocabulary::{NEIGHBOR, NEIGHBOR_AS, Reads, Type, Variable, VariableId, find};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::IpPrefix;

type Compile = fn(&mut Compiler<'_>, &Values) -> Result<Vec<Test>, PolicyError>;

/// The value that stands for the neighbor's address.
const PEER: &str = "peer";

/// The conditions that are no variables, by name.
pub const CONDITIONS: [(&str, Compile); 6] = [
    ("prefix-list", prefix_list),
    ("prefix", prefix),
    ("as-path", as_path),
    ("community", any_community),
    ("community-all", all_communities),
    ("route-present", route_present),
];

impl Compiler<'_> {
    /// Compiles a condition.
    pub(super) fn tests(&mut self, name: &str, values: &Values) -> Result<Vec<Test>, PolicyError> {
        if values.0.is_empty() {
            return Err(self.error("expected a value".into()));
        }
        if let Some((_, compile)) = CONDITIONS.iter().find(|(known, _)| *known == name) {
            return compile(self, values);
        }
        let Some((number, variable)) = find(self.vocabulary, name) else {
            let variables = self.vocabulary.iter().map(|variable| variable.name);
            let known = CONDITIONS.iter().map(|(name, _)| *name).chain(variables);
            return Err(self.error(unknown("condition", name, known)));
        };
        Ok(Vec::from([self.variable(number, variable, values)?]))
    }

    /// Reads each value, with arguments in place of parameters.
    fn read<T>(
        &self,
        values: &Values,
        read: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Vec<T>, PolicyError> {
        let one = |text: &String| read(self.value(text)?).map_err(|error| self.wrong(error));
        values.0.iter().map(one).collect()
    }

    /// Adds named lists to the sources of the program.
    fn note_source(
        &mut self,
        values: &Values,
        source: impl Fn(&Lists, &str) -> String,
    ) -> Result<(), PolicyError> {
        let sources = self.read(values, |name| Ok(source(self.lists, name)))?;
        self.sources.extend(sources);
        Ok(())
    }

    fn variable(
        &mut self,
        number: VariableId,
        variable: &Variable,
        values: &Values,
    ) -> Result<Test, PolicyError> {
        Ok(match variable.values {
            Type::Number(most) => {
                let ranges = self.read(values, |text| range(text, most))?;
                Test::NumberIn(number, self.constant(|c| &mut c.ranges, ranges)?)
            }
            Type::Name(names) => {
                let places = self.read(values, |text| name_of(text, names))?;
                let ranges = places.into_iter().map(|place| (place, place)).collect();
                Test::NumberIn(number, self.constant(|c| &mut c.ranges, ranges)?)
            }
            Type::Text => {
                let mut texts = self.read(values, |text| Ok(text.to_string()))?;
                texts.sort_unstable();
                texts.dedup();
                Test::TextIn(number, self.constant(|c| &mut c.text_sets, texts)?)
            }
            Type::Address => return self.address(number, variable, values),
        })
    }

    /// Compiles a condition on an address: addresses, prefixes, and for properties of routes from or to neighbors `peer`.
    fn address(
        &mut self,
        number: VariableId,
        variable: &Variable,
        values: &Values,
    ) -> Result<Test, PolicyError> {
        let has_peer = variable.reads != Reads::Neighbor && find(self.vocabulary, NEIGHBOR).is_some();
        let entries = self.read(values, |text| match text {
            PEER if has_peer => Ok(None),
            text => addresses(text, has_peer).map(Some),
        })?;
        let is_plain = entries.iter().all(Option::is_some);
        let list = self.prefix_list(entries.into_iter().flatten().collect())?;
        Ok(match is_plain {
            true => Test::AddressIn(number, list),
            false => Test::AddressInOrPeer(number, list),
        })
    }

    /// Returns the members of several sets of communities.
    pub(super) fn members(&mut self, values: &Values) -> Result<Vec<Member>, PolicyError> {
        self.note_source(values, |lists, name| lists.source_of_community(name))?;
        let all = self.read(values, |name| self.lists.community(name).map(<[Member]>::to_vec))?;
        let members = all.concat();
        let has_neighbors = find(self.vocabulary, NEIGHBOR_AS).is_some();
        match members.iter().find(|member| matches!(member, Member::OfPeer(_))).filter(|_| !has_neighbors) {
            Some(member) => {
                Err(self.error(format!("`{member}`: routes of this protocol have no neighbor with an AS")))
            }
            None => Ok(members),
        }
    }
}

fn prefix_list(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    compiler.note_source(values, |lists, name| lists.source_of_prefix_list(name))?;
    compiler.read(values, |name| compiler.lists.prefix_list(name).map(Test::PrefixIn))
}

fn prefix(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    let entries =
        compiler.read(values, |text| text.parse::<PrefixRange>().map_err(|e| ValueError(e.to_string())))?;
    Ok(Vec::from([Test::PrefixIn(compiler.prefix_list(entries)?)]))
}

fn as_path(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    compiler.note_source(values, |lists, name| lists.source_of_as_path(name))?;
    let automata = compiler.read(values, |name| compiler.lists.as_path(name).cloned())?;
    automata
        .into_iter()
        .map(|automaton| compiler.constant(|c| &mut c.automata, automaton).map(Test::PathIs))
        .collect()
}

fn any_community(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    let sets = CommunitySets::new(&compiler.members(values)?);
    Ok(Vec::from([Test::AnyCommunity(compiler.constant(|c| &mut c.communities, sets)?)]))
}

fn all_communities(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    let sets = CommunitySets::new(&compiler.members(values)?);
    Ok(Vec::from([Test::AllCommunities(compiler.constant(|c| &mut c.communities, sets)?)]))
}

fn route_present(compiler: &mut Compiler<'_>, values: &Values) -> Result<Vec<Test>, PolicyError> {
    let prefixes = compiler.read(values, |text| {
        text.parse::<IpPrefix>().map_err(|reason| ValueError(format!("`{}`: {reason}", shown(text))))
    })?;
    let facts = prefixes.into_iter().map(Fact::RoutePresent);
    facts.map(|fact| compiler.constant(|c| &mut c.facts, fact).map(Test::Fact)).collect()
}

/// Reads `100` or `100-199`.
fn range(text: &str, most: u32) -> Result<(u32, u32), ValueError> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= most);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
    range.ok_or_else(|| {
        ValueError(format!("`{}`: expected a number up to {most}, or a range such as 100-199", shown(text)))
    })
}

/// Returns the place of a name.
pub(super) fn name_of(text: &str, names: &[&str]) -> Result<u32, ValueError> {
    let place = names.iter().position(|name| *name == text);
    place
        .map(|place| place as u32)
        .ok_or_else(|| ValueError(format!("`{}`: expected {}", shown(text), names.join(", "))))
}

/// Reads an address, or a prefix of addresses. `has_peer`: `peer` is a value too, for the error.
fn addresses(text: &str, has_peer: bool) -> Result<PrefixRange, ValueError> {
    let expected = if has_peer { "an address, a prefix or `peer`" } else { "an address or a prefix" };
    let host = |address: IpAddr| IpPrefix::new(address, if address.is_ipv4() { 32 } else { 128 });
    let address = text.parse::<IpAddr>().ok().and_then(host);
    let prefix = address.or_else(|| text.parse().ok());
    let prefix = prefix.ok_or_else(|| ValueError(format!("`{}`: expected {expected}", shown(text))))?;
    let longest = if prefix.addr().is_ipv4() { 32 } else { 128 };
    Ok(PrefixRange { prefix: prefix.into(), shortest: prefix.len(), longest })
}
