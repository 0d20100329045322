//! Readers of the forwarding tables that run between any two stores, as the XDP program does.

use super::{Model, Op, group_of, op, probes, way};
use proptest::prelude::*;
use sluice_base::Rng;
use sluice_fea::xdp::{Area, Limits, MemberSlot, Memory, Tables, Target, Way, Words, layout, lookup};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

/// The flows that are looked up for each address.
const FLOWS: [u32; 2] = [5, 122];

/// The treatment of a flow's packets to an address.
fn answer(words: &impl Words, address: IpAddr, flow: u32) -> Way {
    lookup::member_way(words, lookup::group_member(words, group_of(words, address), flow))
}

/// An address, a flow, and the answers that followed each other during the running operation.
struct Watch {
    address: IpAddr,
    flow: u32,
    answers: Vec<Way>,
}

type Watches = Rc<RefCell<Vec<Watch>>>;

/// Words that are looked at after each store.
struct Watched {
    memory: Memory,
    watches: Watches,
}

impl Words for Watched {
    fn load(&self, area: Area, word: usize) -> u64 {
        self.memory.load(area, word)
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        self.memory.store(area, word, value);
        for watch in self.watches.borrow_mut().iter_mut() {
            let now = answer(&self.memory, watch.address, watch.flow);
            if watch.answers.last() != Some(&now) {
                watch.answers.push(now);
            }
        }
    }
}

fn watch_each_store(ops: &[Op], limits: Limits) {
    let watches = probes(ops).into_iter().flat_map(|address| FLOWS.map(|flow| (address, flow)));
    let watches = watches.map(|(address, flow)| Watch { address, flow, answers: vec![Way::KERNEL] });
    let watches: Watches = Rc::new(RefCell::new(watches.collect()));
    let watched = Watched { memory: Memory::default(), watches: watches.clone() };
    let (mut tables, mut model) = (Tables::with_limits(watched, limits), Model::default());
    for op in ops {
        model.apply(&mut tables, op);
        for watch in watches.borrow_mut().iter_mut() {
            // The old answer, and at most one change from it.
            assert!(watch.answers.len() <= 2, "{op:?}: {} has {:?}", watch.address, watch.answers);
            watch.answers.drain(..watch.answers.len() - 1);
        }
    }
}

/// The next load of a reader.
#[derive(Clone, Copy, Debug)]
enum Step {
    Root,
    /// The entry of a node, and the bits of the address that it consumes.
    Node(u32, u32),
    Group(u32),
    Bucket(u32),
    /// A word of a member, behind the words before.
    Member(u32, [u64; layout::MEMBER_WORDS], usize),
    Done(Way),
}

/// A run of the program that pauses between its loads.
struct Reader {
    address: IpAddr,
    flow: u32,
    step: Step,
    /// The groups that the address led to since the reader began.
    groups: BTreeSet<u32>,
    /// The members that one of these groups had for the flow since then.
    allowed: Vec<Way>,
    /// True if a grace period that is running must wait for the reader.
    is_waited_for: bool,
}

impl Reader {
    fn new(words: &impl Words, address: IpAddr, flow: u32) -> Self {
        let mut reader = Reader {
            address,
            flow,
            step: Step::Root,
            groups: BTreeSet::new(),
            allowed: Vec::new(),
            is_waited_for: false,
        };
        reader.note(words);
        reader
    }

    /// Notes the answers that are right now.
    fn note(&mut self, words: &impl Words) {
        self.groups.insert(group_of(words, self.address));
        for group in &self.groups {
            let way = lookup::member_way(words, lookup::group_member(words, *group, self.flow));
            if !self.allowed.contains(&way) {
                self.allowed.push(way);
            }
        }
    }

    fn entry(words: &impl Words, areas: (Area, Area), at: (Option<u32>, usize)) -> u32 {
        let (root, nodes) = areas;
        let per_word = if root == Area::Ipv4Root { 4 } else { 2 };
        let (area, at) = match at {
            (None, index) => (root, index),
            (Some(node), index) => (nodes, node as usize * layout::NODE_ENTRIES + index),
        };
        let width = 64 / per_word;
        let word = words.load(area, at / per_word);
        (word >> (at % per_word * width) & (u64::MAX >> (64 - width))) as u32
    }

