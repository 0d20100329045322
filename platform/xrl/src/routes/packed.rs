//! Packed route batches: many route changes in one `bytes` field (docs/xrl.md, "Packed route batches").
//!
//! A route takes five to seven octets where a message of its own would take thirty and an allocation or two.

use super::convert::Gateway;
use crate::XrlError;
use sluice_base::{
    Address, Distance, Encapsulation, FamilyId, FibBatch, FibRoute, Forwarding, GroupId, Identifier,
    InterfaceIndex, Metric, NextHop, Prefix, Provenance, RouteAction, RouteBatch, RouteKind, RouteSet,
    RouteUpdate, Tag, Tags,
};
use sluice_wire::Cursor;
use std::net::IpAddr;

/// The newest readable version, which batches for the forwarding engine are written in: the first octet.
pub const VERSION: u8 = 3;
/// The version that batches of routes are written in: version 3 changes nothing for them, and older readers know this one.
const ROUTES_VERSION: u8 = 2;
/// The last version whose forwarding routes do not say that they are of an external origin.
const LAST_WITHOUT_EXTERNAL: u8 = 2;
/// The oldest readable version: next hops have no backups, no identifiers and no encapsulation; sets have a single tag
/// and no kind.
pub const OLDEST_VERSION: u8 = 1;
const ROUTES: u8 = 1;
const FIB: u8 = 2;

const GATEWAY_V4: u8 = 1;
const GATEWAY_V6: u8 = 2;
const INTERFACE: u8 = 4;
const GATEWAY_IDENTIFIER: u8 = 8;
const BACKUP: u8 = 16;
const ENCAPSULATION: u8 = 32;

/// The reason why octets are no batch of the expected kind and family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnpackError {
    /// The octets end too early.
    #[error("packed routes: truncated at octet {0}")]
    Truncated(usize),
    /// The batch has an unknown version, such as that of a newer sender.
    #[error(
        "packed routes: version {found}; this version of Sluice reads versions {OLDEST_VERSION} to {VERSION}"
    )]
    Version {
        /// The version of the batch.
        found: u8,
    },
    /// The second and third octet do not match the kind and family.
    #[error("packed routes: kind {} of family {}; expected kind {} of family {}", found[0], found[1], expected[0], expected[1])]
    Head {
        /// Kind and family of the batch.
        found: [u8; 2],
        /// Kind and family that the receiver expects.
        expected: [u8; 2],
    },
    /// A value out of range.
    #[error("packed routes: bad {what} before octet {offset}")]
    Value {
        /// The value's name.
        what: &'static str,
        /// The offset behind the value.
        offset: usize,
    },
    /// Octets follow after the end.
    #[error("packed routes: {0} octets too many")]
    Trailing(usize),
}

impl From<sluice_wire::Truncated> for UnpackError {
    fn from(e: sluice_wire::Truncated) -> Self {
        UnpackError::Truncated(e.offset)
    }
}

