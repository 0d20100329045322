//! Encodes a peer's UPDATEs: attributes and prefixes to octets (RFC 4271, section 4.3; RFC 4760).

use crate::stream::Stream;
use crate::wire::attribute::{code, put_header};
use crate::wire::{
    AFI_IPV6, HEADER_LEN, MAX_MESSAGE_LEN, MessageType, PATH_ID_LEN, SAFI_UNICAST, WirePrefix, as_path,
    header,
};
use sluice_base::{Asn, Family, IpPrefix};
use std::net::{Ipv4Addr, Ipv6Addr};

const WELL_KNOWN: u8 = 0x40;
const OPTIONAL: u8 = 0x80;

/// LOCAL_PREF in the announcements of internal peers.
const LOCAL_PREF: u32 = 100;

/// Octets before the prefixes of an MP_REACH_NLRI: header, family, next hop and its length, reserved.
const MP_REACH_ROOM: usize = 4 + 3 + 1 + 16 + 1;
/// Octets before the prefixes of an MP_UNREACH_NLRI: header, family.
const MP_UNREACH_ROOM: usize = 4 + 3;

/// Path attributes apart from the next hop, before a peer puts its own AS into them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// ORIGIN.
    pub origin: u8,
    /// AS_PATH with 4-octet numbers.
    pub path: Vec<u8>,
    /// Further attributes, encoded.
    pub rest: Vec<u8>,
}

impl Attributes {
    /// Attributes with a path of one sequence.
    pub fn of_path(path: &[Asn]) -> Self {
        let mut octets = Vec::with_capacity(2 + 4 * path.len());
        for part in path.chunks(usize::from(u8::MAX)) {
            octets.extend_from_slice(&[as_path::AS_SEQUENCE, part.len() as u8]);
            part.iter().for_each(|asn| octets.extend_from_slice(&asn.0.to_be_bytes()));
        }
        Attributes { origin: 0, path: octets, rest: Vec::new() }
    }
}

/// The parameters with which a peer encodes its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Voice {
    /// The peer's AS.
    pub asn: Asn,
    /// True if the target is in the same AS: then nothing is put before the path, and there is a LOCAL_PREF.
    pub internal: bool,
    /// Next hop of the peer's IPv4 routes.
    pub next_hop_v4: Ipv4Addr,
    /// Next hop of the peer's IPv6 routes.
    pub next_hop_v6: Ipv6Addr,
    /// Prefixes in a message at most.
    pub per_message: usize,
    /// Paths of each prefix. With more than one, a path identifier stands before each prefix (RFC 7911, section 3): 1 for the best path,
    /// then 2 and so on.
    pub paths: u32,
}

impl Voice {
    /// Appends UPDATEs that announce all paths of prefixes of a family with the same attributes. Returns the number of prefixes
    /// without room, which is the number of prefixes if the attributes leave no room.
    pub fn announce(&self, attributes: &Attributes, prefixes: &[IpPrefix], stream: &mut Stream) -> usize {
        (1..=self.paths).map(|path| self.announce_path(path, attributes, prefixes, stream)).sum()
    }

    /// Appends UPDATEs that announce a path of prefixes. Each path is worse than the path before: by another own AS in the AS_PATH, or to
    /// an internal target by a lower LOCAL_PREF.
    fn announce_path(
        &self,
        path: u32,
        attributes: &Attributes,
        prefixes: &[IpPrefix],
        stream: &mut Stream,
    ) -> usize {
        let Some(family) = prefixes.first().map(|p| p.family()) else { return 0 };
        let head = self.attributes(path, attributes, family);
        let reach = if family == Family::Ipv6 { MP_REACH_ROOM } else { 0 };
        let Some(room) = (MAX_MESSAGE_LEN - HEADER_LEN - 4).checked_sub(head.len() + reach) else {
            return prefixes.len();
        };
        if room < self.longest() {
            return prefixes.len();
        }
        self.pack(path, prefixes, room, |nlri, count| {
            stream.push(count, |out| {
                update(out, |out| {
                    out.extend_from_slice(&[0, 0]);
                    match family {
                        Family::Ipv4 => {
                            out.extend_from_slice(&(head.len() as u16).to_be_bytes());
                            out.extend_from_slice(&head);
                            out.extend_from_slice(nlri);
                        }
                        Family::Ipv6 => section(out, |out| {
                            put_header(out, OPTIONAL, code::MP_REACH_NLRI, MP_REACH_ROOM - 4 + nlri.len());
                            put_family(out);
                            out.push(16);
                            out.extend_from_slice(&self.next_hop_v6.octets());
                            out.push(0);
                            out.extend_from_slice(nlri);
                            out.extend_from_slice(&head);
                        }),
                    }
                });
            });
        });
        0
    }

