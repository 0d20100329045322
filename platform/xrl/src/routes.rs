//! Packed route batches: many route changes in one `bytes` field (docs/xrl.md, "Packed route batches"), and the same as
//! readable messages.
//!
//! A route takes five to seven octets where a message of its own would take thirty and an allocation or two.

use std::net::IpAddr;

use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{
    Distance, Family, FibBatch, FibRoute, Forwarding, GroupId, InterfaceIndex, Ipv4Prefix, Ipv6Prefix,
    Metric, NextHop, Prefix, Provenance, RouteAction, RouteBatch, RouteSet, RouteUpdate, Tag,
};
use sluice_wire::Cursor;

use crate::XrlError;
use crate::convert::{self, ConvertError};
use crate::idl::{fea::v1 as fea, rib::v1 as rib};

/// The version of the layout: the first octet.
pub const VERSION: u8 = 1;
const ROUTES: u8 = 1;
const FIB: u8 = 2;

const GATEWAY_V4: u8 = 1;
const GATEWAY_V6: u8 = 2;
const INTERFACE: u8 = 4;

/// Why octets are not a batch of this kind and family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnpackError {
    /// The octets end too early.
    #[error("packed routes: truncated at octet {0}")]
    Truncated(usize),
    /// The first three octets are not those of this version, kind and family.
    #[error("packed routes: the head {0:?} is of another version, kind or family")]
    Head([u8; 3]),
    /// A value is out of its range.
    #[error("packed routes: bad {what} before octet {offset}")]
    Value {
        /// What it is.
        what: &'static str,
        /// Where it ends.
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

/// A prefix that can be packed.
pub trait PackedPrefix: Prefix {
    /// Appends the length, and as many octets of the address as that needs.
    fn pack(self, out: &mut Vec<u8>);
    /// The prefix of length `len` whose address begins with `octets`. `None` if there are host bits.
    fn unpack(octets: &[u8], len: u8) -> Option<Self>;
}

macro_rules! packed {
    ($prefix:ty, $addr:ident, $bits:ty, $octets:literal) => {
        impl PackedPrefix for $prefix {
            fn pack(self, out: &mut Vec<u8>) {
                let (bits, len) = self.to_parts();
                out.push(len);
                out.extend_from_slice(&bits.to_be_bytes()[..usize::from(len).div_ceil(8)]);
            }

            fn unpack(octets: &[u8], len: u8) -> Option<Self> {
                let mut whole = [0; $octets];
                whole.get_mut(..octets.len())?.copy_from_slice(octets);
                let bits = <$bits>::from_be_bytes(whole);
                Self::new($addr(bits.into()), len).filter(|p| p.to_parts().0 == bits)
            }
        }
    };
}

packed!(Ipv4Prefix, V4Addr, u32, 4);
packed!(Ipv6Prefix, V6Addr, u128, 16);

const fn family_octet(family: Family) -> u8 {
    match family {
        Family::Ipv4 => 4,
        Family::Ipv6 => 6,
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

/// A count, and how much to reserve for it: no more than there can be in what is left.
fn count(c: &mut Cursor<'_>, least_octets: usize) -> Result<(u64, usize), UnpackError> {
    let n = varint(c)?;
    let possible = c.len() / least_octets;
    match usize::try_from(n) {
        Ok(wanted) if wanted <= possible => Ok((n, wanted)),
        _ => Err(bad("count", c)),
    }
}

fn put_forwarding(out: &mut Vec<u8>, forwarding: &Forwarding) {
    let hops = match forwarding {
        Forwarding::NextHops(hops) => hops,
        Forwarding::Discard => return out.push(1),
        Forwarding::Reject => return out.push(2),
    };
    out.push(0);
    put_varint(out, hops.len() as u64);
    for hop in hops {
        let mut flags = 0;
        match hop.gateway {
            Some(IpAddr::V4(_)) => flags |= GATEWAY_V4,
            Some(IpAddr::V6(_)) => flags |= GATEWAY_V6,
            None => {}
        }
        if hop.interface.is_some() {
            flags |= INTERFACE;
        }
        out.push(flags);
        match hop.gateway {
            Some(IpAddr::V4(a)) => out.extend_from_slice(&a.octets()),
            Some(IpAddr::V6(a)) => out.extend_from_slice(&a.octets()),
            None => {}
        }
        if let Some(interface) = hop.interface {
            put_varint(out, interface.number().into());
        }
        out.push(hop.weight);
    }
}

fn forwarding(c: &mut Cursor<'_>) -> Result<Forwarding, UnpackError> {
    match c.u8()? {
        0 => {}
        1 => return Ok(Forwarding::Discard),
        2 => return Ok(Forwarding::Reject),
        _ => return Err(bad("forwarding", c)),
    }
    let (n, capacity) = count(c, 2)?;
    let mut hops = Vec::with_capacity(capacity);
    for _ in 0..n {
        let flags = c.u8()?;
        let gateway = match flags & (GATEWAY_V4 | GATEWAY_V6) {
            0 => None,
            GATEWAY_V4 => Some(IpAddr::from(c.array::<4>()?)),
            GATEWAY_V6 => Some(IpAddr::from(c.array::<16>()?)),
            _ => return Err(bad("next hop", c)),
        };
        let interface = if flags & INTERFACE != 0 {
            Some(InterfaceIndex::new(varint_u32(c, "interface")?).ok_or_else(|| bad("interface", c))?)
        } else {
            None
        };
        let weight = c.u8()?;
        if weight == 0 || flags > (GATEWAY_V4 | GATEWAY_V6 | INTERFACE) {
            return Err(bad("next hop", c));
        }
        hops.push(NextHop { gateway, interface, weight });
    }
    // Sorted and each once is what the type promises; `many` makes it so whatever came.
    Forwarding::many(hops).ok_or_else(|| bad("next hops", c))
}

/// What a row of a batch ends with: a number, and the provenance as its distance from that of the row before.
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

fn prefix<P: PackedPrefix>(c: &mut Cursor<'_>) -> Result<P, UnpackError> {
    let len = c.u8()?;
    if len > P::WIDTH {
        return Err(bad("prefix length", c));
    }
    let octets = c.take(usize::from(len).div_ceil(8))?;
    P::unpack(octets, len).ok_or_else(|| bad("prefix", c))
}

fn head<P: Prefix>(data: &[u8], kind: u8) -> Result<Cursor<'_>, UnpackError> {
    let mut c = Cursor::new(data);
    let head = c.array::<3>()?;
    if head == [VERSION, kind, family_octet(P::FAMILY)] { Ok(c) } else { Err(UnpackError::Head(head)) }
}

fn end(c: &Cursor<'_>) -> Result<(), UnpackError> {
    if c.is_empty() { Ok(()) } else { Err(UnpackError::Trailing(c.len())) }
}

/// Packs a batch of route changes.
pub fn encode_routes<P: PackedPrefix>(batch: &RouteBatch<P>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 32 * batch.sets.len() + 8 * batch.updates.len());
    out.extend_from_slice(&[VERSION, ROUTES, family_octet(P::FAMILY)]);
    put_varint(&mut out, batch.sets.len() as u64);
    for set in &batch.sets {
        put_forwarding(&mut out, &set.forwarding);
        put_varint(&mut out, set.metric.0.into());
        put_varint(&mut out, set.distance.map_or(0, |d| u64::from(d.0) + 1));
        put_varint(&mut out, set.tag.0.into());
    }
    put_varint(&mut out, batch.updates.len() as u64);
    let mut rows = Rows { last: Provenance::NONE };
    for update in &batch.updates {
        update.prefix.pack(&mut out);
        let number = match update.action {
            RouteAction::Delete => 0,
            RouteAction::Set(index) => u64::from(index) + 1,
        };
        rows.put(&mut out, number, update.provenance);
    }
    out
}

/// Unpacks what [`encode_routes`] packed. Every set that an update names is there.
pub fn decode_routes<P: PackedPrefix>(data: &[u8]) -> Result<RouteBatch<P>, UnpackError> {
    let mut c = head::<P>(data, ROUTES)?;
    let (n, capacity) = count(&mut c, 4)?;
    let mut sets = Vec::with_capacity(capacity);
    for _ in 0..n {
        let forwarding = forwarding(&mut c)?;
        let metric = Metric(varint_u32(&mut c, "metric")?);
        let distance = match varint(&mut c)? {
            0 => None,
            n => Some(Distance(u8::try_from(n - 1).map_err(|_| bad("distance", &c))?)),
        };
        let tag = Tag(varint_u32(&mut c, "tag")?);
        sets.push(RouteSet { forwarding, metric, distance, tag });
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
pub fn encode_fib<P: PackedPrefix>(batch: &FibBatch<P>) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + 16 * batch.groups.len() + 8 * batch.routes.len());
    out.extend_from_slice(&[VERSION, FIB, family_octet(P::FAMILY)]);
    put_varint(&mut out, batch.groups.len() as u64);
    for (id, forwarding) in &batch.groups {
        put_varint(&mut out, id.0.into());
        put_forwarding(&mut out, forwarding);
    }
    put_varint(&mut out, batch.routes.len() as u64);
    let mut rows = Rows { last: Provenance::NONE };
    for route in &batch.routes {
        route.prefix.pack(&mut out);
        rows.put(&mut out, route.group.map_or(0, |g| u64::from(g.0) + 1), route.provenance);
    }
    put_varint(&mut out, batch.unused.len() as u64);
    for id in &batch.unused {
        put_varint(&mut out, id.0.into());
    }
    out
}

/// Unpacks what [`encode_fib`] packed.
pub fn decode_fib<P: PackedPrefix>(data: &[u8]) -> Result<FibBatch<P>, UnpackError> {
    let mut c = head::<P>(data, FIB)?;
    let (n, capacity) = count(&mut c, 2)?;
    let mut groups = Vec::with_capacity(capacity);
    for _ in 0..n {
        let id = GroupId(varint_u32(&mut c, "group")?);
        groups.push((id, forwarding(&mut c)?));
    }
    let (n, capacity) = count(&mut c, 2)?;
    let mut routes = Vec::with_capacity(capacity);
    let mut rows = Rows { last: Provenance::NONE };
    for _ in 0..n {
        let prefix = prefix(&mut c)?;
        let (number, provenance) = rows.take(&mut c)?;
        let group = match number {
            0 => None,
            n => Some(GroupId(u32::try_from(n - 1).map_err(|_| bad("group", &c))?)),
        };
        routes.push(FibRoute { prefix, group, provenance });
    }
    let (n, capacity) = count(&mut c, 1)?;
    let mut unused = Vec::with_capacity(capacity);
    for _ in 0..n {
        unused.push(GroupId(varint_u32(&mut c, "group")?));
    }
    end(&c)?;
    Ok(FibBatch { groups, routes, unused })
}

/// A batch as readable messages.
pub fn routes_to_messages<P: Prefix>(batch: &RouteBatch<P>) -> (Vec<rib::RouteSet>, Vec<rib::RouteChange>) {
    let set = |s: &RouteSet| rib::RouteSet {
        forwarding: Some((&s.forwarding).into()),
        metric: s.metric.0,
        distance: s.distance.map(|d| d.0.into()),
        tag: s.tag.0,
    };
    let change = |u: &RouteUpdate<P>| rib::RouteChange {
        net: Some(convert::net(u.prefix)),
        delete: u.action == RouteAction::Delete,
        set: if let RouteAction::Set(index) = u.action { index } else { 0 },
        provenance: u.provenance.bits(),
    };
    (batch.sets.iter().map(set).collect(), batch.updates.iter().map(change).collect())
}

/// A batch out of readable messages.
pub fn routes_from_messages<P: Prefix>(
    sets: &[rib::RouteSet],
    routes: &[rib::RouteChange],
) -> Result<RouteBatch<P>, ConvertError> {
    let number = |what, value: u32| ConvertError::Number { what, value: value.into() };
    let set = |s: &rib::RouteSet| {
        let distance = s.distance.map(|d| u8::try_from(d).map_err(|_| number("distance", d))).transpose()?;
        Ok(RouteSet {
            forwarding: convert::forwarding(s.forwarding.as_ref())?,
            metric: Metric(s.metric),
            distance: distance.map(Distance),
            tag: Tag(s.tag),
        })
    };
    let update = |r: &rib::RouteChange| {
        let action = match r.delete {
            true => RouteAction::Delete,
            false if (r.set as usize) < sets.len() => RouteAction::Set(r.set),
            false => return Err(number("set", r.set)),
        };
        let provenance = Provenance::from_bits(r.provenance);
        Ok(RouteUpdate { prefix: convert::prefix(r.net.as_ref())?, action, provenance })
    };
    Ok(RouteBatch {
        sets: sets.iter().map(set).collect::<Result<_, ConvertError>>()?,
        updates: routes.iter().map(update).collect::<Result<_, ConvertError>>()?,
    })
}

/// The batch of an `UpdateRoutes` call, packed or readable.
pub fn routes_of<P: PackedPrefix>(request: &rib::UpdateRoutesRequest) -> Result<RouteBatch<P>, XrlError> {
    if request.packed.is_empty() {
        return Ok(routes_from_messages(&request.sets, &request.routes)?);
    }
    if request.routes.is_empty() && request.sets.is_empty() {
        return Ok(decode_routes(&request.packed)?);
    }
    Err(XrlError::BadArguments("packed, routes: only one of the two".to_owned()))
}

/// A batch for the forwarding engine as readable messages.
pub fn fib_to_messages<P: Prefix>(batch: &FibBatch<P>) -> (Vec<fea::Group>, Vec<fea::FibRoute>, Vec<u32>) {
    let group = |(id, f): &(GroupId, Forwarding)| fea::Group { id: id.0, forwarding: Some(f.into()) };
    let route = |r: &FibRoute<P>| fea::FibRoute {
        net: Some(convert::net(r.prefix)),
        delete: r.group.is_none(),
        group: r.group.map_or(0, |g| g.0),
        provenance: r.provenance.bits(),
    };
    (
        batch.groups.iter().map(group).collect(),
        batch.routes.iter().map(route).collect(),
        batch.unused.iter().map(|g| g.0).collect(),
    )
}

/// A batch for the forwarding engine out of readable messages.
pub fn fib_from_messages<P: Prefix>(
    groups: &[fea::Group],
    routes: &[fea::FibRoute],
    unused: &[u32],
) -> Result<FibBatch<P>, ConvertError> {
    let group = |g: &fea::Group| Ok((GroupId(g.id), convert::forwarding(g.forwarding.as_ref())?));
    let route = |r: &fea::FibRoute| {
        Ok(FibRoute {
            prefix: convert::prefix(r.net.as_ref())?,
            group: (!r.delete).then_some(GroupId(r.group)),
            provenance: Provenance::from_bits(r.provenance),
        })
    };
    Ok(FibBatch {
        groups: groups.iter().map(group).collect::<Result<_, ConvertError>>()?,
        routes: routes.iter().map(route).collect::<Result<_, ConvertError>>()?,
        unused: unused.iter().map(|g| GroupId(*g)).collect(),
    })
}

/// The batch of an `UpdateFib` call, packed or readable.
pub fn fib_of<P: PackedPrefix>(request: &fea::UpdateFibRequest) -> Result<FibBatch<P>, XrlError> {
    let readable = !(request.groups.is_empty() && request.routes.is_empty() && request.unused.is_empty());
    if request.packed.is_empty() {
        return Ok(fib_from_messages(&request.groups, &request.routes, &request.unused)?);
    }
    if readable {
        return Err(XrlError::BadArguments("packed, routes: only one of the two".to_owned()));
    }
    Ok(decode_fib(&request.packed)?)
}
