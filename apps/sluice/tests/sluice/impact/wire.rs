//! The traffic on the wire: BGP messages, and the beginnings and ends of connections, read from a capture by a decoder
//! independent of the router.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Something on a connection that is more than an acknowledgement.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: IpAddr,
    pub to: IpAddr,
    pub what: What,
    /// The ports, TCP's flags, and the type of the message, for people.
    pub note: String,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {:?} ({})", self.from, self.to, self.what, self.note)
    }
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
const LINUX_SLL2: usize = 276;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Octets of the capture's header, and of the header of each frame.
const FILE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;

/// A capture that grows: its packets so far, and the octets of a frame that is not yet whole.
#[derive(Default)]
pub struct Capture {
    pub packets: Vec<Packet>,
    /// Octets read so far.
    pub length: u64,
    rest: Vec<u8>,
    is_begun: bool,
    connections: Connections,
}

/// A direction of a connection: addresses and ports of the sender and of the receiver.
type Flow = (IpAddr, u16, IpAddr, u16);

/// The connections so far.
#[derive(Default)]
struct Connections {
    /// The next sequence number of each flow.
    next: BTreeMap<Flow, u32>,
    /// Connections that have ended, each by one of its flows. An end without an answer is sent again for minutes.
    ended: BTreeSet<Flow>,
}

impl Connections {
    /// Notes the end of a connection; returns false if the connection had ended before.
    fn end(&mut self, flow: Flow) -> bool {
        self.ended.insert(flow.min((flow.2, flow.3, flow.0, flow.1)))
    }

    /// Notes the beginning of a connection.
    fn begin(&mut self, flow: Flow) {
        self.ended.remove(&flow.min((flow.2, flow.3, flow.0, flow.1)));
    }
}

impl Capture {
    /// Takes the octets that were written since the last call.
    pub fn feed(&mut self, octets: &[u8]) {
        self.length += octets.len() as u64;
        self.rest.extend_from_slice(octets);
        let word = |rest: &[u8], at: usize| {
            rest.get(at..at + 4).map(|w| u32::from_le_bytes(w.try_into().unwrap()) as usize)
        };
        let mut at = 0;
        if !self.is_begun {
            if self.rest.len() < FILE_HEADER {
                return;
            }
            assert_eq!(word(&self.rest, 20), Some(LINUX_SLL2), "another kind of capture");
            (self.is_begun, at) = (true, FILE_HEADER);
        }
        while let Some(len) = word(&self.rest, at + 8) {
            let Some(frame) = self.rest.get(at + FRAME_HEADER..at + FRAME_HEADER + len) else { break };
            at += FRAME_HEADER + len;
            if let Some(segment) = Segment::decode(frame) {
                segment.read(&mut self.connections, &mut self.packets);
            }
        }
        self.rest.drain(..at);
    }
}

struct Segment<'a> {
    flow: Flow,
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

    fn read(&self, connections: &mut Connections, packets: &mut Vec<Packet>) {
        let (from, from_port, to, to_port) = self.flow;
        let mut seen = |what, message: u8| {
            let note = format!("{from_port} to {to_port}, flags {:#x}, message {message}", self.flags);
            packets.push(Packet { from, to, what, note });
        };
        if self.flags & SYN != 0 {
            connections.begin(self.flow);
            seen(if self.flags & ACK == 0 { What::Connect } else { What::Session }, 0);
        } else if self.flags & (FIN | RST) != 0 && connections.end(self.flow) {
            seen(What::Session, 0);
        }
        let next = &mut connections.next;
        if self.flags & SYN != 0 {
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
            let what = match header[18] {
                2 => What::Update(prefixes(body)),
                4 => What::Keepalive,
                5 => What::Refresh,
                _ => What::Session,
            };
            seen(what, header[18]);
            rest = &rest[len..];
        }
    }
}

/// Returns the prefixes in an UPDATE's body (RFC 4271, section 4.3; RFC 4760).
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

#[test]
fn a_capture_is_read_in_any_pieces() {
    let segment = |sequence: u32, flags: u8, payload: &[u8]| {
        let mut packet =
            vec![0x45, 0, 0, (40 + payload.len()) as u8, 0, 0, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2];
        packet.extend([0, 179, 0x80, 0]);
        packet.extend(sequence.to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        packet.extend(payload);
        let frame = [&[0; 20][..], &packet].concat();
        let mut header = vec![0; 8];
        header.extend((frame.len() as u32).to_le_bytes());
        header.extend((frame.len() as u32).to_le_bytes());
        [header, frame].concat()
    };
    let keepalive = [&[255; 16][..], &[0, 19, 4]].concat();
    let update = [&[255; 16][..], &[0, 27, 2, 0, 4, 24, 192, 0, 2, 0, 0]].concat();
    let mut octets = vec![0; FILE_HEADER];
    octets[20..].copy_from_slice(&(LINUX_SLL2 as u32).to_le_bytes());
    octets.extend(segment(0, SYN, &[]));
    octets.extend(segment(1, ACK, &keepalive));
    octets.extend(segment(1, ACK, &keepalive)); // sent again
    octets.extend(segment(20, ACK, &update));
    octets.extend(segment(47, FIN | ACK, &keepalive));
    octets.extend(segment(47, FIN | ACK, &keepalive)); // sent again
    octets.extend(segment(90, SYN, &[]));
    octets.extend(segment(91, RST, &[]));
    let whats = |pieces: usize| {
        let mut capture = Capture::default();
        octets.chunks(pieces).for_each(|piece| capture.feed(piece));
        assert_eq!(capture.length, octets.len() as u64);
        capture.packets.into_iter().map(|packet| packet.what).collect::<Vec<_>>()
    };
    let update = What::Update(["192.0.2.0/24".to_owned()].into());
    let first = [What::Connect, What::Keepalive, update, What::Session, What::Keepalive];
    let expected = [&first[..], &[What::Connect, What::Session]].concat();
    for pieces in [1, 7, 100, octets.len()] {
        assert_eq!(whats(pieces), expected);
    }
}
