//! Naive evaluation of policies, for comparison with programs. Reads the configured texts anew for each route, by other
//! means than the compiler where there are any.

use crate::as_path::Expression;
use crate::community::{Kind, Member, Pattern, communities};
use crate::draft::Draft;
use crate::machine::{Edit, Route};
use crate::prefix_list::PrefixRange;
use crate::program::{CommunitySets, NextHop};
use crate::source::{Policies, Statement, Values};
use crate::vocabulary::{Reads, Type, Variable, find};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

/// The variables of the tests.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "preference", values: Type::Number(1000), is_writable: true, reads: Reads::Attributes },
    Variable { name: "metric", values: Type::Number(u32::MAX), is_writable: true, reads: Reads::Attributes },
    Variable {
        name: "origin",
        values: Type::Name(&["igp", "egp", "incomplete"]),
        is_writable: true,
        reads: Reads::Attributes,
    },
    Variable {
        name: "neighbor-as",
        values: Type::Number(u32::MAX),
        is_writable: false,
        reads: Reads::Neighbor,
    },
    Variable { name: "group", values: Type::Text, is_writable: false, reads: Reads::Neighbor },
    Variable { name: "neighbor", values: Type::Address, is_writable: false, reads: Reads::Neighbor },
    Variable { name: "next-hop", values: Type::Address, is_writable: false, reads: Reads::Attributes },
];

/// A path as segments: kind and AS numbers.
#[derive(Clone, Debug)]
pub struct Path(pub Vec<(u8, Vec<u32>)>);

impl Path {
    pub fn sequence(asns: &[u32]) -> Self {
        Path(if asns.is_empty() { Vec::new() } else { [(2, asns.to_vec())].into() })
    }

    /// Paths of AS numbers below 5, with sets.
    pub fn any(longest: usize) -> impl Strategy<Value = Path> {
        let segment = (1..=2u8, proptest::collection::vec(0..5u32, 1..4));
        proptest::collection::vec(segment, 0..longest / 2).prop_map(Path)
    }

    pub fn octets(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, asns) in &self.0 {
            out.extend([*kind, asns.len() as u8]);
            asns.iter().for_each(|asn| out.extend(asn.to_be_bytes()));
        }
        out
    }

    /// The symbols of the path: a set is one symbol with all members.
    fn symbols(&self) -> Vec<Vec<u32>> {
        let of = |(kind, asns): &(u8, Vec<u32>)| match kind {
            1 => Vec::from([asns.clone()]),
            _ => asns.iter().map(|asn| Vec::from([*asn])).collect(),
        };
        self.0.iter().flat_map(of).collect()
    }
}

/// Searches through all ways to read a path.
pub(crate) fn naive_path_match(expression: &Expression, path: &Path) -> bool {
    let symbols = path.symbols();
    ends(expression, &symbols, 0).contains(&symbols.len())
}

/// The places at which an expression may end after a beginning.
fn ends(expression: &Expression, symbols: &[Vec<u32>], from: usize) -> Vec<usize> {
    let mut found = match expression {
        Expression::Empty => Vec::from([from]),
        Expression::One(asns) => match symbols.get(from) {
            Some(symbol) if symbol.iter().any(|asn| asns.contains(*asn)) => Vec::from([from + 1]),
            _ => Vec::new(),
        },
        Expression::Sequence(all) => all.iter().fold(Vec::from([from]), |places, part| {
            places.into_iter().flat_map(|place| ends(part, symbols, place)).collect()
        }),
        Expression::Either(all) => all.iter().flat_map(|part| ends(part, symbols, from)).collect(),
        Expression::Repeated(inner, repeat) => {
            let mut places = Vec::from([from]);
            let mut all = Vec::new();
            // More repetitions than symbols add nothing but empty ones.
            let most = repeat.most.unwrap_or(u32::MAX).min(repeat.least + symbols.len() as u32);
            for round in 0..=most {
                if round >= repeat.least {
                    all.extend(&places);
                }
                places = places.into_iter().flat_map(|place| ends(inner, symbols, place)).collect();
                places.sort_unstable();
                places.dedup();
            }
            all
        }
    };
    found.sort_unstable();
    found.dedup();
    found
}

/// The outcome of a policy for a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Accept,
    Reject(Option<String>),
    Default,
}

/// Evaluates a policy term by term.
pub(crate) fn evaluate(policies: &Policies, name: &str, route: &mut Draft) -> Outcome {
    let statement = policies.policy_statement.iter().find(|s| s.name == name).unwrap();
    run(policies, statement, &BTreeMap::new(), route).unwrap_or(Outcome::Default)
}

