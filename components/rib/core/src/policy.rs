//! Policies in the RIB: for routes of an origin on their way into the table, and for routes on their way to a subscriber.
//!
//! A policy rejects a route, changes its distance and metric, or adds tags. It changes no next hops and creates no routes.

use alloc::borrow::{Cow, ToOwned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::{
    Address, AnyPrefix, Distance, InterfaceIndex, IpPrefix, Metric, NextHop, RouteSet, TableId, Tag,
};
use sluice_policy::community::Kind;
use sluice_policy::program::{Fact, Index};
use sluice_policy::source::{Named, Policies, Statement};
use sluice_policy::vocabulary::{Reads, Type, Variable, VariableId, Vocabulary};
use sluice_policy::{Decision, Edit, NameError, PolicyError, PolicySet, Program, Route, Verdict};

const DISTANCE: VariableId = 0;
const METRIC: VariableId = 1;
const TAG: VariableId = 2;
const PROTOCOL: VariableId = 3;
const ROUTE_TYPE: VariableId = 4;
const NEXT_HOP: VariableId = 5;
const INTERFACE: VariableId = 6;
const PREFIX_LENGTH: VariableId = 7;
const FAMILY: VariableId = 8;
const TABLE: VariableId = 9;

/// The variables of the RIB's routes. A route has a set of tags: a condition holds if one of the tags fits, and an action adds a tag.
pub const VOCABULARY: Vocabulary = &[
    variable("distance", Type::Number(u8::MAX as u32), true, Reads::Attributes),
    variable("metric", Type::Number(u32::MAX), true, Reads::Attributes),
    variable("tag", Type::Number(u32::MAX), true, Reads::Attributes),
    variable("protocol", Type::Text, false, Reads::Attributes),
    variable("route-type", Type::Text, false, Reads::Attributes),
    variable("next-hop", Type::Address, false, Reads::Attributes),
    variable("interface", Type::Text, false, Reads::Attributes),
    variable("prefix-length", Type::Number(128), false, Reads::Prefix),
    variable("family", Type::Name(&["ipv4", "ipv6"]), false, Reads::Attributes),
    variable("table", Type::Number(u32::MAX), false, Reads::Attributes),
];

/// The conditions that are no variables and have an answer in the RIB.
const CONDITIONS: [&str; 2] = ["prefix", "prefix-list"];
/// The actions that are no changes of variables and have an effect in the RIB.
const ACTIONS: [&str; 6] = ["accept", "reject", "next-term", "next-policy", "reason", "call"];

const fn variable(name: &'static str, values: Type, is_writable: bool, reads: Reads) -> Variable {
    Variable { name, values, is_writable, reads }
}

/// The outcome of policies for a route.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The route is accepted as it is.
    Unchanged,
    /// The route is accepted with these properties.
    Changed(RouteSet),
    /// The route is rejected, for this reason.
    Rejected(Arc<str>),
}

/// Policies in order: the first one that accepts or rejects a route decides. A route on which none decides is accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain(Vec<(String, Arc<Program>)>);

impl Chain {
    /// Returns true if routes with the same set can have different outcomes.
    pub(crate) fn reads_prefix(&self) -> bool {
        self.0.iter().any(|(_, program)| program.reads() == Reads::Prefix)
    }

    /// Decides on a route with the properties `set`.
    pub(crate) fn decide(&self, surroundings: Surroundings<'_>, prefix: IpPrefix, set: &RouteSet) -> Outcome {
        let mut candidate = Candidate { surroundings, prefix, set: Cow::Borrowed(set) };
        for (name, program) in &self.0 {
            match program.run(&mut candidate) {
                Verdict { decision: Decision::Accept, .. } => break,
                Verdict { decision: Decision::Default, .. } => {}
                Verdict { decision: Decision::Reject(reason), term } => {
                    return Outcome::Rejected(explained(name, program, term, reason));
                }
            }
        }
        match candidate.set {
            Cow::Owned(changed) if changed != *set => Outcome::Changed(changed),
            _ => Outcome::Unchanged,
        }
    }
}

