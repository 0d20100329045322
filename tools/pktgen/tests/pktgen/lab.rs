//! The generator, the sink and replay between two nodes of a lab.
#![cfg(feature = "xdp")]

use sluice_bpf::layout::Tally;
use sluice_lab::{Lab, LabOptions, until};
use sluice_pktgen::{Content, Generator, PktgenError, Running, Sent, Sink, Spec, XipFormat, lost, permit};
use std::io::Read;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

const PAIR: &str = "
[nodes.r]
[nodes.a]
[[links]]
a = 'r:eth0'
b = 'a:eth0'
a_addresses = ['10.0.0.1/24', 'fd00::1/64']
b_addresses = ['10.0.0.2/24', 'fd00::2/64']
";

/// The longest wait for packets on their way.
const PATIENCE: Duration = Duration::from_secs(10);

/// A number of packets that a veth's ring holds, so that none is lost at full speed.
const FEW: u64 = 200;

/// Makes the pair of nodes, or records why the test is skipped.
fn pair(name: &str) -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() {
        sluice_testkit::skipped("not root");
        return None;
    }
    if let Err(error) = sluice_bpf::probe::require(sluice_bpf::probe::Feature::LiveFrames) {
        sluice_testkit::skipped(error);
        return None;
    }
    Some(Lab::up(&PAIR.parse().unwrap(), LabOptions::unique(name)).unwrap())
}

fn spec(source: &str, destinations: &[&str]) -> Spec {
    let destinations = destinations.iter().map(|d| d.parse().unwrap()).collect();
    Spec::udp("eth0", [0xff; 6], source.parse().unwrap(), destinations)
}

fn start(lab: &Lab, spec: Spec) -> Running {
    lab.inside("r", || Generator::new(spec).start()).unwrap().unwrap()
}

fn sink(lab: &Lab, stream: u32) -> Sink {
    lab.inside("a", || Sink::attach("eth0", stream)).unwrap().unwrap()
}

/// Sends all packets of a limited generator.
fn send_all(lab: &Lab, spec: Spec) -> Sent {
    let running = start(lab, spec);
    assert!(running.wait(Some(Duration::from_secs(60))), "only {} packets were sent", running.sent());
    running.stop().unwrap()
}

/// Returns the tally once `received` packets arrived.
fn tally(sink: &Sink, received: u64) -> Tally {
    until(PATIENCE, || sink.tally().received >= received);
    sink.tally()
}

#[test]
fn every_packet_arrives_in_order() {
    let Some(lab) = pair("gen-order") else { return };
    for (stream, source, destination, size, octets) in [
        (1, "10.0.0.1", "10.0.0.2", None, 60),
        (2, "fd00::1", "fd00::2", None, 78),
        (3, "10.0.0.1", "10.9.0.1", Some(1514), 1514),
    ] {
        let sink = sink(&lab, stream);
        let sent = send_all(
            &lab,
            Spec { stream, size, limit: NonZeroU64::new(FEW), ..spec(source, &[destination]) },
        );
        assert_eq!((sent.packets, sent.octets, sent.idle), (FEW, FEW * octets, 0));
        let tally = tally(&sink, FEW);
        assert_eq!([tally.received, tally.expected, tally.octets], [FEW, FEW, FEW * octets], "{source}");
        assert_eq!([lost(&tally), tally.duplicates, tally.reordered, tally.late], [0; 4], "{source}");
    }
}

#[test]
fn threads_share_a_stream() {
    let Some(lab) = pair("gen-threads") else { return };
    for (stream, threads, rate) in [(1, 3, None), (2, 2, Some(20_000)), (3, 64, None)] {
        let sink = sink(&lab, stream);
        let threads = NonZeroU32::new(threads).unwrap();
        let spec = spec("10.0.0.1", &["10.0.0.2"]);
        let rate = rate.and_then(NonZeroU64::new);
        // The number is no multiple of the threads', and less than a ring holds.
        let limit = NonZeroU64::new(FEW - 1);
        let sent = send_all(&lab, Spec { stream, threads, rate, limit, ..spec });
        assert_eq!(sent.packets, FEW - 1);
        let tally = tally(&sink, FEW - 1);
        assert_eq!([tally.received, tally.expected], [FEW - 1; 2], "{threads} threads");
        assert_eq!([lost(&tally), tally.duplicates, tally.late], [0; 3], "{threads} threads");
    }
}

