//! Tunnels in the program `xip`, compared with the kernel's datagrams of a socket, octet by octet.

use crate::support;
use crate::support::{Bench, NEIGHBOR, ROUTER, SETTINGS, frame, octets, xid};
use sluice_base::{Rng, XidType};
use sluice_bpf::attach::interface_index;
use sluice_bpf::layout::xip::CacheAction;
use sluice_bpf::run::{Verdict, run};
use sluice_lab::{Lab, LabOptions};
use sluice_xip::answer::TunnelId;
use sluice_xip::cache::Lines;
use sluice_xip::wire::udp::{Ends, UdpHeader, checksum};
use sluice_xip_process::maps::{CacheLines, ProgramMaps, ProgramSettings, TunnelEnd};
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};

/// V2 of the specification without its payload: AD, HID, XDP, each leading to the next.
const HEADER: &str = "010000008003037e00000010a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1017f7f7f000000111111111111111111111111111111111111111111027f7f7f00000017d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1007f7f7f00000010a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2017f7f7f000000112222222222222222222222222222222222222222027f7f7f00000017d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2d2007f7f7f";
/// The shortest packet, with a single row.
const SHORTEST: &str = "010000008001007e00000010a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1007f7f7f";

const NEAR: &str = "10.0.1.1:13781";
const FAR: &str = "10.0.1.2:13781";
const OWN: &str = "02:00:00:00:01:fe";
const PEER: &str = "02:00:00:00:01:02";

/// The router `r`, and the far end `b`. Further addresses of the link do not answer.
const NODES: &str = "
[nodes.r]
forwarding = true
[nodes.b]
[[links]]
a = 'r:eth1'
b = 'b:eth0'
xdp = true
a_addresses = ['10.0.1.1/24']
b_addresses = ['10.0.1.2/24']
";