/// Returns the reason of a rejection: the configured one, with the policy and the term.
fn explained(policy: &str, program: &Program, term: Option<Index>, reason: Option<Index>) -> Arc<str> {
    let term = term.and_then(|term| program.terms().get(usize::from(term)));
    let place = term.map_or(format!("policy {policy}"), |t| format!("policy {}, term {}", t.policy, t.term));
    match reason.and_then(|reason| program.reason(reason)) {
        Some(reason) => format!("{reason} ({place})").into(),
        None => place.into(),
    }
}

/// The surroundings of a route: properties of its origin, its table and the host.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The name of the origin.
    pub(crate) origin: &'a str,
    /// The names of the origin's kinds of routes.
    pub(crate) kinds: &'a [String],
    /// The distance of routes without a distance of their own.
    pub(crate) distance: Distance,
    /// The table.
    pub(crate) table: TableId,
    /// The names of interfaces.
    pub(crate) interface_names: &'a BTreeMap<InterfaceIndex, String>,
}

/// A route in the view of a program.
struct Candidate<'a> {
    surroundings: Surroundings<'a>,
    prefix: IpPrefix,
    set: Cow<'a, RouteSet>,
}

impl Candidate<'_> {
    fn next_hops(&self) -> &[NextHop<Address>] {
        self.set.forwarding.next_hops()
    }
}

impl Route for Candidate<'_> {
    fn prefix(&self) -> Option<AnyPrefix> {
        Some(self.prefix.into())
    }

    fn number(&self, variable: VariableId) -> Option<u32> {
        match variable {
            DISTANCE => Some(self.set.distance.unwrap_or(self.surroundings.distance).0.into()),
            METRIC => Some(self.set.metric.0),
            TAG => self.set.tags.as_slice().first().map(|tag| tag.0),
            PREFIX_LENGTH => Some(self.prefix.len().into()),
            FAMILY => Some(matches!(self.prefix, IpPrefix::V6(_)).into()),
            TABLE => Some(self.surroundings.table.0),
            _ => None,
        }
    }

    fn number_is_in(&self, variable: VariableId, ranges: &[(u32, u32)]) -> bool {
        let is_in = |number: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
        match variable {
            TAG => self.set.tags.as_slice().iter().any(|tag| is_in(tag.0)),
            variable => self.number(variable).is_some_and(is_in),
        }
    }

    fn text(&self, variable: VariableId) -> Option<&str> {
        match variable {
            PROTOCOL => Some(self.surroundings.origin),
            ROUTE_TYPE => self.set.kind.name(self.surroundings.kinds),
            INTERFACE => {
                let interface = self.next_hops().iter().find_map(|hop| hop.interface)?;
                self.surroundings.interface_names.get(&interface).map(String::as_str)
            }
            _ => None,
        }
    }

    fn address(&self, variable: VariableId) -> Option<IpAddr> {
        let gateway = || self.next_hops().iter().find_map(|hop| hop.gateway)?.ip();
        if variable == NEXT_HOP { gateway() } else { None }
    }

    fn as_path(&self) -> &[u8] {
        &[]
    }

    fn communities(&self, _: Kind) -> &[u8] {
        &[]
    }

    fn holds(&self, _: &Fact) -> bool {
        false
    }

    fn change(&mut self, edit: Edit<'_>) {
        // Policies with other changes are refused when they are compiled.
        let Edit::Number(variable, number) = edit else { return };
        match variable {
            // 0 is for the interfaces' own subnets.
            DISTANCE => {
                self.set.to_mut().distance = Some(Distance(u8::try_from(number.max(1)).unwrap_or(u8::MAX)));
            }
            METRIC => self.set.to_mut().metric = Metric(number),
            TAG => {
                let tags = self.set.tags.as_slice().iter().copied().chain([Tag(number)]).collect();
                self.set.to_mut().tags = tags;
            }
            _ => {}
        }
    }
}

