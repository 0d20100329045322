//! Tables in traces: the peers by number, then a record for each prefix (RFC 6396, section 4.3).

use crate::read::Fields;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{Asn, IpPrefix, RouterId};

/// A peer whose routes are in a table (RFC 6396, section 4.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The BGP Identifier.
    pub router_id: RouterId,
    /// The address.
    pub address: IpAddr,
    /// The AS.
    pub asn: Asn,
}

/// The peers of the following table: PEER_INDEX_TABLE (RFC 6396, section 4.3.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerIndex<'a> {
    /// The time, in seconds since 1970.
    pub time: u32,
    /// The BGP Identifier of the trace's writer.
    pub collector: RouterId,
    /// The view's name; mostly empty.
    pub view: &'a str,
    /// The peers; entries name them by position.
    pub peers: Vec<Peer>,
}

/// A route of a prefix (RFC 6396, section 4.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry<'a> {
    /// The peer: the position in the [`PeerIndex`].
    pub peer: u16,
    /// The time of arrival, in seconds since 1970.
    pub originated: u32,
    /// The path identifier in a session with several paths of a prefix (RFC 8050, section 4). A record has identifiers for all routes or
    /// for no route.
    pub path_id: Option<u32>,
    /// The path attributes as in an UPDATE, with 4-octet AS numbers; of MP_REACH_NLRI only the next hop, after the
    /// length.
    pub attributes: &'a [u8],
}

/// A prefix with routes: RIB_IPV4_UNICAST or RIB_IPV6_UNICAST (RFC 6396, section 4.3.2), or the types with path identifiers (RFC 8050,
/// section 4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rib<'a> {
    /// The time, in seconds since 1970.
    pub time: u32,
    /// The place in the table, counted from 0.
    pub sequence: u32,
    /// The prefix.
    pub prefix: IpPrefix,
    /// The routes.
    pub entries: Vec<Entry<'a>>,
}

impl<'a> PeerIndex<'a> {
    pub(crate) fn read(time: u32, mut fields: Fields<'a>) -> Option<Self> {
        let collector = RouterId(fields.number(4)?);
        let length = fields.number(2)? as usize;
        let view = core::str::from_utf8(fields.take(length)?).ok()?;
        let mut peers = Vec::new();
        for _ in 0..fields.number(2)? {
            let kind = fields.number(1)?;
            let router_id = RouterId(fields.number(4)?);
            let address = if kind & 1 == 0 { fields.v4()?.into() } else { fields.v6()?.into() };
            let asn = Asn(fields.number(if kind & 2 == 0 { 2 } else { 4 })?);
            peers.push(Peer { router_id, address, asn });
        }
        Some(PeerIndex { time, collector, view, peers })
    }
}

impl<'a> Rib<'a> {
    pub(crate) fn read(time: u32, is_v6: bool, has_ids: bool, mut fields: Fields<'a>) -> Option<Self> {
        let sequence = fields.number(4)?;
        let prefix = prefix(is_v6, &mut fields)?;
        let mut entries = Vec::new();
        for _ in 0..fields.number(2)? {
            let (peer, originated) = (fields.number(2)? as u16, fields.number(4)?);
            let path_id = if has_ids { Some(fields.number(4)?) } else { None };
            let length = fields.number(2)? as usize;
            entries.push(Entry { peer, originated, path_id, attributes: fields.take(length)? });
        }
        Some(Rib { time, sequence, prefix, entries })
    }
}

/// A prefix in the form of UPDATEs: the length, then the significant octets.
fn prefix(is_v6: bool, fields: &mut Fields<'_>) -> Option<IpPrefix> {
    let len = fields.number(1)? as u8;
    let octets = fields.take(usize::from(len).div_ceil(8))?;
    let mut address = [0; 16];
    address.get_mut(..octets.len())?.copy_from_slice(octets);
    let [a, b, c, d, ..] = address;
    let address = if is_v6 { Ipv6Addr::from(address).into() } else { Ipv4Addr::from([a, b, c, d]).into() };
    IpPrefix::new(address, len)
}
