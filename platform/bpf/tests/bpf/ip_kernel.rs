//! The ip program beside the kernel: the same frames once through a router that is only a kernel, and once through the same
//! router with the program attached, must come out alike.
#![cfg(feature = "xdp")]

use crate::support;
use crate::support::frame::{ETHERNET, SENDER, ipv4, ipv6, set_checksum};
use crate::support::in_node;
use crate::support::model::{Model, Route};
use crate::support::mutation::{Mutation, Random, captured};
use crate::support::tables::{Chain, Options, PORT, ROUTER};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use sluice_bpf::attach::interface_index;
use sluice_bpf::layout::*;
use sluice_bpf::{Embedded, Link, Loaded, Loader};
use sluice_lab::{Lab, LabOptions};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

const FRAMES: usize = 96_000;
/// Frames sent before the test waits for their end: less than the ring of a veth interface holds.
const BATCH: usize = 64;
/// The longest frame of the incoming link, whose MTU is 1500 octets.
const LONGEST: usize = ETHERNET + 1500;
/// The MAC address of the router's outgoing interface.
const OUTGOING: [u8; 6] = [2, 0, 0, 0, 1, 0xfe];
/// MAC addresses of two neighbors there.
const NEIGHBORS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 1, 3]];
/// The MTU of the outgoing link.
const MTU: u32 = 1400;
/// Destinations of the frames that end a batch: the program sends the first, the kernel forwards the second.
const MARKERS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 255, 1), Ipv4Addr::new(10, 9, 255, 2)];

/// a:eth0 - r:eth0, r:eth1 - b:eth0. Only the router's kernel sends frames of its own.
const ROUTED: &str = "
[nodes.a]
sysctls = { 'net.ipv6.conf.default.disable_ipv6' = '1', 'net.ipv6.conf.all.disable_ipv6' = '1' }
[nodes.b]
sysctls = { 'net.ipv6.conf.default.disable_ipv6' = '1', 'net.ipv6.conf.all.disable_ipv6' = '1' }
[nodes.r]
forwarding = true
routes = [
    '10.9.0.0/16 via 10.0.1.2', '10.9.5.0/24 via 10.0.1.3', 'blackhole 10.9.5.64/26', '10.9.5.80/32 via 10.0.1.2',
    '10.10.0.0/16 via 10.0.0.2', 'unreachable 10.11.0.0/16', '10.12.0.0/16 via 10.0.1.9',
    '2001:db8:9::/48 via fd00:1::2', '2001:db8:9:5::/64 via fd00:1::3', 'blackhole 2001:db8:9:5:8000::/65',
    '2001:db8:9:5:8000::80/128 via fd00:1::2', '2001:db8:a::/48 via fd00::2', 'unreachable 2001:db8:b::/48',
    '2001:db8:c::/48 via fd00:1::9', '0.0.0.0/0 via 10.0.1.3', '::/0 via fd00:1::3',
]
[[links]]
a = 'a:eth0'
b = 'r:eth0'
b_addresses = ['10.0.0.1/24', 'fd00::1/64']
[[links]]
a = 'r:eth1'
b = 'b:eth0'
a_addresses = ['10.0.1.1/24', 'fd00:1::1/64']
mtu = 1400
";

/// Sources of the frames, the last ones never forwarded.
const SOURCES: [&str; 22] = [
    "192.0.2.1",
    "192.0.2.2",
    "192.0.2.3",
    "10.0.0.2",
    "203.0.113.77",
    "100.64.0.1",
    "172.16.0.1",
    "2001:db8:1::1",
    "2001:db8:1::2",
    "2001:db8:1::3",
    "2001:db8:2::1",
    "fd00::2",
    "64:ff9b::1",
    "2600::1",
    "127.0.0.1",
    "0.0.0.0",
    "224.0.0.5",
    "255.255.255.255",
    "fe80::1",
    "::",
    "::1",
    "ff02::1",
];
/// Destinations of the frames: each route, the router itself, addresses that are never forwarded.
const DESTINATIONS: [&str; 32] = [
    "10.9.0.1",
    "10.9.77.1",
    "10.9.5.1",
    "10.9.5.65",
    "10.9.5.80",
    "10.10.1.1",
    "10.11.1.1",
    "10.12.1.1",
    "10.0.0.1",
    "10.0.1.2",
    "10.0.1.255",
    "224.0.0.5",
    "127.0.0.1",
    "0.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "198.51.100.1",
    "2001:db8:9::1",
    "2001:db8:9:77::1",
    "2001:db8:9:5::1",
    "2001:db8:9:5:8000::1",
    "2001:db8:9:5:8000::80",
    "2001:db8:a::1",
    "2001:db8:b::1",
    "2001:db8:c::1",
    "fd00::1",
    "fd00:1::2",
    "ff02::5",
    "fe80::1",
    "::1",
    "::ffff:10.0.0.1",
    "2400::1",
];

