//! The ip program on frames made by hand: each reason, each depth of the tables, and the choice among members.
#![cfg(feature = "xdp")]

use crate::support::frame::{ETHERNET, SENDER, ipv4, ipv6, set_checksum, sum};
use crate::support::model::{Model, Route, forwarded};
use crate::support::tables::{Chain, INCOMING, Options, PORT, ROUTER};
use sluice_bpf::layout::*;
use sluice_bpf::run::Verdict;
use sluice_bpf::{Embedded, Loader};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FROM4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FROM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Returns a member that forwards, with its index in the MAC address.
fn hop(index: u32) -> Member {
    let [_, _, a, b] = index.to_be_bytes();
    let destination = [2, 0, 0, 1, a, b];
    Member { action: MemberAction::Forward as u32, interface: 1000, mtu: 1500, destination, source: ROUTER }
}

fn member_of(frame: &[u8]) -> u32 {
    u16::from_be_bytes([frame[4], frame[5]]).into()
}

fn to(destination: IpAddr) -> Vec<u8> {
    match destination {
        IpAddr::V4(destination) => ipv4(FROM4, destination, 18),
        IpAddr::V6(destination) => ipv6(FROM6, destination, 18),
    }
}

/// Returns the members of all kinds, each with a route in both families: 10.0.N.0/24 and fd00:N00::/24 lead to member N.
fn every_kind() -> Model {
    let action = |action| Member { action, ..hop(0) };
    let members = vec![
        hop(1),
        action(MemberAction::Drop as u32),
        action(MemberAction::Unresolved as u32),
        action(MemberAction::Kernel as u32),
        action(99),
        Member { interface: INCOMING, ..hop(6) },
        Member { mtu: 46, ..hop(7) },
        Member { mtu: 66, ..hop(8) },
    ];
    let mut model = Model { members, routes: vec![] };
    for member in 1..=model.members.len() as u32 {
        for prefix in [address4(member).into(), address6(member).into()] {
            model.routes.push(Route { prefix, length: 24, members: vec![member] });
        }
    }
    model
}

fn address4(member: u32) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, member as u8, 0)
}

fn address6(member: u32) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, (member as u16) << 8, 0, 0, 0, 0, 0, 0)
}

#[test]
fn members_of_all_kinds_are_obeyed() {
    Chain::with(Options::default(), |chain| {
        let model = every_kind();
        model.fill(&chain.tables);
        let kinds =
            [Reason::Blackhole, Reason::Unresolved, Reason::Kernel, Reason::Kernel, Reason::SameInterface];
        for (member, reason) in (2..).zip(kinds) {
            assert_eq!(chain.reason(&to(address4(member).into())).0, reason, "IPv4, member {member}");
            assert_eq!(chain.reason(&to(address6(member).into())).0, reason, "IPv6, member {member}");
        }
        let frame = to(address4(1).into());
        let (reason, ran) = chain.reason(&frame);
        assert_eq!((reason, &ran.frame), (Reason::ForwardedIpv4, &forwarded(&frame, &hop(1))));
        assert_eq!((ran.frame[22], sum(&ran.frame[ETHERNET..34])), (63, 0xffff));
        let frame = to(address6(1).into());
        let (reason, ran) = chain.reason(&frame);
        assert_eq!((reason, &ran.frame), (Reason::ForwardedIpv6, &forwarded(&frame, &hop(1))));
        assert_eq!((ran.frame[21], &ran.frame[22..]), (63, &frame[22..]));
    });
}

