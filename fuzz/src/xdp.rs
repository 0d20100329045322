//! The forwarding tables of the XDP program beside a model, under operations made from octets.

use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_fea::xdp::{
    Action, Area, Grace, GroupSlot, Limits, MemberSlot, Tables, Target, Way, Words, layout, lookup,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Words of a page.
const PAGE: usize = 64;

/// Words of which only pages that were written take memory. Each store must lie in its area.
#[derive(Default)]
struct Sparse(HashMap<(Area, usize), [u64; PAGE]>);

impl Words for Sparse {
    fn load(&self, area: Area, word: usize) -> u64 {
        assert!(word < area.words());
        self.0.get(&(area, word / PAGE)).map_or(0, |page| page[word % PAGE])
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        assert!(word < area.words());
        self.0.entry((area, word / PAGE)).or_insert([0; PAGE])[word % PAGE] = value;
    }
}

/// Limits that inputs reach.
const LIMITS: Limits = Limits { ipv4_nodes: 6, ipv6_nodes: 24, groups: 9, blocks: 3, members: 7 };

/// The shortest prefix but the default route.
const SHORTEST: u8 = 14;

/// Octets of an operation.
const OPERATION: usize = 6;

/// Operations of an input that are carried out.
const OPERATIONS: usize = 200;

struct Pair {
    tables: Tables<Sparse>,
    routes: BTreeMap<IpPrefix, Option<GroupSlot>>,
    groups: BTreeMap<GroupSlot, BTreeSet<u32>>,
    members: BTreeSet<MemberSlot>,
    grace: Option<Grace>,
}

fn nth<T: Copy>(mut all: impl ExactSizeIterator<Item = T>, n: u8) -> Option<T> {
    let n = usize::from(n).checked_rem(all.len())?;
    all.nth(n)
}

/// A prefix of a small part of the addresses.
fn prefix([kind, length, b, c, d]: [u8; 5]) -> IpPrefix {
    let is_default = length == u8::MAX;
    if kind & 0x80 == 0 {
        let length = if is_default { 0 } else { SHORTEST + length % (33 - SHORTEST) };
        let address = V4Addr(Ipv4Addr::new(10, b & 3, c, d));
        IpPrefix::V4(Ipv4Prefix::new(address, length).expect("at most 32"))
    } else {
        let length = if is_default { 0 } else { SHORTEST + length % (129 - SHORTEST) };
        let mut octets = [0; 16];
        octets[..3].copy_from_slice(&[0x20, 1, b]);
        octets[3..].fill(c);
        octets[15] = d;
        IpPrefix::V6(Ipv6Prefix::new(V6Addr(Ipv6Addr::from(octets)), length).expect("at most 128"))
    }
}

/// The first and the last address of a prefix, and those beside.
fn boundaries(prefix: IpPrefix) -> [IpAddr; 4] {
    let (first, width) = match prefix.addr() {
        IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
        IpAddr::V6(a) => (a.to_bits(), 128),
    };
    let last = first | (u128::MAX >> (128 - width)).checked_shr(prefix.len().into()).unwrap_or(0);
    [first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(|bits| match width {
        32 => Ipv4Addr::from_bits(bits as u32).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    })
}

fn contains(prefix: IpPrefix, address: IpAddr) -> bool {
    let width = if address.is_ipv4() { 32 } else { 128 };
    IpPrefix::new(address, width).is_some_and(|host| prefix.covers(host))
}

impl Pair {
    fn apply(&mut self, [kind, argument, a, b, c, d]: [u8; OPERATION]) {
        let prefix = prefix([kind, argument, a, b, c]);
        match kind % 8 {
            0..=2 => {
                let group = nth(self.groups.keys().copied(), d);
                self.routes.insert(prefix, group);
                let result = self.tables.set_route(prefix, group.map_or(Target::Kernel, Target::Group));
                assert_eq!(result.is_err(), self.tables.is_route_waiting(prefix));
            }
            3 => self.remove(prefix),
            4 => {
                if let Some(prefix) = nth(self.routes.keys().copied(), argument) {
                    self.remove(prefix);
                }
            }
            5 => {
                let way = Way { action: Action::Forward, mtu: u32::from(a), ..Way::KERNEL };
                match self.tables.add_member(way) {
                    Ok(slot) => assert!(self.members.insert(slot) && self.tables.way(slot) == way),
                    Err(_) => {
                        if let Some(slot) = nth(self.members.iter().copied(), argument) {
                            self.members.remove(&slot);
                            self.tables.remove_member(slot);
                        }
                    }
                }
            }
            6 => self.change_group(argument, [a, b, c], d),
            _ => match self.grace.take() {
                Some(grace) => self.tables.end_grace(grace),
                None => self.grace = self.tables.begin_grace(),
            },
        }
        boundaries(prefix).into_iter().for_each(|address| self.check(address));
    }

    fn remove(&mut self, prefix: IpPrefix) {
        self.routes.remove(&prefix);
        self.tables.remove_route(prefix);
    }

    fn change_group(&mut self, argument: u8, members: [u8; 3], weight: u8) {
        let members = members.into_iter().filter_map(|n| nth(self.members.iter().copied(), n));
        let ways: Vec<(MemberSlot, u8)> = members.zip([1, weight, 255]).collect();
        let present =
            ways.iter().filter(|(_, weight)| *weight > 0).map(|(member, _)| member.number()).collect();
        let old = nth(self.groups.keys().copied(), argument / 4);
        match (argument % 4, old) {
            (0, _) | (_, None) => {
                if let Ok(slot) = self.tables.add_group(&ways) {
                    assert!(self.groups.insert(slot, present).is_none());
                }
            }
            (1, Some(slot)) => {
                self.groups.remove(&slot);
                self.tables.remove_group(slot);
            }
            (_, Some(slot)) => {
                self.groups.insert(slot, present);
                let result = self.tables.set_group(slot, &ways);
                assert_eq!(result.is_err(), self.tables.is_group_waiting(slot));
            }
        }
    }

    fn check(&self, address: IpAddr) {
        let (words, found, default) = match address {
            IpAddr::V4(a) => {
                (self.tables.words(), lookup::ipv4_group(self.tables.words(), a), layout::IPV4_DEFAULT)
            }
            IpAddr::V6(a) => {
                (self.tables.words(), lookup::ipv6_group(self.tables.words(), a), layout::IPV6_DEFAULT)
            }
        };
        let holding = self.routes.iter().filter(|(prefix, _)| contains(**prefix, address));
        let expected = match holding.max_by_key(|(prefix, _)| prefix.len()) {
            Some((prefix, group)) if prefix.len() > 0 => {
                group.map_or(layout::KERNEL_GROUP, GroupSlot::number)
            }
            Some((_, group)) => {
                let word = group.map_or(0, |group| words.load(Area::Groups, group.number() as usize));
                assert_eq!(words.load(Area::Groups, default as usize), word);
                default
            }
            None => default,
        };
        // For want of room, whole entries of the root or of a node go to the kernel.
        let waits = || {
            let near = self.routes.keys().filter(|prefix| {
                IpPrefix::new(prefix.addr(), 24).is_some_and(|entry| contains(entry, address))
            });
            near.into_iter().any(|prefix| self.tables.is_route_waiting(*prefix))
        };
        assert!(
            found == expected || found == layout::KERNEL_GROUP && waits(),
            "{address}: {found}, not {expected}"
        );
    }

    fn check_all(&self) {
        for prefix in self.routes.keys() {
            boundaries(*prefix).into_iter().for_each(|address| self.check(address));
        }
        for (slot, members) in &self.groups {
            let is_kernel = members.is_empty() || self.tables.is_group_waiting(*slot);
            for flow in 0..layout::BUCKETS as u32 {
                let member = lookup::group_member(self.tables.words(), slot.number(), flow);
                assert!(if is_kernel { member == layout::KERNEL_MEMBER } else { members.contains(&member) });
            }
        }
        let usage = self.tables.usage();
        for (waiting, used) in [
            (usage.ipv4_waiting, usage.ipv4_nodes),
            (usage.ipv6_waiting, usage.ipv6_nodes),
            (usage.groups_waiting, usage.blocks),
        ] {
            assert!(waiting == 0 || used.used + used.retired == used.limit, "{usage:?}");
        }
    }
}

/// Operations of six octets: the tables equal a model after each of them, and are empty when everything is removed.
pub fn tables(octets: &[u8]) {
    let mut pair = Pair {
        tables: Tables::with_limits(Sparse::default(), LIMITS),
        routes: BTreeMap::new(),
        groups: BTreeMap::new(),
        members: BTreeSet::new(),
        grace: None,
    };
    for operation in octets.as_chunks().0.iter().take(OPERATIONS) {
        pair.apply(*operation);
    }
    pair.check_all();
    while let Some(prefix) = pair.routes.keys().next().copied() {
        pair.remove(prefix);
        boundaries(prefix).into_iter().for_each(|address| pair.check(address));
    }
    for area in [Area::Ipv4Root, Area::Ipv6Root] {
        let pages = pair.tables.words().0.iter().filter(|((of, _), _)| *of == area);
        assert!(pages.into_iter().all(|(_, page)| page.iter().all(|word| *word == 0)), "entries are left");
    }
}

/// Operations on both families: members, groups, prefixes around and inside each other, removals, grace periods.
pub fn operations() -> Vec<Vec<u8>> {
    const MEMBER: [u8; OPERATION] = [5, 0, 1, 0, 0, 0];
    const GROUP: [u8; OPERATION] = [6, 0, 0, 1, 2, 3];
    const GRACE: [u8; OPERATION] = [7, 0, 0, 0, 0, 0];
    let setup = [MEMBER, MEMBER, MEMBER, GROUP, GROUP];
    let around = [[0, 2, 0, 0, 0, 0], [0, 10, 0, 1, 0, 1], [0, 11, 0, 1, 128, 0], [0, 18, 0, 1, 129, 1]];
    let ipv6 = [[128, 18, 8, 1, 0, 0], [128, 34, 8, 1, 0, 1], [128, 114, 8, 1, 7, 0], [128, 255, 0, 0, 0, 1]];
    let many = (0..40u8).map(|n| [128 * (n % 2), 12 + n, n / 2, n, n, n]);
    let remove = [[4, 1, 0, 0, 0, 0]; 20];
    let grow = [[6, 2, 0, 0, 0, 0], [6, 6, 1, 2, 0, 9], [6, 1, 0, 0, 0, 0]];
    vec![
        [&setup[..], &around, &[GRACE, GRACE], &remove].concat().concat(),
        [&setup[..], &ipv6, &grow, &remove, &[GRACE, GRACE], &around].concat().concat(),
        [&setup[..], &many.collect::<Vec<_>>(), &remove, &[GRACE, GRACE], &grow, &[GRACE, GRACE]]
            .concat()
            .concat(),
    ]
}
