//! The messages that the benchmark's own speakers exchange: as little of BGP as they need (RFC 4271, RFC 4760, RFC 6793).

use sluice_base::{Asn, IpPrefix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of a header: marker, length, type.
pub const HEADER: usize = 19;
/// The longest message.
const LONGEST: usize = 4096;

/// OPEN.
pub const OPEN: u8 = 1;
/// UPDATE.
pub const UPDATE: u8 = 2;
/// NOTIFICATION.
pub const NOTIFICATION: u8 = 3;
/// KEEPALIVE.
pub const KEEPALIVE: u8 = 4;

/// ROUTE-REFRESH (RFC 2918).
pub const ROUTE_REFRESH: u8 = 5;

/// AS_TRANS (RFC 6793, section 9): the AS in the two octets of an OPEN is said in the capability.
const AS_TRANS: u16 = 23456;

/// A message of the kind with the body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xff; 16];
    out.extend_from_slice(&((HEADER + body.len()) as u16).to_be_bytes());
    out.push(kind);
    out.extend_from_slice(body);
    out
}

/// An OPEN for IPv4 with route refreshes and, if wanted, IPv6; without timers if `hold_time` is 0.
pub fn open(asn: u32, id: Ipv4Addr, with_v6: bool, hold_time: u16) -> Vec<u8> {
    let mut capabilities = vec![1, 4, 0, 1, 0, 1, 2, 0, 65, 4];
    capabilities.extend_from_slice(&asn.to_be_bytes());
    if with_v6 {
        capabilities.extend_from_slice(&[1, 4, 0, 2, 0, 1]);
    }
    let mut body = vec![4];
    body.extend_from_slice(&u16::try_from(asn).unwrap_or(AS_TRANS).to_be_bytes());
    body.extend_from_slice(&hold_time.to_be_bytes());
    body.extend_from_slice(&id.octets());
    // One optional parameter: capabilities.
    body.extend_from_slice(&[capabilities.len() as u8 + 2, 2, capabilities.len() as u8]);
    body.extend_from_slice(&capabilities);
    message(OPEN, &body)
}

/// A request for all IPv4 unicast routes.
pub fn route_refresh() -> Vec<u8> {
    message(ROUTE_REFRESH, &[0, 1, 0, 1])
}

