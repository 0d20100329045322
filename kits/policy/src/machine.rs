//! The machine for programs: no allocation, no jump backwards.

use crate::as_path::Automaton;
use crate::community::{Community, Kind, communities};
use crate::prefix_list::Matching;
use crate::program::{
    Change, CommunitySets, Fact, Index, Instruction, NO_SLOT, NextHop, Place, Program, Slot, Test,
};
use crate::source::Damping;
use crate::vocabulary::{Reads, VariableId};
use core::cell::OnceCell;
use core::net::IpAddr;
use sluice_base::AnyPrefix;
use smallvec::SmallVec;

/// A route in the view of a program.
pub trait Route {
    /// Returns the prefix; a neighbor that answers in the place of its routes has none.
    fn prefix(&self) -> Option<AnyPrefix>;
    /// Returns a number; `None` if the route has none.
    fn number(&self, variable: VariableId) -> Option<u32>;
    /// Returns true if one of the route's numbers is in one of the ranges. Routes with several values of a variable, such as
    /// tags, answer for each.
    fn number_is_in(&self, variable: VariableId, ranges: &[(u32, u32)]) -> bool {
        let number = self.number(variable);
        number.is_some_and(|number| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number)))
    }
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
    /// Sets the parameters of flap damping; `None` if flaps are not counted.
    Damping(Option<&'p Damping>),
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
    /// A term begins, or goes on behind a call: its number is below those of the called terms then.
    Enter(Index),
    /// A test was answered. After an unexpected answer, the term does not apply to the route.
    Test(Test, bool),
    /// The route is about to be changed.
    Change(Edit<'p>),
}

/// The known answers of a program about one set of attributes. Routes that share the set share the answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Two bits for each test on attributes: the lower one is set if the answer is known, the higher one if the answer is yes.
    bits: SmallVec<[u64; 2]>,
}

/// Tests in a word of [`Answers`].
const TESTS_IN_WORD: usize = 32;

impl Answers {
    /// Forgets all answers, and makes room for those of a program.
    pub fn reset(&mut self, program: &Program) {
        self.bits.clear();
        self.bits.resize(program.slot_count().div_ceil(TESTS_IN_WORD), 0);
    }

    #[inline]
    fn get(&self, slot: Slot) -> Option<bool> {
        let place = usize::from(slot);
        let bits = self.bits.get(place / TESTS_IN_WORD)? >> (2 * (place % TESTS_IN_WORD));
        (bits & 1 == 1).then_some(bits & 2 == 2)
    }

    fn set(&mut self, slot: Slot, answer: bool) {
        let place = usize::from(slot);
        if let Some(word) = self.bits.get_mut(place / TESTS_IN_WORD) {
            *word |= (1 | u64::from(answer) << 1) << (2 * (place % TESTS_IN_WORD));
        }
    }
}

/// The changes that a program makes to a route, by place. Routes with the same attributes and the same changes have the same
/// outcome.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Changes {
    places: SmallVec<[Place; 4]>,
    /// The number of changes that the route has already.
    made: usize,
}

impl Changes {
    /// Returns the places of the changes, in order.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.places.clear();
        self.made = 0;
    }
}

impl Program {
    /// Decides on a route, and notes the changes without making them, unless a later test depends on the changed route.
    /// [`Program::make`] makes the remaining changes. `answers` are those about the route's attributes; new ones are added.
    pub fn decide(&self, route: &mut impl Route, answers: &mut Answers, changes: &mut Changes) -> Verdict {
        let lists = OnceCell::new();
        let (mut place, mut term) = (0_usize, None);
        while let Some(instruction) = self.code.get(place) {
            let slot = self.slot(place);
            place += 1;
            match *instruction {
                Instruction::Enter(number) => term = Some(number),
                Instruction::Check { test, expected, otherwise } => {
                    let known = if changes.places.is_empty() { answers.get(slot) } else { None };
                    let answer =
                        known.unwrap_or_else(|| self.look(route, test, slot, &lists, answers, changes));
                    if answer != expected {
                        place = otherwise as usize;
                    }
                }
                Instruction::Change(_) => changes.places.push(place as Place - 1),
                Instruction::Jump(target) => place = target as usize,
                Instruction::Accept => return Verdict { decision: Decision::Accept, term },
                Instruction::Reject(reason) => return Verdict { decision: Decision::Reject(reason), term },
            }
        }
        Verdict { decision: Decision::Default, term: None }
    }

