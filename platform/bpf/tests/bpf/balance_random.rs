//! The balancer's program on random frames: beside the core's decision, and with maps full of random words.
#![cfg(feature = "xdp")]

use crate::support::balancer::{Bed, CONTROL, From, INCOMING, KEY, NEIGHBORS, OWN, ROUTERS, VIRTUAL, id};
use crate::support::frame::{ipv4, ipv6};
use crate::support::mutation::Random;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use sluice_cluster::decision::Decision;
use sluice_cluster::frame::{GROUP, InnerMac, Mac};
use sluice_cluster::header::Stamp;
use sluice_cluster::hello::Hello;
use sluice_cluster::inventory::Role;
use sluice_cluster::key::ClusterKey;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Place};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

const CASES: u32 = 3000;

/// Runs a test with the same frames each time.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn policy() -> Policy {
    let class = |mode, role| ClassPolicy { mode, role };
    let classes = vec![
        class(Mode::Flow, Role::Router),
        class(Mode::RoundRobin, Role::Router),
        class(Mode::Weighted, Role::Router),
        class(Mode::Flow, Role::Filter),
        class(Mode::Flow, Role::Spare),
    ];
    Policy::new((0..).zip(classes), (0..64).map(|dscp| (dscp, dscp % 5))).unwrap()
}

fn mac() -> impl Strategy<Value = Mac> {
    let element = prop::sample::select(vec![2u16, 3, 4, 5, CONTROL]);
    let inner = (element, 0..4u16).prop_map(|(element, port)| InnerMac { element: id(element), port }.mac());
    let groups = vec![Mac([0xff; 6]), Mac([1, 0, 0x5e, 0, 0, 5]), GROUP];
    prop_oneof![
        4 => Just(VIRTUAL),
        4 => prop::sample::select(NEIGHBORS.to_vec()),
        4 => inner,
        2 => prop::sample::select(groups),
        1 => any::<[u8; 6]>().prop_map(Mac),
    ]
}

fn address4() -> impl Strategy<Value = Ipv4Addr> {
    let fixed = vec![OWN[0], "224.0.0.5", "239.1.2.3", "255.255.255.255", "198.51.100.1"];
    let fixed: Vec<Ipv4Addr> = fixed.into_iter().map(|address| address.parse().unwrap()).collect();
    prop_oneof![1 => prop::sample::select(fixed), 2 => any::<Ipv4Addr>()]
}

fn address6() -> impl Strategy<Value = Ipv6Addr> {
    let fixed = vec![OWN[1], "fe80::1", "ff02::5", "ff0e::5", "ff01::1", "::ffff:192.0.2.254", "2001:db8::1"];
    let fixed: Vec<Ipv6Addr> = fixed.into_iter().map(|address| address.parse().unwrap()).collect();
    prop_oneof![1 => prop::sample::select(fixed), 2 => any::<Ipv6Addr>()]
}

fn hello() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec![KEY, ClusterKey([8; 32]), ClusterKey([9; 32])]);
    (prop::sample::select(ROUTERS.to_vec()), 0..4u64, any::<u8>(), key).prop_map(
        |(element, epoch, counter, key)| {
            let stamp = Stamp { epoch, counter: counter.into() };
            let hello = Hello { element: id(element), stamp }.encode(&key);
            [&GROUP.0[..], &[2, 0x5c, 0, element as u8, 0, 0, 0x88, 0xb5], &hello].concat()
        },
    )
}

/// ARP and neighbor discovery of the control plane and of routers, with the sender's address in the packet.
fn resolution() -> impl Strategy<Value = Vec<u8>> {
    let element = prop::sample::select(vec![2u16, CONTROL]);
    let options = prop::collection::vec((0..4u8, 0..3u8, any::<bool>()), 0..6);
    (element, 0..4u16, prop_oneof![Just(0u8), 132..139u8], options).prop_map(
        |(element, port, kind, options)| {
            let own = InnerMac { element: id(element), port }.mac().0;
            let head = [&NEIGHBORS[0].0[..], &own].concat();
            if kind == 0 {
                let arp =
                    [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2][..], &own, &[192, 0, 2, 254], &own, &[192, 0, 2, 1]];
                return [head, arp.concat()].concat();
            }
            let fixed = match kind {
                133 => 8,
                134 => 16,
                137 => 40,
                _ => 24,
            };
            let mut message = vec![0; fixed];
            message[0] = kind;
            for (option, length, is_own) in options {
                message.extend_from_slice(&[option, length]);
                message.extend_from_slice(if is_own { &own } else { &[3; 6] });
                message.resize(message.len() + usize::from(length.saturating_sub(1)) * 8, 7);
            }
            let mut frame = ipv6("fe80::1".parse().unwrap(), "2001:db8::1".parse().unwrap(), 0);
            frame.truncate(54);
            frame[..12].copy_from_slice(&head);
            frame[20] = 58;
            [frame, message].concat()
        },
    )
}