fn end(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

fn packet(header: &str, payload: &[u8]) -> Vec<u8> {
    let mut packet = octets(header);
    packet[2..4].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend(payload);
    packet
}

/// The packet after forwarding, with a hop less.
fn sent(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[4] -= 1;
    packet
}

fn tunnel(has_checksum: bool) -> ProgramSettings {
    ProgramSettings { tunnel: Some(TunnelEnd { local: end(NEAR), has_checksum }), ..SETTINGS }
}

/// Benches in the router's namespace, with the tunnel 5 as the answer for all packets.
struct Tunnels {
    lab: Lab,
}

impl Tunnels {
    fn new() -> Option<Tunnels> {
        if !support::is_root() {
            sluice_testkit::skipped("not root");
            return None;
        }
        let lab = Lab::up(&NODES.parse().unwrap(), LabOptions::unique("xip-tunnels")).unwrap();
        let ip = |node: &str, command: &str| lab.exec(node, "ip", command.split_whitespace()).unwrap();
        ip("r", &format!("link set dev eth1 address {OWN}"));
        ip("b", &format!("link set dev eth0 address {PEER}"));
        ip("r", &format!("neigh replace 10.0.1.2 lladdr {PEER} dev eth1 nud permanent"));
        Some(Tunnels { lab })
    }

    fn inside<T: Send>(&self, work: impl FnOnce(Bench) -> T + Send) -> T {
        let bench = || {
            let mut bench = Bench::new().unwrap();
            let outgoing = interface_index("eth1").unwrap() as usize;
            support::set_port(&bench.program, outgoing, [2, 0, 0, 0, 1, 0xfe]);
            bench.maps.set_settings(tunnel(true));
            bench.put(&[(xid(XidType::AD, 0xa1), false)], CacheAction::Tunnel, 0, 5);
            bench.put(&[(xid(XidType::AD, 0xa1), true)], CacheAction::Tunnel, 0, 5);
            set_tunnel(&bench, end(FAR));
            work(bench)
        };
        self.lab.inside("r", bench).unwrap()
    }

    /// Starts a capture at the far end, written to the standard output.
    fn listen(&self, frames: usize) -> Child {
        let mut command = self.lab.command("b", "tcpdump").unwrap();
        let count = frames.to_string();
        command.args([
            "-i",
            "eth0",
            "-U",
            "-w",
            "-",
            "-s",
            "0",
            "-c",
            &count,
            "udp",
            "or",
            "ip[6:2]&0x3fff!=0",
        ]);
        let mut listener = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The socket is open once the program reports it.
        let mut said = [0; 9];
        std::io::Read::read_exact(&mut listener.stderr.as_mut().unwrap(), &mut said).unwrap();
        let mut line = String::new();
        let mut rest = std::io::BufReader::new(listener.stderr.as_mut().unwrap());
        std::io::BufRead::read_line(&mut rest, &mut line).unwrap();
        listener
    }
}

/// Stores the far end of the tunnel 5.
fn set_tunnel(bench: &Bench, to: SocketAddrV4) {
    let (mut lines, _): (CacheLines, ProgramMaps) = ProgramMaps::new(|name| bench.program.map(name)).unwrap();
    assert!(lines.set_tunnel(TunnelId(5), to));
}

fn payload(length: usize, rng: &mut Rng) -> Vec<u8> {
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Returns a frame with zeros in place of the IPv4 identification and the header's checksum. The identification of a datagram
/// with the bit "don't fragment" is free (RFC 6864, section 4.1): random from the kernel, 0 from the program.
fn without_number(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[18..20].fill(0);
    frame[24..26].fill(0);
    frame
}

#[test]
fn datagrams_are_those_of_a_socket() {
    let Some(tunnels) = Tunnels::new() else { return };
    let mut rng = Rng::from_seed(3);
    // The longest ones fill the MTU of 1500 octets.
    let longest = [(HEADER, 1500 - 28 - 176), (SHORTEST, 1500 - 28 - 36)];
    let lengths = (0..40).map(|length| if length % 2 == 0 { (SHORTEST, length) } else { (HEADER, length) });
    let random: Vec<_> = (0..60).map(|_| (HEADER, rng.below(1296) as usize)).collect();
    let all: Vec<_> = longest.into_iter().chain(lengths).chain(random).collect();
    let packets: Vec<Vec<u8>> =
        all.iter().map(|(header, length)| packet(header, &payload(*length, &mut rng))).collect();
    for has_checksum in [true, false] {
        let listener = tunnels.listen(packets.len());
        let mine: Vec<Vec<u8>> = tunnels.inside(|bench| {
            bench.maps.set_settings(tunnel(has_checksum));
            let socket = UdpSocket::bind(NEAR).unwrap();
            if !has_checksum {
                sluice_process::leave_out_checksums(socket.as_fd()).unwrap();
            }
            let one = |packet: &Vec<u8>| {
                let mut frame = frame(packet);
                // Ethernet pads short frames.
                frame.resize(frame.len().max(60), 0xee);
                let (ran, reasons) = bench.run_frame(&frame);
                assert_eq!((ran.verdict, reasons), (Verdict::Redirect, vec!["hit", "tunneled"]));
                socket.send_to(&sent(packet), FAR).unwrap();
                ran.frame
            };
            packets.iter().map(one).collect()
        });
        let captured = listener.wait_with_output().unwrap().stdout;
        let captured = sluice_capture::parse(&captured).unwrap();
        assert_eq!(captured.records.len(), packets.len());
        for (record, frame) in captured.records.iter().zip(&mine) {
            assert!(checksum(&frame[14..34]) == 0 && checksum(&record.octets[14..34]) == 0);
            assert_eq!(
                without_number(record.octets),
                without_number(frame),
                "{} octets, checksum: {has_checksum}",
                frame.len()
            );
        }
    }
}

#[test]
fn datagrams_without_a_way_are_left_to_the_socket() {
    let Some(tunnels) = Tunnels::new() else { return };
    tunnels.inside(|bench| {
        let small = packet(HEADER, b"hello");
        let comes_up = |octets: &[u8], why: &str| {
            let (ran, reasons) = bench.run(octets);
            assert_eq!((ran.verdict, reasons), (Verdict::Pass, vec!["hit", "to-user", "no-way"]), "{why}");
            assert_eq!(ran.frame, frame(octets), "{why}");
        };
        let goes = || bench.run(&small).0.verdict == Verdict::Redirect;
        assert!(goes());
        comes_up(&packet(HEADER, &[7; 1500 - 28 - 176 + 1]), "an octet more than the MTU");
        set_tunnel(&bench, end("10.0.1.9:13781"));
        comes_up(&small, "a neighbor whose link-layer address is unknown");
        set_tunnel(&bench, end("192.0.2.1:13781"));
        comes_up(&small, "no route");
        set_tunnel(&bench, end("10.0.1.2:0"));
        comes_up(&small, "an entry without a far end");
        set_tunnel(&bench, end(FAR));
        bench.maps.set_settings(SETTINGS);
        comes_up(&small, "no tunnel of this host");
        bench.maps.set_settings(tunnel(true));
        assert!(goes());
        let mut last = small.clone();
        last[4] = 0;
        assert_eq!(bench.run(&last).1, ["hit", "hop-limit"]);
    });
}

/// The model's frame with a datagram for the router.
fn datagram(packet: &[u8], has_checksum: bool) -> Vec<u8> {
    let ends = Ends::V4 { from: end("10.0.1.2:4000"), to: end(NEAR) };
    let udp = UdpHeader::of(ends, packet, has_checksum).unwrap();
    let total = (28 + packet.len() as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 1, 1];
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    [&ROUTER[..], &[2, 0, 0, 0, 1, 2], &[8, 0], &ip, &udp.octets(), packet].concat()
}

/// Returns true if the program may take a frame: a plain datagram, intact, for the tunnel.
fn is_taken(frame: &[u8]) -> bool {
    let Some(ip) = frame.get(14..34).filter(|_| frame[..6] == ROUTER && frame[12..14] == [8, 0]) else {
        return false;
    };
    let is_plain = ip[0] == 0x45 && ip[9] == 17 && ip[6] & 0x3f == 0 && ip[7] == 0 && checksum(ip) == 0;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let Some(datagram) = frame.get(34..14 + total.max(20)).filter(|_| is_plain && ip[16..] == [10, 0, 1, 1])
    else {
        return false;
    };
    let Some((header, payload)) = UdpHeader::decode(datagram) else { return false };
    let from = SocketAddrV4::new([ip[12], ip[13], ip[14], ip[15]].into(), header.source);
    let to = SocketAddrV4::new([10, 0, 1, 1].into(), header.destination);
    header.destination == 13781
        && usize::from(header.length) == datagram.len()
        && !payload.is_empty()
        && header.is_intact(Ends::V4 { from, to }, payload)
}

#[test]
fn packets_come_out_of_datagrams_and_go_on() {
    let Some(tunnels) = Tunnels::new() else { return };
    tunnels.inside(|mut bench| {
        bench.put(&[(xid(XidType::HID, 0x11), false)], CacheAction::Forward, 0, 7);
        let mut inner = packet(HEADER, b"hello");
        // The packet has reached the AD: its row leads to the HID.
        inner[7] = 0;
        inner[8 + 2 * 28 + 24] |= 0x80;
        for has_checksum in [true, false] {
            let mut outer = datagram(&inner, has_checksum);
            // Octets behind the datagram are padding.
            outer.extend([0xee; 5]);
            let (ran, reasons) = bench.run_frame(&outer);
            assert_eq!((ran.verdict, reasons), (Verdict::Redirect, vec!["hit", "sent", "from-tunnel"]));
            assert_eq!(ran.frame, [&NEIGHBOR[..], &ROUTER, &[0xc0, 0xde], &sent(&inner)].concat());
        }
        // From one tunnel into the next one.
        let (ran, reasons) = bench.run_frame(&datagram(&packet(HEADER, b"on"), true));
        assert_eq!((ran.verdict, reasons), (Verdict::Redirect, vec!["hit", "tunneled", "from-tunnel"]));
        assert_eq!(&ran.frame[42..], sent(&packet(HEADER, b"on")));
        // A packet that the program has no answer for comes up as a packet of the interface.
        let unknown = packet(&HEADER.replace("a1", "b1"), b"up");
        let (ran, reasons) = bench.run_frame(&datagram(&unknown, true));
        assert_eq!((ran.verdict, reasons), (Verdict::Pass, vec!["miss", "to-user", "from-tunnel"]));
        assert_eq!(ran.frame, [&ROUTER[..], &[2, 0, 0, 0, 1, 2], &[0xc0, 0xde], &unknown].concat());
    });
}

#[test]
fn what_is_not_the_tunnels_stays_as_it_was() {
    let Some(tunnels) = Tunnels::new() else { return };
    tunnels.inside(|bench| {
        let mut rng = Rng::from_seed(9);
        let (mut taken, mut left) = (0, 0);
        for case in 0..20_000 {
            let length = rng.below(80) as usize;
            let mut frame = datagram(&packet(HEADER, &payload(length, &mut rng)), case % 4 != 0);
            for _ in 0..rng.below(3) {
                let end = if rng.below(4) == 0 { frame.len() as u64 } else { 42 };
                let at = rng.below(end) as usize;
                let bit = 1 << rng.below(8);
                frame[at] ^= bit;
                // A changed header with the right checksum reaches the checks behind.
                if (14..34).contains(&at) && rng.below(2) == 0 {
                    frame[24..26].copy_from_slice(&[0, 0]);
                    let sum = checksum(&frame[14..34]).to_be_bytes();
                    frame[24..26].copy_from_slice(&sum);
                }
            }
            if rng.below(8) == 0 {
                frame.truncate(14 + rng.below(frame.len() as u64 - 13) as usize);
            }
            if frame[12..14] != [8, 0] {
                // The chain leads IPv4 and XIP to the program.
                continue;
            }
            let (ran, reasons) = bench.run_frame(&frame);
            if is_taken(&frame) {
                taken += 1;
                assert!(reasons.contains(&"from-tunnel"), "case {case}: {frame:02x?}");
            } else {
                left += 1;
                assert_eq!((ran.verdict, reasons.len()), (Verdict::Pass, 0), "case {case}: {frame:02x?}");
                assert_eq!(ran.frame, frame, "case {case}");
            }
        }
        assert!(taken > 2_000 && left > 2_000, "{taken} taken, {left} left");
        // Neither does a host without tunnels take any.
        bench.maps.set_settings(SETTINGS);
        let frame = datagram(&packet(HEADER, b"hello"), true);
        assert_eq!(run(bench.program.program(), &frame, 1).unwrap().frame, frame);
    });
}
