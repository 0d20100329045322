//! The ip program on random frames: beside a router in plain Rust, and with maps full of random words.
#![cfg(feature = "xdp")]

use crate::support::frame::{ETHERNET, ipv4, ipv6, set_checksum};
use crate::support::model::{Model, Route, forwarded, trimmed};
use crate::support::mutation::Random;
use crate::support::tables::{Chain, INCOMING, Options, PORT, ROUTER, Tables};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sluice_bpf::layout::*;
use sluice_bpf::run::Verdict;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CASES: u32 = 3000;

/// Runs a test with the same frames each time.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Addresses that routes cover, that nothing covers, and that are never forwarded.
fn address4() -> impl Strategy<Value = Ipv4Addr> {
    let routed = (0..10u8, any::<u8>()).prop_map(|(route, host)| Ipv4Addr::new(10, 0, route, host));
    prop_oneof![6 => routed, 1 => any::<Ipv4Addr>(), 1 => Just(Ipv4Addr::BROADCAST), 1 => Just(Ipv4Addr::LOCALHOST)]
}

fn address6() -> impl Strategy<Value = Ipv6Addr> {
    let routed = (0..10u16, any::<u16>())
        .prop_map(|(route, host)| Ipv6Addr::new(0xfd00, route << 8, 0, 0, 0, 0, 0, host));
    let local = Just(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    prop_oneof![6 => routed, 1 => any::<Ipv6Addr>(), 1 => local, 1 => Just(Ipv6Addr::UNSPECIFIED)]
}

fn good_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = || prop_oneof![3 => 0..100usize, 1 => 1000..1600usize];
    prop_oneof![
        (address4(), address4(), payload()).prop_map(|(from, to, payload)| ipv4(from, to, payload)),
        (address6(), address6(), payload()).prop_map(|(from, to, payload)| ipv6(from, to, payload)),
    ]
}

/// Good frames with a few octets changed, most often of the headers; cut, padded, with the checksum set right or not.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let change = (prop_oneof![8 => 12..54usize, 1 => 0..12usize, 1 => 0..1600usize], any::<u8>());
    let changes = prop_oneof![Just(vec![]).boxed(), prop::collection::vec(change, 1..4).boxed()];
    let length = prop_oneof![6 => Just(None).boxed(), 1 => (ETHERNET..1700usize).prop_map(Some).boxed()];
    // More words in the IPv4 header, hop-by-hop options in IPv6.
    let options = prop::bool::weighted(0.1);
    let ttl = prop_oneof![3 => Just(None).boxed(), 1 => (0..4u8).prop_map(Some).boxed(), 1 => Just(Some(255)).boxed()];
    (good_frame(), changes, length, ttl, options, prop::bool::weighted(0.8)).prop_map(
        |(mut frame, changes, length, ttl, options, is_right)| {
            let is_ipv4 = frame[12] == 8;
            if options {
                let (at, octet) = if is_ipv4 { (ETHERNET, 0x46) } else { (20, 0) };
                frame[at] = octet;
            }
            if let Some(ttl) = ttl {
                frame[if is_ipv4 { 22 } else { 21 }] = ttl;
            }
            for (at, octet) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = octet;
                }
            }
            if is_ipv4 && is_right && frame.len() >= ETHERNET + usize::from(frame[ETHERNET] & 15) * 4 {
                set_checksum(&mut frame);
            }
            frame.resize(length.unwrap_or(frame.len()), 0x5a);
            frame
        },
    )
}

/// Routes of all kinds, at several depths.
fn model() -> Model {
    let forward = |index: u8, mtu: u32| Member {
        action: MemberAction::Forward as u32,
        interface: 1000,
        mtu,
        destination: [2, 0, 0, 1, 0, index],
        source: [2, 0, 0, 2, 0, index],
    };
    let members = vec![
        forward(1, 1500),
        forward(2, 1500),
        forward(3, 1500),
        forward(4, 100),
        Member { interface: INCOMING, ..forward(5, 1500) },
        Member { action: MemberAction::Drop as u32, ..forward(6, 1500) },
        Member { action: MemberAction::Unresolved as u32, ..forward(7, 1500) },
        Member { action: MemberAction::Kernel as u32, ..forward(8, 1500) },
    ];
    let mut routes = vec![];
    for (number, members) in
        [vec![1], vec![1, 2, 3], vec![4], vec![5], vec![6], vec![7], vec![8], vec![2]].into_iter().enumerate()
    {
        let (prefix4, prefix6) = (
            Ipv4Addr::new(10, 0, number as u8, 0),
            Ipv6Addr::new(0xfd00, (number as u16) << 8, 0, 0, 0, 0, 0, 0),
        );
        routes.push(Route { prefix: prefix4.into(), length: 24, members: members.clone() });
        routes.push(Route { prefix: prefix6.into(), length: 24, members });
    }
    let longer: [(IpAddr, u8, u32); 6] = [
        (Ipv4Addr::new(10, 0, 0, 128).into(), 25, 6),
        (Ipv4Addr::new(10, 0, 1, 7).into(), 32, 8),
        (Ipv4Addr::new(10, 0, 7, 64).into(), 27, 3),
        (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).into(), 64, 2),
        (Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, 0x8000).into(), 113, 6),
        (Ipv6Addr::new(0xfd00, 0x700, 0, 0, 0, 0, 0, 7).into(), 128, 3),
    ];
    routes.extend(longer.map(|(prefix, length, member)| Route { prefix, length, members: vec![member] }));
    routes.sort_by_key(|route| route.length);
    Model { members, routes }
}