fn run(
    policies: &Policies,
    statement: &Statement,
    arguments: &BTreeMap<String, String>,
    route: &mut Draft,
) -> Option<Outcome> {
    let value = |text: &String| match text.strip_prefix('$') {
        Some(name) => arguments[name].clone(),
        None => text.clone(),
    };
    let values = |values: &Values| values.0.iter().map(value).collect::<Vec<String>>();
    for term in &statement.term {
        let meets = |(name, all): (&String, &Values)| {
            values(all).iter().any(|v| holds(policies, name, v, all, route))
        };
        if !term.from.iter().all(meets) || term.except.iter().any(meets) {
            continue;
        }
        let then: BTreeMap<String, Vec<String>> =
            term.then.iter().map(|(n, v)| (n.clone(), values(v))).collect();
        for (name, all) in &then {
            if find(VARIABLES, name).is_some_and(|(_, variable)| variable.is_writable) {
                set(name, &all[0], route);
            }
        }
        let asn = route.numbers[&3];
        let sets = |name: &str| {
            then.get(name).map(|names| {
                let members = members(policies, names, asn).into_iter().flatten();
                CommunitySets::new(&members.map(Member::Pattern).collect::<Vec<_>>())
            })
        };
        if let Some(sets) = sets("community-delete") {
            route.change(Edit::DeleteCommunities(&sets));
        }
        if let Some(sets) = sets("community-set") {
            route.change(Edit::ReplaceCommunities(&sets));
        }
        if let Some(sets) = sets("community-add") {
            route.change(Edit::AddCommunities(&sets));
        }
        if let Some(asns) = then.get("as-path-prepend") {
            let asns: Vec<u32> = asns[0].split(' ').map(|asn| asn.parse().unwrap()).collect();
            route.change(Edit::Prepend(&asns));
        }
        if let Some(hop) = then.get("next-hop") {
            let hop = if hop[0] == "self" { NextHop::Own } else { NextHop::Address(hop[0].parse().unwrap()) };
            route.change(Edit::NextHop(hop));
        }
        for call in then.get("call").into_iter().flatten() {
            let (name, rest) = call.split_once(' ').unwrap_or((call, ""));
            let called = policies.policy_statement.iter().find(|s| s.name == name).unwrap();
            let pairs = rest.split_whitespace().map(|pair| pair.split_once('=').unwrap());
            let inner = pairs.map(|(name, v)| (name.to_string(), value(&v.to_string()))).collect();
            if let Some(outcome) = run(policies, called, &inner, route) {
                return Some(outcome);
            }
        }
        if then.contains_key("accept") {
            return Some(Outcome::Accept);
        }
        if then.contains_key("reject") {
            return Some(Outcome::Reject(then.get("reason").map(|reason| reason[0].clone())));
        }
        if then.contains_key("next-policy") {
            return None;
        }
    }
    None
}

/// The members of sets for the neighbor of a route: none in the place of one that its AS does not fit.
fn members(policies: &Policies, names: &[String], asn: u32) -> Vec<Option<Pattern>> {
    let asn = asn.to_string();
    let of = |name: &String| policies.community.iter().find(|c| c.name == *name).unwrap().member.clone();
    names
        .iter()
        .flat_map(of)
        .map(|member| {
            let text = member.replace("peer-as", &asn);
            if text == member { Some(member.parse().unwrap()) } else { text.parse().ok() }
        })
        .collect()
}

/// Returns true if a value of a condition holds; `community-all` needs every value.
fn holds(policies: &Policies, name: &str, value: &str, all: &Values, route: &Draft) -> bool {
    let in_range = |text: &str, number: u32| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        (first.parse::<u32>().unwrap()..=last.parse().unwrap()).contains(&number)
    };
    let has = |pattern: &Pattern| {
        let kind: Kind = pattern.kind;
        communities(kind, route.communities(kind)).any(|community| pattern.contains(community))
    };
    match name {
        "prefix" => value.parse::<PrefixRange>().unwrap().contains(route.prefix),
        "prefix-list" => {
            let list = policies.prefix_list.iter().find(|list| list.name == value).unwrap();
            list.prefix.iter().any(|range| range.parse::<PrefixRange>().unwrap().contains(route.prefix))
        }
        "as-path" => {
            let text = &policies.as_path.iter().find(|path| path.name == value).unwrap().expression;
            let mut path = Vec::new();
            let mut rest = &route.as_path[..];
            while let [kind, count, after @ ..] = rest {
                let (asns, behind) = after.split_at(usize::from(*count) * 4);
                path.push((
                    *kind,
                    asns.as_chunks::<4>().0.iter().map(|asn| u32::from_be_bytes(*asn)).collect(),
                ));
                rest = behind;
            }
            naive_path_match(&text.parse().unwrap(), &Path(path))
        }
        "community" => members(policies, &[value.to_string()], route.numbers[&3]).iter().flatten().any(has),
        "community-all" => {
            members(policies, &all.0, route.numbers[&3]).iter().all(|m| m.as_ref().is_some_and(has))
        }
        "next-hop" if value == "peer" => route.addresses.get(&6) == route.addresses.get(&5),
        variable => {
            let (number, about) = find(VARIABLES, variable).unwrap();
            match about.values {
                Type::Number(_) => route.number(number).is_some_and(|number| in_range(value, number)),
                Type::Name(names) => route.number(number).is_some_and(|place| names[place as usize] == value),
                Type::Text => route.text(number) == Some(value),
                Type::Address => route.address(number).is_some_and(|address| address.to_string() == value),
            }
        }
    }
}

fn set(name: &str, value: &str, route: &mut Draft) {
    let (number, about) = find(VARIABLES, name).unwrap();
    let before = u64::from(route.number(number).unwrap_or(0));
    let after = match about.values {
        Type::Name(names) => names.iter().position(|name| *name == value).unwrap() as u64,
        _ if value.starts_with('+') => before + value[1..].parse::<u64>().unwrap(),
        _ if value.starts_with('-') => before.saturating_sub(value[1..].parse::<u64>().unwrap()),
        _ => value.parse().unwrap(),
    };
    let most = u64::from(about.values.largest().unwrap());
    route.numbers.insert(number, after.min(most) as u32);
}
