//! The machine for programs: no allocation, no jump backwards.

use crate::as_path::Automaton;
use crate::community::{Community, Kind, communities};
use crate::prefix_list::Matching;
use crate::program::{Change, CommunitySets, Fact, Index, Instruction, NextHop, Program, Test};
use crate::vocabulary::VariableId;
use core::cell::OnceCell;
use core::net::IpAddr;
use sluice_base::IpPrefix;

/// A route in the view of a program.
pub trait Route {
    /// Returns the prefix.
    fn prefix(&self) -> IpPrefix;
    /// Returns a number; `None` if the route has none.
    fn number(&self, variable: VariableId) -> Option<u32>;
    /// Returns a text.
    fn text(&self, variable: VariableId) -> Option<&str>;
    /// Returns an address.
    fn address(&self, variable: VariableId) -> Option<IpAddr>;
    /// Returns the octets of the AS path, with AS numbers of 4 octets (RFC 6793).
    fn as_path(&self) -> &[u8];
    /// Returns the octets of the communities of a kind.
    fn communities(&self, kind: Kind) -> &[u8];
    /// Returns true if a fact holds.
    fn holds(&self, fact: &Fact) -> bool;
    /// Changes the route.
    fn change(&mut self, edit: Edit<'_>);
}

/// A change of a route, with its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit<'p> {
    /// Sets a number.
    Number(VariableId, u32),
    /// Adds the members of sets of communities.
    AddCommunities(&'p CommunitySets),
    /// Removes the communities of sets.
    DeleteCommunities(&'p CommunitySets),
    /// Replaces all communities of each kind with members in the sets.
    ReplaceCommunities(&'p CommunitySets),
    /// Puts AS numbers before the path.
    Prepend(&'p [u32]),
    /// Replaces the AS numbers in ranges by another one.
    ReplaceAs(&'p [(u32, u32)], u32),
    /// Removes private AS numbers.
    RemovePrivateAs,
    /// Sets the next hop.
    NextHop(NextHop),
}

/// The outcome of a program for a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The deciding term; `None` for the default.
    pub term: Option<Index>,
}

/// A decision on a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The route is accepted, with the changes made.
    Accept,
    /// The route is rejected, for a reason in [`Program::reason`].
    Reject(Option<Index>),
    /// No term decided: the default of the place where the policy is bound holds.
    Default,
}

/// An observation while a program runs, to explain a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'p> {
    /// A term begins.
    Enter(Index),
    /// A test was answered. After an unexpected answer, the term does not apply to the route.
    Test(Test, bool),
    /// The route is about to be changed.
    Change(Edit<'p>),
}

impl Program {
    /// Decides on a route, and changes the route.
    pub fn run(&self, route: &mut impl Route) -> Verdict {
        self.run_observed(route, |_, _| {})
    }

    /// Decides on a route, and reports each step before its effect.
    pub fn run_observed<R: Route>(&self, route: &mut R, mut observe: impl FnMut(&R, Step<'_>)) -> Verdict {
        let lists = OnceCell::new();
        let (mut place, mut term) = (0_usize, None);
        while let Some(instruction) = self.code.get(place) {
            place += 1;
            match *instruction {
                Instruction::Enter(number) => {
                    term = Some(number);
                    observe(route, Step::Enter(number));
                }
                Instruction::Check { test, expected, otherwise } => {
                    let answer = self.answer(route, test, &lists);
                    observe(route, Step::Test(test, answer));
                    if answer != expected {
                        place = otherwise as usize;
                    }
                }
                Instruction::Change(change) => {
                    if let Some(edit) = self.edit(route, change) {
                        observe(route, Step::Change(edit));
                        route.change(edit);
                    }
                }
                Instruction::Jump(target) => place = target as usize,
                Instruction::Accept => return Verdict { decision: Decision::Accept, term },
                Instruction::Reject(reason) => return Verdict { decision: Decision::Reject(reason), term },
            }
        }
        Verdict { decision: Decision::Default, term: None }
    }

    /// Returns the reason of a rejection.
    pub fn reason(&self, reason: Index) -> Option<&str> {
        self.constants.texts.get(usize::from(reason)).map(|text| &**text)
    }

    fn answer(&self, route: &impl Route, test: Test, lists: &OnceCell<Matching>) -> bool {
        let constants = &self.constants;
        match test {
            Test::PrefixIn(list) => {
                let matching = lists.get_or_init(|| constants.prefix_lists.matching(route.prefix()));
                matching.binary_search(&list).is_ok()
            }
            Test::NumberIn(variable, ranges) => route.number(variable).is_some_and(|number| {
                let ranges = constants.ranges.get(usize::from(ranges));
                ranges.is_some_and(|all| all.iter().any(|(first, last)| (*first..=*last).contains(&number)))
            }),
            Test::TextIn(variable, texts) => route.text(variable).is_some_and(|text| {
                let texts = constants.text_sets.get(usize::from(texts));
                texts.is_some_and(|all| all.binary_search_by(|known| (**known).cmp(text)).is_ok())
            }),
            Test::AddressIn(variable, list) => route
                .address(variable)
                .is_some_and(|address| constants.prefix_lists.has_address(list, address)),
            Test::PathIs(automaton) => {
                let automaton: Option<&Automaton> = constants.automata.get(usize::from(automaton));
                automaton.is_some_and(|automaton| automaton.matches(route.as_path()))
            }
            Test::AnyCommunity(set) => self.sets(set).is_some_and(|sets| {
                let has = |kind| {
                    communities(kind, route.communities(kind)).any(|c: Community| sets.of(kind).contains(c))
                };
                Kind::ALL.into_iter().any(has)
            }),
            Test::AllCommunities(set) => self.sets(set).is_some_and(|sets| {
                let has = |kind| sets.of(kind).is_covered_by(Communities::of(kind, route.communities(kind)));
                Kind::ALL.into_iter().all(has)
            }),
            Test::Fact(fact) => constants.facts.get(usize::from(fact)).is_some_and(|fact| route.holds(fact)),
        }
    }

    fn sets(&self, set: Index) -> Option<&CommunitySets> {
        self.constants.communities.get(usize::from(set))
    }

    /// Returns a change with its values; `None` never occurs in a verified program.
    fn edit(&self, route: &impl Route, change: Change) -> Option<Edit<'_>> {
        let constants = &self.constants;
        let bounded = |variable: VariableId, number: u32| {
            let most = self.vocabulary().get(usize::from(variable)).and_then(|v| v.values.largest());
            Edit::Number(variable, number.min(most.unwrap_or(0)))
        };
        let number = |variable| route.number(variable).unwrap_or(0);
        Some(match change {
            Change::Set(variable, value) => bounded(variable, value),
            Change::Add(variable, value) => bounded(variable, number(variable).saturating_add(value)),
            Change::Subtract(variable, value) => bounded(variable, number(variable).saturating_sub(value)),
            Change::AddCommunities(set) => Edit::AddCommunities(self.sets(set)?),
            Change::DeleteCommunities(set) => Edit::DeleteCommunities(self.sets(set)?),
            Change::ReplaceCommunities(set) => Edit::ReplaceCommunities(self.sets(set)?),
            Change::Prepend(sequence) => Edit::Prepend(constants.sequences.get(usize::from(sequence))?),
            Change::ReplaceAs(ranges, asn) => {
                Edit::ReplaceAs(constants.ranges.get(usize::from(ranges))?, asn)
            }
            Change::RemovePrivateAs => Edit::RemovePrivateAs,
            Change::NextHop(hop) => Edit::NextHop(hop),
        })
    }
}

/// The communities of an attribute's value, one after the other.
#[derive(Clone)]
struct Communities<'v> {
    kind: Kind,
    rest: &'v [u8],
}

impl<'v> Communities<'v> {
    fn of(kind: Kind, rest: &'v [u8]) -> Self {
        Communities { kind, rest }
    }
}

impl Iterator for Communities<'_> {
    type Item = Community;

    fn next(&mut self) -> Option<Community> {
        let (octets, rest) = self.rest.split_at_checked(self.kind.octets())?;
        self.rest = rest;
        communities(self.kind, octets).next()
    }
}