#[test]
fn the_checksum_is_right_around_its_carries() {
    Chain::with(Options::default(), |chain| {
        every_kind().fill(&chain.tables);
        let mut frame = to(address4(1).into());
        for checksum in [0, 1, 0xff, 0x100, 0xfefe, 0xfeff, 0xff00, 0xff01, 0xfffe] {
            let mut right = |identification: u16| {
                frame[18..20].copy_from_slice(&identification.to_be_bytes());
                set_checksum(&mut frame);
                frame[24..26] == u16::to_be_bytes(checksum)
            };
            assert!((0..=u16::MAX).any(&mut right), "{checksum:#x}");
            assert_eq!(chain.reason(&frame).1.frame, forwarded(&frame, &hop(1)), "{checksum:#x}");
            if checksum == 0 {
                // Both zeros of ones' complement are right.
                frame[24..26].fill(0xff);
                assert_eq!(chain.reason(&frame).1.frame, forwarded(&frame, &hop(1)), "0xffff");
            }
        }
    });
}

#[test]
fn packets_as_large_as_the_mtu_are_sent_and_larger_ones_pass() {
    Chain::with(Options::default(), |chain| {
        every_kind().fill(&chain.tables);
        // 46 octets with the IPv4 header, 66 with the IPv6 header.
        for (frame, reason) in [
            (ipv4(FROM4, address4(7), 18), Reason::ForwardedIpv4),
            (ipv4(FROM4, address4(7), 19), Reason::Size),
            (ipv6(FROM6, address6(8), 18), Reason::ForwardedIpv6),
            (ipv6(FROM6, address6(8), 19), Reason::Size),
        ] {
            assert_eq!(chain.reason(&frame).0, reason, "{} octets", frame.len());
        }
        // What lies behind the packet is cut, and counts neither for the MTU.
        let mut padded = ipv4(FROM4, address4(7), 18);
        padded.push(0);
        assert_eq!(chain.reason(&padded).0, Reason::ForwardedIpv4);
        let mut padded = ipv4(FROM4, address4(1), 0);
        padded.resize(60, 0);
        assert_eq!(chain.reason(&padded).1.frame, forwarded(&padded, &hop(1)));
    });
}

#[test]
fn frames_for_the_kernel_pass_for_the_right_reason() {
    Chain::with(Options::default(), |chain| {
        every_kind().fill(&chain.tables);
        let (good4, good6) = (to(address4(1).into()), to(address6(1).into()));
        let changed = |frame: &[u8], at: usize, octets: &[u8]| {
            let mut frame = frame.to_vec();
            frame[at..at + octets.len()].copy_from_slice(octets);
            if frame[12] == 0x08 {
                set_checksum(&mut frame);
            }
            frame
        };
        for good in [&good4, &good6] {
            for mac in
                [[0xff; 6], [1, 0, 0x5e, 0, 0, 5], SENDER, [2, 0, 0, 0, 0, 0xff], [3, 0, 0, 0, 0, 0xfe]]
            {
                assert_eq!(chain.reason(&changed(good, 0, &mac)).0, Reason::Station, "{mac:02x?}");
            }
            assert_eq!(chain.reason(&good[..30]).0, Reason::Malformed);
        }
        for ttl in [0, 1] {
            assert_eq!(chain.reason(&changed(&good4, 22, &[ttl])).0, Reason::Ttl);
            assert_eq!(chain.reason(&changed(&good6, 21, &[ttl])).0, Reason::Ttl);
        }
        assert_eq!(chain.reason(&changed(&good4, 22, &[2])).1.frame[22], 1);
        assert_eq!(chain.reason(&changed(&good6, 21, &[2])).1.frame[21], 1);
        assert_eq!(chain.reason(&changed(&good4, 14, &[0x46])).0, Reason::Options);
        assert_eq!(chain.reason(&changed(&good6, 20, &[0])).0, Reason::Options);
        let mut wrong = good4.clone();
        wrong[24] ^= 1;
        assert_eq!(chain.reason(&wrong).0, Reason::Malformed);
        for ether_type in [[0x08, 0x06], [0x81, 0x00], [0x88, 0xcc]] {
            let mut frame = good4.clone();
            frame[12..14].copy_from_slice(&ether_type);
            assert_eq!(chain.reason(&frame).0, Reason::OtherEthertype, "{ether_type:02x?}");
        }
        chain.slots.clear(Slot::Ip).unwrap();
        for good in [&good4, &good6] {
            assert_eq!(chain.reason(good).0, Reason::NoTaker);
        }
    });
}

