//! The forwarding tables of the XDP program beside a model, after any operations.

use crate::xdp;
use crate::xdp::{Model, Op, boundaries, group_of, op, probes, way};
use proptest::prelude::*;
use sluice_base::IpPrefix;
use sluice_fea::xdp::{Area, Full, Limits, MemberSlot, Memory, Tables, Target, layout, lookup};
use std::net::Ipv4Addr;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

/// Limits at which most operations find no room.
const TIGHT: Limits = Limits { ipv4_nodes: 4, ipv6_nodes: 9, groups: 7, blocks: 2, members: 6 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn tables_equal_the_model_and_tables_built_afresh(ops in prop::collection::vec(op(14), 1..80)) {
        let (mut tables, mut model) = (Tables::new(Memory::default()), Model::default());
        let probes = probes(&ops);
        for op in &ops {
            model.apply(&mut tables, op);
        }
        model.check(&tables, &probes);
        let (fresh, groups) = model.afresh();
        for address in &probes {
            let found = group_of(tables.words(), *address);
            prop_assert_eq!(groups[&found], group_of(fresh.words(), *address), "{}", address);
        }
        let (old, new) = (tables.usage(), fresh.usage());
        prop_assert_eq!(old.ipv4_nodes.used, new.ipv4_nodes.used);
        prop_assert_eq!(old.ipv6_nodes.used, new.ipv6_nodes.used);
        let routes: Vec<_> = tables.routes().collect();
        prop_assert_eq!(routes.len(), model.routes.len());
        for (prefix, target) in routes {
            prop_assert_eq!(target, model.routes[&prefix].map_or(Target::Kernel, Target::Group));
        }
    }

    #[test]
    fn without_room_packets_go_to_the_kernel(ops in prop::collection::vec(op(14), 1..120)) {
        let (mut tables, mut model) = (Tables::with_limits(Memory::default(), TIGHT), Model::default());
        let probes = probes(&ops);
        for op in &ops {
            model.apply(&mut tables, op);
            model.check(&tables, &probes);
        }
    }
}

#[test]
fn removing_everything_leaves_zeros_in_the_roots_and_no_object_in_use() {
    let mut tables = Tables::new(Memory::default());
    let member = tables.add_member(way(1)).unwrap();
    let other = tables.add_member(way(2)).unwrap();
    let group = tables.add_group(&[(member, 1), (other, 1)]).unwrap();
    let texts = [
        "0.0.0.0/0",
        "0.0.0.0/1",
        "128.0.0.0/1",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.0/24",
        "10.1.2.128/25",
        "10.1.2.129/32",
        "255.255.255.255/32",
        "::/0",
        "::/1",
        "8000::/1",
        "2001:db8::/32",
        "2001:db8::/48",
        "2001:db8::1/128",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
    ];
    for text in texts {
        tables.set_route(prefix(text), Target::Group(group)).unwrap();
    }
    for address in texts.map(prefix).into_iter().flat_map(boundaries) {
        let found = group_of(tables.words(), address);
        assert!(found == group.number(), "{address}: {found}");
    }
    for text in texts {
        tables.remove_route(prefix(text));
    }
    tables.remove_group(group);
    tables.remove_member(member);
    tables.remove_member(other);
    let grace = tables.begin_grace().unwrap();
    assert!(tables.begin_grace().is_none());
    tables.end_grace(grace);
    assert!(tables.begin_grace().is_none());
    let usage = tables.usage();
    for used in [usage.ipv4_nodes, usage.ipv6_nodes, usage.groups, usage.blocks, usage.members] {
        assert_eq!((used.used, used.retired), (0, 0));
    }
    for area in [Area::Ipv4Root, Area::Ipv6Root] {
        use sluice_fea::xdp::Words;
        assert!((0..area.words()).all(|word| tables.words().load(area, word) == 0), "{area}");
    }
}

