//! Programs: policies as instructions. Each jump leads forward, so that the length of a program bounds its time.

use crate::as_path::Automaton;
use crate::community::{CommunitySet, Kind, Member, Pattern, PeerPattern};
use crate::prefix_list::{ListId, PrefixLists};
use crate::source::Damping;
use crate::vocabulary::{Reads, VariableId, Vocabulary};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A place in the code.
pub type Place = u32;
/// The number of a constant in its table.
pub type Index = u16;

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// A term begins, or goes on behind a call.
    Enter(Index),
    /// Goes on behind this instruction if the answer to the test is `expected`, otherwise at `otherwise`.
    Check {
        /// The test.
        test: Test,
        /// The answer for going on.
        expected: bool,
        /// The place for the other answer.
        otherwise: Place,
    },
    /// Changes the route.
    Change(Change),
    /// Goes on at another place.
    Jump(Place),
    /// Accepts the route.
    Accept,
    /// Rejects the route, for a reason in [`Constants::texts`] if there is one.
    Reject(Option<Index>),
}

/// A question about a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Test {
    /// Is the prefix in a prefix list?
    PrefixIn(ListId),
    /// Is a number in one of some ranges? False for a route without the number.
    NumberIn(VariableId, Index),
    /// Is a text one of some texts?
    TextIn(VariableId, Index),
    /// Is an address in a prefix list?
    AddressIn(VariableId, ListId),
    /// Is an address the neighbor's, or in a prefix list?
    AddressInOrPeer(VariableId, ListId),
    /// Does an expression describe the AS path?
    PathIs(Index),
    /// Has the route a community of a set?
    AnyCommunity(Index),
    /// Has the route communities for all members of a set?
    AllCommunities(Index),
    /// Does a fact hold?
    Fact(Index),
}

/// A change of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Sets a number.
    Set(VariableId, u32),
    /// Adds to a number, up to the largest one. A route without the number has 0.
    Add(VariableId, u32),
    /// Subtracts from a number, down to 0.
    Subtract(VariableId, u32),
    /// Adds the members of a set of communities.
    AddCommunities(Index),
    /// Removes the communities of a set.
    DeleteCommunities(Index),
    /// Replaces all communities of the set's kinds.
    ReplaceCommunities(Index),
    /// Puts AS numbers before the path: the first one comes first.
    Prepend(Index),
    /// Replaces the AS numbers in ranges by another one.
    ReplaceAs(Index, u32),
    /// Removes private AS numbers (RFC 6996).
    RemovePrivateAs,
    /// Sets the next hop.
    NextHop(NextHop),
    /// Sets the parameters of flap damping; `None` if flaps are not counted.
    Damping(Option<Index>),
}

/// The next hop of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// The router itself.
    Own,
    /// The neighbor.
    Peer,
    /// The route's own, also where the protocol would set another next hop.
    Unchanged,
    /// An address.
    Address(IpAddr),
    /// No next hop: packets are dropped.
    Blackhole,
}

/// A fact: may change without a change of the route.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fact {
    /// The RIB has a route to a prefix.
    RoutePresent(sluice_base::IpPrefix),
}

/// Communities of all kinds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommunitySets {
    standard: CommunitySet,
    extended: CommunitySet,
    large: CommunitySet,
    /// Members with the AS of a neighbor that is not known, or whose AS does not fit the field. They describe no community.
    of_peer: Vec<PeerPattern>,
}

impl CommunitySets {
    /// Makes the sets of members of any kind.
    pub fn new(members: &[Member]) -> Self {
        let mut sets = CommunitySets::default();
        let mut patterns = Vec::new();
        for member in members {
            match member {
                Member::Pattern(pattern) => patterns.push(pattern.clone()),
                Member::OfPeer(pattern) => sets.of_peer.push(pattern.clone()),
            }
        }
        sets.extend(&patterns);
        sets
    }

    fn extend(&mut self, patterns: &[Pattern]) {
        for kind in Kind::ALL {
            let set = match kind {
                Kind::Standard => &mut self.standard,
                Kind::Extended => &mut self.extended,
                Kind::Large => &mut self.large,
            };
            set.extend(patterns.iter().filter(|pattern| pattern.kind == kind));
        }
    }

    /// Returns the sets for a neighbor in an AS.
    fn for_neighbor(&self, asn: u32) -> CommunitySets {
        let mut sets = CommunitySets { of_peer: Vec::new(), ..self.clone() };
        let mut patterns = Vec::new();
        for member in &self.of_peer {
            match member.of(asn) {
                Some(pattern) => patterns.push(pattern),
                None => sets.of_peer.push(member.clone()),
            }
        }
        sets.extend(&patterns);
        sets
    }

