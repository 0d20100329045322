//! The balancer's program on frames made by hand: modes, tags, fragments, control traffic, the way back, silent routers.
#![cfg(feature = "xdp")]

use crate::support::balancer::{Bed, CONTROL, From, KEY, NEIGHBORS, ROUTERS, VIRTUAL, VIRTUAL2, id};
use crate::support::frame::{ETHERNET, ipv4, ipv6, set_checksum, sum};
use crate::support::tables::{Chain, Options, ROUTER};
use nix::time::{ClockId, clock_gettime};
use sluice_bpf::Embedded;
use sluice_bpf::layout::{Reason as ChainReason, Slot};
use sluice_bpf::run::Verdict;
use sluice_cluster::balancer::Input;
use sluice_cluster::decision::Decision;
use sluice_cluster::frame::{GROUP, InnerMac, Mac};
use sluice_cluster::header::Stamp;
use sluice_cluster::hello::Hello;
use sluice_cluster::inventory::Role;
use sluice_cluster::key::{ClusterKey, KeyRing};
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Place, Words};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const FROM4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TO4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const FROM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const TO6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);

fn policy(mode: Mode) -> Policy {
    let mut policy = Policy::new([(0, ClassPolicy { mode, role: Role::Router })], []).unwrap();
    policy.silence = None;
    policy
}

/// Sets the MAC addresses of a frame.
fn between(from: Mac, to: Mac, mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

/// Returns a frame of the neighbor behind port 1, of the flow `flow`.
fn flow4(flow: u16) -> Vec<u8> {
    let mut frame = between(NEIGHBORS[0], VIRTUAL, ipv4(FROM4, TO4, 18));
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame
}

fn flow6(flow: u16) -> Vec<u8> {
    let mut frame = between(NEIGHBORS[0], VIRTUAL, ipv6(FROM6, TO6, 18));
    frame[54..56].copy_from_slice(&flow.to_be_bytes());
    frame
}

/// Adds tags of IEEE 802.1Q or 802.1ad.
fn tagged(mut frame: Vec<u8>, tags: &[u16]) -> Vec<u8> {
    for (number, tag) in tags.iter().enumerate() {
        let [a, b] = tag.to_be_bytes();
        frame.splice(12..12, [a, b, 0, number as u8 + 5]);
    }
    frame
}

/// Returns the element of port 1 to which a frame is led.
fn element(bed: &mut Bed, frame: &[u8]) -> u16 {
    let decision = bed.compare(frame);
    let Decision::Send { reason: Reason::Balanced, mac, .. } = decision else { panic!("{decision:?}") };
    let inner = InnerMac::of(mac).unwrap();
    assert_eq!(inner.port, 1);
    inner.element.number()
}

fn shares(bed: &mut Bed, frames: impl Iterator<Item = Vec<u8>>) -> BTreeMap<u16, u32> {
    let mut shares = BTreeMap::new();
    frames.for_each(|frame| *shares.entry(element(bed, &frame)).or_default() += 1);
    shares
}

#[test]
fn round_robin_takes_the_routers_in_turn() {
    Bed::with(policy(Mode::RoundRobin), |mut bed| {
        let turns: Vec<u16> = (0..9).map(|_| element(&mut bed, &flow4(1))).collect();
        assert_eq!(turns, [ROUTERS; 3].concat());
    });
}

#[test]
fn a_flow_stays_with_its_router_and_flows_are_spread() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        for frame in [flow4(1), flow6(1)] {
            let routers: BTreeSet<u16> = (0..9).map(|_| element(&mut bed, &frame)).collect();
            assert_eq!(routers.len(), 1);
        }
        for flow in [flow4, flow6] {
            let shares = shares(&mut bed, (0..900).map(flow));
            assert!(shares.len() == 3 && shares.values().all(|flows| *flows > 230), "{shares:?}");
        }
    });
}

#[test]
fn shares_follow_the_weights() {
    Bed::with(policy(Mode::Weighted), |mut bed| {
        let shares = shares(&mut bed, (0..1800).map(flow4));
        // The weights are 2, 3 and 4.
        for (router, expected) in ROUTERS.into_iter().zip([400, 600, 800]) {
            assert!(shares[&router].abs_diff(expected) < 80, "{shares:?}");
        }
    });
}

