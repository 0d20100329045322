//! The balancer's program between interfaces: from a neighbor over two inner interfaces to a router, and back.
#![cfg(feature = "xdp")]

use crate::support::balancer::{Bed, CONTROL, KEY, NEIGHBORS, ROUTERS, VIRTUAL, id, index, port};
use crate::support::frame::ipv4;
use crate::support::{ffi, in_node, usable};
use nix::sys::socket::{MsgFlags, recv, send};
use sluice_bpf::Link;
use sluice_bpf::attach::interface_index;
use sluice_cluster::balancer::Input;
use sluice_cluster::frame::{GROUP, InnerMac, Mac};
use sluice_cluster::header::Stamp;
use sluice_cluster::hello::Hello;
use sluice_cluster::inventory::Role;
use sluice_cluster::policy::{ClassPolicy, Mode, Policy};
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Place, Words};
use sluice_lab::{Lab, LabOptions};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// A neighbor `h`, the balancer `b`, and the interconnect `r` with both inner links.
const NODES: &str = "
[nodes.h]
[nodes.b]
[nodes.r]
[[links]]
a = 'h:eth0'
b = 'b:out'
xdp = true
[[links]]
a = 'b:in0'
b = 'r:eth0'
xdp = true
[[links]]
a = 'b:in1'
b = 'r:eth1'
xdp = true
";
const FRAMES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

fn frame(from: Mac, to: Mac, flow: usize) -> Vec<u8> {
    let mut frame = ipv4(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 1), 18);
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    frame
}