    /// Returns the members with a neighbor's AS that describe no community.
    pub fn unfit(&self) -> &[PeerPattern] {
        &self.of_peer
    }

    /// Returns the set of a kind.
    pub fn of(&self, kind: Kind) -> &CommunitySet {
        match kind {
            Kind::Standard => &self.standard,
            Kind::Extended => &self.extended,
            Kind::Large => &self.large,
        }
    }

    /// Returns true if no member has wildcards.
    pub fn is_exact(&self) -> bool {
        Kind::ALL.into_iter().all(|kind| self.of(kind).is_exact())
            && self.of_peer.iter().all(PeerPattern::is_exact)
    }
}

/// A term by its names, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TermName {
    /// The policy.
    pub policy: String,
    /// The term.
    pub term: String,
}

/// Values for instructions.
#[derive(Clone, Debug, Default)]
pub struct Constants {
    /// Ranges of numbers, from the first to the last.
    pub ranges: Vec<Vec<(u32, u32)>>,
    /// Sets of texts, sorted.
    pub text_sets: Vec<Vec<String>>,
    /// Reasons of rejections.
    pub texts: Vec<String>,
    /// Automata of AS-path expressions.
    pub automata: Vec<Automaton>,
    /// Sets of communities. A program keeps its own sets, which may depend on its neighbor.
    pub communities: Vec<CommunitySets>,
    /// Sequences of AS numbers.
    pub sequences: Vec<Vec<u32>>,
    /// Parameters of flap damping.
    pub dampings: Vec<Damping>,
    /// Facts.
    pub facts: Vec<Fact>,
    /// Terms.
    pub terms: Vec<TermName>,
    /// The first place behind the conditions of each term, by number: a route that comes there meets the term's conditions.
    pub bodies: Vec<Place>,
    /// The prefix lists of all programs.
    pub prefix_lists: Arc<PrefixLists>,
}

/// A verified program. Immutable: share it by reference.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) code: Vec<Instruction>,
    /// The number of each check's test among the tests on attributes, by place; [`NO_SLOT`] at other places.
    slots: Vec<Slot>,
    /// The number of different tests on attributes.
    slot_count: Slot,
    pub(crate) constants: Arc<Constants>,
    /// Sets of communities, with the neighbor's AS if the neighbor is known.
    communities: Vec<Arc<CommunitySets>>,
    /// The properties of the neighbor that the program uses as values.
    peer: Peer,
    vocabulary: Vocabulary,
    /// The source of the program: the policy with all called policies and lists. Empty for a program that was not compiled.
    source: Arc<str>,
    /// The answers to reachable tests on the neighbor, in order, of a program that is bound to a neighbor.
    bound: Vec<bool>,
}

/// The properties of a neighbor that a program uses as values; `None` for those that it does not use, and for an unknown neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Peer {
    /// The address, for [`Test::AddressInOrPeer`].
    address: Option<IpAddr>,
    /// The AS, for members of communities.
    asn: Option<u32>,
}

/// The number of a test among the tests on attributes of a program.
pub(crate) type Slot = u16;
/// The mark of a place without a test on attributes.
pub(crate) const NO_SLOT: Slot = Slot::MAX;

/// An instruction with an invalid reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidInstruction(pub Place);

/// Programs are equal if both have the same source and the same answers and values of their neighbors. Equal programs decide alike.
impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.constants, &other.constants) && self.code == other.code;
        let is_alike = !self.source.is_empty() && self.source == other.source && self.bound == other.bound;
        (is_same || is_alike) && self.peer == other.peer
    }
}

impl Eq for Program {}

impl Program {
    /// Makes a program if every instruction of `code` is valid: jumps lead forward and not beyond the end, constants exist,
    /// variables have the type of the instruction, and changed variables are writable.
    ///
    /// # Errors
    ///
    /// If an instruction is not valid.
    pub fn verified(
        code: Vec<Instruction>,
        constants: Constants,
        vocabulary: Vocabulary,
    ) -> Result<Self, InvalidInstruction> {
        Program::of_source(code, constants, vocabulary, Arc::from(""))
    }