/// Addresses of the router, the subnet-router anycast ones of its links among them (RFC 4291, section 2.6.1): its own packets to `b` are no
/// forwarded ones. The kernel limits how many errors it sends, so that their number differs from run to run.
const OWN: [&str; 6] = ["10.0.0.1", "10.0.1.1", "fd00::1", "fd00:1::1", "fd00::", "fd00:1::"];

/// The IPv4 addresses in the kernel's local table, but for the loopback's.
const LOCAL4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv4Addr::new(10, 0, 0, 255),
    Ipv4Addr::new(10, 0, 1, 1),
    Ipv4Addr::new(10, 0, 1, 255),
];

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Returns the routes of [`ROUTED`] as the tables have them.
fn model(incoming: u32, outgoing: u32) -> Model {
    let forward = |destination| Member {
        action: MemberAction::Forward as u32,
        interface: outgoing,
        mtu: MTU,
        destination,
        source: OUTGOING,
    };
    let [second, third] = NEIGHBORS.map(forward);
    let back = Member { interface: incoming, mtu: 1500, destination: SENDER, source: ROUTER, ..second };
    let action = |action| Member { action: action as u32, ..Member::default() };
    let (drop, kernel) = (action(MemberAction::Drop), action(MemberAction::Kernel));
    let members = vec![second, third, drop, kernel, back, action(MemberAction::Unresolved)];
    let routes = [
        ("0.0.0.0", 0, 2),
        ("10.9.0.0", 16, 1),
        ("10.9.5.0", 24, 2),
        ("10.9.5.64", 26, 3),
        ("10.9.5.80", 32, 1),
        ("10.10.0.0", 16, 5),
        ("10.11.0.0", 16, 4),
        ("10.12.0.0", 16, 6),
        ("10.0.0.0", 16, 4),
        ("10.0.0.2", 32, 5),
        ("10.0.1.2", 32, 1),
        ("10.0.1.3", 32, 2),
        ("::", 0, 2),
        ("2001:db8:9::", 48, 1),
        ("2001:db8:9:5::", 64, 2),
        ("2001:db8:9:5:8000::", 65, 3),
        ("2001:db8:9:5:8000::80", 128, 1),
        ("2001:db8:a::", 48, 5),
        ("2001:db8:b::", 48, 4),
        ("2001:db8:c::", 48, 6),
        ("fd00::", 31, 4),
        ("fd00::2", 128, 5),
        ("fd00:1::2", 128, 1),
        ("fd00:1::3", 128, 2),
    ];
    let mut routes: Vec<Route> = routes
        .map(|(prefix, length, member)| Route {
            prefix: prefix.parse().unwrap(),
            length,
            members: vec![member],
        })
        .into();
    routes.sort_by_key(|route| route.length);
    Model { members, routes }
}

/// The lab, a socket at each end, and the program that lets `b` receive redirected frames.
struct Bench {
    lab: Lab,
    sender: OwnedFd,
    receiver: OwnedFd,
    batches: u32,
    _receiving: (Loaded, Link),
}

