//! UPDATEs out of traces: by the peer that sent them, with next hops that both routers reach.

use sluice_base::Asn;
use sluice_bgp::injection::put_update;
use sluice_bgpsim::wire::attribute::{Attributes, code, put_header};
use sluice_bgpsim::wire::{MAX_MESSAGE_LEN, MessageType, Update, header};
use sluice_mrt::{Record, records};
use sluice_router_lab::speaker::message;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The UPDATEs of a peer of a trace.
pub struct Feed {
    /// The peer's AS.
    pub asn: Asn,
    /// True if AS numbers have 4 octets.
    pub four_octet_as: bool,
    /// The bodies of the UPDATEs, in order.
    bodies: Vec<Vec<u8>>,
}

impl Feed {
    /// Returns the messages as a feed with this number sends them: with its own addresses as next hops.
    pub fn messages(&self, number: u8) -> impl Iterator<Item = Vec<u8>> {
        self.bodies.iter().map(move |body| message(MessageType::Update, &with_next_hop(body, number)))
    }
}

/// The IPv4 address of a feed.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, 10 + number)
}

/// The IPv6 address of a feed.
fn address6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 16 + u16::from(number))
}

/// Returns the feeds with the most UPDATEs in a trace: so many of them, each with so many UPDATEs at most. Paths with identifiers, messages
/// longer than 4,096 octets and UPDATEs without a route of unicast are left out.
pub fn feeds(trace: &[u8], most_feeds: usize, most_updates: usize) -> Vec<Feed> {
    let mut all: BTreeMap<(IpAddr, bool), Feed> = BTreeMap::new();
    let mut put = |peer: IpAddr, asn: Asn, four_octet_as: bool, body: &[u8]| {
        let new = || Feed { asn, four_octet_as, bodies: Vec::new() };
        let feed = all.entry((peer, four_octet_as)).or_insert_with(new);
        // With next hops of this lab, an UPDATE is at most a few octets longer.
        if feed.bodies.len() < most_updates && body.len() + 64 < MAX_MESSAGE_LEN {
            feed.bodies.push(body.to_vec());
        }
    };
    let mut peers = Vec::new();
    for record in records(trace) {
        match record {
            Record::PeerIndex(index) => peers = index.peers,
            Record::Rib(rib) => {
                for entry in rib.entries.iter().filter(|entry| entry.path_id.is_none()) {
                    let mut body = Vec::new();
                    let peer = &peers[usize::from(entry.peer)];
                    if put_update(rib.prefix, entry, &mut body).is_some() {
                        put(peer.address, peer.asn, true, &body);
                    }
                }
            }
            Record::Message(found) if !found.is_local && !found.has_path_ids => {
                let frame = header::frame(found.octets).ok().flatten();
                if let Some(frame) = frame.filter(|frame| frame.kind == MessageType::Update) {
                    put(found.peer, Asn(found.peer_as), found.four_octet_as, frame.body);
                }
            }
            _ => {}
        }
    }
    let mut feeds: Vec<Feed> = all.into_values().collect();
    feeds.sort_by_key(|feed| std::cmp::Reverse(feed.bodies.len()));
    feeds.truncate(most_feeds);
    feeds
}

/// Returns the body of an UPDATE with a feed's addresses as next hops. What cannot be read stays as it is.
fn with_next_hop(body: &[u8], number: u8) -> Vec<u8> {
    let Ok(update) = Update::decode(body) else { return body.to_vec() };
    let mut field = Vec::new();
    for attribute in Attributes::new(update.attributes) {
        let Ok(attribute) = attribute else { return body.to_vec() };
        let value = match attribute.code {
            code::NEXT_HOP if attribute.value.len() == 4 => address(number).octets().to_vec(),
            code::MP_REACH_NLRI => with_own_hop(attribute.value, number),
            _ => attribute.value.to_vec(),
        };
        put_header(&mut field, attribute.flags, attribute.code, value.len());
        field.extend_from_slice(&value);
    }
    let mut out = (update.withdrawn.len() as u16).to_be_bytes().to_vec();
    out.extend_from_slice(update.withdrawn);
    out.extend((field.len() as u16).to_be_bytes());
    out.extend(field);
    out.extend_from_slice(update.nlri);
    out
}

/// Returns an MP_REACH_NLRI of IPv6 unicast with a feed's address as next hop; another one as it is.
fn with_own_hop(value: &[u8], number: u8) -> Vec<u8> {
    let [0, 2, 1, len, rest @ ..] = value else { return value.to_vec() };
    let Some(rest) = rest.get(usize::from(*len)..) else { return value.to_vec() };
    [&[0, 2, 1, 16][..], &address6(number).octets(), rest].concat()
}