    /// Makes a program as [`Program::verified`] does, of a known source.
    pub(crate) fn of_source(
        code: Vec<Instruction>,
        mut constants: Constants,
        vocabulary: Vocabulary,
        source: Arc<str>,
    ) -> Result<Self, InvalidInstruction> {
        let communities = core::mem::take(&mut constants.communities).into_iter().map(Arc::new).collect();
        let constants = Arc::new(constants);
        let (slots, bound, peer) = (Vec::new(), Vec::new(), Peer::default());
        let mut program =
            Program { code, slots, slot_count: 0, constants, communities, peer, vocabulary, source, bound };
        match (0..).zip(&program.code).find(|(place, instruction)| !program.is_valid(*place, **instruction)) {
            Some((place, _)) => Err(InvalidInstruction(place)),
            None => {
                program.number_tests();
                Ok(program)
            }
        }
    }

    /// Numbers the tests on attributes: equal tests have one number. More tests than numbers are answered without memory.
    fn number_tests(&mut self) {
        let mut numbers: BTreeMap<Test, Slot> = BTreeMap::new();
        self.slots = Vec::with_capacity(self.code.len());
        for instruction in &self.code {
            let slot = match instruction {
                Instruction::Check { test, .. } if self.reads_of(*test) == Reads::Attributes => {
                    let next = Slot::try_from(numbers.len()).unwrap_or(NO_SLOT);
                    *numbers.entry(*test).or_insert(next)
                }
                _ => NO_SLOT,
            };
            self.slots.push(slot);
        }
        self.slot_count = Slot::try_from(numbers.len()).unwrap_or(NO_SLOT);
    }

    /// Returns the number of the test on attributes at a place.
    #[inline]
    pub(crate) fn slot(&self, place: usize) -> Slot {
        self.slots.get(place).copied().unwrap_or(NO_SLOT)
    }

    /// Returns the number of different tests on attributes.
    pub(crate) fn slot_count(&self) -> usize {
        self.slot_count.into()
    }

    /// Returns the program with other instructions at the same places, after these answers to tests on the neighbor.
    pub(crate) fn bound(&self, code: Vec<Instruction>, bound: Vec<bool>) -> Program {
        let mut program = Program { code, bound, ..self.clone() };
        program.number_tests();
        program
    }

    /// Returns true if a condition compares an address with the neighbor's.
    pub(crate) fn uses_peer_address(&self) -> bool {
        self.code.iter().any(|instruction| {
            matches!(instruction, Instruction::Check { test: Test::AddressInOrPeer(..), .. })
        })
    }

    /// Returns true if communities have the neighbor's AS as a value.
    pub(crate) fn uses_peer_as(&self) -> bool {
        self.communities.iter().any(|sets| !sets.of_peer.is_empty())
    }

    /// Returns the program with values of a neighbor.
    pub(crate) fn of_peer(&self, address: Option<IpAddr>, asn: Option<u32>) -> Program {
        let with_as = |sets: &Arc<CommunitySets>| match asn {
            Some(asn) if !sets.of_peer.is_empty() => Arc::new(sets.for_neighbor(asn)),
            _ => Arc::clone(sets),
        };
        let communities = self.communities.iter().map(with_as).collect();
        Program { peer: Peer { address, asn }, communities, ..self.clone() }
    }

    /// Returns true if an address is the neighbor's.
    pub(crate) fn is_peer(&self, address: IpAddr) -> bool {
        self.peer.address == Some(address)
    }

    /// Returns a set of communities.
    pub(crate) fn sets(&self, set: Index) -> Option<&CommunitySets> {
        self.communities.get(usize::from(set)).map(|sets| &**sets)
    }

    /// Iterates over the members of communities with the neighbor's AS that describe no community: the AS does not fit.
    pub fn unfit_members(&self) -> impl Iterator<Item = &PeerPattern> {
        self.communities.iter().flat_map(|sets| sets.unfit())
    }

    fn is_valid(&self, place: Place, instruction: Instruction) -> bool {
        let leads_forward = |target: Place| target > place && target as usize <= self.code.len();
        match instruction {
            Instruction::Enter(term) => usize::from(term) < self.constants.terms.len(),
            Instruction::Check { test, otherwise, .. } => leads_forward(otherwise) && self.has(test),
            Instruction::Change(change) => self.can(change),
            Instruction::Jump(target) => leads_forward(target),
            Instruction::Accept | Instruction::Reject(None) => true,
            Instruction::Reject(Some(reason)) => usize::from(reason) < self.constants.texts.len(),
        }
    }