#[test]
fn a_class_of_dscp_goes_to_the_elements_of_its_role() {
    let class = |role| ClassPolicy { mode: Mode::Flow, role };
    let mut policy = Policy::new([(0, class(Role::Router)), (1, class(Role::Filter))], [(46, 1)]).unwrap();
    policy.silence = None;
    Bed::with(policy, |mut bed| {
        for flow in 0..20 {
            let (mut four, mut six) = (flow4(flow), flow6(flow));
            four[15] = 46 << 2 | 1;
            set_checksum(&mut four);
            (six[14], six[15]) = (0x60 | 46 >> 2, 0x80 | (46 << 6) as u8);
            assert_eq!((element(&mut bed, &four), element(&mut bed, &six)), (8, 8));
            assert_ne!(element(&mut bed, &flow4(flow)), 8);
        }
        // Each class has counters of its own.
        assert_eq!((bed.led(0)[0], bed.led(1)[0], bed.led(2)), (20, 40, [0, 0]));
        // A class without elements is no detour around its filters.
        bed.input(Input::InService(ROUTERS.map(id).into()));
        let mut marked = flow4(1);
        marked[15] = 46 << 2;
        assert_eq!(bed.compare(&marked), Decision::Drop(Reason::NoRouter));
    });
}

#[test]
fn packets_behind_tags_take_the_way_of_their_flow() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        for flow in 0..50 {
            for frame in [flow4(flow), flow6(flow)] {
                let plain = element(&mut bed, &frame);
                assert_eq!(element(&mut bed, &tagged(frame.clone(), &[0x8100])), plain);
                assert_eq!(element(&mut bed, &tagged(frame.clone(), &[0x8100, 0x88a8])), plain);
                // A third tag hides the packet.
                let hidden = bed.compare(&tagged(frame, &[0x8100, 0x8100, 0x88a8]));
                assert!(matches!(hidden, Decision::Send { reason: Reason::Control, .. }), "{hidden:?}");
            }
        }
        for length in [14, 15, 16, 17] {
            let mut short = tagged(flow4(1), &[0x8100]);
            short.truncate(length);
            assert_eq!(bed.compare(&short), Decision::Drop(Reason::Short));
        }
    });
}

#[test]
fn all_fragments_of_a_packet_take_one_way() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        for host in 0..50 {
            let mut frame =
                between(NEIGHBORS[0], VIRTUAL, ipv4(FROM4, Ipv4Addr::new(198, 51, 100, host), 18));
            let mut ways = BTreeSet::new();
            // The first fragment has the ports, and later ones have any octets there.
            for (number, field) in [0x2000u16, 0x2010, 0x3fff, 0x0020].into_iter().enumerate() {
                frame[20..22].copy_from_slice(&field.to_be_bytes());
                frame[34..38].fill(number as u8);
                set_checksum(&mut frame);
                ways.insert(element(&mut bed, &frame));
            }
            assert_eq!(ways.len(), 1);
            let mut frame = flow6(1);
            (frame[20], frame[ETHERNET + 39]) = (44, host);
            let mut ways = BTreeSet::new();
            for octet in 0..4 {
                frame[54..62].fill(octet);
                ways.insert(element(&mut bed, &frame));
            }
            assert_eq!(ways.len(), 1);
        }
    });
}