    /// Answers a test whose answer is not known, and remembers the answer if it is about the route as it came.
    #[inline(never)]
    fn look(
        &self,
        route: &mut impl Route,
        test: Test,
        slot: Slot,
        lists: &OnceCell<Matching>,
        answers: &mut Answers,
        changes: &mut Changes,
    ) -> bool {
        if changes.places.is_empty() {
            let answer = self.answer(route, test, lists);
            if slot != NO_SLOT {
                answers.set(slot, answer);
            }
            return answer;
        }
        if self.reads_of(test) == Reads::Attributes {
            self.make(route, changes);
        }
        self.answer(route, test, lists)
    }

    /// Makes the changes of [`Program::decide`] that the route does not have yet.
    pub fn make(&self, route: &mut impl Route, changes: &mut Changes) {
        for place in &changes.places[changes.made..] {
            if let Some(Instruction::Change(change)) = self.code.get(*place as usize)
                && let Some(edit) = self.edit(route, *change)
            {
                route.change(edit);
            }
        }
        changes.made = changes.places.len();
    }

    /// Decides on a route, and changes the route.
    pub fn run(&self, route: &mut impl Route) -> Verdict {
        self.run_observed(route, |_, _| {})
    }

    /// Decides on a route, changes the route, and reports the number of each term whose conditions the route meets. Also for bound
    /// programs, in which tests on the neighbor are no steps any more.
    pub fn run_met(&self, route: &mut impl Route, mut met: impl FnMut(Index)) -> Verdict {
        let lists = OnceCell::new();
        let (mut place, mut term) = (0_usize, None);
        while let Some(instruction) = self.code.get(place) {
            if let Some(number) = term.filter(|number| self.is_body(*number, place)) {
                met(number);
            }
            place += 1;
            match *instruction {
                Instruction::Enter(number) => term = Some(number),
                Instruction::Check { test, expected, otherwise } => {
                    if self.answer(route, test, &lists) != expected {
                        place = otherwise as usize;
                    }
                }
                Instruction::Change(change) => {
                    if let Some(edit) = self.edit(route, change) {
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

    pub(crate) fn answer(&self, route: &impl Route, test: Test, lists: &OnceCell<Matching>) -> bool {
        let constants = &self.constants;
        match test {
            Test::PrefixIn(list) => {
                let matching = lists.get_or_init(|| {
                    route.prefix().map(|prefix| constants.prefix_lists.matching(prefix)).unwrap_or_default()
                });
                matching.binary_search(&list).is_ok()
            }
            Test::NumberIn(variable, ranges) => {
                let ranges = constants.ranges.get(usize::from(ranges));
                ranges.is_some_and(|ranges| route.number_is_in(variable, ranges))
            }
            Test::TextIn(variable, texts) => route.text(variable).is_some_and(|text| {
                let texts = constants.text_sets.get(usize::from(texts));
                texts.is_some_and(|all| all.binary_search_by(|known| (**known).cmp(text)).is_ok())
            }),
            Test::AddressIn(variable, list) => route
                .address(variable)
                .is_some_and(|address| constants.prefix_lists.has_address(list, address)),
            Test::AddressInOrPeer(variable, list) => route.address(variable).is_some_and(|address| {
                self.is_peer(address) || constants.prefix_lists.has_address(list, address)
            }),
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
                Kind::ALL.into_iter().all(has) && sets.unfit().is_empty()
            }),
            Test::Fact(fact) => constants.facts.get(usize::from(fact)).is_some_and(|fact| route.holds(fact)),
        }
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
            Change::Damping(None) => Edit::Damping(None),
            Change::Damping(Some(damping)) => {
                Edit::Damping(Some(constants.dampings.get(usize::from(damping))?))
            }
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
