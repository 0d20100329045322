//! The packet generator and its sink: live frames from one node of a lab to the other.
#![cfg(feature = "xdp")]

use crate::support;
use crate::support::{in_node, pair};
use sluice_bpf::array::MappedArray;
use sluice_bpf::run::{Ended, Verdict, run, run_live};
use sluice_bpf::{Embedded, Link, Loaded, Loader};
use sluice_lab::Lab;

/// The generator's stream, and the sink's.
const STREAM: u32 = 7;
/// Packets of a test: fewer than the rounds, so that the limit ends them, and fewer than a veth's ring holds, so that none is lost.
const LIMIT: u64 = 200;
const ROUNDS: u32 = 256;
const STAMP: usize = 16;
const UDP_PORT: u16 = 9;

/// Headers with zeros for the destination and the checksums.
struct Headers {
    octets: Vec<u8>,
    /// The offset of the UDP header.
    udp: usize,
}

fn headers(is_ipv6: bool) -> Headers {
    let payload = (8 + STAMP) as u16;
    let mut octets = vec![0xff; 6];
    octets.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
    if is_ipv6 {
        octets.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
        octets.extend_from_slice(&payload.to_be_bytes());
        octets.extend_from_slice(&[17, 64]);
        octets.extend_from_slice(&"fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        octets.extend_from_slice(&[0; 16]);
    } else {
        octets.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
        octets.extend_from_slice(&(20 + payload).to_be_bytes());
        octets.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
    }
    let udp = octets.len();
    for word in [1000, UDP_PORT, payload, 0] {
        octets.extend_from_slice(&word.to_be_bytes());
    }
    Headers { octets, udp }
}

/// The sum of words as the machine reads them.
fn sum(octets: &[u8]) -> u32 {
    octets.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum()
}

/// Returns true if the ones' complement sum is that of octets with a right checksum (RFC 1071).
fn is_right(sum: u32) -> bool {
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) + (folded >> 16) == 0xffff
}

fn addresses(is_ipv6: bool) -> std::ops::Range<usize> {
    if is_ipv6 { 22..54 } else { 26..34 }
}

/// Returns the sum of the UDP pseudo-header's protocol and length.
fn pseudo() -> u32 {
    sum(&[0, 17]) + sum(&((8 + STAMP) as u16).to_be_bytes())
}

fn generator(is_ipv6: bool, omitted: u64) -> Loaded {
    let Headers { octets, udp } = headers(is_ipv6);
    let mut constant = octets.clone();
    constant.resize(64, 0);
    let stamp = [&b"SLUC"[..], &STREAM.to_be_bytes()].concat();
    let udp_sum = sum(&octets[addresses(is_ipv6)]) + pseudo() + sum(&octets[udp + 2..]) + sum(&stamp);
    let program = Loader::new(Embedded::Pktgen)
        .constant_u32("family", if is_ipv6 { 6 } else { 4 })
        .constant_u32("stream", STREAM)
        .constant("headers", &constant)
        .constant_u32("ip_sum", if is_ipv6 { 0 } else { sum(&octets[14..udp]) })
        .constant_u32("udp_sum", udp_sum)
        .constant_u32("destination_mask", 1)
        .constant_u32("flow_length", 3)
        .constant_u32("flows", 4)
        .constant_u64("limit", LIMIT)
        .constant_u64("omitted", omitted)
        .entries("destinations", 2)
        .load()
        .unwrap();
    let destinations = MappedArray::new(program.map("destinations").unwrap()).unwrap();
    for entry in 0..2 {
        let last = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, entry as u8 + 2]);
        let first =
            if is_ipv6 { [0xfd, 0, 0, 0, 0, 0, 0, 0] } else { [10, 0, 0, entry as u8 + 2, 0, 0, 0, 0] };
        assert!(destinations.store64(entry, 0, u64::from_ne_bytes(first)));
        assert!(destinations.store64(entry, 1, last));
    }
    program
}

fn frame(is_ipv6: bool) -> Vec<u8> {
    vec![0; headers(is_ipv6).octets.len() + STAMP]
}

/// The words of the sink's tally: received, octets, duplicates, reordered, late, expected.
fn flood(lab: &Lab, is_ipv6: bool, omitted: u64) -> [u64; 6] {
    let (sink, _link) = in_node(lab, "a", || {
        let sink = Loader::new(Embedded::Sink).constant_u32("stream", STREAM).load().unwrap();
        let link = Link::attach("eth0", sink.program()).unwrap();
        (sink, link)
    });
    let sent = in_node(lab, "r", || {
        let program = generator(is_ipv6, omitted);
        let interface = sluice_bpf::attach::interface_index("eth0").unwrap();
        let ended = run_live(program.program(), &frame(is_ipv6), interface, ROUNDS).unwrap();
        assert_eq!(ended, Ended::Completed);
        MappedArray::new(program.map("generators").unwrap()).unwrap().load64(0, 0)
    });
    assert_eq!(sent, Some(LIMIT));
    let tally = MappedArray::new(sink.map("tallies").unwrap()).unwrap();
    let words = || std::array::from_fn(|word| tally.load64(0, word).unwrap());
    let expected = LIMIT - u64::from(omitted > 0);
    // The last packets may still be on their way.
    sluice_lab::until(std::time::Duration::from_secs(60), || words()[0] >= expected);
    words()
}

#[test]
fn packets_have_headers_that_hosts_accept() {
    if !support::usable() {
        return;
    }
    for is_ipv6 in [false, true] {
        let program = generator(is_ipv6, 0);
        let udp = headers(is_ipv6).udp;
        let mut seen = std::collections::BTreeSet::new();
        for sequence in 0..24_u64 {
            let ran = run(program.program(), &frame(is_ipv6), 1).unwrap();
            assert_eq!(ran.verdict, Verdict::Transmit);
            let frame = ran.frame;
            assert!(is_ipv6 || is_right(sum(&frame[14..udp])), "{frame:02x?}");
            assert!(
                is_right(sum(&frame[addresses(is_ipv6)]) + pseudo() + sum(&frame[udp..])),
                "{frame:02x?}"
            );
            assert_eq!(frame[udp + 16..], sequence.to_be_bytes());
            seen.insert((frame[addresses(is_ipv6)].to_vec(), frame[udp..udp + 2].to_vec()));
        }
        // Two destinations in turn, four ports in turn: each port has one destination.
        assert_eq!(seen.len(), 4, "{seen:02x?}");
    }
}

#[test]
fn every_packet_arrives_and_is_counted_once() {
    let Some(lab) = pair("bpf-live") else { return };
    for (is_ipv6, len) in [(false, 58), (true, 78)] {
        assert_eq!(flood(&lab, is_ipv6, 0), [LIMIT, LIMIT * len, 0, 0, 0, LIMIT]);
    }
}

#[test]
fn a_packet_that_is_left_out_is_missed() {
    let Some(lab) = pair("bpf-loss") else { return };
    let [received, _, duplicates, reordered, late, expected] = flood(&lab, false, 51);
    assert_eq!([received, duplicates, reordered, late, expected], [LIMIT - 1, 0, 0, 0, LIMIT]);
}
