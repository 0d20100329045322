//! Frames of the tests, with right checksums.

use super::tables::ROUTER;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The MAC address of the sender.
pub const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Octets of the Ethernet header.
pub const ETHERNET: usize = 14;

/// Returns a UDP packet of `payload` octets behind the UDP header, with TTL 64.
pub fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, payload: usize) -> Vec<u8> {
    let mut frame = [&ROUTER[..], &SENDER, &[8, 0, 0x45, 0]].concat();
    frame.extend_from_slice(&(28 + payload as u16).to_be_bytes());
    frame.extend_from_slice(&[0x12, 0x34, 0, 0, 64, 17, 0, 0]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&destination.octets());
    udp(&mut frame, payload);
    set_checksum(&mut frame);
    frame
}

/// Returns a UDP packet of `payload` octets behind the UDP header, with hop limit 64.
pub fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, payload: usize) -> Vec<u8> {
    let mut frame = [&ROUTER[..], &SENDER, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    frame.extend_from_slice(&(8 + payload as u16).to_be_bytes());
    frame.extend_from_slice(&[17, 64]);
    frame.extend_from_slice(&source.octets());
    frame.extend_from_slice(&destination.octets());
    udp(&mut frame, payload);
    frame
}

fn udp(frame: &mut Vec<u8>, payload: usize) {
    for word in [1000, 2000, 8 + payload as u16, 0] {
        frame.extend_from_slice(&word.to_be_bytes());
    }
    frame.extend((0..payload).map(|octet| octet as u8));
}

/// Writes the checksum of an IPv4 header, computed over the whole header (RFC 1071).
pub fn set_checksum(frame: &mut [u8]) {
    let header = ETHERNET + usize::from(frame[ETHERNET] & 0xf) * 4;
    frame[24..26].fill(0);
    let check = !sum(&frame[ETHERNET..header]);
    frame[24..26].copy_from_slice(&check.to_be_bytes());
}

/// Returns the ones' complement sum (RFC 1071) of octets of an even number.
pub fn sum(octets: &[u8]) -> u16 {
    let words = octets.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