    /// Makes the next load.
    fn advance(&mut self, words: &impl Words) {
        let (bits, width, areas, mark, default) = match self.address {
            IpAddr::V4(a) => {
                let areas = (Area::Ipv4Root, Area::Ipv4Nodes);
                (u128::from(a.to_bits()) << 96, 32, areas, 1 << 15, layout::IPV4_DEFAULT)
            }
            IpAddr::V6(a) => {
                (a.to_bits(), 128, (Area::Ipv6Root, Area::Ipv6Nodes), 1 << 31, layout::IPV6_DEFAULT)
            }
        };
        let follow = |entry: u32, end: u32| match entry {
            0 => Step::Group(default),
            entry if entry & mark != 0 && end < width => Step::Node(entry & !mark, end + 8),
            entry => Step::Group(entry),
        };
        self.step = match self.step {
            Step::Root => follow(Self::entry(words, areas, (None, (bits >> 104) as usize)), 24),
            Step::Node(node, end) => {
                let octet = (bits >> (128 - end)) as usize % layout::NODE_ENTRIES;
                follow(Self::entry(words, areas, (Some(node), octet)), end)
            }
            Step::Group(group) => {
                match layout::GroupWord::from_word(words.load(Area::Groups, group as usize)) {
                    layout::GroupWord::Member(member) => Step::Member(member, [0; 3], 0),
                    layout::GroupWord::Block(block) => Step::Bucket(block),
                }
            }
            Step::Bucket(block) => {
                let at = self.flow as usize % layout::BUCKETS;
                let word = words.load(Area::Buckets, block as usize * layout::BLOCK_WORDS + at / 2);
                Step::Member((word >> (32 * (at % 2))) as u32, [0; 3], 0)
            }
            Step::Member(_, read, layout::MEMBER_WORDS) => Step::Done(Way::from_words(read)),
            Step::Member(member, mut read, at) => {
                read[at] = words.load(Area::Members, member as usize * layout::MEMBER_WORDS + at);
                Step::Member(member, read, at + 1)
            }
            Step::Done(way) => Step::Done(way),
        };
    }

    /// Checks a reader that has ended. Returns true for one that goes on.
    fn goes_on(&self) -> bool {
        let Step::Done(way) = self.step else { return true };
        assert!(self.allowed.contains(&way), "{}: {way:?} was never right: {:?}", self.address, self.allowed);
        false
    }
}

/// Readers beside the writer.
struct Crowd {
    readers: Vec<Reader>,
    addresses: Vec<IpAddr>,
    rng: Rng,
}

impl Crowd {
    /// Notes a store, then lets some readers begin, go on and end.
    fn run(&mut self, words: &impl Words) {
        self.readers.iter_mut().for_each(|reader| reader.note(words));
        // Readers pause for many stores, so that the numbers that they know are retired meanwhile.
        if self.rng.below(8) == 0 {
            let at = self.rng.below(24) as usize;
            if let Some(reader) = self.readers.get_mut(at) {
                reader.advance(words);
            } else if let Some(address) =
                self.addresses.get(self.rng.below(self.addresses.len().max(1) as u64) as usize)
            {
                self.readers.push(Reader::new(words, *address, self.rng.below(128) as u32));
            }
        }
        self.readers.retain(Reader::goes_on);
    }

    /// Ends the readers for which a grace period waits.
    fn end_old(&mut self, words: &impl Words) {
        for reader in self.readers.iter_mut().filter(|reader| reader.is_waited_for) {
            while !matches!(reader.step, Step::Done(_)) {
                reader.advance(words);
            }
        }
        self.readers.retain(Reader::goes_on);
    }
}

/// Words that readers look at between any two stores.
struct Crowded {
    memory: Memory,
    crowd: Rc<RefCell<Crowd>>,
}

impl Words for Crowded {
    fn load(&self, area: Area, word: usize) -> u64 {
        self.memory.load(area, word)
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        self.memory.store(area, word, value);
        self.crowd.borrow_mut().run(&self.memory);
    }
}

fn read_beside_the_writer(ops: &[Op], limits: Limits, seed: u64) {
    let addresses = probes(ops).into_iter().collect();
    let crowd = Crowd { readers: Vec::new(), addresses, rng: Rng::from_seed(seed) };
    let crowd = Rc::new(RefCell::new(crowd));
    let crowded = Crowded { memory: Memory::default(), crowd: crowd.clone() };
    let (mut tables, mut model) = (Tables::with_limits(crowded, limits), Model::default());
    for op in ops {
        let was_running = model.is_in_grace();
        if matches!(op, Op::EndGrace) && was_running {
            crowd.borrow_mut().end_old(&tables.words().memory);
        }
        model.apply(&mut tables, op);
        if model.is_in_grace() && !was_running {
            crowd.borrow_mut().readers.iter_mut().for_each(|reader| reader.is_waited_for = true);
        }
        crowd.borrow_mut().run(&tables.words().memory);
    }
    let mut crowd = crowd.borrow_mut();
    crowd.readers.iter_mut().for_each(|reader| reader.is_waited_for = true);
    crowd.end_old(&tables.words().memory);
}