#[test]
fn the_program_decides_as_a_router_in_rust() {
    Chain::with(Options::default(), |chain| {
        let seen = RefCell::new(BTreeSet::new());
        let model = model();
        model.fill(&chain.tables);
        let compare = |frame: Vec<u8>| {
            let decision = model.decide(&frame);
            let (reason, ran) = chain.reason(&frame);
            prop_assert_eq!(reason, decision.reason);
            if reason.outcome() == Outcome::Forwarded {
                let mut ways = decision.members.iter().map(|member| forwarded(&frame, member));
                prop_assert!(ways.any(|way| way == ran.frame), "{:02x?}", ran.frame);
            }
            seen.borrow_mut().insert(reason);
            Ok(())
        };
        runner(CASES).run(&frame(), compare).unwrap();
        // The frames reach all that the ip program decides.
        let elsewhere = [
            Reason::ForwardedXip,
            Reason::Dropped,
            Reason::Off,
            Reason::NoTaker,
            Reason::SlowPath,
            Reason::Balanced,
        ];
        let missing = |reason: &&Reason| !elsewhere.contains(reason) && !seen.borrow().contains(*reason);
        assert_eq!(Reason::ALL.iter().find(missing), None);
    });
}

/// The bits of each map's words that may be set, in the order of [`Tables::all`]: any, or such that most indices lead
/// into the maps, where nodes of IPv6 lead to nodes again and a member's action has a meaning.
const ANY: [u64; 8] = [u64::MAX; 8];
const PLAUSIBLE: [u64; 8] = [
    u64::MAX,
    0x807f_807f_807f_807f,
    0x807f_807f_807f_807f,
    0x8000_007f_8000_007f,
    0x8000_007f_8000_007f,
    0x0000_0001_0000_007f,
    0x0000_007f_0000_007f,
    0xffff_ffff_0000_0003,
];

/// Fills all maps but the incoming port with random words, each with the bits that the map's mask allows.
fn fill(tables: &Tables, random: &mut Random, masks: [u64; 8]) {
    for (map, mask) in tables.all().into_iter().zip(masks) {
        let words = (0..).take_while(|word| map.load64(0, *word).is_some()).count();
        for entry in 0..map.len() {
            for at in 0..words {
                assert!(map.store64(entry, at, random.next() & mask));
            }
        }
    }
    for member in 0..MEMBERS as usize {
        assert!(tables.members.store32(member, 2, 1000));
    }
    let port = Port { mac: ROUTER, number: PORT, flags: PORT_IPV4 | PORT_IPV6, skipped: 0 };
    tables.set_port(INCOMING, port);
}

/// Returns the frame with another destination, so that all of the roots is visited, and few other reasons to pass.
fn routable(mut frame: Vec<u8>, to: [u8; 4]) -> Vec<u8> {
    let Some(headers) = frame.first_chunk_mut::<{ ETHERNET + 40 }>() else { return frame };
    let (at, ttl) = if headers[12] == 8 { (30, 22) } else { (38, 21) };
    headers[at..at + 4].copy_from_slice(&to);
    headers[ttl] |= 2;
    headers[..6].copy_from_slice(&ROUTER);
    if headers[12] == 8 && headers[ETHERNET] == 0x45 {
        set_checksum(headers);
    }
    frame
}

#[test]
fn any_content_of_the_maps_passes_drops_or_sends() {
    Chain::with(Options { nodes: 128, ..Options::default() }, |chain| {
        let mut random = Random(0x5eed_5eed_5eed_5eed);
        for masks in [ANY, PLAUSIBLE] {
            fill(&chain.tables, &mut random, masks);
            let verdicts = RefCell::new([0; 3]);
            let run = |(frame, to)| {
                let frame = routable(frame, to);
                let ran = chain.run(&frame);
                let allowed = [Verdict::Pass, Verdict::Drop, Verdict::Redirect];
                let verdict = allowed.iter().position(|verdict| *verdict == ran.verdict);
                prop_assert!(verdict.is_some(), "{:?}", ran.verdict);
                verdicts.borrow_mut()[verdict.unwrap_or_default()] += 1;
                prop_assert!(ran.verdict == Verdict::Redirect || ran.frame == frame, "changed");
                let is_cut = ran.verdict == Verdict::Redirect;
                prop_assert_eq!(ran.frame.len(), if is_cut { trimmed(&frame).len() } else { frame.len() });
                Ok(())
            };
            runner(CASES).run(&(frame(), any::<[u8; 4]>()), run).unwrap();
            let verdicts = verdicts.into_inner();
            assert!(masks == ANY || verdicts.iter().all(|frames| *frames > 50), "{verdicts:?}");
        }
    });
}
