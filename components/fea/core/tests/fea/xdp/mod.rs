//! A model of the tables, operations on both, and addresses to compare them at.

mod audit;
mod internet;
mod readers;

use proptest::prelude::*;
use sluice_base::{InterfaceIndex, IpPrefix};
use sluice_fea::xdp::{
    Action, Area, GroupSlot, MemberSlot, Memory, Tables, Target, Way, Words, layout, lookup,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Flows that reach each bucket.
pub const FLOWS: u32 = layout::BUCKETS as u32;

/// An operation. Numbers of groups and members count those that live, modulo their number.
#[derive(Clone, Debug)]
pub enum Op {
    SetRoute(IpPrefix, Option<usize>),
    RemoveRoute(IpPrefix),
    RemoveSomeRoute(usize),
    AddGroup(Vec<(usize, u8)>),
    SetGroup(usize, Vec<(usize, u8)>),
    RemoveGroup(usize),
    AddMember(u32),
    RemoveMember(usize),
    BeginGrace,
    EndGrace,
}

// Boxed, because the trees of nested strategies are large and lie on the stack.
fn ipv4(least: u8) -> BoxedStrategy<IpPrefix> {
    let last = prop_oneof![Just(0u8), Just(127), Just(128), Just(255), any::<u8>()];
    (0..2u8, 0..8u8, last, prop_oneof![least..=32, 22..=26u8, Just(32)])
        .prop_map(|(b, c, d, len)| IpPrefix::new(Ipv4Addr::new(10, b, c, d).into(), len).unwrap())
        .boxed()
}

fn ipv6(least: u8) -> BoxedStrategy<IpPrefix> {
    let octet = prop::sample::select(vec![0, 0, 0, 0, 1, 0x80, 0xff]);
    let len = prop_oneof![least..=128, 22..=34u8, 46..=50u8, 62..=66u8, 120..=128u8];
    let octets = prop::collection::vec(octet, 16);
    let prefix = |(octets, len): (Vec<u8>, u8)| {
        let mut octets: [u8; 16] = octets.try_into().unwrap();
        octets[..2].copy_from_slice(&[0x20, 0x01]);
        IpPrefix::new(Ipv6Addr::from(octets).into(), len).unwrap()
    };
    (octets, len).prop_map(prefix).boxed()
}

/// Prefixes of at least `least` bits that lie close together.
pub fn prefix(least: u8) -> BoxedStrategy<IpPrefix> {
    let defaults = ["0.0.0.0/0", "::/0"].map(|text| text.parse::<IpPrefix>().unwrap());
    prop_oneof![
        6 => ipv4(least),
        6 => ipv6(least),
        1 => prop::sample::select(defaults.to_vec()),
    ]
    .boxed()
}

fn ways() -> BoxedStrategy<Vec<(usize, u8)>> {
    prop::collection::vec((0..8usize, prop_oneof![Just(1u8), 0..4u8, any::<u8>()]), 0..4).boxed()
}

/// An operation whose prefixes have at least `least` bits.
pub fn op(least: u8) -> BoxedStrategy<Op> {
    prop_oneof![
        12 => (prefix(least), prop::option::weighted(0.9, 0..6usize)).prop_map(|(p, g)| Op::SetRoute(p, g)),
        1 => prefix(least).prop_map(Op::RemoveRoute),
        6 => (0..64usize).prop_map(Op::RemoveSomeRoute),
        2 => ways().prop_map(Op::AddGroup),
        3 => (0..6usize, ways()).prop_map(|(g, w)| Op::SetGroup(g, w)),
        1 => (0..6usize).prop_map(Op::RemoveGroup),
        3 => any::<u32>().prop_map(Op::AddMember),
        1 => (0..8usize).prop_map(Op::RemoveMember),
        2 => Just(Op::BeginGrace),
        2 => Just(Op::EndGrace),
    ]
    .boxed()
}

/// The way of a member made from `seed`.
pub fn way(seed: u32) -> Way {
    let octets = seed.to_le_bytes();
    Way {
        action: if seed.is_multiple_of(5) { Action::Drop } else { Action::Forward },
        interface: InterfaceIndex::new(seed % 7),
        mtu: 1500 + seed % 3,
        destination: sluice_base::Mac([2, octets[0], octets[1], octets[2], octets[3], 1]),
        source: sluice_base::Mac([2, octets[3], octets[2], octets[1], octets[0], 2]),
    }
}

/// A group of the model: its number, and the sums of its members' weights.
#[derive(Clone, Debug, Default)]
pub struct Group {
    pub ways: BTreeMap<MemberSlot, u32>,
}

/// The tables as simple collections.
#[derive(Default)]
pub struct Model {
    /// Targets as set; `None` is the kernel.
    pub routes: BTreeMap<IpPrefix, Option<GroupSlot>>,
    pub groups: BTreeMap<GroupSlot, Group>,
    pub members: BTreeMap<MemberSlot, Way>,
    /// The contents of all members that a group may still lead to.
    contents: BTreeMap<MemberSlot, Way>,
    grace: Option<sluice_fea::xdp::Grace>,
}

fn nth<K: Copy, V>(map: &BTreeMap<K, V>, n: usize) -> Option<K> {
    map.keys().nth(n.checked_rem(map.len())?).copied()
}

impl Model {
    fn ways(&self, ways: &[(usize, u8)]) -> (Vec<(MemberSlot, u8)>, Group) {
        let given: Vec<(MemberSlot, u8)> =
            ways.iter().filter_map(|(m, w)| Some((nth(&self.members, *m)?, *w))).collect();
        let mut group = Group::default();
        for (member, weight) in given.iter().filter(|(_, weight)| *weight > 0) {
            *group.ways.entry(*member).or_default() += u32::from(*weight);
        }
        (given, group)
    }

    /// Carries out an operation on the model and on the tables.
    pub fn apply<W: Words>(&mut self, tables: &mut Tables<W>, op: &Op) {
        match op {
            Op::SetRoute(prefix, group) => {
                let group = group.and_then(|n| nth(&self.groups, n));
                self.routes.insert(*prefix, group);
                let result = tables.set_route(*prefix, group.map_or(Target::Kernel, Target::Group));
                assert_eq!(result.is_err(), tables.is_route_waiting(*prefix));
            }
            Op::RemoveRoute(prefix) => self.remove(tables, *prefix),
            Op::RemoveSomeRoute(n) => {
                if let Some(prefix) = nth(&self.routes, *n) {
                    self.remove(tables, prefix);
                }
            }
            Op::AddGroup(ways) => {
                let (given, group) = self.ways(ways);
                if let Ok(slot) = tables.add_group(&given) {
                    assert!(self.groups.insert(slot, group).is_none());
                }
            }
            Op::SetGroup(n, ways) => {
                if let Some(slot) = nth(&self.groups, *n) {
                    let (given, group) = self.ways(ways);
                    self.groups.insert(slot, group);
                    let result = tables.set_group(slot, &given);
                    assert_eq!(result.is_err(), tables.is_group_waiting(slot));
                }
            }
            Op::RemoveGroup(n) => {
                if let Some(slot) = nth(&self.groups, *n) {
                    self.groups.remove(&slot);
                    tables.remove_group(slot);
                }
            }
            Op::AddMember(seed) => {
                if let Ok(slot) = tables.add_member(way(*seed)) {
                    assert!(self.members.insert(slot, way(*seed)).is_none());
                    self.contents.insert(slot, way(*seed));
                }
            }
            Op::RemoveMember(n) => {
                if let Some(slot) = nth(&self.members, *n) {
                    self.members.remove(&slot);
                    tables.remove_member(slot);
                }
            }
            Op::BeginGrace => self.grace = self.grace.take().or_else(|| tables.begin_grace()),
            Op::EndGrace => {
                if let Some(grace) = self.grace.take() {
                    tables.end_grace(grace);
                }
            }
        }
    }

    fn remove<W: Words>(&mut self, tables: &mut Tables<W>, prefix: IpPrefix) {
        self.routes.remove(&prefix);
        tables.remove_route(prefix);
    }

    /// Returns true while a grace period runs.
    pub fn is_in_grace(&self) -> bool {
        self.grace.is_some()
    }

    /// The longest prefix that holds an address.
    fn longest(&self, address: IpAddr) -> Option<(IpPrefix, Option<GroupSlot>)> {
        let holding = self.routes.iter().filter(|(prefix, _)| contains(**prefix, address));
        holding.max_by_key(|(prefix, _)| prefix.len()).map(|(prefix, group)| (*prefix, *group))
    }

    /// Compares the tables with the model, at each address of `probes` and in each bucket of each group.
    pub fn check<W: Words>(&self, tables: &Tables<W>, probes: &BTreeSet<IpAddr>) {
        let words = tables.words();
        let waiting: Vec<IpPrefix> =
            self.routes.keys().copied().filter(|prefix| tables.is_route_waiting(*prefix)).collect();
        for address in probes {
            let found = group_of(words, *address);
            let expected = match self.longest(*address) {
                Some((prefix, group)) if prefix.len() > 0 => {
                    group.map_or(layout::KERNEL_GROUP, GroupSlot::number)
                }
                _ => default_copy(*address),
            };
            let near =
                waiting.iter().any(|prefix| contains(IpPrefix::new(prefix.addr(), 24).unwrap(), *address));
            assert!(
                found == expected || near && found == layout::KERNEL_GROUP,
                "{address}: {found}, not {expected}"
            );
            let is_held = |prefix: &&IpPrefix| contains(**prefix, *address);
            if let Some(prefix) = waiting.iter().find(is_held) {
                assert_eq!(found, layout::KERNEL_GROUP, "{address} is inside {prefix}, which waits");
            }
        }
        for prefix in ["0.0.0.0/0", "::/0"].map(|text| text.parse::<IpPrefix>().unwrap()) {
            let group = self.routes.get(&prefix).copied().flatten();
            let word = group.map_or(0, |group| words.load(Area::Groups, group.number() as usize));
            assert_eq!(words.load(Area::Groups, default_copy(prefix.addr()) as usize), word, "{prefix}");
        }
        for (slot, group) in &self.groups {
            self.check_group(tables, *slot, group);
        }
        assert_eq!(words.load(Area::Groups, layout::KERNEL_GROUP as usize), 0);
        assert_eq!(tables.way(MemberSlot::KERNEL), Way::KERNEL);
        let usage = tables.usage();
        let is_full = |used: sluice_fea::xdp::Use| used.used + used.retired == used.limit;
        assert!(usage.ipv4_waiting == 0 || is_full(usage.ipv4_nodes), "{usage:?}");
        assert!(usage.ipv6_waiting == 0 || is_full(usage.ipv6_nodes), "{usage:?}");
        assert!(usage.groups_waiting == 0 || is_full(usage.blocks), "{usage:?}");
        assert_eq!(usage.ipv4_waiting + usage.ipv6_waiting, waiting.len());
    }

    fn check_group<W: Words>(&self, tables: &Tables<W>, slot: GroupSlot, group: &Group) {
        let mut buckets: BTreeMap<u32, u32> = BTreeMap::new();
        for flow in 0..FLOWS {
            *buckets.entry(lookup::group_member(tables.words(), slot.number(), flow)).or_default() += 1;
        }
        let total: u32 = group.ways.values().sum();
        if total == 0 || tables.is_group_waiting(slot) {
            assert_eq!(buckets, BTreeMap::from([(layout::KERNEL_MEMBER, FLOWS)]), "{slot:?}");
            return;
        }
        for (member, weight) in &group.ways {
            let share = buckets.remove(&member.number()).unwrap_or(0);
            assert!((share * total).abs_diff(FLOWS * weight) < 2 * total, "{slot:?}: {share} of {group:?}");
            assert_eq!(tables.way(*member), self.contents[member]);
        }
        assert_eq!(buckets, BTreeMap::new(), "{slot:?} leads to others than its members");
    }

    /// Makes tables of the same content, from nothing: groups keep their order, prefixes come longest first.
    pub fn afresh(&self) -> (Tables<Memory>, BTreeMap<u32, u32>) {
        let mut tables = Tables::new(Memory::default());
        let mut groups: BTreeMap<u32, u32> = (0..3).map(|number| (number, number)).collect();
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let mut new: BTreeMap<GroupSlot, GroupSlot> = BTreeMap::new();
        for (prefix, group) in routes {
            let target = group.map_or(Target::Kernel, |group| {
                Target::Group(*new.entry(group).or_insert_with(|| tables.add_group(&[]).unwrap()))
            });
            tables.set_route(*prefix, target).unwrap();
        }
        groups.extend(new.iter().map(|(old, new)| (old.number(), new.number())));
        (tables, groups)
    }
}

/// Returns true if an address lies in a prefix.
pub fn contains(prefix: IpPrefix, address: IpAddr) -> bool {
    let width = if address.is_ipv4() { 32 } else { 128 };
    prefix.covers(IpPrefix::new(address, width).unwrap())
}

/// The group that the entries lead an address to.
pub fn group_of(words: &impl Words, address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => lookup::ipv4_group(words, address),
        IpAddr::V6(address) => lookup::ipv6_group(words, address),
    }
}

/// The group of addresses that no prefix covers.
pub fn default_copy(address: IpAddr) -> u32 {
    if address.is_ipv4() { layout::IPV4_DEFAULT } else { layout::IPV6_DEFAULT }
}

/// The first and the last address of a prefix, and those before and after.
pub fn boundaries(prefix: IpPrefix) -> Vec<IpAddr> {
    match prefix.addr() {
        IpAddr::V4(first) => {
            let first = first.to_bits();
            let last = first | u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let all = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            all.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).to_vec()
        }
        IpAddr::V6(first) => {
            let first = first.to_bits();
            let last = first | u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            let all = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            all.map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))).to_vec()
        }
    }
}

/// The addresses at the boundaries of all prefixes of `ops`.
pub fn probes(ops: &[Op]) -> BTreeSet<IpAddr> {
    let prefixes = ops.iter().filter_map(|op| match op {
        Op::SetRoute(prefix, _) | Op::RemoveRoute(prefix) => Some(*prefix),
        _ => None,
    });
    prefixes.flat_map(boundaries).collect()
}
