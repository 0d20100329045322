//! What a policy does with one route: the conditions of each term with their answers, and each change.

use crate::subject::{Running, Subject};
use sluice_base::Asn;
use sluice_bgp::policy::vocabulary::VOCABULARY;
use sluice_policy::program::{Fact, Test};
use sluice_policy::source::{Named, Policies};
use sluice_policy::{Decision, Edit, Program, Route, Step};
use std::collections::BTreeMap;

/// A condition of a term, as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// True for a condition in `except`.
    pub is_exception: bool,
    /// The name.
    pub name: String,
    /// The values.
    pub values: Vec<String>,
    /// The number of tests that the condition is compiled to.
    tests: usize,
}

/// A term, as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// The policy.
    pub policy: String,
    /// The term's name.
    pub name: String,
    /// The conditions, in the order of their tests.
    pub conditions: Vec<Condition>,
}

/// Returns the terms of a program, by number.
pub fn terms(policies: &Policies, program: &Program) -> Vec<Term> {
    let of = |name: &sluice_policy::program::TermName| {
        let mut statements =
            policies.policy_statement.iter().filter(|statement| statement.name == name.policy);
        let term = statements.find_map(|statement| statement.term.iter().find(|term| term.name == name.term));
        let conditions = term.map_or_else(Vec::new, |term| {
            conditions(&term.from, false).chain(conditions(&term.except, true)).collect()
        });
        Term { policy: name.policy.clone(), name: name.term.clone(), conditions }
    };
    program.terms().iter().map(of).collect()
}

fn conditions(named: &Named, is_exception: bool) -> impl Iterator<Item = Condition> {
    named.iter().map(move |(name, values)| {
        // Named lists and prefixes of the RIB are asked for one by one, other values together.
        let tests = match name.as_str() {
            "prefix-list" | "as-path" | "route-present" => values.0.len(),
            _ => 1,
        };
        Condition { is_exception, name: name.clone(), values: values.0.clone(), tests }
    })
}

/// Follows the steps of a program through the conditions of its terms.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    term: Option<usize>,
    /// The conditions of the term that were answered.
    answered: usize,
    /// The tests of the next condition that were answered.
    tests: usize,
    /// True if a condition stands against the term.
    has_failed: bool,
    /// The highest number of a term so far.
    highest: Option<usize>,
}

/// The answer to a condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The number of the condition in its term.
    pub condition: usize,
    /// True if the route has one of the condition's values.
    pub holds: bool,
}

impl Walk {
    /// Takes a step. Returns the answer to a condition, if the step completes one.
    pub fn step(&mut self, terms: &[Term], step: Step<'_>) -> Option<Answer> {
        match step {
            Step::Enter(number) => {
                let term = usize::from(number);
                let answered = if self.is_return(term) { usize::MAX } else { 0 };
                let highest = self.highest.max(Some(term));
                *self = Walk { term: Some(term), answered, highest, ..Walk::default() };
                None
            }
            Step::Test(_, holds) => {
                let condition = terms.get(self.term?)?.conditions.get(self.answered)?;
                self.tests += 1;
                if !holds && self.tests < condition.tests {
                    return None;
                }
                let answer = Answer { condition: self.answered, holds };
                self.has_failed |= holds == condition.is_exception;
                (self.answered, self.tests) = (self.answered + 1, 0);
                Some(answer)
            }
            Step::Change(_) => None,
        }
    }

    /// Returns true if a term goes on behind a call.
    pub fn is_return(&self, term: usize) -> bool {
        self.highest.is_some_and(|highest| term < highest)
    }

    /// Returns true if the present term goes on behind a call.
    pub fn has_returned(&self) -> bool {
        self.answered == usize::MAX
    }

    /// Returns the number of the present term, if the route meets all its conditions.
    pub fn met(&self) -> Option<usize> {
        self.term.filter(|_| !self.has_failed)
    }
}

/// A change of a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The property.
    pub name: &'static str,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
}

/// A term that the route came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The number of the term.
    pub term: usize,
    /// The answers to its conditions, up to the one that stands against the term, and the route's values that the conditions ask
    /// about.
    pub answers: Vec<(Answer, Option<String>)>,
    /// True if the route meets the conditions.
    pub is_met: bool,
    /// The changes of the term.
    pub changes: Vec<Change>,
}

/// The effect of a policy on a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The terms of the program.
    pub terms: Vec<Term>,
    /// The terms that the route came to, in order.
    pub passages: Vec<Passage>,
    /// The decision: true for accepted; `None` if no term decides.
    pub is_accepted: Option<bool>,
    /// The number of the deciding term.
    pub by: Option<usize>,
    /// The reason of a rejection.
    pub reason: Option<String>,
    /// The properties of the route before.
    pub before: BTreeMap<&'static str, String>,
    /// The properties of the route after.
    pub after: BTreeMap<&'static str, String>,
    /// The canonical octets of the route after.
    pub octets: Vec<u8>,
}