#[test]
fn martians_pass_whatever_the_tables_say() {
    Chain::with(Options::default(), |chain| {
        chain.tables.set_member(1, hop(1));
        for group in [GROUP_IPV4_DEFAULT, GROUP_IPV6_DEFAULT] {
            chain.tables.set_group(group, 1);
        }
        let (good4, good6) = (Ipv4Addr::new(10, 0, 1, 0), address6(1));
        let martians4 =
            ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.5", "239.1.1.1", "240.0.0.1", "255.255.255.255"];
        for martian in martians4.map(|address| address.parse().unwrap()) {
            assert_eq!(chain.reason(&ipv4(martian, good4, 18)).0, Reason::Martian, "from {martian}");
            assert_eq!(chain.reason(&ipv4(good4, martian, 18)).0, Reason::Martian, "to {martian}");
        }
        let martians6 = ["::", "::1", "::ffff:10.0.0.1", "fe80::1", "febf::1", "ff02::5", "ff0e::1"];
        for martian in martians6.map(|address| address.parse().unwrap()) {
            assert_eq!(chain.reason(&ipv6(martian, good6, 18)).0, Reason::Martian, "from {martian}");
            assert_eq!(chain.reason(&ipv6(good6, martian, 18)).0, Reason::Martian, "to {martian}");
        }
        for next in
            ["1.0.0.0", "126.255.255.255", "128.0.0.0", "223.255.255.255"].map(|next| next.parse().unwrap())
        {
            assert_eq!(chain.reason(&ipv4(next, next, 18)).0, Reason::ForwardedIpv4, "{next}");
        }
        for next in ["0:0:0:1::", "64:ff9b::a00:1", "fdff::1"].map(|next| next.parse().unwrap()) {
            assert_eq!(chain.reason(&ipv6(next, next, 18)).0, Reason::ForwardedIpv6, "{next}");
        }
    });
}

#[test]
fn a_port_is_off_by_family_and_without_an_entry() {
    Chain::with(Options::default(), |chain| {
        every_kind().fill(&chain.tables);
        let frames = [to(address4(1).into()), to(address6(1).into())];
        let forwarded = [Reason::ForwardedIpv4, Reason::ForwardedIpv6];
        for flags in 0..4 {
            chain.tables.set_port(INCOMING, Port { mac: ROUTER, number: PORT, flags, skipped: 0 });
            for (bit, (frame, forwarded)) in frames.iter().zip(forwarded).enumerate() {
                let expected = if flags >> bit & 1 == 1 { forwarded } else { Reason::Off };
                assert_eq!(chain.reason(frame).0, expected, "flags {flags}");
            }
        }
        chain.tables.set_port(INCOMING, Port::default());
        for frame in &frames {
            assert_eq!(chain.run(frame).verdict, Verdict::Pass);
        }
        assert_eq!(chain.counters.read().unwrap().count(0, Reason::Off).packets, 2);
    });
}

#[test]
fn a_program_before_may_drop() {
    Chain::with(Options::default(), |chain| {
        let police = Loader::new(Embedded::Empty).constant_u32("slot", Slot::Police.index());
        // The maps of this copy are its own, so that the chain's counters stay.
        let police = police.constant_u32("drops", 1).load().unwrap();
        chain.slots.set(Slot::Police, police.program()).unwrap();
        assert_eq!(chain.run(&to(address4(1).into())).verdict, Verdict::Drop);
        let counters = sluice_bpf::counters::Counters::new(police.map("counts").unwrap()).unwrap();
        assert_eq!(counters.total(Reason::Dropped).unwrap().packets, 1);
    });
}