#[test]
fn control_traffic_goes_to_the_control_plane() {
    let four = |to: [u8; 4]| ipv4(FROM4, to.into(), 18);
    let six = |to: &str| ipv6(FROM6, to.parse().unwrap(), 18);
    let mut arp = [&[0u8; 12][..], &[8, 6], &[0; 46]].concat();
    let mut isis = [&[0u8; 12][..], &[0, 40, 0xfe, 0xfe, 3], &[0; 43]].concat();
    (arp[20], isis[20]) = (1, 1);
    let mut igmp = four([239, 1, 2, 3]);
    igmp[23] = 2;
    set_checksum(&mut igmp);
    let mut mld = six("ff0e::1234");
    mld[20] = 0;
    let group = Mac([1, 0, 0x5e, 0, 0, 5]);
    let control: Vec<(Mac, Vec<u8>)> = vec![
        (Mac([0xff; 6]), arp.clone()),
        (VIRTUAL, arp),
        (Mac([1, 0x80, 0xc2, 0, 0, 0x14]), isis),
        (group, igmp),
        (group, four([224, 0, 0, 5])),
        (Mac([0xff; 6]), four([255; 4])),
        (VIRTUAL, four([192, 0, 2, 254])),
        (group, mld),
        (group, six("ff02::1:ff00:fe")),
        (VIRTUAL, six("fe80::1")),
        (VIRTUAL, six("2001:db8::fe")),
    ];
    Bed::with(policy(Mode::RoundRobin), |mut bed| {
        for (to, frame) in &control {
            for tags in [&[][..], &[0x8100]] {
                let frame = tagged(between(NEIGHBORS[0], *to, frame.clone()), tags);
                let decision = bed.compare(&frame);
                let Decision::Send { reason, mac, .. } = decision else {
                    panic!("{decision:?} {frame:02x?}")
                };
                assert_eq!(
                    (reason, mac),
                    (Reason::Control, InnerMac { element: id(CONTROL), port: 1 }.mac())
                );
            }
        }
        // Multicast beyond the link, and addresses near the router's own, are routed.
        for frame in [four([239, 1, 2, 3]), four([192, 0, 2, 253]), six("ff0e::1"), six("2001:db8::fd")] {
            element(&mut bed, &between(NEIGHBORS[0], VIRTUAL, frame));
        }
        bed.input(Input::Control(None));
        let (to, frame) = &control[0];
        assert_eq!(
            bed.compare(&between(NEIGHBORS[0], *to, frame.clone())),
            Decision::Drop(Reason::NoControl)
        );
    });
}

#[test]
fn neighbors_that_pretend_to_be_elements_are_dropped() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        let inner = InnerMac { element: id(CONTROL), port: 1 }.mac();
        for from in [inner, VIRTUAL] {
            let frame = between(from, VIRTUAL, ipv4(FROM4, TO4, 18));
            assert_eq!(bed.compare(&frame), Decision::Drop(Reason::Spoofed));
        }
        let hello = Hello { element: id(2), stamp: Stamp { epoch: 9, counter: 1 } }.encode(&KEY);
        let frame = [&GROUP.0[..], &NEIGHBORS[0].0, &[0x88, 0xb5], &hello].concat();
        assert_eq!(bed.compare(&frame), Decision::Drop(Reason::Spoofed));
        assert_eq!(bed.compare(&tagged(frame, &[0x8100])), Decision::Drop(Reason::Spoofed));
        // Frames for elements, and for other stations, are none of the balancer's.
        for to in [inner, Mac([2, 0, 0, 0, 7, 7])] {
            assert_eq!(bed.compare(&between(NEIGHBORS[0], to, flow4(1))), Decision::Station);
        }
    });
}

#[test]
fn frames_of_routers_leave_by_the_port_of_the_neighbor() {
    let router = |port| InnerMac { element: id(2), port }.mac();
    let packet = || ipv4(FROM4, TO4, 18);
    Bed::with(policy(Mode::Flow), |mut bed| {
        bed.come_from(From::Inner);
        let sent = |bed: &mut Bed, to: Mac, port: u16| match bed.compare(&between(router(port), to, packet()))
        {
            Decision::Send { reason: Reason::Returned, interface, mac, .. } => Ok((interface, mac)),
            Decision::Drop(reason) => Err(reason),
            other => panic!("{other:?}"),
        };
        // The table knows the port better than the source does.
        assert_eq!(sent(&mut bed, NEIGHBORS[0], 1), Ok((10, VIRTUAL)));
        assert_eq!(sent(&mut bed, NEIGHBORS[0], 2), Ok((10, VIRTUAL)));
        assert_eq!(sent(&mut bed, NEIGHBORS[1], 1), Ok((11, VIRTUAL2)));
        // Only the source knows the port of a neighbor behind several.
        assert_eq!(sent(&mut bed, NEIGHBORS[2], 1), Ok((10, VIRTUAL)));
        assert_eq!(sent(&mut bed, NEIGHBORS[2], 2), Ok((11, VIRTUAL2)));
        // The switch may flood frames for the ports of other balancers.
        assert_eq!(sent(&mut bed, NEIGHBORS[2], 3), Err(Reason::NoPort));
        assert_eq!(sent(&mut bed, NEIGHBORS[3], 1), Err(Reason::NoPort));
        assert_eq!(sent(&mut bed, Mac([2, 0, 0, 0, 7, 7]), 1), Err(Reason::NoNeighbor));
        let frame = between(router(1), NEIGHBORS[0], ipv6(FROM6, TO6, 18));
        assert!(matches!(bed.compare(&tagged(frame, &[0x8100])), Decision::Send { .. }));
    });
}

