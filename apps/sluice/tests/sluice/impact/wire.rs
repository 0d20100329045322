//! The traffic on the wire: BGP messages, and the beginnings and ends of connections, read from a capture by a decoder
//! independent of the router.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Something on a connection that is more than an acknowledgement.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: IpAddr,
    pub to: IpAddr,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Keepalive,
    /// An UPDATE, with every prefix announced or withdrawn; an End-of-RIB marker has no prefix.
    Update(BTreeSet<String>),
    /// A further message of an established session.
    Refresh,
    /// OPEN, NOTIFICATION, and TCP's FIN and RST: a session begins or ends.
    Session,
    /// TCP's first SYN.
    Connect,
}

/// The link-layer type of `tcpdump -i any`.
const LINUX_SLL2: u32 = 276;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Reads a capture as far as it has been written.
pub fn packets(capture: &[u8]) -> Vec<Packet> {
    let word = |at: usize| capture.get(at..at + 4).map(|w| u32::from_le_bytes(w.try_into().unwrap()));
    let mut packets = Vec::new();
    let mut next: BTreeMap<(IpAddr, u16, IpAddr, u16), u32> = BTreeMap::new();
    if capture.len() < 24 {
        return packets;
    }
    assert_eq!(word(20), Some(LINUX_SLL2), "another kind of capture");
    let mut at = 24;
    while let Some(len) = word(at + 8) {
        let Some(frame) = capture.get(at + 16..at + 16 + len as usize) else { break };
        at += 16 + len as usize;
        if let Some(segment) = Segment::decode(frame) {
            segment.read(&mut next, &mut packets);
        }
    }
    packets
}

struct Segment<'a> {
    flow: (IpAddr, u16, IpAddr, u16),
    sequence: u32,
    flags: u8,
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    fn decode(frame: &'a [u8]) -> Option<Self> {
        let packet = frame.get(20..)?;
        let (from, to, tcp): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
            4 => {
                let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
                let tcp = packet.get(usize::from(packet[0] & 15) * 4..total)?;
                let address =
                    |at: usize| <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok().map(Ipv4Addr::from);
                (address(12)?.into(), address(16)?.into(), tcp)
            }
            _ => {
                let total = 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
                let address =
                    |at: usize| <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok().map(Ipv6Addr::from);
                (address(8)?.into(), address(24)?.into(), packet.get(40..total)?)
            }
        };
        let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
        Some(Segment {
            flow: (from, port(0)?, to, port(2)?),
            sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            flags: *tcp.get(13)?,
            payload: tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?,
        })
    }

    fn read(&self, next: &mut BTreeMap<(IpAddr, u16, IpAddr, u16), u32>, packets: &mut Vec<Packet>) {
        let (from, _, to, _) = self.flow;
        let mut seen = |what| packets.push(Packet { from, to, what });
        if self.flags & (FIN | SYN | RST) != 0 {
            seen(if self.flags & (SYN | ACK) == SYN { What::Connect } else { What::Session });
            next.remove(&self.flow);
        }
        if self.payload.is_empty() {
            return;
        }
        let end = self.sequence.wrapping_add(self.payload.len() as u32);
        if let Some(next) = next.get(&self.flow) {
            if (end.wrapping_sub(*next) as i32) <= 0 {
                return; // sent again
            }
            assert!(
                (self.sequence.wrapping_sub(*next) as i32) <= 0,
                "the capture lacks octets of {:?}",
                self.flow
            );
        }
        next.insert(self.flow, end);
        let mut rest = self.payload;
        while let Some(header) = rest.get(..19) {
            assert!(header[..16].iter().all(|o| *o == 255), "a message in two segments");
            let len = usize::from(u16::from_be_bytes([header[16], header[17]]));
            let body = &rest[19..len];
            seen(match header[18] {
                2 => What::Update(prefixes(body)),
                4 => What::Keepalive,
                5 => What::Refresh,
                _ => What::Session,
            });
            rest = &rest[len..];
        }
    }
}

/// All prefixes in an UPDATE's body (RFC 4271, section 4.3; RFC 4760).
fn prefixes(body: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let size = |at: usize| usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    let withdrawn = size(0);
    field(&body[2..2 + withdrawn], false, &mut found);
    let attributes = 4 + withdrawn..4 + withdrawn + size(2 + withdrawn);
    field(&body[attributes.end..], false, &mut found);
    let mut rest = &body[attributes];
    while !rest.is_empty() {
        let (len, value) = match rest[0] & 0x10 {
            0 => (usize::from(rest[2]), 3),
            _ => (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
        };
        let value_of = &rest[value..value + len];
        match rest[1] {
            14 => field(&value_of[5 + usize::from(value_of[3])..], value_of[1] == 2, &mut found),
            15 => field(&value_of[3..], value_of[1] == 2, &mut found),
            _ => {}
        }
        rest = &rest[value + len..];
    }
    found
}

fn field(mut octets: &[u8], is_v6: bool, found: &mut BTreeSet<String>) {
    while let Some((len, rest)) = octets.split_first() {
        let (prefix, rest) = rest.split_at(usize::from(len.div_ceil(8)));
        let mut address = [0; 16];
        address[..prefix.len()].copy_from_slice(prefix);
        let address: IpAddr = match is_v6 {
            true => Ipv6Addr::from(address).into(),
            false => Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(),
        };
        found.insert(format!("{address}/{len}"));
        octets = rest;
    }
}