impl Bench {
    fn new() -> Option<Bench> {
        if !support::usable() {
            return None;
        }
        let lab = Lab::up(&ROUTED.parse().unwrap(), LabOptions::unique("bpf-kernel")).unwrap();
        let commands = "
            link set dev eth0 address 02:00:00:00:00:fe
            link set dev eth1 address 02:00:00:00:01:fe
            neigh replace 10.0.0.2 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
            neigh replace fd00::2 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
            neigh replace 10.0.1.2 lladdr 02:00:00:00:01:02 dev eth1 nud permanent
            neigh replace 10.0.1.3 lladdr 02:00:00:00:01:03 dev eth1 nud permanent
            neigh replace fd00:1::2 lladdr 02:00:00:00:01:02 dev eth1 nud permanent
            neigh replace fd00:1::3 lladdr 02:00:00:00:01:03 dev eth1 nud permanent";
        for command in commands.lines().filter(|line| !line.trim().is_empty()) {
            lab.exec("r", "ip", command.split_whitespace()).unwrap();
        }
        let socket = || support::ffi::packet_socket(interface_index("eth0").unwrap()).unwrap();
        let sender = in_node(&lab, "a", socket);
        let (receiver, receiving) = in_node(&lab, "b", || {
            let root = Loader::new(Embedded::Root).load().unwrap();
            let link = Link::attach("eth0", root.program()).unwrap();
            (socket(), (root, link))
        });
        setsockopt(&receiver, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        setsockopt(&receiver, sockopt::ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        Some(Bench { lab, sender, receiver, batches: 0, _receiving: receiving })
    }

    /// Sends frames, and returns the IP frames that the router sends to `b`, each with its number.
    fn exchange(&mut self, frames: &[Vec<u8>]) -> BTreeMap<Vec<u8>, u32> {
        let mut received = BTreeMap::new();
        for batch in frames.chunks(BATCH) {
            for frame in batch {
                self.send(frame);
            }
            self.batches += 1;
            self.send(&marker(MARKERS[0], self.batches));
            self.send(&with_option(marker(MARKERS[1], self.batches)));
            self.receive(&mut received);
        }
        received
    }

    fn send(&self, frame: &[u8]) {
        let sent = send(self.sender.as_raw_fd(), frame, MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()), "{frame:02x?}");
    }

    /// Receives until both markers of the last batch have come: frames on the program's way are in order, and frames on
    /// the kernel's way are.
    fn receive(&self, received: &mut BTreeMap<Vec<u8>, u32>) {
        let mut open = MARKERS.to_vec();
        let mut buffer = [0; 2048];
        while !open.is_empty() {
            let length = match recv(self.receiver.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EINTR) => continue,
                Err(error) => panic!("batch {}: {error}; the markers {open:?} are missing", self.batches),
            };
            let frame = &buffer[..length];
            let of = |marker: &Ipv4Addr| {
                frame.len() > 34 && frame[12..14] == [8, 0] && frame[30..34] == marker.octets()
            };
            if let Some(marker) = MARKERS.iter().find(|marker| of(marker)) {
                assert!(frame.ends_with(&self.batches.to_be_bytes()), "a marker of another batch");
                open.retain(|other| other != marker);
            } else if is_ip(frame) {
                *received.entry(frame.to_vec()).or_default() += 1;
            }
        }
    }
}

/// Returns a packet to `to` with the number of the batch at its end.
fn marker(to: Ipv4Addr, batch: u32) -> Vec<u8> {
    let mut frame = ipv4(Ipv4Addr::new(192, 0, 2, 1), to, 22);
    frame.truncate(frame.len() - 4);
    frame.extend_from_slice(&batch.to_be_bytes());
    frame
}

/// Returns the IPv4 packet with four options without a meaning: the program passes the packet, the kernel forwards it.
fn with_option(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(34..34, [1; 4]);
    frame[ETHERNET] = 0x46;
    let length = (frame.len() - ETHERNET) as u16;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    set_checksum(&mut frame);
    frame
}

/// Returns the forwarded frames.
fn comparable(mut frames: BTreeMap<Vec<u8>, u32>) -> BTreeMap<Vec<u8>, u32> {
    frames.retain(|frame, _| is_forwarded(frame));
    frames
}

/// Returns true for frames of IPv4, and of IPv6 but for neighbor discovery, whose sources are link-local or unspecified.
fn is_ip(frame: &[u8]) -> bool {
    match &frame[12..] {
        [0x86, 0xdd, packet @ ..] => packet.len() >= 40 && packet[8] != 0xfe && packet[8..24] != [0; 16],
        [0x08, 0x00, packet @ ..] => packet.len() >= 20,
        _ => false,
    }
}

/// Returns true for an IP packet that is not the router's own.
fn is_forwarded(frame: &[u8]) -> bool {
    let source = match &frame[12..] {
        [0x08, 0x00, packet @ ..] => packet.get(12..16),
        [0x86, 0xdd, packet @ ..] => packet.get(8..24),
        _ => None,
    };
    let own = addresses(&OWN).into_iter().any(|own| match own {
        IpAddr::V4(own) => source == Some(&own.octets()[..]),
        IpAddr::V6(own) => source == Some(&own.octets()[..]),
    });
    !own
}

/// Frames from captures and good packets, changed; none is a marker.
fn frames() -> Vec<Vec<u8>> {
    let mut captured = captured().unwrap_or_default();
    captured.retain(|frame| frame.len() <= LONGEST);
    let (sources, destinations) = (addresses(&SOURCES), addresses(&DESTINATIONS));
    let mut mutation = Mutation {
        random: Random(0x0051_071c_e000_0001),
        captured: &captured,
        sources: &sources,
        destinations: &destinations,
        longest: LONGEST,
    };
    let is_marker = |frame: &[u8]| frame.len() >= 34 && MARKERS.iter().any(|to| frame[30..34] == to.octets());
    let changed = std::iter::from_fn(|| Some(mutation.frame())).filter(|frame| !is_marker(frame));
    let changed: Vec<_> = changed.take(FRAMES).collect();
    [captured, changed].concat()
}