/// Returns the Ethernet address of an interface of this thread's namespace.
fn ethernet_address(interface: &str) -> [u8; 6] {
    let mut all = nix::ifaddrs::getifaddrs().unwrap().filter(|entry| entry.interface_name == interface);
    all.find_map(|entry| entry.address?.as_link_addr()?.addr()).unwrap()
}

#[test]
fn the_stack_of_the_receiver_accepts_the_packets() {
    let Some(lab) = pair("gen-stack") else { return };
    lab.inside("a", || sluice_lab::ethtool::set_gro("eth0", true)).unwrap().unwrap();
    let sockets: Vec<_> = ["10.0.0.2:9", "[fd00::2]:9"]
        .iter()
        .map(|address| lab.inside("a", || std::net::UdpSocket::bind(address)).unwrap().unwrap())
        .collect();
    let to = lab.inside("a", || ethernet_address("eth0")).unwrap();
    for (socket, source, destination) in
        [(&sockets[0], "10.0.0.1", "10.0.0.2"), (&sockets[1], "fd00::1", "fd00::2")]
    {
        let mut spec = spec(source, &[destination]);
        if let Content::Udp(udp) = &mut spec.content {
            udp.to = to;
            (udp.flows, udp.flow_length) = (2, 3);
        }
        send_all(&lab, Spec { size: Some(201), stream: 5, limit: NonZeroU64::new(12), ..spec });
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 2048];
        for sequence in 0..12_u64 {
            let (octets, from) = socket.recv_from(&mut buffer).unwrap();
            let headers = if from.is_ipv4() { 42 } else { 62 };
            assert_eq!(octets, 201 - headers);
            assert_eq!(buffer[..16], [&b"SLUC"[..], &5_u32.to_be_bytes(), &sequence.to_be_bytes()].concat());
            assert_eq!(u64::from(from.port()), 1024 + sequence / 3 % 2, "{sequence}");
        }
    }
}

#[test]
fn destinations_and_ports_are_used_in_turn() {
    let Some(lab) = pair("gen-turn") else { return };
    let receiver = lab.inside("a", receiver).unwrap();
    lab.inside("a", || sluice_lab::ethtool::set_gro("eth0", true)).unwrap().unwrap();
    let mut spec = spec("10.0.0.1", &["10.9.0.1", "10.9.0.2", "10.9.0.1", "10.9.0.3"]);
    if let Content::Udp(udp) = &mut spec.content {
        (udp.flows, udp.flow_length) = (3, 2);
    }
    send_all(&lab, Spec { limit: NonZeroU64::new(48), ..spec });
    for sequence in 0..48 {
        let frame = loop {
            let frame = receive(&receiver);
            // UDP to the port of discarded packets; the node has traffic of its own.
            if frame[12..14] == [8, 0] && frame[36..38] == [0, 9] {
                break frame;
            }
        };
        let burst = sequence / 2;
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[30..34], [10, 9, 0, [1, 2, 1, 3][burst % 4]], "{sequence}");
        assert_eq!(u16::from_be_bytes([frame[34], frame[35]]), 1024 + burst as u16 % 3, "{sequence}");
    }
}

#[test]
fn a_loss_is_seen() {
    let Some(lab) = pair("gen-loss") else { return };
    let sink = sink(&lab, 0);
    let omitted = Some(50);
    send_all(&lab, Spec { omitted, limit: NonZeroU64::new(FEW), ..spec("10.0.0.1", &["10.0.0.2"]) });
    let tally = tally(&sink, FEW - 1);
    assert_eq!([tally.received, tally.expected, lost(&tally), tally.duplicates], [FEW - 1, FEW, 1, 0]);
}