/// Counts frames of the given source by their destination at each of the sockets, until there are `count`.
fn received(sockets: &[OwnedFd], from: Mac, count: usize) -> BTreeMap<(usize, [u8; 6]), usize> {
    let (mut found, until) = (BTreeMap::new(), Instant::now() + PATIENCE);
    let mut buffer = [0; 2048];
    while found.values().sum::<usize>() < count && Instant::now() < until {
        for (place, socket) in sockets.iter().enumerate() {
            while let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                if length >= 14 && buffer[6..12] == from.0 {
                    let to = *buffer[..6].first_chunk().unwrap();
                    *found.entry((place, to)).or_default() += 1;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    found
}

fn socket(interface: &str) -> OwnedFd {
    ffi::packet_socket(interface_index(interface).unwrap()).unwrap()
}

fn send_all(lab: &Lab, node: &str, interface: &str, frames: &[Vec<u8>]) {
    in_node(lab, node, || {
        let socket = socket(interface);
        for frame in frames {
            assert_eq!(send(socket.as_raw_fd(), frame, MsgFlags::empty()), Ok(frame.len()));
        }
    });
}

/// Makes the lab with the program in round robin at the balancer's interfaces.
fn live(name: &str, silence: Option<Duration>) -> (Lab, Vec<Link>, Bed) {
    let lab = Lab::up(&NODES.parse().unwrap(), LabOptions::unique(name)).unwrap();
    let mut policy =
        Policy::new([(0, ClassPolicy { mode: Mode::RoundRobin, role: Role::Router })], []).unwrap();
    policy.silence = silence;
    let (links, bed) = in_node(&lab, "b", || {
        let mut bed = Bed::new(policy);
        let of = |name: &str| index(interface_index(name).unwrap());
        bed.input(Input::Outer(port(1), Some(of("out"))));
        bed.input(Input::Inner(vec![of("in0"), of("in1")]));
        let attach = |name: &&str| Link::attach(name, bed.program.program()).unwrap();
        (["out", "in0", "in1"].iter().map(attach).collect::<Vec<_>>(), bed)
    });
    (lab, links, bed)
}

#[test]
fn frames_cross_the_inner_interfaces_in_turn_and_come_back_by_the_port() {
    if !usable() {
        return;
    }
    let (lab, _links, _bed) = live("bpf-balance", None);
    let inner = in_node(&lab, "r", || [socket("eth0"), socket("eth1")]);
    let outer = in_node(&lab, "h", || [socket("eth0")]);

    let sent: Vec<Vec<u8>> = (0..FRAMES).map(|flow| frame(NEIGHBORS[0], VIRTUAL, flow)).collect();
    send_all(&lab, "h", "eth0", &sent);
    let arrived = received(&inner, NEIGHBORS[0], FRAMES);
    // Each CPU has turns of its own, so that the shares are about even, and each router has frames on both links.
    assert_eq!(arrived.values().sum::<usize>(), FRAMES, "{arrived:?}");
    for place in 0..inner.len() {
        let share: usize = arrived.iter().filter(|((at, _), _)| *at == place).map(|(_, count)| count).sum();
        assert!(share.abs_diff(FRAMES / 2) <= 4, "{arrived:?}");
    }
    for router in ROUTERS {
        let mac = InnerMac { element: id(router), port: 1 }.mac().0;
        let share: usize = (0..inner.len()).filter_map(|place| arrived.get(&(place, mac))).sum();
        assert!(share.abs_diff(FRAMES / ROUTERS.len()) <= 4, "{router}: {arrived:?}");
    }

    let router = InnerMac { element: id(ROUTERS[0]), port: 1 }.mac();
    let control = InnerMac { element: id(CONTROL), port: 1 }.mac();
    // A router's own broadcast stays inside.
    let mut back = vec![frame(router, Mac([0xff; 6]), 0)];
    back.extend((0..FRAMES).map(|flow| frame(router, NEIGHBORS[0], flow)));
    back.push(frame(control, Mac([0xff; 6]), 0));
    send_all(&lab, "r", "eth1", &back);
    let arrived = received(&outer, VIRTUAL, FRAMES + 1);
    assert_eq!(arrived, [((0, NEIGHBORS[0].0), FRAMES), ((0, [0xff; 6]), 1)].into());
}

#[test]
fn a_router_without_hello_frames_gets_no_frame_50_ms_later() {
    if !usable() {
        return;
    }
    const TURN: Duration = Duration::from_millis(10);
    const LATER: Duration = Duration::from_millis(50);
    /// Frames of a turn.
    const FRAMES: usize = 6;
    /// Turns of each part that count.
    const ENOUGH: usize = 30;
    let (lab, _links, bed) = live("bpf-silence", Policy::default().silence);
    let inner = in_node(&lab, "r", || [socket("eth0"), socket("eth1")]);
    let outer = in_node(&lab, "h", || socket("eth0"));
    let lost = ROUTERS[1];
    let begin = Instant::now();
    let mut number = 0;
    // Sends hello frames of routers, and then frames of a neighbor. Returns the frames that the router `lost` got; `None` if the turn
    // does not count, because all routers were silent for a frame: on a busy machine the frames may come late.
    let mut turn = |live: &[u16]| -> Option<usize> {
        assert!(begin.elapsed() < PATIENCE, "too few turns in which a router was live");
        number += 1;
        for router in live {
            let hello =
                Hello { element: id(*router), stamp: Stamp { epoch: 1, counter: number } }.encode(&KEY);
            let from = InnerMac { element: id(*router), port: 0 }.mac();
            let mut octets = [&GROUP.0[..], &from.0, &[0x88, 0xb5], &hello].concat();
            octets.resize(60, 0);
            send(inner[0].as_raw_fd(), &octets, MsgFlags::empty()).unwrap();
        }
        let last_hello = |router: u16| bed.maps.load(Place::new(Map::Hellos, router.into(), 2));
        // Shortly: the frames have to follow within the silence.
        while live.iter().any(|router| last_hello(*router) != number) {
            assert!(begin.elapsed() < PATIENCE, "a hello frame is lost");
            std::thread::sleep(Duration::from_micros(100));
        }
        let all_silent = bed.count(Reason::AllSilent);
        for flow in 0..FRAMES {
            let frame = frame(NEIGHBORS[0], VIRTUAL, flow);
            send(outer.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        }
        let arrived = received(&inner, NEIGHBORS[0], FRAMES);
        assert_eq!(arrived.values().sum::<usize>(), FRAMES, "no frame is lost: {arrived:?}");
        let mac = InnerMac { element: id(lost), port: 1 }.mac().0;
        let of_lost = (0..inner.len()).filter_map(|place| arrived.get(&(place, mac))).sum();
        std::thread::sleep(TURN);
        (bed.count(Reason::AllSilent) == all_silent).then_some(of_lost)
    };
    // The router has its share until it falls silent: a third, where each CPU has turns of its own.
    let shares: Vec<usize> = std::iter::repeat_with(|| turn(&ROUTERS)).flatten().take(ENOUGH).collect();
    assert!(shares.iter().sum::<usize>() >= ENOUGH * FRAMES / 6, "{shares:?}");
    let silent = Instant::now();
    let others = [ROUTERS[0], ROUTERS[2]];
    while silent.elapsed() < LATER {
        turn(&others);
    }
    let shares: Vec<usize> = std::iter::repeat_with(|| turn(&others)).flatten().take(ENOUGH).collect();
    assert_eq!(shares, [0; ENOUGH]);
}