impl From<UnpackError> for XrlError {
    fn from(e: UnpackError) -> Self {
        XrlError::BadArguments(e.to_string())
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint(c: &mut Cursor<'_>) -> Result<u64, UnpackError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let octet = c.u8()?;
        let part = u64::from(octet & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        value |= part << shift;
        if octet & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(bad("number", c))
}

fn bad(what: &'static str, c: &Cursor<'_>) -> UnpackError {
    UnpackError::Value { what, offset: c.offset() }
}

fn varint_u32(c: &mut Cursor<'_>, what: &'static str) -> Result<u32, UnpackError> {
    u32::try_from(varint(c)?).map_err(|_| bad(what, c))
}

/// A count, and the number of elements to reserve: at most as many as fit in the remaining octets.
fn count(c: &mut Cursor<'_>, least_octets: usize) -> Result<(u64, usize), UnpackError> {
    let n = varint(c)?;
    let possible = c.len() / least_octets;
    match usize::try_from(n) {
        Ok(wanted) if wanted <= possible => Ok((n, wanted)),
        _ => Err(bad("count", c)),
    }
}

fn put_octets(out: &mut Vec<u8>, number: u8, octets: &[u8]) {
    out.extend_from_slice(&[number, octets.len() as u8]);
    out.extend_from_slice(octets);
}

fn put_forwarding<G: Gateway>(out: &mut Vec<u8>, forwarding: &Forwarding<G>) {
    let hops = match forwarding {
        Forwarding::NextHops(hops) => hops,
        Forwarding::Discard => return out.push(1),
        Forwarding::Reject => return out.push(2),
        Forwarding::Local => return out.push(3),
    };
    out.push(0);
    put_varint(out, hops.len() as u64);
    for hop in hops {
        let gateway: Option<Address> = hop.gateway.map(Into::into);
        let mut flags = match gateway {
            Some(Address::Ip(IpAddr::V4(_))) => GATEWAY_V4,
            Some(Address::Ip(IpAddr::V6(_))) => GATEWAY_V6,
            Some(Address::Identifier(_)) => GATEWAY_IDENTIFIER,
            None => 0,
        };
        for (flag, is_set) in [
            (INTERFACE, hop.interface.is_some()),
            (BACKUP, hop.is_backup),
            (ENCAPSULATION, hop.encapsulation.is_some()),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        out.push(flags);
        match gateway {
            Some(Address::Ip(IpAddr::V4(a))) => out.extend_from_slice(&a.octets()),
            Some(Address::Ip(IpAddr::V6(a))) => out.extend_from_slice(&a.octets()),
            Some(Address::Identifier(id)) => put_octets(out, id.family().0, id.octets()),
            None => {}
        }
        if let Some(interface) = hop.interface {
            put_varint(out, interface.number().into());
        }
        if let Some(encapsulation) = hop.encapsulation {
            put_octets(out, encapsulation.kind(), encapsulation.parameters());
        }
        out.push(hop.weight);
    }
}

fn next_hop<G: Gateway>(c: &mut Cursor<'_>, version: u8) -> Result<NextHop<G>, UnpackError> {
    let flags = c.u8()?;
    let known = if version == OLDEST_VERSION { INTERFACE } else { INTERFACE | BACKUP | ENCAPSULATION };
    let address = match flags & !known {
        0 => None,
        GATEWAY_V4 => Some(Address::Ip(IpAddr::from(c.array::<4>()?))),
        GATEWAY_V6 => Some(Address::Ip(IpAddr::from(c.array::<16>()?))),
        GATEWAY_IDENTIFIER if version > OLDEST_VERSION => {
            let [family, length] = c.array::<2>()?;
            let id =
                Identifier::new(FamilyId(family), c.take(length.into())?).ok_or_else(|| bad("gateway", c))?;
            Some(Address::Identifier(id))
        }
        _ => return Err(bad("next hop", c)),
    };
    let gateway = address.map(G::try_from).transpose().map_err(|_| bad("gateway", c))?;
    let interface = if flags & INTERFACE != 0 {
        Some(InterfaceIndex::new(varint_u32(c, "interface")?).ok_or_else(|| bad("interface", c))?)
    } else {
        None
    };
    let encapsulation = if flags & ENCAPSULATION != 0 {
        let [kind, length] = c.array::<2>()?;
        let parameters = c.take(length.into())?;
        Some(Encapsulation::new(kind, parameters).ok_or_else(|| bad("encapsulation", c))?)
    } else {
        None
    };
    let weight = c.u8()?;
    if weight == 0 {
        return Err(bad("next hop", c));
    }
    Ok(NextHop { is_backup: flags & BACKUP != 0, gateway, interface, encapsulation, weight })
}

fn forwarding<G: Gateway>(c: &mut Cursor<'_>, version: u8) -> Result<Forwarding<G>, UnpackError> {
    match c.u8()? {
        0 => {}
        1 => return Ok(Forwarding::Discard),
        2 => return Ok(Forwarding::Reject),
        3 => return Ok(Forwarding::Local),
        _ => return Err(bad("forwarding", c)),
    }
    let (n, capacity) = count(c, 2)?;
    let mut hops = Vec::with_capacity(capacity);
    for _ in 0..n {
        hops.push(next_hop(c, version)?);
    }
    // Sorted and each once is what the type promises; `many` makes it so whatever came.
    Forwarding::many(hops).ok_or_else(|| bad("next hops", c))
}

/// The end of a batch's row: a number, and the provenance as the distance from the provenance of the row before.
struct Rows {
    last: Provenance,
}

impl Rows {
    fn put(&mut self, out: &mut Vec<u8>, number: u64, provenance: Provenance) {
        let changed = provenance != self.last;
        put_varint(out, number << 1 | u64::from(changed));
        if changed {
            let distance = provenance.bits().wrapping_sub(self.last.bits()) as i64;
            put_varint(out, ((distance << 1) ^ (distance >> 63)) as u64);
            self.last = provenance;
        }
    }

    fn take(&mut self, c: &mut Cursor<'_>) -> Result<(u64, Provenance), UnpackError> {
        let code = varint(c)?;
        if code & 1 == 1 {
            let zigzag = varint(c)?;
            let distance = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
            self.last = Provenance::from_bits(self.last.bits().wrapping_add(distance as u64));
        }
        Ok((code >> 1, self.last))
    }
}

fn put_prefix<P: Prefix>(out: &mut Vec<u8>, prefix: P) {
    out.push(prefix.len());
    prefix.push_octets(out);
}

fn prefix<P: Prefix>(c: &mut Cursor<'_>) -> Result<P, UnpackError> {
    let len = c.u8()?;
    if len > P::WIDTH {
        return Err(bad("prefix length", c));
    }
    let octets = c.take(usize::from(len).div_ceil(8))?;
    P::from_leading_octets(octets, len).ok_or_else(|| bad("prefix", c))
}

/// Reads the head of a batch, and returns its version.
fn head<P: Prefix>(data: &[u8], kind: u8) -> Result<(Cursor<'_>, u8), UnpackError> {
    let mut c = Cursor::new(data);
    let [version, found_kind, family] = c.array::<3>()?;
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(UnpackError::Version { found: version });
    }
    let (found, expected) = ([found_kind, family], [kind, P::ID.0]);
    if found == expected { Ok((c, version)) } else { Err(UnpackError::Head { found, expected }) }
}

fn end(c: &Cursor<'_>) -> Result<(), UnpackError> {
    if c.is_empty() { Ok(()) } else { Err(UnpackError::Trailing(c.len())) }
}

/// Packs a batch of route changes.
pub fn encode_routes<P: Prefix>(batch: &RouteBatch<P>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 32 * batch.sets.len() + 8 * batch.updates.len());
    out.extend_from_slice(&[ROUTES_VERSION, ROUTES, P::ID.0]);
    put_varint(&mut out, batch.sets.len() as u64);
    for set in &batch.sets {
        put_forwarding(&mut out, &set.forwarding);
        put_varint(&mut out, set.metric.0.into());
        put_varint(&mut out, set.distance.map_or(0, |d| u64::from(d.0) + 1));
        put_varint(&mut out, set.kind.0.into());
        let tags = set.tags.as_slice();
        put_varint(&mut out, tags.len() as u64);
        tags.iter().for_each(|tag| put_varint(&mut out, tag.0.into()));
    }
    put_varint(&mut out, batch.updates.len() as u64);
    let mut rows = Rows { last: Provenance::NONE };
    for update in &batch.updates {
        put_prefix(&mut out, update.prefix);
        let number = match update.action {
            RouteAction::Delete => 0,
            RouteAction::Set(index) => u64::from(index) + 1,
        };
        rows.put(&mut out, number, update.provenance);
    }
    out
}

fn kind_and_tags(c: &mut Cursor<'_>, version: u8) -> Result<(RouteKind, Tags), UnpackError> {
    if version == OLDEST_VERSION {
        let tag = Tag(varint_u32(c, "tag")?);
        return Ok((RouteKind::NONE, Some(tag).filter(|tag| tag.0 != 0).into_iter().collect()));
    }
    let kind = RouteKind(u8::try_from(varint(c)?).map_err(|_| bad("kind", c))?);
    let (n, _) = count(c, 1)?;
    let tags = (0..n).map(|_| varint_u32(c, "tag").map(Tag)).collect::<Result<Tags, _>>()?;
    Ok((kind, tags))
}

/// Unpacks the output of [`encode_routes`], in the current version or an older one. Every set named by an update
/// exists.
pub fn decode_routes<P: Prefix>(data: &[u8]) -> Result<RouteBatch<P>, UnpackError> {
    let (mut c, version) = head::<P>(data, ROUTES)?;
    let (n, capacity) = count(&mut c, 4)?;
    let mut sets = Vec::with_capacity(capacity);
    for _ in 0..n {
        let forwarding = forwarding(&mut c, version)?;
        let metric = Metric(varint_u32(&mut c, "metric")?);
        let distance = match varint(&mut c)? {
            0 => None,
            n => Some(Distance(u8::try_from(n - 1).map_err(|_| bad("distance", &c))?)),
        };
        let (kind, tags) = kind_and_tags(&mut c, version)?;
        sets.push(RouteSet { forwarding, metric, distance, kind, tags });
    }
    let (n, capacity) = count(&mut c, 2)?;
    let mut updates = Vec::with_capacity(capacity);
    let mut rows = Rows { last: Provenance::NONE };
    for _ in 0..n {
        let prefix = prefix(&mut c)?;
        let (number, provenance) = rows.take(&mut c)?;
        let action = match number {
            0 => RouteAction::Delete,
            n if n <= sets.len() as u64 => RouteAction::Set((n - 1) as u32),
            _ => return Err(bad("set", &c)),
        };
        updates.push(RouteUpdate { prefix, action, provenance });
    }
    end(&c)?;
    Ok(RouteBatch { sets, updates })
}

/// Packs a batch for the forwarding engine.
pub fn encode_fib<P: Prefix, G: Gateway>(batch: &FibBatch<P, G>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 16 * batch.groups.len() + 8 * batch.routes.len());
    out.extend_from_slice(&[VERSION, FIB, P::ID.0]);
    put_varint(&mut out, batch.groups.len() as u64);
    for (id, forwarding) in &batch.groups {
        put_varint(&mut out, id.0.into());
        put_forwarding(&mut out, forwarding);
    }
    put_varint(&mut out, batch.routes.len() as u64);
    let mut rows = Rows { last: Provenance::NONE };
    for route in &batch.routes {
        put_prefix(&mut out, route.prefix);
        let number = |group: GroupId| u64::from(group.0) * 2 + u64::from(route.is_external) + 1;
        rows.put(&mut out, route.group.map_or(0, number), route.provenance);
    }
    put_varint(&mut out, batch.unused.len() as u64);
    for id in &batch.unused {
        put_varint(&mut out, id.0.into());
    }
    out
}

/// Unpacks the output of [`encode_fib`].
pub fn decode_fib<P: Prefix, G: Gateway>(data: &[u8]) -> Result<FibBatch<P, G>, UnpackError> {
    let (mut c, version) = head::<P>(data, FIB)?;
    let (n, capacity) = count(&mut c, 2)?;
    let mut groups = Vec::with_capacity(capacity);
    for _ in 0..n {
        let id = GroupId(varint_u32(&mut c, "group")?);
        groups.push((id, forwarding(&mut c, version)?));
    }
    let (n, capacity) = count(&mut c, 2)?;
    let mut routes = Vec::with_capacity(capacity);
    let mut rows = Rows { last: Provenance::NONE };
    for _ in 0..n {
        let prefix = prefix(&mut c)?;
        let (number, provenance) = rows.take(&mut c)?;
        let (number, is_external) = match number.checked_sub(1) {
            None => (None, false),
            Some(n) if version <= LAST_WITHOUT_EXTERNAL => (Some(n), false),
            Some(n) => (Some(n / 2), n % 2 == 1),
        };
        let group = number.map(u32::try_from).transpose().map_err(|_| bad("group", &c))?.map(GroupId);
        routes.push(FibRoute { prefix, group, is_external, provenance });
    }
    let (n, capacity) = count(&mut c, 1)?;
    let mut unused = Vec::with_capacity(capacity);
    for _ in 0..n {
        unused.push(GroupId(varint_u32(&mut c, "group")?));
    }
    end(&c)?;
    Ok(FibBatch { groups, routes, unused })
}
