//! A policy bound to a neighbor and a direction.

use super::ingress::Ingress;
use super::policies::{DefaultPolicy, Policies};
use super::route::PolicyRoute;
use super::vocabulary;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{AnyPrefix, Asn};
use sluice_policy::community::Kind;
use sluice_policy::program::{Fact, Index, TermName};
use sluice_policy::vocabulary::{Reads, VariableId};
use sluice_policy::{Answers, Changes, Decision, Edit, Program, Route};
use smallvec::SmallVec;

/// The properties of a neighbor for policies.
#[derive(Clone, Copy, Debug)]
pub struct Neighbor<'a> {
    /// The neighbor's address.
    pub address: IpAddr,
    /// The neighbor's AS.
    pub asn: Asn,
    /// The name of the neighbor's group.
    pub group: Option<&'a str>,
    /// The place of the address family's name in [`vocabulary::FAMILIES`].
    pub family: u32,
    /// The true facts.
    pub facts: &'a BTreeSet<Fact>,
}

/// A neighbor as a route without attributes: the answers to questions about the neighbor.
impl Route for Neighbor<'_> {
    fn prefix(&self) -> Option<AnyPrefix> {
        None
    }

    fn number(&self, variable: VariableId) -> Option<u32> {
        match variable {
            vocabulary::NEIGHBOR_AS => Some(self.asn.0),
            vocabulary::FAMILY => Some(self.family),
            _ => None,
        }
    }

    fn text(&self, variable: VariableId) -> Option<&str> {
        self.group.filter(|_| variable == vocabulary::GROUP)
    }

    fn address(&self, variable: VariableId) -> Option<IpAddr> {
        (variable == vocabulary::NEIGHBOR).then_some(self.address)
    }

    fn as_path(&self) -> &[u8] {
        &[]
    }

    fn communities(&self, _: Kind) -> &[u8] {
        &[]
    }

    fn holds(&self, fact: &Fact) -> bool {
        self.facts.contains(fact)
    }

    fn change(&mut self, _: Edit<'_>) {}
}

/// The policies of a neighbor and a direction, in order, and the final decision. Immutable, and shared by neighbors and
/// tables with equal policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundPolicy {
    /// The changes before the programs; `None` for routes to a neighbor, and from an internal neighbor.
    ingress: Option<Ingress>,
    programs: Vec<Program>,
    default: DefaultPolicy,
    /// True if routes with the same attributes may have different outcomes.
    reads_prefix: bool,
    /// True if outcomes depend on the validation of origins or paths.
    asks_for_validation: bool,
}

/// The decision of a bound policy on a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// True if the route is accepted.
    pub is_accepted: bool,
    /// The number of the deciding program, and of the deciding term in it; `None` if no term decided.
    pub term: Option<(usize, Index)>,
    /// The reason of a rejection, in the deciding program.
    pub reason: Option<Index>,
}

/// The deciding term of a route, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DecidedBy {
    /// The policy; empty if no term of any policy decides.
    pub policy: String,
    /// The term.
    pub term: String,
    /// The reason of a rejection, as configured.
    pub reason: Option<String>,
    /// True if no term decides because there is no policy (RFC 8212).
    pub is_without_policy: bool,
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_without_policy {
            return f
                .write_str("no import policy (RFC 8212): configure `import`, or `default-policy accept`");
        }
        if self.policy.is_empty() {
            return f.write_str("no term of the policies accepts the route (default-policy reject)");
        }
        write!(f, "policy {}, term {}", self.policy, self.term)?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}

/// Known answers about one set of attributes, and the changes of the latest decision.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    answers: Answers,
    /// By program.
    changes: SmallVec<[Changes; 1]>,
}

/// The changes of a decision: pairs of a program's number and a place, packed.
pub type Trace = SmallVec<[u32; 6]>;

/// Bits of a place in a [`Trace`]: places are below the most instructions of a program.
const PLACE_BITS: u32 = 18;

impl BoundPolicy {
    /// Binds policies to a neighbor. Returns `None` for a policy that accepts every route unchanged. A missing policy (of an
    /// unchecked configuration) rejects every route.
    pub fn bind(
        policies: &Policies,
        names: &[String],
        default: DefaultPolicy,
        neighbor: &Neighbor<'_>,
        ingress: Option<Ingress>,
    ) -> Option<Arc<Self>> {
        let programs = names.iter().map(|name| policies.program(name).map(|program| program.bind(neighbor)));
        let Some(programs) = programs.collect::<Option<Vec<Program>>>() else {
            return Some(BoundPolicy::reject_all());
        };
        let accepts_all = ingress.is_none() && programs.is_empty() && default == DefaultPolicy::Accept;
        let reads_prefix = programs.iter().any(|program| program.reads() == Reads::Prefix);
        let is_validating = |program: &Program| {
            program.asks_for(vocabulary::VALIDATION) || program.asks_for(vocabulary::ASPA)
        };
        let asks_for_validation = programs.iter().any(is_validating);
        let bound = BoundPolicy { ingress, programs, default, reads_prefix, asks_for_validation };
        (!accepts_all).then(|| Arc::new(bound))
    }

    /// Returns the policy that rejects every route.
    pub fn reject_all() -> Arc<Self> {
        Arc::new(BoundPolicy {
            ingress: None,
            programs: Vec::new(),
            default: DefaultPolicy::Reject,
            reads_prefix: false,
            asks_for_validation: false,
        })
    }

