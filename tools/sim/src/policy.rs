//! Import and export policies of simulated routers: rules in a few words, as the router's configuration and as the reference.

use crate::reference::Route;
use serde::{Deserialize, Serialize};
use sluice_base::IpPrefix;
use sluice_bgp::policy::Policies;
use sluice_policy::source::{self, Community, Named, PrefixList, Statement, Term, Values};
use std::collections::BTreeMap;

/// The name of the community and of its set.
const NO_EXPORT: &str = "no-export";

/// The side of a router at which a policy decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// On routes from a neighbor.
    Import,
    /// On routes to a neighbor.
    Export,
}

/// A change of a route by a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The route is rejected, and later rules are not asked.
    Reject,
    /// Sets LOCAL_PREF.
    LocalPref(u32),
    /// Sets MULTI_EXIT_DISC.
    Med(u32),
    /// Prepends an AS to the AS path.
    Prepend(u32),
    /// Adds the community NO_EXPORT.
    NoExport,
}

/// A rule of a policy. A policy is a list of rules that are applied in order; a route that none rejects is accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// The prefixes of the rule; empty for all prefixes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefixes: Vec<IpPrefix>,
    /// The change.
    pub then: Action,
}

impl Rule {
    /// Returns true if the rule is for routes of a prefix.
    pub fn concerns(&self, prefix: IpPrefix) -> bool {
        self.prefixes.is_empty() || self.prefixes.contains(&prefix)
    }
}

/// Applies the rules to a route of a prefix; `None` if a rule rejects the route.
pub fn apply(rules: &[Rule], prefix: IpPrefix, mut route: Route) -> Option<Route> {
    for rule in rules.iter().filter(|rule| rule.concerns(prefix)) {
        match rule.then {
            Action::Reject => return None,
            Action::LocalPref(value) => route.local_pref = value,
            Action::Med(value) => route.med = Some(value),
            Action::Prepend(asn) => route.path.insert(0, asn),
            Action::NoExport => route.no_export = true,
        }
    }
    Some(route)
}

/// Returns true if the rules set MULTI_EXIT_DISC of routes of a prefix.
pub fn sets_med(rules: &[Rule], prefix: IpPrefix) -> bool {
    rules.iter().any(|rule| rule.concerns(prefix) && matches!(rule.then, Action::Med(_)))
}

/// The policies of a router, by link and direction. The neighbors' configuration names those in use.
#[derive(Clone, Debug, Default)]
pub struct PolicyBook(BTreeMap<(u32, Direction), Vec<Rule>>);

impl PolicyBook {
    /// Sets the policy for the neighbor over a link.
    pub fn set(&mut self, link: u32, direction: Direction, rules: Vec<Rule>) {
        self.0.insert((link, direction), rules);
    }

    /// Returns the rules of a policy.
    pub fn rules(&self, link: u32, direction: Direction) -> &[Rule] {
        self.0.get(&(link, direction)).map_or(&[], Vec::as_slice)
    }

    /// Returns the policies as BGP is configured with them.
    ///
    /// # Panics
    ///
    /// The policies do not compile, which the kit's tests rule out.
    pub fn compile(&self) -> Policies {
        let mut all = source::Policies::default();
        // Actions name sets of communities.
        all.community.push(Community { name: NO_EXPORT.into(), member: vec![NO_EXPORT.into()] });
        for ((link, direction), rules) in &self.0 {
            let policy = name(*link, *direction);
            let term = |(number, rule): (usize, &Rule)| term(&policy, number, rule, &mut all.prefix_list);
            let term = rules.iter().enumerate().map(term).collect();
            all.policy_statement.push(Statement { name: policy.clone(), parameter: Vec::new(), term });
        }
        Policies::compile(all).expect("the policies are valid")
    }
}

/// Returns the name of the policy for the neighbor over a link.
pub fn name(link: u32, direction: Direction) -> String {
    match direction {
        Direction::Import => format!("import-{link}"),
        Direction::Export => format!("export-{link}"),
    }
}

fn term(policy: &str, number: usize, rule: &Rule, lists: &mut Vec<PrefixList>) -> Term {
    let one = |name: &str, value: String| Named::from([(name.to_string(), Values(vec![value]))]);
    let mut term = Term { name: format!("rule-{number}"), ..Term::default() };
    if !rule.prefixes.is_empty() {
        let list = format!("{policy}-{number}");
        lists.push(PrefixList {
            name: list.clone(),
            prefix: rule.prefixes.iter().map(ToString::to_string).collect(),
        });
        term.from = one("prefix-list", list);
    }
    term.then = match rule.then {
        Action::Reject => Named::from([("reject".to_string(), Values::default())]),
        Action::LocalPref(value) => one("local-preference", value.to_string()),
        Action::Med(value) => one("med", value.to_string()),
        Action::Prepend(asn) => one("as-path-prepend", asn.to_string()),
        Action::NoExport => one("community-add", NO_EXPORT.into()),
    };
    term
}