#[test]
fn a_prefix_without_room_is_written_when_a_node_is_free() {
    let limits = Limits { ipv4_nodes: 2, ..Limits::default() };
    let mut tables = Tables::with_limits(Memory::default(), limits);
    let members = [1, 2, 3].map(|seed| tables.add_member(way(seed)).unwrap());
    let groups = members.map(|member| tables.add_group(&[(member, 1)]).unwrap());
    tables.set_route(prefix("10.0.0.0/8"), Target::Group(groups[0])).unwrap();
    tables.set_route(prefix("10.0.0.0/25"), Target::Group(groups[1])).unwrap();
    let waits = prefix("10.0.1.0/25");
    assert_eq!(tables.set_route(waits, Target::Group(groups[2])), Err(Full(Area::Ipv4Nodes)));
    let at = |tables: &Tables<Memory>, text: &str| tables.lookup_ipv4(text.parse().unwrap(), 0);
    // Neither the prefix around nor the prefix itself may answer for the whole entry.
    assert_eq!(at(&tables, "10.0.1.1"), MemberSlot::KERNEL);
    assert_eq!(at(&tables, "10.0.1.200"), MemberSlot::KERNEL);
    assert_eq!(at(&tables, "10.0.2.1"), members[0]);
    // A change of the prefix around does not catch the entry either.
    tables.set_route(prefix("10.0.0.0/8"), Target::Group(groups[1])).unwrap();
    assert_eq!(at(&tables, "10.0.1.200"), MemberSlot::KERNEL);
    assert_eq!(tables.usage().ipv4_waiting, 1);
    // The node becomes free after the grace period only.
    tables.remove_route(prefix("10.0.0.0/25"));
    assert_eq!(at(&tables, "10.0.1.1"), MemberSlot::KERNEL);
    let grace = tables.begin_grace().unwrap();
    assert!(tables.is_route_waiting(waits));
    tables.end_grace(grace);
    assert_eq!(at(&tables, "10.0.1.1"), members[2]);
    assert_eq!(at(&tables, "10.0.1.200"), members[1]);
    assert_eq!(tables.usage().ipv4_waiting, 0);
}

#[test]
fn a_group_without_a_block_gets_one_when_it_is_free() {
    let limits = Limits { blocks: 1, ..Limits::default() };
    let mut tables = Tables::with_limits(Memory::default(), limits);
    let ways = [1, 2].map(|seed| (tables.add_member(way(seed)).unwrap(), 1));
    let first = tables.add_group(&ways).unwrap();
    let second = tables.add_group(&ways).unwrap();
    assert!(tables.is_group_waiting(second) && !tables.is_group_waiting(first));
    assert_eq!(tables.set_group(second, &ways), Err(Full(Area::Buckets)));
    tables.set_route(prefix("::/0"), Target::Group(second)).unwrap();
    assert_eq!(tables.lookup_ipv6("2001:db8::1".parse().unwrap(), 127), MemberSlot::KERNEL);
    // A group of a member needs no block.
    tables.set_group(first, &[ways[0], ways[0]]).unwrap();
    let grace = tables.begin_grace().unwrap();
    tables.end_grace(grace);
    assert!(!tables.is_group_waiting(second));
    assert_eq!(tables.lookup_ipv6("2001:db8::1".parse().unwrap(), 0), ways[0].0);
    assert_eq!(tables.lookup_ipv6("2001:db8::1".parse().unwrap(), 127), ways[1].0);
}

#[test]
fn removed_objects_stay_while_something_leads_to_them() {
    let mut tables = Tables::new(Memory::default());
    let member = tables.add_member(way(1)).unwrap();
    let group = tables.add_group(&[(member, 1)]).unwrap();
    let route = prefix("192.0.2.0/24");
    tables.set_route(route, Target::Group(group)).unwrap();
    tables.remove_member(member);
    assert_eq!(tables.lookup_ipv4(Ipv4Addr::new(192, 0, 2, 1), 0), member);
    assert_eq!(tables.usage().members.used, 1);
    tables.remove_group(group);
    assert_eq!(tables.lookup_ipv4(Ipv4Addr::new(192, 0, 2, 1), 0), MemberSlot::KERNEL);
    assert_eq!((tables.usage().members.retired, tables.usage().groups.used), (1, 1));
    // A removed group takes no prefix and no members any more.
    tables.set_route(prefix("192.0.3.0/24"), Target::Group(group)).unwrap();
    assert_eq!(tables.route(prefix("192.0.3.0/24")), Some(Target::Kernel));
    let new = tables.add_member(way(2)).unwrap();
    tables.set_group(group, &[(new, 1)]).unwrap();
    assert_eq!(tables.lookup_ipv4(Ipv4Addr::new(192, 0, 2, 1), 0), MemberSlot::KERNEL);
    tables.remove_route(route);
    assert_eq!(tables.usage().groups.retired, 1);
}