    /// Returns the programs, in order.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Returns true if routes with the same attributes may have different outcomes.
    pub fn reads_prefix(&self) -> bool {
        self.reads_prefix
    }

    /// Returns true if outcomes depend on the validation of origins or paths.
    pub(crate) fn asks_for_validation(&self) -> bool {
        self.asks_for_validation
    }

    /// Returns true without programs, if the rules of BGP leave an accepted route with these attributes unchanged: the usual case of a
    /// neighbor without policies, which needs no memory.
    #[inline]
    pub(crate) fn leaves_unchanged(&self, received: &[u8]) -> bool {
        self.programs.is_empty()
            && self.default == DefaultPolicy::Accept
            && self.ingress.as_ref().is_none_or(|ingress| ingress.leaves_unchanged(received))
    }

    /// Returns the attributes for the first program; `None` for the received attributes.
    pub fn entered(&self, received: &[u8]) -> Option<Vec<u8>> {
        self.ingress.as_ref()?.changed(received)
    }

    /// Returns true if no policy is bound: the default decides.
    pub fn is_default(&self) -> bool {
        self.programs.is_empty()
    }

    /// Returns the names of the deciding term; `None` without a decision by a term.
    pub(crate) fn decided_by(&self, outcome: &Outcome) -> Option<DecidedBy> {
        let (number, term) = outcome.term?;
        let program = self.programs.get(number)?;
        let names = program.terms().get(usize::from(term))?;
        let reason = outcome.reason.and_then(|reason| program.reason(reason)).map(String::from);
        Some(DecidedBy {
            policy: names.policy.clone(),
            term: names.term.clone(),
            reason,
            is_without_policy: false,
        })
    }

    /// Decides on a route, after the changes of the rules of BGP. [`BoundPolicy::make`] makes the changes of the programs. `memory` has the
    /// answers about the route's attributes.
    pub fn decide(&self, route: &mut PolicyRoute<'_>, memory: &mut Memory) -> Outcome {
        memory.changes.resize_with(self.programs.len(), Changes::default);
        memory.changes.iter_mut().for_each(Changes::clear);
        self.ingress.iter().for_each(|ingress| route.enter(ingress));
        let mut is_changed = false;
        for (number, program) in self.programs.iter().enumerate() {
            // Only answers of the first program about unchanged routes are worth remembering: chains are short.
            let mut others = Answers::default();
            let answers = if number == 0 { &mut memory.answers } else { &mut others };
            if is_changed {
                self.make_before(number, route, &mut memory.changes);
            }
            let verdict = program.decide(route, answers, &mut memory.changes[number]);
            is_changed |= !memory.changes[number].places().is_empty();
            let term = verdict.term.map(|term| (number, term));
            match verdict.decision {
                Decision::Accept => return Outcome { is_accepted: true, term, reason: None },
                Decision::Reject(reason) => return Outcome { is_accepted: false, term, reason },
                Decision::Default => {}
            }
        }
        Outcome { is_accepted: self.default == DefaultPolicy::Accept, term: None, reason: None }
    }

    /// Returns true if a term of a policy is in a program, directly or by a call of the policy.
    pub(crate) fn has_terms_of(&self, policy: &str) -> bool {
        self.programs.iter().any(|program| program.terms().iter().any(|term| term.policy == policy))
    }

    /// Decides on a route, changes the route, and reports each term whose conditions the route meets: for questions of operators.
    pub fn run_met(&self, route: &mut PolicyRoute<'_>, mut met: impl FnMut(&TermName)) {
        self.ingress.iter().for_each(|ingress| route.enter(ingress));
        for program in &self.programs {
            let verdict = program.run_met(route, |term| {
                program.terms().get(usize::from(term)).into_iter().for_each(&mut met);
            });
            if verdict.decision != Decision::Default {
                return;
            }
        }
    }

    #[inline(never)]
    fn make_before(&self, number: usize, route: &mut PolicyRoute<'_>, changes: &mut [Changes]) {
        for (program, changes) in self.programs[..number].iter().zip(changes) {
            program.make(route, changes);
        }
    }

    /// Applies the missing changes of the latest decision to the route.
    pub fn make(&self, route: &mut PolicyRoute<'_>, memory: &mut Memory) {
        for (program, changes) in self.programs.iter().zip(&mut memory.changes) {
            program.make(route, changes);
        }
    }
}

impl Memory {
    /// Makes an empty memory for routes with a set of attributes under `policy`.
    pub fn new(policy: &BoundPolicy) -> Self {
        let mut memory = Memory::default();
        memory.reset(policy);
        memory
    }

    /// Clears the memory, for routes with a new set of attributes.
    pub fn reset(&mut self, policy: &BoundPolicy) {
        if let Some(first) = policy.programs.first() {
            self.answers.reset(first);
        }
    }

    /// Returns the changes of the latest decision. Routes with the same attributes and the same changes become the same.
    pub fn trace(&self) -> Trace {
        let each = self.changes.iter().enumerate();
        each.flat_map(|(number, changes)| {
            changes.places().iter().map(move |place| (number as u32) << PLACE_BITS | place)
        })
        .collect()
    }
}