/// Frames of all kinds with a few octets changed, most often of the headers; cut and tagged.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let packet = prop_oneof![
        4 => (address4(), address4()).prop_map(|(from, to)| ipv4(from, to, 18)),
        4 => (address6(), address6()).prop_map(|(from, to)| ipv6(from, to, 18)),
        1 => prop::collection::vec(any::<u8>(), 14..80),
    ];
    let packet = (packet, mac(), mac()).prop_map(|(mut frame, to, from)| {
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&from.0);
        frame
    });
    let change = (prop_oneof![8 => 12..62usize, 1 => 0..12usize], any::<u8>());
    let changes = prop_oneof![Just(vec![]).boxed(), prop::collection::vec(change, 1..4).boxed()];
    let tags = prop::collection::vec(prop::sample::select(vec![0x8100u16, 0x88a8]), 0..4);
    let tags = prop_oneof![2 => Just(vec![]).boxed(), 1 => tags.boxed()];
    let length = prop_oneof![6 => Just(None).boxed(), 1 => (15..90usize).prop_map(Some).boxed()];
    (
        prop_oneof![6 => packet.boxed(), 1 => hello().boxed(), 2 => resolution().boxed()],
        changes,
        tags,
        length,
        any::<u8>(),
    )
        .prop_map(|(mut frame, changes, tags, length, dscp)| {
            if frame.len() > 40 && frame[12..14] == [8, 0] {
                frame[15] = dscp;
            }
            for (at, octet) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = octet;
                }
            }
            for tag in tags {
                let [a, b] = tag.to_be_bytes();
                frame.splice(12..12, [a, b, 0, 5]);
            }
            frame.resize(length.unwrap_or(frame.len()), 0x5a);
            frame
        })
}

#[test]
fn the_program_decides_as_the_core() {
    let seen = Bed::with(policy(), |bed| {
        // Router 3 is silent, and no router of the class of filters ever sent a hello.
        bed.set_live(2, true);
        bed.set_live(4, true);
        let bed = RefCell::new(bed);
        let seen = RefCell::new(BTreeSet::new());
        for from in [From::Outer, From::Inner] {
            bed.borrow_mut().come_from(from);
            let compare = |frame: Vec<u8>| {
                let decision = bed.borrow_mut().compare(&frame);
                let mut seen = seen.borrow_mut();
                match decision {
                    Decision::Up(reason) | Decision::Drop(reason) => seen.extend([reason]),
                    Decision::Hello(element, _) => {
                        seen.extend([Reason::Hello]);
                        bed.borrow().set_live(element.number(), element.number() != 3);
                    }
                    Decision::Send { reason, besides, .. } => {
                        seen.extend([reason].into_iter().chain(besides));
                    }
                    Decision::Continue | Decision::Station => {}
                }
                Ok(())
            };
            runner(CASES).run(&frame(), compare).unwrap();
        }
        seen.into_inner()
    });
    // The frames reach all reasons but those of a cluster that lacks a part.
    let elsewhere = [Reason::NoControl, Reason::NoInner];
    let Some(seen) = seen else { return };
    let missing: Vec<Reason> = Reason::ALL
        .into_iter()
        .filter(|reason| !seen.contains(reason) && !elsewhere.contains(reason))
        .collect();
    assert_eq!(missing, []);
}

#[test]
fn any_content_of_the_maps_decides_as_in_the_core() {
    Bed::with(policy(), |mut bed| {
        let mut random = Random(0x5eed_5eed_5eed_5eed);
        // Any words, or such that most numbers lead into the maps.
        for mask in [u64::MAX, 0x0000_0003_0000_0003, 0x0007_0007_0007_0007] {
            for map in Map::WRITTEN.into_iter().chain([Map::Hellos]) {
                let entries = if map == Map::Hellos { 1 << 10 } else { map.entries().min(1 << 12) };
                for entry in 0..entries {
                    for word in 0..map.words() {
                        // Only times of all ends and of none: the program's clock is not the test's.
                        let is_time = map == Map::Hellos && word == 0;
                        let value =
                            if is_time { 0u64.wrapping_sub(random.next() & 1) } else { random.next() & mask };
                        bed.maps.store(Place::new(map, entry, word), value);
                    }
                }
            }
            // On or off, and never a difference between the clocks of the program and of the test.
            bed.maps.store(Place::new(Map::Settings, 0, 1), random.next() & 1);
            bed.maps.store(Place::new(Map::Interfaces, INCOMING, 0), VIRTUAL.number() | 7 << 48);
            for side in [1, 2] {
                bed.maps.store(Place::new(Map::Interfaces, INCOMING, 1), side);
                let bed = RefCell::new(&mut bed);
                let run = |frame: Vec<u8>| {
                    bed.borrow_mut().compare(&frame);
                    Ok(())
                };
                runner(CASES / 4).run(&frame(), run).unwrap();
            }
        }
    });
}