/// The policies of the configuration, and the origins whose routes pass some of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RibPolicies {
    source: Policies,
    imports: BTreeMap<String, Arc<Chain>>,
    /// The policies for routes that resolve next hops.
    resolving: Option<Arc<Chain>>,
}

/// The policies of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriberPolicy {
    /// The name of the policy.
    pub(crate) name: String,
    /// The policy; `None` if the configuration has no such policy any more.
    pub(crate) chain: Option<Arc<Chain>>,
}

impl RibPolicies {
    /// Compiles the policies that `imports` names for origins, and `resolving` for routes that resolve next hops. Other policies may be of
    /// other protocols, and are not looked at.
    ///
    /// # Errors
    /// A named policy does not exist, is not correct, or asks for what routes in the RIB do not have.
    pub fn compile(
        source: Policies,
        imports: BTreeMap<String, Vec<String>>,
        resolving: Vec<String>,
    ) -> Result<Self, ImportError> {
        // Protocols check the lists too. The RIB runs without any protocol.
        PolicySet::check_lists(&without_prefix_lists(&source)).map_err(ImportError::of_policy)?;
        for (origin, name) in
            imports.iter().flat_map(|(origin, names)| names.iter().map(move |name| (origin, name)))
        {
            let place = format!("origin {origin} import");
            check_name(&source, name).map_err(|error| ImportError { place, error })?;
        }
        for name in &resolving {
            let place = "resolve-next-hops-by".to_owned();
            check_name(&source, name).map_err(|error| ImportError { place, error })?;
        }
        let mut chains = BTreeMap::new();
        let names: Vec<&str> = imports.values().flatten().chain(&resolving).map(|name| &**name).collect();
        let programs = compile(&source, &names).map_err(ImportError::of_policy)?;
        let program = |name: String| programs.get(&name).map(|program| (name, Arc::clone(program)));
        let chain = |names: Vec<String>| {
            (!names.is_empty()).then(|| Arc::new(Chain(names.into_iter().filter_map(program).collect())))
        };
        for (origin, names) in imports {
            chains.extend(chain(names).map(|chain| (origin, chain)));
        }
        let resolving = chain(resolving);
        Ok(RibPolicies { source, imports: chains, resolving })
    }

    /// Returns the policies of an origin.
    pub(crate) fn import(&self, origin: &str) -> Option<&Arc<Chain>> {
        self.imports.get(origin)
    }

    /// Returns the policies for routes that resolve next hops: a rejected route resolves none.
    pub(crate) fn resolving(&self) -> Option<&Chain> {
        self.resolving.as_deref()
    }

    /// Compiles a policy for a subscription.
    ///
    /// # Errors
    /// As [`RibPolicies::compile`].
    pub fn for_subscriber(&self, name: &str) -> Result<SubscriberPolicy, PolicyUseError> {
        check_name(&self.source, name)?;
        let programs = compile(&self.source, &[name]).map_err(PolicyUseError::Policy)?;
        let chain =
            programs.get(name).map(|program| Arc::new(Chain([(name.to_owned(), program.clone())].into())));
        Ok(SubscriberPolicy { name: name.to_owned(), chain })
    }
}

/// The reason why the RIB cannot use a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyUseError {
    /// There is no policy of the name without parameters.
    Name(NameError),
    /// The policy is not valid for the RIB.
    Policy(PolicyError),
}

impl fmt::Display for PolicyUseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyUseError::Name(error) => error.fmt(f),
            PolicyUseError::Policy(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PolicyUseError {}

/// The reason why a statement cannot have a policy. The text begins with the path of the statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    place: String,
    error: PolicyUseError,
}