    /// Appends UPDATEs that withdraw all paths of prefixes of a family.
    pub fn withdraw(&self, prefixes: &[IpPrefix], stream: &mut Stream) {
        (1..=self.paths).for_each(|path| self.withdraw_path(path, prefixes, stream));
    }

    fn withdraw_path(&self, path: u32, prefixes: &[IpPrefix], stream: &mut Stream) {
        let Some(family) = prefixes.first().map(|p| p.family()) else { return };
        let room = MAX_MESSAGE_LEN - HEADER_LEN - 4 - MP_UNREACH_ROOM;
        self.pack(path, prefixes, room, |nlri, count| {
            stream.push(count, |out| {
                update(out, |out| match family {
                    Family::Ipv4 => {
                        out.extend_from_slice(&(nlri.len() as u16).to_be_bytes());
                        out.extend_from_slice(nlri);
                        out.extend_from_slice(&[0, 0]);
                    }
                    Family::Ipv6 => {
                        out.extend_from_slice(&[0, 0]);
                        section(out, |out| {
                            put_header(out, OPTIONAL, code::MP_UNREACH_NLRI, 3 + nlri.len());
                            put_family(out);
                            out.extend_from_slice(nlri);
                        });
                    }
                });
            });
        });
    }

    /// Appends the End-of-RIB marker of a family (RFC 4724, section 2).
    pub fn end_of_rib(&self, family: Family, stream: &mut Stream) {
        stream.push(0, |out| {
            update(out, |out| {
                out.extend_from_slice(&[0, 0]);
                section(out, |out| {
                    if family == Family::Ipv6 {
                        put_header(out, OPTIONAL, code::MP_UNREACH_NLRI, 3);
                        put_family(out);
                    }
                });
            });
        });
    }

    /// The attributes common to every message of a path, by the path's number.
    fn attributes(&self, number: u32, attributes: &Attributes, family: Family) -> Vec<u8> {
        let mut path = Vec::with_capacity(attributes.path.len() + 6);
        path.extend_from_slice(&attributes.path);
        let own = if self.internal { 0 } else { number };
        for _ in 0..own {
            let before = std::mem::take(&mut path);
            as_path::put_prepended(&before, self.asn, &mut path);
        }
        let mut out = Vec::with_capacity(path.len() + attributes.rest.len() + 24);
        put_header(&mut out, WELL_KNOWN, code::ORIGIN, 1);
        out.push(attributes.origin);
        put_header(&mut out, WELL_KNOWN, code::AS_PATH, path.len());
        out.extend_from_slice(&path);
        if family == Family::Ipv4 {
            put_header(&mut out, WELL_KNOWN, code::NEXT_HOP, 4);
            out.extend_from_slice(&self.next_hop_v4.octets());
        }
        if self.internal {
            put_header(&mut out, WELL_KNOWN, code::LOCAL_PREF, 4);
            out.extend_from_slice(&LOCAL_PREF.saturating_sub(number - 1).to_be_bytes());
        }
        out.extend_from_slice(&attributes.rest);
        out
    }

    /// Octets of the longest prefix, with a path identifier where there are several paths.
    const fn longest(&self) -> usize {
        LONGEST_PREFIX + if self.paths > 1 { PATH_ID_LEN } else { 0 }
    }

    /// Hands out as many prefixes of a path at a time as a message may have.
    fn pack(&self, path: u32, prefixes: &[IpPrefix], room: usize, mut message: impl FnMut(&[u8], usize)) {
        let (mut nlri, mut count) = (Vec::with_capacity(room), 0);
        for prefix in prefixes {
            if count > 0 && (count >= self.per_message || nlri.len() + self.longest() > room) {
                message(&nlri, count);
                nlri.clear();
                count = 0;
            }
            if self.paths > 1 {
                nlri.extend_from_slice(&path.to_be_bytes());
            }
            match prefix {
                IpPrefix::V4(p) => p.put(&mut nlri),
                IpPrefix::V6(p) => p.put(&mut nlri),
            }
            count += 1;
        }
        if count > 0 {
            message(&nlri, count);
        }
    }
}

/// Octets of the longest prefix: its length and a whole IPv6 address.
const LONGEST_PREFIX: usize = 17;

fn update(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = header::start(out, MessageType::Update);
    body(out);
    header::finish(out, at);
}

/// Appends a section behind its length.
fn section(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    content(out);
    let len = (out.len() - at - 2) as u16;
    out[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

fn put_family(out: &mut Vec<u8>) {
    out.extend_from_slice(&AFI_IPV6.to_be_bytes());
    out.push(SAFI_UNICAST);
}