/// Returns `address` with the bit behind the first `length` bits inverted, so that no longer prefix covers it.
fn leaving(address: u128, length: u8) -> u128 {
    address ^ 1u128.checked_shl(127 - u32::from(length)).unwrap_or(0)
}

#[test]
fn the_longest_prefix_decides_at_every_depth() {
    Chain::with(Options::default(), |chain| {
        let path4 = u128::from(Ipv4Addr::new(60, 101, 102, 103).to_bits()) << 96;
        let path6 = "2001:db8:a5c3:1fe7:9b26:d40f:8e71:53ca".parse::<Ipv6Addr>().unwrap().to_bits();
        let address = |path: u128, is_ipv4: bool| match is_ipv4 {
            true => IpAddr::V4(Ipv4Addr::from_bits((path >> 96) as u32)),
            false => IpAddr::V6(Ipv6Addr::from_bits(path)),
        };
        let mut model = Model { members: (1..=300).map(hop).collect(), routes: vec![] };
        let mut cases = vec![];
        for (path, is_ipv4, longest) in [(path4, true, 32), (path6, false, 128)] {
            for length in [0].into_iter().chain(16..=longest) {
                let member = u32::from(length) + if is_ipv4 { 1 } else { 101 };
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                let prefix = address(path & mask, is_ipv4);
                model.routes.push(Route { prefix, length, members: vec![member] });
                let inside = if length == longest { path } else { leaving(path, length) };
                cases.push((address(inside, is_ipv4), member));
            }
        }
        model.fill(&chain.tables);
        for (inside, member) in cases {
            let (_, ran) = chain.reason(&to(inside));
            assert_eq!((ran.verdict, member_of(&ran.frame)), (Verdict::Redirect, member), "{inside}");
        }
    });
}

#[test]
fn entries_that_lead_nowhere_pass() {
    Chain::with(Options { nodes: 4, ..Options::default() }, |chain| {
        let tables = &chain.tables;
        let (address4, address6) = (address4(1), address6(1));
        let [root4, root6] = [address4.to_bits() >> 8, (address6.to_bits() >> 104) as u32];
        // A node beyond the map, a node within the last node, nodes in a circle.
        tables.set_ipv4(root4, IPV4_NODE | 4);
        tables.set_ipv6(root6, IPV6_NODE | 4);
        let both = [to(address4.into()), to(address6.into())];
        let passes = |what| {
            for frame in &both {
                assert_eq!(chain.reason(frame).0, Reason::Kernel, "{what}");
            }
        };
        passes("a node beyond the map");
        for octet in 0..=255 {
            tables.set_ipv4_node(1, octet, IPV4_NODE | 1);
            tables.set_ipv6_node(1, octet, IPV6_NODE | 1);
        }
        tables.set_ipv4(root4, IPV4_NODE | 1);
        tables.set_ipv6(root6, IPV6_NODE | 1);
        passes("nodes in a circle");
        tables.set_ipv4(root4, 9);
        tables.set_ipv6(root6, 9);
        passes("an empty group");
        tables.set_group(9, MEMBERS);
        passes("a member beyond the map");
        assert!(tables.groups.store64(9, 0, 1 << 32 | u64::from(BUCKET_BLOCKS)));
        passes("a block beyond the map");
        tables.set_buckets(9, 1, |_| u32::MAX);
        passes("buckets beyond the map");
        tables.set_ipv6(root6, GROUPS);
        passes("a group beyond the map");
    });
}

/// The number of flows of a test.
const FLOWS: u16 = 1024;

/// Returns a packet of the flow with a source address and a source port.
fn flow(is_ipv4: bool, address: u16, port: u16) -> Vec<u8> {
    let [a, b] = address.to_be_bytes();
    let mut frame = match is_ipv4 {
        true => ipv4(Ipv4Addr::new(192, 0, a, b), Ipv4Addr::new(10, 0, 1, 1), 18),
        false => ipv6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, address), address6(1), 18),
    };
    let ports = if is_ipv4 { 34 } else { 54 };
    frame[ports..ports + 2].copy_from_slice(&port.to_be_bytes());
    frame
}