#[test]
fn a_lost_member_moves_only_its_own_flows() {
    let mut tables = Tables::new(Memory::default());
    let members = [1, 2, 3].map(|seed| tables.add_member(way(seed)).unwrap());
    for lost in members {
        let group = tables.add_group(&members.map(|member| (member, 1))).unwrap();
        let flows = |tables: &Tables<Memory>| {
            (0..xdp::FLOWS)
                .map(|flow| lookup::group_member(tables.words(), group.number(), flow))
                .collect::<Vec<_>>()
        };
        let before = flows(&tables);
        let left: Vec<_> =
            members.into_iter().filter(|member| *member != lost).map(|member| (member, 1)).collect();
        tables.set_group(group, &left).unwrap();
        for (old, new) in before.iter().zip(flows(&tables)) {
            assert!(*old == new || *old == lost.number());
        }
    }
}

#[test]
fn words_have_the_layout_of_the_program() {
    use sluice_fea::xdp::Words;
    let mut tables = Tables::new(Memory::default());
    let member = tables.add_member(way(0x0403_0201)).unwrap();
    assert_eq!(member.number(), 1);
    let second = tables.add_member(way(7)).unwrap();
    let group = tables.add_group(&[(member, 1)]).unwrap();
    assert_eq!(group.number(), layout::FIRST_GROUP);
    tables.set_route(prefix("0.0.1.0/24"), Target::Group(group)).unwrap();
    tables.set_route(prefix("0.0.2.255/32"), Target::Kernel).unwrap();
    tables.set_route(prefix("0:100::/24"), Target::Group(group)).unwrap();
    tables.set_route(prefix("0:2ff::/32"), Target::Group(group)).unwrap();
    let words = tables.words();
    assert_eq!(words.load(Area::Ipv4Root, 0), 0x0000_8001_0003_0000);
    assert_eq!(words.load(Area::Ipv4Nodes, 64 + 63), 0x0002_0000_0000_0000);
    assert_eq!(words.load(Area::Ipv6Root, 0), 0x0000_0003_0000_0000);
    assert_eq!(words.load(Area::Ipv6Root, 1), 0x0000_0000_8000_0001);
    assert_eq!(words.load(Area::Ipv6Nodes, 128 + 127), 0x0000_0003_0000_0000);
    assert_eq!(words.load(Area::Groups, 3), 1);
    let octets: Vec<u8> = (3..6).flat_map(|word| words.load(Area::Members, word).to_le_bytes()).collect();
    let way = way(0x0403_0201);
    assert_eq!(octets[..4], (way.action as u32).to_le_bytes());
    assert_eq!(octets[4..8], way.interface.map_or(0, |i| i.number()).to_le_bytes());
    assert_eq!(octets[8..12], way.mtu.to_le_bytes());
    assert_eq!(octets[12..18], way.destination.0);
    assert_eq!(octets[18..], way.source.0);
    tables.set_group(group, &[(member, 1), (second, 1)]).unwrap();
    assert_eq!(tables.words().load(Area::Groups, 3), 1 << 32);
    assert_eq!(tables.words().load(Area::Buckets, 0), 0x0000_0001_0000_0001);
    assert_eq!(tables.words().load(Area::Buckets, 63), 0x0000_0002_0000_0002);
}

#[test]
fn any_words_are_safe_to_read() {
    struct Same(u64);
    impl sluice_fea::xdp::Words for Same {
        fn load(&self, area: Area, word: usize) -> u64 {
            assert!(word < area.words());
            self.0
        }

        fn store(&mut self, _: Area, _: usize, _: u64) {}
    }
    for word in [u64::MAX, 0x8000_8000_8000_8000, 0xffff_fffe_ffff_fffe, 0x8000_0001_8000_0001, 0x1_0000_ffff]
    {
        let words = Same(word);
        for address in [0u128, u128::MAX, 1] {
            lookup::group_member(
                &words,
                lookup::ipv4_group(&words, Ipv4Addr::from_bits(address as u32)),
                127,
            );
            lookup::group_member(&words, lookup::ipv6_group(&words, address.into()), 127);
        }
        lookup::group_member(&words, u32::MAX, 5);
        lookup::member_way(&words, u32::MAX);
        lookup::member_way(&words, 1);
    }
}

#[test]
fn operations_on_nothing_do_nothing() {
    let (mut tables, mut model) = (Tables::new(Memory::default()), Model::default());
    for op in [
        Op::RemoveSomeRoute(3),
        Op::SetGroup(1, vec![(1, 1)]),
        Op::RemoveGroup(0),
        Op::RemoveMember(0),
        Op::EndGrace,
    ] {
        model.apply(&mut tables, &op);
    }
    assert_eq!(tables.routes().count(), 0);
    assert!(tables.begin_grace().is_none());
}