impl ImportError {
    /// Makes an error of one whose text has its place.
    fn of_policy(error: PolicyError) -> Self {
        ImportError { place: String::new(), error: PolicyUseError::Policy(error) }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            PolicyUseError::Name(error) => write!(f, "{}: {error}", self.place),
            PolicyUseError::Policy(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ImportError {}

/// Checks that there is a policy of a name without parameters.
fn check_name(source: &Policies, name: &str) -> Result<(), PolicyUseError> {
    let names = Policies {
        policy_statement: source.policy_statement.iter().map(without_terms).collect(),
        ..Policies::default()
    };
    let found = PolicySet::compile(&names, VOCABULARY).map_err(PolicyUseError::Policy)?;
    found.find(name).map(drop).map_err(PolicyUseError::Name)
}

fn without_terms(statement: &Statement) -> Statement {
    Statement { name: statement.name.clone(), parameter: statement.parameter.clone(), term: Vec::new() }
}

/// Compiles the named policies with the policies that they call.
fn compile(source: &Policies, names: &[&str]) -> Result<PolicySet, PolicyError> {
    if names.is_empty() {
        return Ok(PolicySet::default());
    }
    let find = |name: &str| source.policy_statement.iter().find(|statement| statement.name == name);
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = names.to_vec();
    while let Some(name) = open.pop() {
        // A call of a policy that does not exist is refused below, with its place.
        let Some(statement) = find(name) else { continue };
        if needed.insert(&statement.name) {
            check_words(statement)?;
            let calls = statement.term.iter().filter_map(|term| term.then.get("call"));
            open.extend(calls.flat_map(|call| &call.0).filter_map(|call| call.split_whitespace().next()));
        }
    }
    let is_needed = |statement: &&Statement| needed.contains(&*statement.name);
    let statements = source.policy_statement.iter().filter(is_needed).cloned().collect();
    PolicySet::compile(&Policies { policy_statement: statements, ..lists(source) }, VOCABULARY)
}

/// Returns the lists that are read in full: entries of prefix lists, of which there may be a million, are checked by the schema.
fn without_prefix_lists(source: &Policies) -> Policies {
    Policies { prefix_list: Vec::new(), ..lists(source) }
}

/// Returns the policies without statements.
fn lists(source: &Policies) -> Policies {
    Policies {
        prefix_list: source.prefix_list.clone(),
        as_path: source.as_path.clone(),
        community: source.community.clone(),
        damping: source.damping.clone(),
        policy_statement: Vec::new(),
    }
}

/// Refuses conditions and actions without a meaning in the RIB.
fn check_words(statement: &Statement) -> Result<(), PolicyError> {
    let all = || VOCABULARY.iter().map(|variable| variable.name);
    let writable = VOCABULARY.iter().filter(|variable| variable.is_writable).map(|variable| variable.name);
    let conditions: Vec<&str> = all().chain(CONDITIONS).collect();
    let actions: Vec<&str> = writable.chain(ACTIONS).collect();
    for term in &statement.term {
        let blocks: [(&str, &str, &Named, &[&str]); 3] = [
            ("from", "condition", &term.from, &conditions),
            ("except", "condition", &term.except, &conditions),
            ("then", "action", &term.then, &actions),
        ];
        for (block, what, named, known) in blocks {
            if let Some(name) = named.keys().find(|name| !known.contains(&name.as_str())) {
                let place = ["policy-statement", &statement.name, "term", &term.name, block, name];
                let message = match name.as_str() {
                    // What a policy of the RIB decides changes which routes there are: its own answer could change.
                    "route-present" => {
                        "policies of the RIB decide which routes there are, and cannot ask that; \
                                        use `route-present` in a policy of BGP"
                            .into()
                    }
                    _ => {
                        format!(
                            "the RIB's routes have no {what} `{name}`; expected one of {}",
                            known.join(", ")
                        )
                    }
                };
                return Err(PolicyError { place: place.map(ToOwned::to_owned).into(), message });
            }
        }
    }
    Ok(())
}