fn attribute(out: &mut Vec<u8>, flags: u8, code: u8, value: &[u8]) {
    const EXTENDED: u8 = 0x10;
    out.extend_from_slice(&[flags | EXTENDED, code]);
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

/// A prefix as it stands in NLRI.
fn nlri(prefix: IpPrefix) -> Vec<u8> {
    let octets = usize::from(prefix.len().div_ceil(8));
    let mut out = vec![prefix.len()];
    match prefix.addr() {
        IpAddr::V4(a) => out.extend_from_slice(&a.octets()[..octets]),
        IpAddr::V6(a) => out.extend_from_slice(&a.octets()[..octets]),
    }
    out
}

/// Next hops of a speaker's routes.
#[derive(Clone, Copy, Debug)]
pub struct NextHops {
    /// Next hop of IPv4 routes.
    pub v4: Ipv4Addr,
    /// Next hop of IPv6 routes.
    pub v6: Ipv6Addr,
}

/// UPDATEs that announce prefixes of one family along one path.
pub fn announcements(path: &[Asn], hops: NextHops, prefixes: &[IpPrefix], out: &mut Vec<u8>) {
    let mut common = Vec::new();
    // ORIGIN is IGP.
    attribute(&mut common, 0x40, 1, &[0]);
    let mut segment = vec![2, path.len() as u8];
    path.iter().for_each(|asn| segment.extend_from_slice(&asn.0.to_be_bytes()));
    attribute(&mut common, 0x40, 2, &segment);
    let room = LONGEST - HEADER - common.len() - 64;
    let mut chunk = Vec::new();
    let is_v6 = prefixes.first().is_some_and(|p| p.addr().is_ipv6());
    for prefix in prefixes {
        let octets = nlri(*prefix);
        if chunk.len() + octets.len() > room {
            out.extend(update(&common, hops, is_v6, &chunk));
            chunk.clear();
        }
        chunk.extend(octets);
    }
    out.extend(update(&common, hops, is_v6, &chunk));
}

fn update(common: &[u8], hops: NextHops, is_v6: bool, nlri: &[u8]) -> Vec<u8> {
    let mut attributes = Vec::new();
    if is_v6 {
        let mut value = vec![0, 2, 1, 16];
        value.extend_from_slice(&hops.v6.octets());
        value.push(0);
        value.extend_from_slice(nlri);
        attribute(&mut attributes, 0x80, 14, &value);
    }
    attributes.extend_from_slice(common);
    if !is_v6 {
        attribute(&mut attributes, 0x40, 3, &hops.v4.octets());
    }
    let mut body = vec![0, 0];
    body.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
    body.extend_from_slice(&attributes);
    if !is_v6 {
        body.extend_from_slice(nlri);
    }
    message(UPDATE, &body)
}

/// An UPDATE that withdraws an IPv4 prefix.
pub fn withdrawal(prefix: IpPrefix) -> Vec<u8> {
    let octets = nlri(prefix);
    let mut body = (octets.len() as u16).to_be_bytes().to_vec();
    body.extend_from_slice(&octets);
    body.extend_from_slice(&[0, 0]);
    message(UPDATE, &body)
}

/// The IPv4 prefixes of an UPDATE's body: address, length, and true for a withdrawal. Empty for a malformed body.
pub fn prefixes(body: &[u8]) -> impl Iterator<Item = (Ipv4Addr, u8, bool)> {
    let (withdrawn, announced) = parts(body).unwrap_or_default();
    list(withdrawn).map(|(a, l)| (a, l, true)).chain(list(announced).map(|(a, l)| (a, l, false)))
}

/// Withdrawn routes, and NLRI.
fn parts(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = body.split_first_chunk()?;
    let (withdrawn, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    let (length, rest) = rest.split_first_chunk()?;
    let (_, announced) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
    Some((withdrawn, announced))
}

fn list(mut octets: &[u8]) -> impl Iterator<Item = (Ipv4Addr, u8)> {
    std::iter::from_fn(move || {
        let (len, rest) = octets.split_first()?;
        let used = usize::from(len.div_ceil(8));
        let mut address = [0; 4];
        address.get_mut(..used)?.copy_from_slice(rest.get(..used)?);
        octets = &rest[used..];
        Some((address.into(), *len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOPS: NextHops = NextHops { v4: Ipv4Addr::new(10, 0, 0, 2), v6: Ipv6Addr::LOCALHOST };

    #[test]
    fn what_is_announced_is_read_again() {
        let all: Vec<IpPrefix> = (0..2000)
            .map(|i| format!("20.{}.{}.0/24", i / 256, i % 256).parse().expect("a prefix"))
            .collect();
        let mut stream = Vec::new();
        announcements(&[Asn(1), Asn(70_000)], HOPS, &all, &mut stream);
        let mut read = Vec::new();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
            assert!(length <= LONGEST && rest[18] == UPDATE);
            read.extend(prefixes(&rest[HEADER..length]));
            rest = &rest[length..];
        }
        assert_eq!(read.len(), all.len());
        assert!(read.iter().zip(&all).all(|(r, p)| IpAddr::V4(r.0) == p.addr() && r.1 == 24 && !r.2));
        let message = withdrawal(all[7]);
        let read: Vec<_> = prefixes(&message[HEADER..]).collect();
        assert_eq!(read, [(Ipv4Addr::new(20, 0, 7, 0), 24, true)]);
    }

    #[test]
    fn nonsense_has_no_prefixes() {
        for body in [&[][..], &[0], &[0, 9, 1], &[0, 0, 0, 9], &[0, 1, 24, 0, 0], &[0, 0, 0, 0, 99, 1]] {
            assert_eq!(prefixes(body).count(), 0, "{body:?}");
        }
    }
}