#[test]
fn only_the_control_plane_sends_control_traffic() {
    let arp = [&[0u8; 12][..], &[8, 6], &[0; 46]].concat();
    Bed::with(policy(Mode::Flow), |mut bed| {
        bed.come_from(From::Inner);
        let inner = |element, port| InnerMac { element: id(element), port }.mac();
        for (to, frame) in [
            (Mac([0xff; 6]), arp.clone()),
            (NEIGHBORS[0], arp.clone()),
            (Mac([1, 0, 0x5e, 0, 0, 5]), ipv4(FROM4, Ipv4Addr::new(224, 0, 0, 5), 18)),
        ] {
            let of_router = bed.compare(&between(inner(2, 1), to, frame.clone()));
            assert_eq!(of_router, Decision::Drop(Reason::NotControl));
            let of_control = bed.compare(&between(inner(CONTROL, 1), to, frame));
            let Decision::Send { reason, interface, mac, .. } = of_control else { panic!("{of_control:?}") };
            assert_eq!((reason, interface, mac), (Reason::FromControl, 10, VIRTUAL));
        }
        // The control plane answers neighbors that no table has yet; a group frame of its own has a port.
        let stranger = between(inner(CONTROL, 2), Mac([2, 0, 0, 0, 7, 7]), arp.clone());
        assert!(matches!(bed.compare(&stranger), Decision::Send { interface: 11, .. }));
        let nowhere = between(inner(CONTROL, 9), Mac([0xff; 6]), arp.clone());
        assert_eq!(bed.compare(&nowhere), Decision::Drop(Reason::NoPort));
        // The control plane before is an element like others.
        bed.input(Input::Control(Some(id(2))));
        let old = between(inner(CONTROL, 1), Mac([0xff; 6]), arp.clone());
        assert_eq!(bed.compare(&old), Decision::Drop(Reason::NotControl));
        // Frames of machines as such are the kernel's.
        let machine = between(Mac([2, 1, 1, 1, 1, 1]), Mac([0xff; 6]), arp);
        assert_eq!(bed.compare(&machine), Decision::Continue);
    });
}

#[test]
fn neighbors_learn_the_virtual_address_from_arp_and_neighbor_discovery() {
    let own = InnerMac { element: id(CONTROL), port: 1 }.mac();
    let arp =
        [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2][..], &own.0, &[192, 0, 2, 254], &NEIGHBORS[0].0, &[192, 0, 2, 1]];
    let arp = [&NEIGHBORS[0].0[..], &own.0, &arp.concat()].concat();
    // A Neighbor Advertisement with the target's address, and options before and behind.
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend_from_slice(&"2001:db8::fe".parse::<Ipv6Addr>().unwrap().octets());
    message.extend_from_slice(&[14, 1, 1, 2, 3, 4, 5, 6, 2, 1]);
    message.extend_from_slice(&own.0);
    message.extend_from_slice(&[5, 1, 0, 0, 0, 0, 5, 0xdc]);
    let pseudo = |frame: &[u8]| sum(&[&frame[22..], &[0, 48, 0, 58]].concat());
    let mut advertisement = ipv6(FROM6, TO6, 40);
    advertisement.truncate(54);
    (advertisement[20], advertisement[21]) = (58, 255);
    advertisement.extend_from_slice(&message);
    let check = !pseudo(&advertisement);
    advertisement[56..58].copy_from_slice(&check.to_be_bytes());
    assert_eq!(pseudo(&advertisement), 0xffff);
    Bed::with(policy(Mode::Flow), |mut bed| {
        bed.come_from(From::Inner);
        for frame in [arp, between(own, NEIGHBORS[0], advertisement.clone())] {
            for frame in [frame.clone(), tagged(frame, &[0x8100])] {
                assert!(matches!(bed.compare(&frame), Decision::Send { reason: Reason::FromControl, .. }));
                let sent = bed.run(&frame).1.frame;
                assert!(!sent.windows(6).any(|octets| octets == own.0));
                assert_eq!(sent.windows(6).filter(|octets| *octets == VIRTUAL.0).count(), 2);
            }
        }
        let sent = bed.run(&between(own, NEIGHBORS[0], advertisement)).1.frame;
        assert_eq!(pseudo(&sent), 0xffff);
    });
}

