//! The headers of generated packets, and the parts of their checksums that are the same in each packet.

use crate::spec::{FIRST_PORT, STAMP};
use sluice_bpf::layout::STAMP_MAGIC;
use std::net::IpAddr;

/// The destination port of generated packets: discard (RFC 863).
pub const PORT: u16 = 9;

/// The hop limit, or time to live, of generated packets.
const HOPS: u8 = 64;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;

/// The headers of a frame with zeros in place of the destination address and the checksums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The Ethernet, IP and UDP headers.
    pub octets: Vec<u8>,
    /// The sum of the IPv4 header's 16-bit words; 0 for IPv6.
    pub ip_sum: u32,
    /// The sum of the 16-bit words of the pseudo-header, the UDP header, and magic and stream of the stamp.
    pub udp_sum: u32,
}

/// Returns the number of octets of the Ethernet, IP and UDP headers of packets from `source`.
pub fn octets(source: IpAddr) -> usize {
    ETHERNET + if source.is_ipv4() { IPV4 } else { IPV6 } + UDP
}

/// Makes the headers of frames of `size` octets, which must have room for headers and stamp.
pub fn make(from: [u8; 6], to: [u8; 6], source: IpAddr, size: usize, stream: u32) -> Headers {
    let udp_length = (size - octets(source) + UDP) as u16;
    let mut octets = [to, from].concat();
    match source {
        IpAddr::V4(source) => {
            // RFC 791, section 3.1: version and header length, total length, time to live, protocol.
            octets.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
            octets.extend_from_slice(&(IPV4 as u16 + udp_length).to_be_bytes());
            octets.extend_from_slice(&[0, 0, 0, 0, HOPS, PROTOCOL_UDP, 0, 0]);
            octets.extend_from_slice(&source.octets());
            octets.extend_from_slice(&[0; 4]);
        }
        IpAddr::V6(source) => {
            // RFC 8200, section 3: version, payload length, next header, hop limit.
            octets.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            octets.extend_from_slice(&udp_length.to_be_bytes());
            octets.extend_from_slice(&[PROTOCOL_UDP, HOPS]);
            octets.extend_from_slice(&source.octets());
            octets.extend_from_slice(&[0; 16]);
        }
    }
    let ip_sum = if source.is_ipv4() { sum(&octets[ETHERNET..]) } else { 0 };
    let udp = [FIRST_PORT, PORT, udp_length, 0].map(u16::to_be_bytes).concat();
    octets.extend_from_slice(&udp);
    let address = match source {
        IpAddr::V4(source) => sum(&source.octets()),
        IpAddr::V6(source) => sum(&source.octets()),
    };
    let pseudo = address + sum(&[0, PROTOCOL_UDP]) + sum(&udp_length.to_be_bytes());
    // The program adds the source port, because each flow has its own.
    let stamp = sum(&STAMP_MAGIC.to_be_bytes()) + sum(&stream.to_be_bytes());
    Headers { octets, ip_sum, udp_sum: pseudo + sum(&udp[2..]) + stamp }
}

/// Returns the octets of a stamp (`struct stamp`).
pub fn stamp(stream: u32, sequence: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[..4].copy_from_slice(&STAMP_MAGIC.to_be_bytes());
    stamp[4..8].copy_from_slice(&stream.to_be_bytes());
    stamp[8..].copy_from_slice(&sequence.to_be_bytes());
    stamp
}

/// Returns the sum of 16-bit words in the machine's order (RFC 1071, section 2: the checksum does not depend on it).
fn sum(octets: &[u8]) -> u32 {
    octets.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_ne_bytes(*word))).sum()
}