/// Returns the router's chain with all routes, attached to the incoming interface.
fn program(lab: &Lab) -> (Chain, Link) {
    in_node(lab, "r", || {
        let chain = Chain::load(Options::default());
        let (incoming, outgoing) = (interface_index("eth0").unwrap(), interface_index("eth1").unwrap());
        model(incoming, outgoing).fill(&chain.tables);
        LOCAL4.into_iter().for_each(|own| chain.tables.set_own(own));
        let port = Port { mac: ROUTER, number: PORT, flags: PORT_IPV4 | PORT_IPV6, skipped: 0 };
        chain.tables.set_port(incoming, port);
        let link = Link::attach("eth0", chain.root.program()).unwrap();
        (chain, link)
    })
}

/// Keeps this thread on one CPU, so that the kernel handles all frames there, in their order.
fn stay_on_one_cpu() {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    let mut one = CpuSet::new();
    one.set(first).unwrap();
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
}

#[test]
fn the_program_forwards_as_the_kernel_does() {
    let Some(mut bench) = Bench::new() else { return };
    stay_on_one_cpu();
    let frames = frames();
    let by_kernel = comparable(bench.exchange(&frames));
    let (chain, _link) = program(&bench.lab);
    let by_both = comparable(bench.exchange(&frames));
    let number = |frames: &BTreeMap<Vec<u8>, u32>, frame: &Vec<u8>| frames.get(frame).copied().unwrap_or(0);
    let different: Vec<String> = by_kernel
        .keys()
        .chain(by_both.keys())
        .map(|frame| (frame, number(&by_kernel, frame), number(&by_both, frame)))
        .filter(|(_, kernel, both)| kernel != both)
        .map(|(frame, kernel, both)| format!("{kernel} times by the kernel, {both} with XDP: {frame:02x?}"))
        .collect();
    assert!(
        different.is_empty(),
        "{} frames differ:\n{}",
        different.len(),
        different[..different.len().min(10)].join("\n")
    );
    let counts = chain.counters.read().unwrap();
    let count = |reason| counts.count(PORT, reason).packets;
    let batches = frames.len().div_ceil(BATCH);
    assert_eq!(counts.received(PORT).packets, (frames.len() + MARKERS.len() * batches) as u64);
    // The frames reach all that the ip program decides.
    let elsewhere = [
        Reason::ForwardedXip,
        Reason::Dropped,
        Reason::Off,
        Reason::NoTaker,
        Reason::SlowPath,
        Reason::Balanced,
    ];
    let missing = |reason: &&Reason| !elsewhere.contains(reason) && count(**reason) == 0;
    assert_eq!(Reason::ALL.iter().find(missing), None);
    let sent = count(Reason::ForwardedIpv4) + count(Reason::ForwardedIpv6);
    assert!(sent > FRAMES as u64 / 16, "{sent} frames were sent by the program");
}

/// Sources that the router has itself, subnet-broadcast addresses among them, and octets behind the IP packet.
#[test]
fn own_sources_and_padding_are_treated_as_by_the_kernel() {
    let Some(mut bench) = Bench::new() else { return };
    stay_on_one_cpu();
    let (source, to) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 9, 0, 1));
    let mut frames = vec![ipv4(source, to, 2)];
    frames[0].resize(60, 0x77);
    // Longer than the MTU by its padding alone.
    let mut long = ipv4(source, to, MTU as usize - 28);
    long.resize(long.len() + 9, 0x77);
    frames.push(long);
    frames.extend(LOCAL4.map(|own| ipv4(own, to, 18)));
    let to: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
    frames.extend(addresses(&OWN).into_iter().filter_map(|own| match own {
        IpAddr::V6(own) => Some(ipv6(own, to, 18)),
        IpAddr::V4(_) => None,
    }));
    let mut padded = ipv6(addresses(&SOURCES).iter().find_map(of_ipv6).unwrap(), to, 3);
    padded.resize(90, 0x77);
    frames.push(padded);
    let by_kernel = bench.exchange(&frames);
    let (chain, _link) = program(&bench.lab);
    assert_eq!(bench.exchange(&frames), by_kernel);
    let counts = chain.counters.read().unwrap();
    let count = |reason| counts.count(PORT, reason).packets;
    assert_eq!(count(Reason::Martian), LOCAL4.len() as u64);
    assert!(count(Reason::ForwardedIpv4) >= 2 && count(Reason::ForwardedIpv6) >= 1);
}

fn of_ipv6(address: &IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(address) => Some(*address),
        IpAddr::V4(_) => None,
    }
}