#[test]
fn silent_routers_are_passed_over() {
    for mode in [Mode::RoundRobin, Mode::Flow] {
        let mut policy = policy(mode);
        policy.silence = Policy::default().silence;
        Bed::with(policy, |mut bed| {
            ROUTERS.iter().for_each(|router| bed.set_live(*router, true));
            let before: Vec<u16> = (0..300).map(|flow| element(&mut bed, &flow4(flow))).collect();
            bed.set_live(3, false);
            let after: Vec<u16> = (0..300).map(|flow| element(&mut bed, &flow4(flow))).collect();
            assert!(!after.contains(&3) && after.contains(&2) && after.contains(&4));
            if mode == Mode::Flow {
                // Flows of live routers stay.
                assert!(before.iter().zip(&after).all(|(before, after)| before == after || *before == 3));
            }
            // If all are silent, hello frames are lost and not all routers.
            ROUTERS.iter().for_each(|router| bed.set_live(*router, false));
            let decision = bed.compare(&flow4(1));
            assert!(
                matches!(decision, Decision::Send { besides: Some(Reason::AllSilent), .. }),
                "{decision:?}"
            );
        });
    }
}

/// Returns the clock by which the program judges silence, in nanoseconds.
fn coarse_clock() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).unwrap()).as_nanos() as u64
}

#[test]
fn a_router_is_silent_30_ms_after_its_last_hello() {
    const ENOUGH: Duration = Duration::from_secs(60);
    const SPEAKER: u16 = 3;
    let silence = Policy::default().silence.unwrap();
    assert_eq!(silence, Duration::from_millis(30));
    let mut policy = policy(Mode::RoundRobin);
    policy.silence = Some(silence);
    let silence = silence.as_nanos() as u64;
    Bed::with(policy, |mut bed| {
        let hello = |counter| {
            let hello = Hello { element: id(SPEAKER), stamp: Stamp { epoch: 1, counter } }.encode(&KEY);
            [&GROUP.0[..], &InnerMac { element: id(SPEAKER), port: 0 }.mac().0, &[0x88, 0xb5], &hello]
                .concat()
        };
        let begin = std::time::Instant::now();
        // The thread may stand still at any point: each frame is judged by the clock before and after it.
        let (mut led, mut counter) = (0, 0);
        while led == 0 {
            counter += 1;
            bed.come_from(From::Inner);
            assert_eq!(bed.run(&hello(counter)).0, [Reason::Hello]);
            bed.come_from(From::Outer);
            let last_hello = bed.maps.load(Place::new(Map::Hellos, SPEAKER.into(), 0));
            loop {
                let before = coarse_clock() - last_hello;
                let (reasons, ran) = bed.run(&flow4(1));
                let after = coarse_clock() - last_hello;
                let is_silent = reasons.contains(&Reason::AllSilent);
                if after <= silence {
                    assert!(!is_silent && ran.frame[3] == SPEAKER as u8, "{after} ns: {reasons:?}");
                    led += 1;
                }
                assert!(is_silent || before <= silence, "{before} ns: {reasons:?}");
                if is_silent {
                    break;
                }
            }
            assert!(begin.elapsed() < ENOUGH, "no frame within 30 ms of a hello frame: {counter} tries");
        }
    });
}