impl Explanation {
    /// Runs a policy on a route, in a router of `local_as`.
    pub fn of(policies: &Policies, program: &Program, subject: &Subject, local_as: Asn) -> Self {
        let terms = terms(policies, program);
        let mut route = subject.running(local_as);
        let program = program.with_peer(&route);
        let before = route.properties();
        let mut record = Record::default();
        let verdict = program.run_observed(&mut route, |route, step| {
            record.note_fact(&program, step);
            record.step(&terms, route, step);
        });
        record.complete(&route);
        record.end_term();
        let (is_accepted, reason) = match verdict.decision {
            Decision::Accept => (Some(true), None),
            Decision::Reject(reason) => (Some(false), reason.and_then(|reason| program.reason(reason))),
            Decision::Default => (None, None),
        };
        let (by, reason) = (verdict.term.map(usize::from), reason.map(ToOwned::to_owned));
        Explanation {
            terms,
            passages: record.passages,
            is_accepted,
            by,
            reason,
            before,
            after: route.properties(),
            octets: route.into_octets(),
        }
    }

    /// Returns the deciding term.
    pub fn deciding(&self) -> Option<&Term> {
        self.terms.get(self.by?)
    }
}

/// The steps so far.
#[derive(Default)]
struct Record {
    walk: Walk,
    passages: Vec<Passage>,
    /// The property that is about to change, and the value before.
    pending: Option<(&'static str, Option<String>)>,
    /// The facts that the present condition asked for, with the answers.
    facts: Vec<String>,
}

impl Record {
    /// Notes a fact that a test asks for: which one a condition with parameters or with several values means.
    fn note_fact(&mut self, program: &Program, step: Step<'_>) {
        if let Step::Test(Test::Fact(number), holds) = step
            && let Some(Fact::RoutePresent(prefix)) = program.facts().get(usize::from(number))
        {
            self.facts.push(format!("{prefix} {}", if holds { "present" } else { "absent" }));
        }
    }

    fn step(&mut self, terms: &[Term], route: &Running<'_>, step: Step<'_>) {
        self.complete(route);
        if let Step::Enter(number) = step {
            self.end_term();
            let term = usize::from(number);
            if !self.walk.is_return(term) {
                self.passages.push(Passage { term, answers: Vec::new(), is_met: false, changes: Vec::new() });
            }
        }
        let answer = self.walk.step(terms, step);
        if let (Some(passage), Some(answer)) = (self.passages.last_mut(), answer) {
            let condition = terms.get(passage.term).and_then(|term| term.conditions.get(answer.condition));
            let facts = std::mem::take(&mut self.facts);
            let value = match facts.is_empty() {
                true => condition.and_then(|condition| asked(route, &condition.name)),
                false => Some(facts.join(", ")),
            };
            passage.answers.push((answer, value));
        }
        if let Step::Change(edit) = step {
            let name = changed(edit);
            self.pending = Some((name, route.property(name)));
        }
    }

    /// Notes the value after a change.
    fn complete(&mut self, route: &Running<'_>) {
        if let (Some((name, before)), Some(passage)) = (self.pending.take(), self.passages.last_mut()) {
            passage.changes.push(Change { name, before, after: route.property(name) });
        }
    }

    fn end_term(&mut self) {
        let is_met = self.walk.met().is_some();
        if let Some(passage) = self.passages.last_mut().filter(|_| !self.walk.has_returned()) {
            passage.is_met = is_met;
        }
    }
}

/// Returns the property that an edit changes.
fn changed(edit: Edit<'_>) -> &'static str {
    match edit {
        Edit::Number(variable, _) => {
            VOCABULARY.get(usize::from(variable)).map_or("", |variable| variable.name)
        }
        Edit::AddCommunities(_) | Edit::DeleteCommunities(_) | Edit::ReplaceCommunities(_) => "community",
        Edit::Prepend(_) | Edit::ReplaceAs(..) | Edit::RemovePrivateAs => "as-path",
        Edit::NextHop(_) => "next-hop",
        Edit::Damping(_) => "damping",
    }
}

/// Returns the value that a condition asks about, as people write it; `None` if the route has none.
fn asked(route: &Running<'_>, name: &str) -> Option<String> {
    match name {
        "prefix" | "prefix-list" => route.prefix().map(|prefix| prefix.to_string()),
        "community-all" => route.property("community"),
        name => route.property(name),
    }
}