    fn has(&self, test: Test) -> bool {
        use crate::vocabulary::Type;
        let constants = &self.constants;
        let is = |variable: VariableId, fits: fn(Type) -> bool| {
            self.vocabulary.get(usize::from(variable)).is_some_and(|variable| fits(variable.values))
        };
        let has_list = |list: ListId| usize::from(list) < constants.prefix_lists.len();
        match test {
            Test::PrefixIn(list) => has_list(list),
            Test::NumberIn(variable, ranges) => {
                is(variable, |t| matches!(t, Type::Number(_) | Type::Name(_)))
                    && usize::from(ranges) < constants.ranges.len()
            }
            Test::TextIn(variable, texts) => {
                is(variable, |t| t == Type::Text) && usize::from(texts) < constants.text_sets.len()
            }
            Test::AddressIn(variable, list) | Test::AddressInOrPeer(variable, list) => {
                is(variable, |t| t == Type::Address) && has_list(list)
            }
            Test::PathIs(automaton) => usize::from(automaton) < constants.automata.len(),
            Test::AnyCommunity(set) | Test::AllCommunities(set) => self.sets(set).is_some(),
            Test::Fact(fact) => usize::from(fact) < constants.facts.len(),
        }
    }

    fn can(&self, change: Change) -> bool {
        let constants = &self.constants;
        let is_writable = |variable: VariableId, value: u32| {
            let variable = self.vocabulary.get(usize::from(variable)).filter(|v| v.is_writable);
            variable.is_some_and(|variable| variable.values.largest().is_some_and(|most| value <= most))
        };
        match change {
            Change::Set(variable, value)
            | Change::Add(variable, value)
            | Change::Subtract(variable, value) => is_writable(variable, value),
            Change::AddCommunities(set) | Change::ReplaceCommunities(set) => {
                self.sets(set).is_some_and(CommunitySets::is_exact)
            }
            Change::DeleteCommunities(set) => self.sets(set).is_some(),
            Change::Prepend(sequence) => usize::from(sequence) < constants.sequences.len(),
            Change::ReplaceAs(ranges, _) => usize::from(ranges) < constants.ranges.len(),
            Change::Damping(Some(damping)) => usize::from(damping) < constants.dampings.len(),
            Change::RemovePrivateAs | Change::NextHop(_) | Change::Damping(None) => true,
        }
    }

    /// Iterates over the next hops of actions that routes can come to.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHop> {
        self.code.iter().filter_map(|instruction| match instruction {
            Instruction::Change(Change::NextHop(hop)) => Some(*hop),
            _ => None,
        })
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.code.len()
    }

    /// Returns true if the program has no instruction.
    pub fn is_empty(&self) -> bool {
        self.code.is_empty()
    }

    /// Returns the terms, by the numbers in verdicts and steps.
    pub fn terms(&self) -> &[TermName] {
        &self.constants.terms
    }

    /// Returns true if a place is the first one behind the conditions of a term.
    pub(crate) fn is_body(&self, term: Index, place: usize) -> bool {
        self.constants.bodies.get(usize::from(term)).is_some_and(|body| *body as usize == place)
    }

    /// Returns the facts in the program's questions, by number.
    pub fn facts(&self) -> &[Fact] {
        &self.constants.facts
    }

    /// Returns the variables of the program.
    pub fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    /// Returns the deciding part of a route. Unless the result is [`Reads::Prefix`], routes with the same attributes have the
    /// same outcome.
    pub fn reads(&self) -> Reads {
        let tests = self.code.iter().filter_map(|instruction| match instruction {
            Instruction::Check { test, .. } => Some(*test),
            _ => None,
        });
        tests.map(|test| self.reads_of(test)).max().unwrap_or(Reads::Neighbor)
    }

    /// Returns true if a condition asks for a variable.
    pub fn asks_for(&self, variable: VariableId) -> bool {
        self.code.iter().any(|instruction| {
            let Instruction::Check { test, .. } = instruction else { return false };
            let asked = match test {
                Test::NumberIn(asked, _)
                | Test::TextIn(asked, _)
                | Test::AddressIn(asked, _)
                | Test::AddressInOrPeer(asked, _) => Some(*asked),
                _ => None,
            };
            asked == Some(variable)
        })
    }

    pub(crate) fn reads_of(&self, test: Test) -> Reads {
        match test {
            Test::PrefixIn(_) => Reads::Prefix,
            Test::NumberIn(variable, _)
            | Test::TextIn(variable, _)
            | Test::AddressIn(variable, _)
            | Test::AddressInOrPeer(variable, _) => {
                self.vocabulary.get(usize::from(variable)).map_or(Reads::Prefix, |variable| variable.reads)
            }
            Test::PathIs(_) | Test::AnyCommunity(_) | Test::AllCommunities(_) => Reads::Attributes,
            Test::Fact(_) => Reads::Neighbor,
        }
    }
}