/// Limits at which numbers are soon used again, and many operations find no room.
const TIGHT: Limits = Limits { ipv4_nodes: 4, ipv6_nodes: 12, groups: 7, blocks: 2, members: 5 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_store_leaves_the_old_or_the_new_answer(ops in prop::collection::vec(op(18), 1..40)) {
        watch_each_store(&ops, Limits::default());
        watch_each_store(&ops, TIGHT);
    }

    #[test]
    fn a_paused_reader_gets_an_answer_that_was_right_since_it_began(
        ops in prop::collection::vec(op(18), 1..120),
        seed in any::<u64>(),
    ) {
        read_beside_the_writer(&ops, TIGHT, seed);
    }
}

/// Tables with a single free number of a kind, and a reader that pauses before its load number `loads` of an address
/// of 10.0.0.0/25.
fn paused(loads: usize) -> (Tables<Memory>, [MemberSlot; 3], Reader) {
    let limits = Limits { ipv4_nodes: 2, groups: 5, blocks: 1, members: 4, ..Limits::default() };
    let mut tables = Tables::with_limits(Memory::default(), limits);
    let members = [1, 2, 3].map(|seed| tables.add_member(way(seed)).unwrap());
    let group = tables.add_group(&[(members[0], 1), (members[1], 1)]).unwrap();
    tables.set_route(ROUTE.parse().unwrap(), Target::Group(group)).unwrap();
    let mut reader = Reader::new(tables.words(), "10.0.0.1".parse().unwrap(), 0);
    (0..loads).for_each(|_| reader.advance(tables.words()));
    (tables, members, reader)
}

const ROUTE: &str = "10.0.0.0/25";

/// Lets the reader end, which is to find the first member.
fn resume(tables: &Tables<Memory>, mut reader: Reader) {
    while !matches!(reader.step, Step::Done(_)) {
        reader.advance(tables.words());
    }
    let Step::Done(found) = reader.step else { return };
    assert_eq!(found, way(1));
}

#[test]
fn a_retired_number_is_not_given_out_before_the_end_of_the_grace_period() {
    // The reader knows a node: no other prefix may get the node.
    let (mut tables, members, reader) = paused(1);
    let other = tables.add_group(&[(members[2], 1)]).unwrap();
    tables.remove_route(ROUTE.parse().unwrap());
    let grace = tables.begin_grace().unwrap();
    let waits = "10.9.9.0/25".parse().unwrap();
    assert!(tables.set_route(waits, Target::Group(other)).is_err());
    resume(&tables, reader);
    tables.end_grace(grace);
    assert!(!tables.is_route_waiting(waits));

    // The reader knows a block.
    let (mut tables, members, reader) = paused(3);
    assert!(matches!(reader.step, Step::Bucket(_)));
    let Some(Target::Group(group)) = tables.route(ROUTE.parse().unwrap()) else { unreachable!("it was set") };
    tables.set_group(group, &[(members[1], 1)]).unwrap();
    let grace = tables.begin_grace().unwrap();
    let other = tables.add_group(&[(members[2], 1), (members[1], 1)]).unwrap();
    assert!(tables.is_group_waiting(other));
    resume(&tables, reader);
    tables.end_grace(grace);
    assert!(!tables.is_group_waiting(other));

    // The reader knows a member.
    let (mut tables, members, reader) = paused(4);
    assert!(matches!(reader.step, Step::Member(1, _, 0)));
    let Some(Target::Group(group)) = tables.route(ROUTE.parse().unwrap()) else { unreachable!("it was set") };
    tables.set_group(group, &[(members[1], 1)]).unwrap();
    tables.remove_member(members[0]);
    let grace = tables.begin_grace().unwrap();
    assert!(tables.add_member(way(9)).is_err());
    resume(&tables, reader);
    tables.end_grace(grace);
    assert_eq!(tables.add_member(way(9)), Ok(members[0]));

    // The reader knows a group.
    let (mut tables, members, reader) = paused(2);
    assert!(matches!(reader.step, Step::Group(3)));
    let other = tables.add_group(&[(members[2], 1)]).unwrap();
    let Some(Target::Group(group)) = tables.route(ROUTE.parse().unwrap()) else { unreachable!("it was set") };
    tables.set_route(ROUTE.parse().unwrap(), Target::Group(other)).unwrap();
    tables.remove_group(group);
    let grace = tables.begin_grace().unwrap();
    assert!(tables.add_group(&[(members[2], 1)]).is_err());
    resume(&tables, reader);
    tables.end_grace(grace);
    assert_eq!(tables.add_group(&[(members[2], 1)]), Ok(group));
}