/// Leads everything to a group of 128 members.
fn fill_group(chain: &Chain) {
    for member in 1..=BUCKETS {
        chain.tables.set_member(member, hop(member));
    }
    for group in [GROUP_IPV4_DEFAULT, GROUP_IPV6_DEFAULT] {
        chain.tables.set_buckets(group, group, |bucket| bucket + 1);
    }
}

fn member(chain: &Chain, frame: &[u8]) -> u32 {
    let ran = chain.run(frame);
    assert_eq!(ran.verdict, Verdict::Redirect);
    member_of(&ran.frame)
}

#[test]
fn flows_spread_over_all_buckets() {
    Chain::with(Options::default(), |chain| {
        fill_group(&chain);
        for is_ipv4 in [true, false] {
            for by_port in [true, false] {
                let mut flows = [0u32; BUCKETS as usize + 1];
                for number in 0..FLOWS {
                    let frame = if by_port { flow(is_ipv4, 1, number) } else { flow(is_ipv4, number, 1) };
                    flows[member(&chain, &frame) as usize] += 1;
                }
                // Pearson's statistic with 127 degrees of freedom: 127 on average, above 220 once in a million draws.
                let mean = f64::from(FLOWS) / f64::from(BUCKETS);
                let distances = flows[1..].iter().map(|flows| (f64::from(*flows) - mean).powi(2) / mean);
                let statistic: f64 = distances.sum();
                assert!(statistic < 220.0, "IPv4 {is_ipv4}, by port {by_port}: {statistic}");
            }
        }
    });
}

#[test]
fn packets_of_a_flow_take_one_way_and_fragments_too() {
    let ways = |chain: Chain| {
        fill_group(&chain);
        let mut ways = vec![];
        for is_ipv4 in [true, false] {
            let chosen = |change: &dyn Fn(&mut Vec<u8>)| {
                let members = (0..16).map(|port| {
                    let mut frame = flow(is_ipv4, 1, port);
                    change(&mut frame);
                    if is_ipv4 {
                        set_checksum(&mut frame);
                    }
                    member(&chain, &frame)
                });
                members.collect::<Vec<u32>>()
            };
            let whole = chosen(&|_| {});
            assert!(whole.iter().collect::<BTreeSet<_>>().len() > 8, "{whole:?}");
            // TTL and payload are no part of the flow, the protocol is.
            let same = |frame: &mut Vec<u8>| {
                frame[if is_ipv4 { 22 } else { 21 }] = 9;
                *frame.last_mut().unwrap() = 9;
            };
            assert_eq!(chosen(&same), whole);
            let protocol = if is_ipv4 { 23 } else { 20 };
            assert_ne!(chosen(&|frame| frame[protocol] = 6), whole);
            // Fragments with any offset, and protocols without ports, take one way whatever is where ports would be.
            let one = |members: Vec<u32>| assert_eq!(members.iter().collect::<BTreeSet<_>>().len(), 1);
            if is_ipv4 {
                let (first, last) = (chosen(&|frame| frame[20] = 0x20), chosen(&|frame| frame[21] = 1));
                assert_eq!(first, last);
                one(first);
            } else {
                one(chosen(&|frame| frame[protocol] = 44));
            }
            one(chosen(&|frame| frame[protocol] = 50));
            ways.extend(whole);
        }
        ways
    };
    let Some(first) = Chain::with(Options::default(), ways) else { return };
    assert_eq!(Chain::with(Options::default(), ways).unwrap(), first);
    let other = Options { flow_seed: 0x1234_5678_9abc_def0, ..Options::default() };
    assert_ne!(Chain::with(other, ways).unwrap(), first);
}
