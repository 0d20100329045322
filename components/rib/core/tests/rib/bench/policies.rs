//! Policies as configured, in few words.

use sluice_policy::source::{Named, Policies, PrefixList, Statement, Term, Values};
use sluice_rib::RibPolicies;
use std::collections::BTreeMap;

/// Returns conditions or actions: words with values, separated by blanks; several of them, by semicolons.
fn named(text: &str) -> Named {
    let one = |part: &str| {
        let mut words = part.split_whitespace().map(String::from);
        Some((words.next()?, Values(words.collect())))
    };
    text.split(';').filter_map(one).collect()
}

/// Returns a policy of one term.
pub fn policy(name: &str, from: &str, then: &str) -> Statement {
    let term = Term { name: "only".into(), from: named(from), then: named(then), ..Term::default() };
    Statement { name: name.into(), parameter: Vec::new(), term: vec![term] }
}

/// Returns policies with a prefix list `list` of exact prefixes.
pub fn policies(statements: Vec<Statement>, list: Vec<String>) -> Policies {
    Policies {
        prefix_list: vec![PrefixList { name: "list".into(), prefix: list }],
        policy_statement: statements,
        ..Policies::default()
    }
}

/// Compiles policies for origins: name of the origin, name of the policy.
pub fn compiled(source: Policies, imports: &[(&str, &str)]) -> RibPolicies {
    let imports = imports.iter().map(|(origin, policy)| (origin.to_string(), vec![policy.to_string()]));
    RibPolicies::compile(source, imports.collect::<BTreeMap<_, _>>(), Vec::new()).unwrap()
}
