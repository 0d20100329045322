//! The words of a policy: conditions and actions that a protocol knows, or that belong to another protocol.

use super::actions::{CHANGES, ENDS, OTHERS};
use super::conditions::CONDITIONS;
use crate::limits::DEEPEST_CALL;
use crate::source::{Policies, Statement};
use crate::vocabulary::{Vocabulary, find};

/// Returns true if a policy and all called policies have only conditions and actions of a protocol.
pub fn is_known(policies: &Policies, statement: &Statement, vocabulary: Vocabulary) -> bool {
    is_known_within(policies, statement, vocabulary, DEEPEST_CALL)
}

fn is_known_within(policies: &Policies, statement: &Statement, vocabulary: Vocabulary, depth: usize) -> bool {
    let is_condition =
        |name: &str| CONDITIONS.iter().any(|(known, _)| *known == name) || find(vocabulary, name).is_some();
    let is_action = |name: &str| {
        CHANGES.iter().any(|(known, _)| *known == name)
            || ENDS.contains(&name)
            || OTHERS.contains(&name)
            || find(vocabulary, name).is_some()
    };
    statement.term.iter().all(|term| {
        let mut calls = term.then.get("call").into_iter().flat_map(|values| &values.0);
        term.from.keys().chain(term.except.keys()).all(|name| is_condition(name))
            && term.then.keys().all(|name| is_action(name))
            && calls.all(|call| {
                let name = call.split_whitespace().next().unwrap_or_default();
                let called = policies.policy_statement.iter().find(|called| called.name == name);
                // An unknown name and a circle of calls are errors of the policy, whoever uses it.
                called
                    .filter(|_| depth > 0)
                    .is_none_or(|called| is_known_within(policies, called, vocabulary, depth - 1))
            })
    })
}