#[test]
fn a_second_run_of_a_stream_is_duplicates_and_another_stream_is_not_counted() {
    let Some(lab) = pair("gen-twice") else { return };
    let sink = sink(&lab, 4);
    for stream in [4, 9, 4] {
        send_all(&lab, Spec { stream, limit: NonZeroU64::new(FEW), ..spec("10.0.0.1", &["10.0.0.2"]) });
    }
    let tally = tally(&sink, 2 * FEW);
    assert_eq!([tally.received, tally.duplicates, lost(&tally)], [2 * FEW, FEW, 0]);
}

#[test]
fn a_paced_generator_ends_at_its_limit_by_itself() {
    let Some(lab) = pair("gen-pace") else { return };
    let sink = sink(&lab, 0);
    // A sender that was held up sends the packets that are due at once: they have to fit into the ring.
    let (rate, limit) = (NonZeroU64::new(2_000), NonZeroU64::new(FEW));
    let sent = send_all(&lab, Spec { rate, limit, ..spec("10.0.0.1", &["10.0.0.2", "10.0.0.3"]) });
    assert_eq!(sent.packets, FEW);
    assert!(sent.idle > 0);
    // No packet is sent before its time.
    assert!(sent.duration >= Duration::from_micros((FEW - 1) * 500), "{sent:?}");
    let tally = tally(&sink, FEW);
    assert_eq!([tally.received, lost(&tally), tally.reordered], [FEW, 0, 0]);
}

#[test]
fn an_endless_generator_is_stopped_and_dropped() {
    let Some(lab) = pair("gen-endless") else { return };
    let _sink = sink(&lab, 0);
    let running = start(&lab, spec("10.0.0.1", &["10.0.0.2"]));
    assert!(until(PATIENCE, || running.sent() > 1_000));
    assert!(!running.wait(Some(Duration::ZERO)));
    let sent = running.stop().unwrap();
    assert!(sent.packets > 1_000 && !sent.duration.is_zero() && !sent.cpu.is_zero(), "{sent:?}");
    drop(start(&lab, spec("10.0.0.1", &["10.0.0.2"])));
}

#[test]
fn raw_frames_are_sent_as_they_are() {
    let Some(lab) = pair("gen-raw") else { return };
    let receiver = lab.inside("a", receiver).unwrap();
    lab.inside("a", || sluice_lab::ethtool::set_gro("eth0", true)).unwrap().unwrap();
    let template: Vec<u8> = (0..100)
        .map(|n| {
            if n < 6 {
                0xff
            } else if n == 12 {
                0xc0
            } else {
                n
            }
        })
        .collect();
    for (size, stamped) in [(None, false), (Some(115), false), (Some(121), true)] {
        let stream = 0x0102_0304;
        send_all(
            &lab,
            Spec { size, stream, limit: NonZeroU64::new(3), ..Spec::raw("eth0", template.clone()) },
        );
        for sequence in 0..3 {
            let mut expected = template.clone();
            expected.resize(size.unwrap_or(100), 0);
            if stamped {
                let stamp = sluice_pktgen::headers::stamp(stream, sequence);
                let at = expected.len() - stamp.len();
                expected[at..].copy_from_slice(&stamp);
            }
            assert_eq!(next(&receiver, [0xc0, 13]), expected);
        }
    }
}

