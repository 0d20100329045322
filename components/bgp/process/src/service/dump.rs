//! Dumps of the table as MRT records (RFC 6396, section 4.3): the routes of neighbors as received, before import policy.
//!
//! A client asks for slice after slice, so a dump of the Internet's table neither stalls a table nor fills memory. The dump has
//! each route as of the reading of the slice. A peer's position is the peer's number plus one, unchanged when neighbors come and
//! go during a dump. Position 0 is the router itself. The time of arrival is not stored: routes have the time of the dump.

use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::not_configured;
use sluice_base::{Address, AnyPrefix, Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, RouterId};
use sluice_bgp::attributes::canonical;
use sluice_bgp::shard::{PathView, PeerIndex};
use sluice_bgp::speaker::control::Control;
use sluice_bgp::table::{Sharded, Table};
use sluice_bgp::wire::attribute::{Flags, code, put_header};
use sluice_bgp::wire::multiprotocol::NextHop;
use sluice_mrt::{Entry, Peer, Writer};
use sluice_xrl::XrlError;
use std::net::{IpAddr, Ipv4Addr};
use tracing::warn;

/// Prefixes of a slice.
const SLICE: usize = 1024;

/// The router's own position among the peers.
const OWN: u16 = 0;

/// A place in a dump: the family, the table and the place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slice {
    is_ipv6: bool,
    table: usize,
    place: u32,
}

impl Slice {
    /// Reads the number of a slice; `None` for the peers.
    fn read(number: u64) -> Option<Self> {
        let [is_ipv6, a, b, c, place @ ..] = number.checked_sub(1)?.to_be_bytes();
        Some(Slice {
            is_ipv6: is_ipv6 != 0,
            table: u32::from_be_bytes([0, a, b, c]) as usize,
            place: u32::from_be_bytes(place),
        })
    }

    /// Returns the number of the slice.
    const fn number(self) -> u64 {
        1 + ((self.is_ipv6 as u64) << 56 | (self.table as u64) << 32 | self.place as u64)
    }

    /// Returns the next slice; `None` at the end. `next` is the table's place to go on from.
    fn after(self, next: Option<u32>, tables: usize) -> Option<Self> {
        match next {
            Some(place) => Some(Slice { place, ..self }),
            None if self.table + 1 < tables => Some(Slice { table: self.table + 1, place: 0, ..self }),
            None => (!self.is_ipv6).then_some(Slice { is_ipv6: true, table: 0, place: 0 }),
        }
    }
}

/// Records of a part of a table.
#[derive(Default)]
struct Records {
    octets: Vec<u8>,
    sequence: u32,
    routes: u64,
    next: Option<u32>,
}

impl BgpProcess {
    /// Returns a slice of a dump.
    pub(crate) async fn table_dump(
        &self,
        request: &pb::GetTableDumpRequest,
    ) -> Result<pb::GetTableDumpReply, XrlError> {
        let tables = self.core().ok_or_else(not_configured)?.post.tables.len();
        let Some(slice) = Slice::read(request.slice) else {
            let records = self.read(|control| peers(control, request.time)).ok_or_else(not_configured)?;
            let first = Slice { is_ipv6: false, table: 0, place: 0 };
            return Ok(pb::GetTableDumpReply { records, next_slice: first.number(), ..Default::default() });
        };
        let (time, sequence) = (request.time, request.sequence);
        let look = move |table: &Table| {
            if slice.is_ipv6 {
                records::<Ipv6Prefix>(table, slice.place, time, sequence)
            } else {
                records::<Ipv4Prefix>(table, slice.place, time, sequence)
            }
        };
        let records = self.ask(slice.table, look).await?.unwrap_or_default();
        Ok(pb::GetTableDumpReply {
            next_slice: slice.after(records.next, tables).map_or(0, Slice::number),
            records: records.octets,
            sequence: records.sequence,
            routes: records.routes,
        })
    }
}

/// Returns the record of the peers.
fn peers(control: &Control, time: u32) -> Vec<u8> {
    let none = Peer { router_id: RouterId(0), address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), asn: Asn(0) };
    let mut peers = vec![none];
    let (router_id, local_as) = control.router();
    peers[usize::from(OWN)] = Peer { router_id, asn: local_as, ..none };
    for address in control.neighbors().chain(control.injections()) {
        let Some(position) = control.neighbor_index(address).and_then(position) else { continue };
        let Some(config) = control.neighbor_config(address) else { continue };
        let router_id = control.neighbor_router_id(address).unwrap_or(none.router_id);
        peers.resize(peers.len().max(usize::from(position) + 1), none);
        peers[usize::from(position)] = Peer { router_id, address, asn: config.peer_as };
    }
    let mut writer = Writer::new();
    // Refused only with more neighbors than a router can have.
    if writer.peer_index(time, router_id, "", &peers).is_err() {
        warn!(peers = peers.len(), "a dump has no room for the peers");
    }
    writer.take()
}