#[test]
fn forged_and_replayed_hello_frames_are_counted_and_change_nothing() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        bed.come_from(From::Inner);
        let frame = |octets: &[u8]| [&GROUP.0[..], &[2, 0x5c, 0, 3, 0, 0, 0x88, 0xb5], octets].concat();
        let hello = |epoch, counter| Hello { element: id(3), stamp: Stamp { epoch, counter } };
        let last_hello = |bed: &Bed| [0, 1, 2].map(|word| bed.maps.load(Place::new(Map::Hellos, 3, word)));
        let sent = frame(&hello(5, 7).encode(&KEY));
        assert!(matches!(bed.compare(&sent), Decision::Hello(..)));
        let before = last_hello(&bed);
        assert!(before[0] > 0);
        assert_eq!(bed.compare(&sent), Decision::Drop(Reason::Replayed));
        assert_eq!(bed.compare(&frame(&hello(5, 6).encode(&KEY))), Decision::Drop(Reason::Replayed));
        assert_eq!(bed.compare(&frame(&hello(4, 9).encode(&KEY))), Decision::Drop(Reason::Replayed));
        let stranger = ClusterKey([9; 32]);
        assert_eq!(bed.compare(&frame(&hello(6, 1).encode(&stranger))), Decision::Drop(Reason::Forged));
        for at in 2..32 {
            let mut octets = hello(6, 1).encode(&KEY);
            octets[at] ^= 1;
            assert_eq!(bed.compare(&frame(&octets)), Decision::Drop(Reason::Forged), "{at}");
        }
        assert_eq!(last_hello(&bed), before);
        // The second key, padding, and a new start.
        let padded = [&frame(&hello(6, 1).encode(&ClusterKey([8; 32])))[..], &[0; 14]].concat();
        assert!(matches!(bed.compare(&padded), Decision::Hello(..)));
        // Once a key has left, so has who knew it.
        bed.input(Input::Keys(KeyRing::of(KEY)));
        assert_eq!(
            bed.compare(&frame(&hello(7, 1).encode(&ClusterKey([8; 32])))),
            Decision::Drop(Reason::Forged)
        );
        // Other kinds and short frames are for user space.
        for octets in [&[1, 2, 0, 3][..], &[2, 1], &hello(9, 1).encode(&KEY)[..31]] {
            assert_eq!(bed.compare(&frame(octets)), Decision::Up(Reason::Announced));
        }
    });
}

#[test]
fn the_chain_leads_to_the_balancer_before_the_ip_program() {
    Chain::with(Options::default(), |chain| {
        let mut bed = Bed::of(chain.add(Embedded::Balance, Slot::Balance), policy(Mode::Flow));
        let (reason, ran) = chain.reason(&flow4(1));
        assert_eq!(
            (reason, ran.verdict, &ran.frame[..2]),
            (ChainReason::Balanced, Verdict::Redirect, &[2, 0x5c][..])
        );
        let tagged = tagged(flow6(1), &[0x8100]);
        assert_eq!(chain.reason(&tagged).0, ChainReason::Balanced);
        // The kernel judges malformed packets, and the ip program gets what is none of the balancer's.
        let mut malformed = flow4(1);
        malformed[14] = 0x44;
        assert_eq!(chain.reason(&malformed).0, ChainReason::Malformed);
        bed.come_from(From::Inner);
        let frame = between(Mac([2, 1, 1, 1, 1, 1]), Mac(ROUTER), ipv4(FROM4, TO4, 18));
        assert_eq!(chain.reason(&frame).0, ChainReason::Kernel);
    });
}

#[test]
fn frames_of_interfaces_without_a_side_go_on() {
    Bed::with(policy(Mode::Flow), |mut bed| {
        bed.maps.store(Place::new(Map::Interfaces, 1, 1), 0);
        assert_eq!(bed.compare(&flow4(1)), Decision::Continue);
        assert_eq!(bed.run(&flow4(1)).1.verdict, Verdict::Pass);
        bed.maps.store(Place::new(Map::Interfaces, 1, 1), 1);
        bed.input(Input::Inner(vec![]));
        assert_eq!(bed.compare(&flow4(1)), Decision::Drop(Reason::NoInner));
    });
}