#[test]
fn xip_frames_differ_in_the_domain_only() {
    let Some(lab) = pair("gen-xip") else { return };
    let receiver = lab.inside("a", receiver).unwrap();
    lab.inside("a", || sluice_lab::ethtool::set_gro("eth0", true)).unwrap().unwrap();
    let from = lab.inside("r", || ethernet_address("eth0")).unwrap();
    let destinations = vec!["10.1.128.0".parse().unwrap(), "192.0.2.6".parse().unwrap()];
    let spec = Spec::xip("eth0", [0xff; 6], XipFormat::Via, destinations);
    send_all(&lab, Spec { size: Some(86), limit: NonZeroU64::new(FEW), ..spec });
    for sequence in 0..FEW {
        let frame = next(&receiver, [0xc0, 0xde]);
        let domain = if sequence % 2 == 0 { [10, 1, 128, 0] } else { [192, 0, 2, 6] };
        let rows = [
            &[0, 0, 0, 0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, 1][..],
            &[1, 0x7f, 0x7f, 0x7f, 0, 0, 0, 0x10],
            &domain,
            &[0; 16],
            &[0, 0x7f, 0x7f, 0x7f],
        ]
        .concat();
        let header = [1, 0, 0, 8, 255, 2, 0, 0x7e];
        let expected =
            [&[0xff; 6][..], &from, &[0xc0, 0xde], &header, &rows, &[0, 1, 0, 2, 0, 3, 0, 4]].concat();
        assert_eq!(frame, expected, "{sequence}");
    }
}

/// Opens a packet socket for all frames of the node's eth0.
fn receiver() -> socket2::Socket {
    const ALL: u16 = 0x0003;
    let socket = socket2::Socket::new(
        socket2::Domain::PACKET,
        socket2::Type::RAW,
        Some(i32::from(ALL.to_be()).into()),
    )
    .unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // Frames that wait for the test need room.
    socket.set_recv_buffer_size(8 << 20).unwrap();
    socket
}

/// Returns the next frame with the EtherType.
fn next(receiver: &socket2::Socket, ethertype: [u8; 2]) -> Vec<u8> {
    loop {
        let frame = receive(receiver);
        if frame[12..14] == ethertype {
            return frame;
        }
    }
}

fn receive(mut receiver: &socket2::Socket) -> Vec<u8> {
    let mut frame = vec![0; 65536];
    let octets = receiver.read(&mut frame).unwrap();
    frame.truncate(octets);
    frame
}

#[test]
fn sending_is_refused_on_the_hosts_own_namespace() {
    // The thread of a test is in the host's namespace.
    let refused = |again| permit::check("lo", again).map_err(|error| error.to_string());
    let said = refused(None).unwrap_err();
    assert!(said.contains("--yes-send-on lo"), "{said}");
    assert!(refused(Some("eth0")).is_err());
    assert_eq!(refused(Some("lo")), Ok(()));
    let started = Generator::new(Spec { interface: "lo".into(), ..spec("10.0.0.1", &["10.0.0.2"]) }).start();
    assert!(matches!(started, Err(PktgenError::NotPermitted { .. })), "{started:?}");
}

#[test]
fn in_a_lab_only_a_veth_is_permitted() {
    let Some(lab) = pair("gen-permit") else { return };
    lab.inside("r", || {
        assert!(permit::check("eth0", None).is_ok());
        let said = permit::check("lo", None).unwrap_err().to_string();
        assert!(said.contains("its driver"), "{said}");
    })
    .unwrap();
}

#[test]
fn descriptions_without_a_meaning_are_refused() {
    let too_small = Spec { size: Some(60), ..spec("fd00::1", &["fd00::2"]) };
    for (spec, part) in [
        (too_small, "--size 78"),
        (spec("10.0.0.1", &["fd00::2"]), "one family"),
        (spec("10.0.0.1", &[]), "no destination"),
        (spec("10.0.0.1", &["10.0.0.2"; 3]), "power of two"),
        (Spec::xip("eth0", [2; 6], XipFormat::Fb3, vec![]), "no destination"),
        (Spec::xip("eth0", [2; 6], XipFormat::Fb0, vec!["fd00::1".parse().unwrap()]), "IPv4 prefixes"),
        (
            Spec {
                size: Some(133),
                ..Spec::xip("eth0", [2; 6], XipFormat::Fb3, vec!["10.0.0.1".parse().unwrap()])
            },
            "--size 134",
        ),
        (Spec::raw("eth0", vec![0; 13]), "14"),
        (Spec::raw("eth0", vec![0; 1515]), "1514"),
    ] {
        let said = spec.octets().unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}
