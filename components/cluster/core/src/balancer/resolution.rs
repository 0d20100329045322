//! The sender's MAC address inside packets of ARP (RFC 826) and neighbor discovery (RFC 4861).
//!
//! The control plane's interface has an address of the interconnect. Neighbors must learn the port's virtual MAC address in its place.

use crate::balancer::decision::behind_tags;
use crate::mac::Mac;

const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// The places of the hardware addresses of sender and target.
const ARP_ADDRESSES: [usize; 2] = [8, 18];
const ARP_LEN: usize = 28;
const IPV6_LEN: usize = 40;
/// Options of link-layer addresses: of the source and of the target.
const LINK_OPTIONS: [u8; 2] = [1, 2];
const OPTION_LEN: usize = 8;
/// The options that are looked at.
const MOST_OPTIONS: usize = 4;

/// Writes `to` in place of `from` inside a frame of the control plane. Other frames stay as they are.
pub fn rewrite(frame: &mut [u8], from: Mac, to: Mac) {
    let Some((ether_type, packet)) = behind_tags(frame) else { return };
    let start = frame.len() - packet.len();
    let Some(packet) = frame.get_mut(start..) else { return };
    match ether_type {
        ARP => rewrite_arp(packet, from, to),
        IPV6 => rewrite_discovery(packet, from, to),
        _ => {}
    }
}

fn rewrite_arp(packet: &mut [u8], from: Mac, to: Mac) {
    if packet.len() < ARP_LEN || packet[4..6] != [6, 4] {
        return;
    }
    for at in ARP_ADDRESSES {
        if packet[at..at + Mac::LEN] == from.0 {
            packet[at..at + Mac::LEN].copy_from_slice(&to.0);
        }
    }
}

fn rewrite_discovery(packet: &mut [u8], from: Mac, to: Mac) {
    if packet.get(6) != Some(&ICMPV6) {
        return;
    }
    let Some(message) = packet.get_mut(IPV6_LEN..).filter(|message| message.len() >= 4) else { return };
    let mut at = match message[0] {
        133 => 8,
        134 => 16,
        135 | 136 => 24,
        137 => 40,
        _ => return,
    };
    for _ in 0..MOST_OPTIONS {
        let Some(option) = message.get_mut(at..at + OPTION_LEN) else { return };
        let length = usize::from(option[1]);
        if length == 0 {
            return;
        }
        at += length * OPTION_LEN;
        if length == 1 && LINK_OPTIONS.contains(&option[0]) && option[2..] == from.0 {
            option[2..].copy_from_slice(&to.0);
            let checksum = updated(u16::from_be_bytes([message[2], message[3]]), from, to);
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Returns a checksum after a change of an address (RFC 1624, equation 3).
fn updated(checksum: u16, from: Mac, to: Mac) -> u16 {
    let words = |[a, b, c, d, e, f]: [u8; 6]| [[a, b], [c, d], [e, f]].map(u16::from_be_bytes).into_iter();
    let sum = words(from.0)
        .map(|word| !word)
        .chain(words(to.0))
        .fold(u32::from(!checksum), |sum, word| sum + u32::from(word));
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