/// Returns the position of a peer in the dump; `None` for a route without a neighbor, which dumps leave out.
fn position(peer: PeerIndex) -> Option<u16> {
    match peer {
        PeerIndex::DEFAULT => None,
        own if own.is_own() => Some(OWN),
        peer => peer.0.checked_add(1),
    }
}

/// Returns the records of a slice of a table.
fn records<P: Sharded>(table: &Table, place: u32, time: u32, mut sequence: u32) -> Records {
    let (routes, next) = table.shard::<P>().routes(place, SLICE, |_| true);
    let mut writer = Writer::new();
    let mut count = 0;
    for route in routes {
        let Some(prefix) = AnyPrefix::of(route.prefix).ip() else { continue };
        let paths: Vec<(u16, Option<u32>, Vec<u8>)> = route
            .paths
            .iter()
            .filter_map(|path| {
                Some((
                    position(path.peer)?,
                    path.path_id,
                    attributes(path, matches!(prefix, IpPrefix::V4(_))),
                ))
            })
            .collect();
        // Paths with an identifier stand in a record of their own.
        for with_id in [false, true] {
            let of_record = paths.iter().filter(|(_, path_id, _)| path_id.is_some() == with_id);
            let entries: Vec<Entry<'_>> = of_record
                .map(|(peer, path_id, attributes)| Entry {
                    peer: *peer,
                    originated: time,
                    path_id: *path_id,
                    attributes,
                })
                .collect();
            if !entries.is_empty() && writer.rib(time, sequence, prefix, &entries).is_ok() {
                sequence = sequence.wrapping_add(1);
                count += entries.len() as u64;
            }
        }
    }
    Records { octets: writer.take(), sequence, routes: count, next }
}

/// Returns the received attributes of a path, with the next hop in place.
fn attributes(path: &PathView, is_ipv4: bool) -> Vec<u8> {
    let (next_hop, octets) = match &path.received {
        Some(came) => (&came.next_hop, &came.attributes),
        None => (&path.next_hop, &path.attributes),
    };
    let (flags, own_code, value) = next_hop_attribute(next_hop, is_ipv4);
    let mut out = Vec::with_capacity(octets.len() + value.len() + 4);
    let mut is_missing = true;
    for attribute in canonical::attributes(octets) {
        if is_missing && attribute.code > own_code {
            is_missing = false;
            put_header(&mut out, flags, own_code, value.len());
            out.extend_from_slice(&value);
        }
        attribute.put(&mut out);
    }
    if is_missing {
        put_header(&mut out, flags, own_code, value.len());
        out.extend_from_slice(&value);
    }
    out
}

/// Returns the attribute with a next hop: NEXT_HOP, or MP_REACH_NLRI with the next hop alone (RFC 6396, section 4.3.4).
fn next_hop_attribute(next_hop: &NextHop, is_ipv4: bool) -> (u8, u8, Vec<u8>) {
    let octets = match next_hop.address {
        Address::Ip(IpAddr::V4(address)) if is_ipv4 => {
            return (Flags::TRANSITIVE, code::NEXT_HOP, address.octets().to_vec());
        }
        Address::Ip(IpAddr::V4(address)) => address.octets().to_vec(),
        Address::Ip(IpAddr::V6(address)) => {
            let link_local = next_hop.link_local.map(|address| address.octets());
            [&address.octets()[..], link_local.as_ref().map_or(&[][..], |octets| octets)].concat()
        }
        // No IP prefix has such a next hop.
        Address::Identifier(_) => Vec::new(),
    };
    let value = [&[octets.len() as u8][..], &octets].concat();
    (Flags::OPTIONAL, code::MP_REACH_NLRI, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_each_other_to_the_end() {
        let mut slice = Slice::read(1).unwrap();
        let mut seen = vec![slice];
        let mut places = [Some(70_000), None, None].into_iter();
        while let Some(next) = slice.after(places.next().flatten(), 2) {
            assert_eq!(Slice::read(next.number()), Some(next));
            slice = next;
            seen.push(next);
        }
        let at = |is_ipv6, table, place| Slice { is_ipv6, table, place };
        assert_eq!(
            seen,
            [at(false, 0, 0), at(false, 0, 70_000), at(false, 1, 0), at(true, 0, 0), at(true, 1, 0)]
        );
        assert_eq!(Slice::read(0), None);
    }

    #[test]
    fn next_hops_as_dumps_have_them() {
        let v4 = NextHop::new("192.0.2.1".parse().unwrap());
        assert_eq!(next_hop_attribute(&v4, true), (0x40, 3, vec![192, 0, 2, 1]));
        let v6 = NextHop {
            link_local: Some("fe80::1".parse().unwrap()),
            ..NextHop::new("2001:db8::1".parse().unwrap())
        };
        let (flags, code, value) = next_hop_attribute(&v6, false);
        assert_eq!((flags, code, value.len(), value[0]), (0x80, 14, 33, 32));
    }
}
