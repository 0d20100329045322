//! Prefixes in UPDATEs (RFC 4271, section 4.3), with path identifiers (RFC 7911, section 3), and the prefixes that have routes.

use super::{AFI_IPV4, AFI_IPV6, Malformed};
use sluice_base::prefix::Prefix;
use sluice_base::{IpKey, IpPrefix, Ipv4Prefix, Ipv6Prefix};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv6Addr};

/// Octets of a path identifier.
pub const PATH_ID_LEN: usize = 4;

/// A prefix of an address family with unicast routes.
pub trait WirePrefix: IpKey {
    /// The address family.
    const AFI: u16;

    /// Returns the prefix with a length and the leading octets of its address; bits after the length are cleared.
    fn from_octets(octets: &[u8], length: u8) -> Option<Self>;

    /// Appends length and address.
    fn put(self, out: &mut Vec<u8>) {
        out.push(self.len());
        self.push_octets(out);
    }
}

impl WirePrefix for Ipv4Prefix {
    const AFI: u16 = AFI_IPV4;

    #[inline]
    fn from_octets(octets: &[u8], length: u8) -> Option<Self> {
        let mut address = [0; 4];
        address.get_mut(..octets.len())?.copy_from_slice(octets);
        Self::from_parts(u32::from_be_bytes(address), length)
    }
}

impl WirePrefix for Ipv6Prefix {
    const AFI: u16 = AFI_IPV6;

    #[inline]
    fn from_octets(octets: &[u8], length: u8) -> Option<Self> {
        let mut address = [0; 16];
        address.get_mut(..octets.len())?.copy_from_slice(octets);
        Self::from_parts(u128::from_be_bytes(address), length)
    }
}

/// The prefixes of a field; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Nlri<'a, P>(&'a [u8], PhantomData<P>);

impl<'a, P> Nlri<'a, P> {
    /// The prefixes of a field of an UPDATE.
    pub const fn new(field: &'a [u8]) -> Self {
        Nlri(field, PhantomData)
    }
}

impl<P: WirePrefix> Iterator for Nlri<'_, P> {
    type Item = Result<P, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = std::mem::take(&mut self.0).split_first()?;
        let split = rest.split_at_checked(usize::from(length.div_ceil(8)));
        let prefix = split.and_then(|(octets, rest)| {
            self.0 = rest;
            P::from_octets(octets, *length)
        });
        if prefix.is_none() {
            self.0 = &[];
        }
        Some(prefix.ok_or(Malformed("prefix")))
    }
}

/// The path identifiers and prefixes of a field; ends after the first that is malformed.
pub fn path_ids<P: WirePrefix>(mut field: &[u8]) -> impl Iterator<Item = Result<(u32, P), Malformed>> {
    std::iter::from_fn(move || {
        if field.is_empty() {
            return None;
        }
        let Some((id, rest)) = std::mem::take(&mut field).split_first_chunk::<PATH_ID_LEN>() else {
            return Some(Err(Malformed("path identifier")));
        };
        let mut prefixes = Nlri::new(rest);
        let prefix = prefixes.next().unwrap_or(Err(Malformed("prefix")));
        field = prefixes.0;
        Some(prefix.map(|prefix| (u32::from_be_bytes(*id), prefix)))
    })
}

/// Returns false for prefixes that routing cannot have: of no host, of the host itself, of links, of groups (RFC 1122,
/// section 3.2.1.3; RFC 4291, section 2.5).
pub fn is_routable(prefix: IpPrefix) -> bool {
    let (address, length) = match prefix {
        IpPrefix::V4(prefix) => (IpAddr::from(prefix.addr()), prefix.len()),
        IpPrefix::V6(prefix) => (IpAddr::from(prefix.addr()), prefix.len()),
    };
    match address {
        IpAddr::V4(address) => match address.octets()[0] {
            0 | 127 => length < 8,
            224..240 => length < 4,
            _ => true,
        },
        IpAddr::V6(address) => match address.segments()[0] {
            0xfe80..0xfec0 => length < 10,
            0xff00.. => length < 8,
            _ => length < 128 || address > Ipv6Addr::LOCALHOST,
        },
    }
}

#[test]
fn prefixes() {
    let mut field = Vec::new();
    let all: [Ipv4Prefix; 3] = ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32"].map(|p| p.parse().unwrap());
    all.iter().for_each(|prefix| prefix.put(&mut field));
    assert_eq!(field, [8, 10, 0, 32, 192, 0, 2, 1]);
    assert_eq!(Nlri::new(&field).collect::<Result<Vec<Ipv4Prefix>, _>>(), Ok(all.to_vec()));
    for wrong in [&[33, 1, 2, 3, 4, 5][..], &[8], &[255]] {
        assert_eq!(Nlri::<Ipv4Prefix>::new(wrong).collect::<Vec<_>>(), [Err(Malformed("prefix"))]);
    }
    let with_ids = [&[0, 0, 0, 7][..], &field[..2], &[0, 0, 0, 9], &field[3..]].concat();
    assert_eq!(path_ids(&with_ids).collect::<Result<Vec<_>, _>>(), Ok(vec![(7, all[0]), (9, all[2])]));
    assert!(path_ids::<Ipv4Prefix>(&[0, 0, 0]).all(|path| path.is_err()));
    assert!(path_ids::<Ipv6Prefix>(&[0, 0, 0, 1]).all(|path| path.is_err()));
}

#[test]
fn prefixes_without_routes() {
    for (prefix, can_be) in [
        ("0.0.0.0/0", true),
        ("0.0.0.0/32", false),
        ("126.0.0.0/7", true),
        ("224.0.0.0/3", true),
        ("239.1.0.0/16", false),
        ("::/0", true),
        ("::1/128", false),
        ("fe80::/64", false),
        ("ff02::/16", false),
    ] {
        assert_eq!(is_routable(prefix.parse().unwrap()), can_be, "{prefix}");
    }
}
