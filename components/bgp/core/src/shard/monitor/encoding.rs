//! UPDATEs of monitored routes on the wire.

use super::log::MonitoredRib;
use crate::shard::entry::{PeerIndex, SetId};
use crate::wire::attribute::{Flags, code, put_header};
use crate::wire::{FamilyKey, MAX_EXTENDED_LEN, MAX_MESSAGE_LEN, MessageType, PATH_ID_LEN, header};
use alloc::vec::Vec;

/// The attributes of an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Attributes {
    /// The route is withdrawn.
    None,
    /// A set's attributes.
    Set(SetId),
    /// The attributes of this number, made for the chunk.
    Made(u32),
}

pub(super) fn put_next_hop(hop: &[u8], out: &mut Vec<u8>) {
    put_header(out, Flags::TRANSITIVE, code::NEXT_HOP, hop.len());
    out.extend_from_slice(hop);
}

/// Appends an UPDATE with as many items as fit, at least one, and returns the number of items. The items share `attributes`;
/// without attributes, or with attributes too large for a message, the items are withdrawn. `code` is the family on the wire.
pub(super) fn put_update<P: FamilyKey>(
    code: [u8; 3],
    attributes: Option<&[u8]>,
    hop: &[u8],
    items: &[Item<P>],
    out: &mut Vec<u8>,
) -> usize {
    let most_nlri = PATH_ID_LEN + 1 + usize::from(P::WIDTH / 8);
    let besides = |attributes: &[u8]| OVERHEAD + attributes.len() + hop.len();
    let attributes = attributes.filter(|attributes| besides(attributes) + most_nlri <= MAX_EXTENDED_LEN);
    let besides = attributes.map_or(OVERHEAD, besides);
    let room =
        if besides + most_nlri <= MAX_MESSAGE_LEN { MAX_MESSAGE_LEN } else { MAX_EXTENDED_LEN } - besides;
    let (mut nlri, mut count) = (Vec::new(), 0);
    for item in items {
        if nlri.len() + most_nlri > room {
            break;
        }
        if let Some(id) = item.path_id {
            nlri.extend_from_slice(&id.to_be_bytes());
        }
        item.prefix.put(&mut nlri);
        count += 1;
    }
    let at = header::start(out, MessageType::Update);
    let reach = [&code[..], &[hop.len() as u8], hop, &[0]].concat();
    match (P::HAS_OWN_FIELDS, attributes) {
        (true, None) => put_fields(&nlri, &[], &[], out),
        (true, Some(attributes)) => put_fields(&[], attributes, &nlri, out),
        (false, None) => {
            let unreach = multiprotocol(code::MP_UNREACH_NLRI, &code, &nlri);
            put_fields(&[], &unreach, &[], out);
        }
        (false, Some(attributes)) => {
            let reach = multiprotocol(code::MP_REACH_NLRI, &reach, &nlri);
            put_fields(&[], &[&reach, attributes].concat(), &[], out);
        }
    }
    header::finish(out, at);
    count
}

/// Appends the fields of an UPDATE (RFC 4271, section 4.3).
fn put_fields(withdrawn: &[u8], attributes: &[u8], nlri: &[u8], out: &mut Vec<u8>) {
    for field in [withdrawn, attributes] {
        out.extend_from_slice(&(field.len() as u16).to_be_bytes());
        out.extend_from_slice(field);
    }
    out.extend_from_slice(nlri);
}

/// Returns MP_REACH_NLRI or MP_UNREACH_NLRI, whose prefixes come last.
fn multiprotocol(attribute: u8, before: &[u8], nlri: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_header(&mut out, Flags::OPTIONAL, attribute, before.len() + nlri.len());
    out.extend_from_slice(before);
    out.extend_from_slice(nlri);
    out
}

/// Octets of an UPDATE besides prefixes, attributes and next hop, at most.
pub(super) const OVERHEAD: usize = 32;

/// A route of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Item<P> {
    pub(super) rib: MonitoredRib,
    pub(super) peer: PeerIndex,
    pub(super) is_from_before: bool,
    pub(super) attributes: Attributes,
    pub(super) has_path_id: bool,
    pub(super) prefix: P,
    pub(super) path_id: Option<u32>,
}
