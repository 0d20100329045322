//! Network layer reachability information: prefixes on the wire (RFC 4271, section 4.3; RFC 4760, section 5).

use super::{AFI_IPV4, AFI_IPV6, AFI_XID, Expected, SAFI_UNICAST, SAFI_XID, WireError};
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, XidPrefix, XidType};

/// The key of a family's routes in UPDATE messages. A key is of any width, and not necessarily an IP prefix.
pub trait FamilyKey: Prefix {
    /// The prefixes of the family's next hops.
    type Hop: FamilyKey;

    /// The family's address family identifier, unless configured otherwise ([`crate::family::FamilyCodes`]).
    const AFI: u16;
    /// The family's subsequent address family identifier, unless configured otherwise.
    const SAFI: u8;
    /// True for IPv4 unicast: the routes are in the UPDATE's own fields, and the next hop is in NEXT_HOP (RFC 4271, section 4.3).
    const HAS_OWN_FIELDS: bool = Self::AFI == AFI_IPV4 && Self::SAFI == SAFI_UNICAST;

    /// The prefix of `len` bits that begins with `octets` (at most the width's); missing octets count as zero and bits
    /// after the length are cleared (RFC 4271, section 4.3: their value is irrelevant). `None` if no prefix has this length: it is above
    /// the width, or, of XIDs, ends within the type.
    fn from_octets(octets: &[u8], len: u8) -> Option<Self>;

    /// Appends the length and the significant octets.
    fn put(self, out: &mut Vec<u8>);

    /// Returns the number of octets appended by [`FamilyKey::put`].
    fn wire_len(self) -> usize {
        1 + usize::from(self.len()).div_ceil(8)
    }

    /// Returns the key as an IP prefix, for profiling points; `None` for further keys.
    fn as_ip(self) -> Option<IpPrefix>;

    /// Returns true if routing may have the prefix. Multicast groups, addresses of a link, of the sender's own host (loopback)
    /// and of no host (0.0.0.0/8, ::) have no routes (RFC 4271, section 6.3; RFC 1122, section 3.2.1.3; RFC 4291, section 2.5). A
    /// shorter prefix around may have a route, such as the default route.
    fn is_routable(self) -> bool;
}

impl FamilyKey for Ipv4Prefix {
    type Hop = Self;
    const AFI: u16 = AFI_IPV4;
    const SAFI: u8 = SAFI_UNICAST;

    fn from_octets(octets: &[u8], len: u8) -> Option<Self> {
        let full = core::array::from_fn(|n| octets.get(n).copied().unwrap_or(0));
        Self::from_parts(u32::from_be_bytes(full), len)
    }

    fn put(self, out: &mut Vec<u8>) {
        let end = out.len() + self.wire_len();
        let [a, b, c, d] = self.to_parts().0.to_be_bytes();
        // A copy of known length takes a store, one of any length a call.
        out.extend_from_slice(&[self.len(), a, b, c, d]);
        out.truncate(end);
    }

    fn as_ip(self) -> Option<IpPrefix> {
        Some(self.into())
    }

    fn is_routable(self) -> bool {
        let V4Addr(addr) = self.addr();
        let of_a_host = matches!(addr.octets()[0], 0 | 127) && self.len() >= 8;
        !(of_a_host || addr.is_multicast() && self.len() >= 4)
    }
}

impl FamilyKey for Ipv6Prefix {
    type Hop = Self;
    const AFI: u16 = AFI_IPV6;
    const SAFI: u8 = SAFI_UNICAST;

    fn from_octets(octets: &[u8], len: u8) -> Option<Self> {
        let mut full = [0; 16];
        full[..octets.len().min(16)].copy_from_slice(&octets[..octets.len().min(16)]);
        Self::from_parts(u128::from_be_bytes(full), len)
    }

    fn put(self, out: &mut Vec<u8>) {
        out.push(self.len());
        out.extend_from_slice(&self.to_parts().0.to_be_bytes()[..usize::from(self.len()).div_ceil(8)]);
    }

    fn as_ip(self) -> Option<IpPrefix> {
        Some(self.into())
    }

    fn is_routable(self) -> bool {
        let V6Addr(addr) = self.addr();
        let of_a_link = addr.is_unicast_link_local() && self.len() >= 10;
        let of_a_group = addr.is_multicast() && self.len() >= 8;
        let of_a_host = (addr.is_loopback() || addr.is_unspecified()) && self.len() == 128;
        !(of_a_link || of_a_group || of_a_host)
    }
}

impl FamilyKey for XidPrefix {
    type Hop = Self;
    const AFI: u16 = AFI_XID;
    const SAFI: u8 = SAFI_XID;

    fn from_octets(octets: &[u8], len: u8) -> Option<Self> {
        let whole = core::array::from_fn(|n| octets.get(n).copied().unwrap_or(0));
        Self::from_parts(whole, len).filter(|prefix| prefix.kind().is_some())
    }

    fn put(self, out: &mut Vec<u8>) {
        out.push(self.len());
        self.push_octets(out);
    }

    fn as_ip(self) -> Option<IpPrefix> {
        None
    }

    fn is_routable(self) -> bool {
        self.kind().is_some_and(|kind| kind != XidType::NAT)
    }
}

/// Iterates over the prefixes of a field; ends at the first wrong prefix.
#[derive(Clone, Debug)]
pub struct Nlri<'a, P> {
    rest: &'a [u8],
    offset: usize,
    family: PhantomData<P>,
}

impl<'a, P: FamilyKey> Nlri<'a, P> {
    /// The prefixes of `field`, which begins at `offset` of the message body.
    pub const fn new(field: &'a [u8], offset: usize) -> Self {
        Nlri { rest: field, offset, family: PhantomData }
    }

    /// Reads a path identifier before each prefix (RFC 7911, section 3).
    pub const fn with_path_ids(self) -> PathNlri<'a, P> {
        PathNlri(self)
    }

    fn fail<T>(&mut self, expected: Expected) -> Option<Result<T, WireError>> {
        self.rest = &[];
        Some(Err(WireError { offset: self.offset, expected }))
    }
}

/// The prefixes of a field, each behind its path identifier (RFC 7911, section 3); ends at the first wrong prefix.
#[derive(Clone, Debug)]
pub struct PathNlri<'a, P>(Nlri<'a, P>);

/// Octets of a path identifier.
pub const PATH_ID_LEN: usize = 4;

impl<P: FamilyKey> Iterator for PathNlri<'_, P> {
    type Item = Result<(u32, P), WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let nlri = &mut self.0;
        if nlri.rest.is_empty() {
            return None;
        }
        let Some((id, rest)) = nlri.rest.split_first_chunk::<PATH_ID_LEN>() else {
            let left = nlri.rest.len();
            return nlri.fail(Expected::Octets { needed: PATH_ID_LEN, left });
        };
        nlri.rest = rest;
        nlri.offset += PATH_ID_LEN;
        if rest.is_empty() {
            return nlri.fail(Expected::Octets { needed: 1, left: 0 });
        }
        let id = u32::from_be_bytes(*id);
        nlri.next().map(|prefix| prefix.map(|prefix| (id, prefix)))
    }
}

impl<P: FamilyKey> Iterator for Nlri<'_, P> {
    type Item = Result<P, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&len, rest) = self.rest.split_first()?;
        let octets = usize::from(len).div_ceil(8);
        if len > P::WIDTH {
            return self.fail(Expected::PrefixLength(len));
        }
        let Some((octets_of_prefix, rest)) = rest.split_at_checked(octets) else {
            let left = rest.len();
            return self.fail(Expected::Octets { needed: octets, left });
        };
        let Some(prefix) = P::from_octets(octets_of_prefix, len) else {
            return self.fail(Expected::PrefixLength(len));
        };
        self.rest = rest;
        self.offset += 1 + octets;
        Some(Ok(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn round_trip<P: FamilyKey>(texts: &[&str]) {
        let prefixes: Vec<P> = texts.iter().map(|t| t.parse().unwrap()).collect();
        let mut wire = Vec::new();
        for p in &prefixes {
            let before = wire.len();
            p.put(&mut wire);
            assert_eq!(wire.len() - before, p.wire_len());
        }
        assert_eq!(Nlri::<P>::new(&wire, 0).collect::<Result<Vec<P>, _>>(), Ok(prefixes));
    }

    #[test]
    fn prefixes_come_back() {
        round_trip::<Ipv4Prefix>(&["0.0.0.0/0", "10.0.0.0/7", "10.0.0.0/8", "10.128.0.0/9", "1.2.3.4/32"]);
        round_trip::<Ipv6Prefix>(&["::/0", "2001:db8::/32", "2001:db8:8000::/33", "2001:db8::1/128"]);
    }

    #[test]
    fn prefixes_of_xids_come_back() {
        let id = "0a0b000000000000000000000000000000000000";
        let texts = [0, 1, 7, 8, 9, 16].map(|bits: u32| {
            let octets = (0x0a0b_u32 << 16 & !u32::MAX.checked_shr(bits).unwrap_or(0)) >> 16;
            alloc::format!("lpm-{octets:04x}{}/{bits}", &id[4..])
        });
        round_trip::<XidPrefix>(&texts.each_ref().map(|text| text.as_str()));
        round_trip::<XidPrefix>(&[
            "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1",
            "0x1001-00000000000000000000000000000000000000ff",
        ]);
    }

    #[test]
    fn lengths_that_no_xid_has_are_errors() {
        let of = |octets: &[u8]| Nlri::<XidPrefix>::new(octets, 7).collect::<Result<Vec<_>, _>>();
        for len in (0..32).chain(193..=255) {
            let mut octets = vec![0x11; 40];
            octets[0] = len;
            let wrong = WireError { offset: 7, expected: Expected::PrefixLength(len) };
            assert_eq!(of(&octets), Err(wrong), "{len}");
        }
        for len in 32..=192_u8 {
            let octets: Vec<u8> = core::iter::once(len).chain([0x10; 24]).collect();
            let (whole, cut) = (1 + usize::from(len).div_ceil(8), usize::from(len).div_ceil(8));
            let prefixes = of(&octets[..whole]).expect("a prefix");
            assert_eq!((prefixes.len(), prefixes[0].len()), (1, len));
            let short = Expected::Octets { needed: cut, left: cut - 1 };
            assert_eq!(of(&octets[..cut]), Err(WireError { offset: 7, expected: short }));
        }
        // Bits behind the length do not matter.
        let one = of(&[33, 0, 0, 0, 0x21, 0xff]).expect("a prefix");
        assert_eq!(one, ["lpm-8000000000000000000000000000000000000000/1".parse().unwrap()]);
        assert!(one[0].is_routable() && !of(&[32, 0, 0, 0, 0]).expect("a prefix")[0].is_routable());
    }

    #[test]
    fn errors_say_where() {
        let of = |bytes: &[u8]| Nlri::<Ipv4Prefix>::new(bytes, 7).collect::<Result<Vec<_>, _>>();
        let long = WireError { offset: 9, expected: Expected::PrefixLength(33) };
        assert_eq!(of(&[8, 10, 33, 1, 2, 3, 4, 5]), Err(long));
        let short = WireError { offset: 7, expected: Expected::Octets { needed: 2, left: 1 } };
        assert_eq!(of(&[16, 10]), Err(short));
        assert_eq!(of(&[8, 10]), Ok(vec!["10.0.0.0/8".parse().unwrap()]));
        assert_eq!(of(&[7, 0xff]), Ok(vec!["254.0.0.0/7".parse().unwrap()]));
    }

    #[test]
    fn path_identifiers_stand_before_prefixes() {
        let of =
            |octets: &[u8]| Nlri::<Ipv4Prefix>::new(octets, 7).with_path_ids().collect::<Result<Vec<_>, _>>();
        let octets = [0, 0, 0, 1, 8, 10, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 8, 10];
        let prefix = |text: &str| text.parse::<Ipv4Prefix>().unwrap();
        let expected =
            vec![(1, prefix("10.0.0.0/8")), (u32::MAX, prefix("0.0.0.0/0")), (1, prefix("10.0.0.0/8"))];
        assert_eq!(of(&octets), Ok(expected));
        assert_eq!(of(&[]), Ok(vec![]));
        for cut in 1..octets.len() {
            let whole = [6, 11].contains(&cut);
            assert_eq!(of(&octets[..cut]).is_ok(), whole, "{cut}");
        }
        let missing = WireError { offset: 7, expected: Expected::Octets { needed: 4, left: 2 } };
        assert_eq!(of(&[8, 10]), Err(missing));
        let only_id = WireError { offset: 11, expected: Expected::Octets { needed: 1, left: 0 } };
        assert_eq!(of(&[0, 0, 0, 1]), Err(only_id));
        // Prefixes without identifiers: the first octets are taken for one.
        let long = WireError { offset: 11, expected: Expected::PrefixLength(168) };
        assert_eq!(of(&[24, 192, 0, 2, 168]), Err(long));
    }

    #[test]
    fn what_is_routable() {
        for (text, expected) in [
            ("224.0.0.0/4", false),
            ("224.0.0.0/3", true),
            ("240.0.0.0/4", true),
            ("0.0.0.0/0", true),
            ("0.0.0.0/1", true),
            ("0.0.0.0/7", true),
            ("0.0.0.0/8", false),
            ("0.1.2.0/24", false),
            ("1.0.0.0/8", true),
            ("126.0.0.0/7", true),
            ("127.0.0.0/8", false),
            ("127.0.0.1/32", false),
            ("128.0.0.0/8", true),
        ] {
            assert_eq!(text.parse::<Ipv4Prefix>().unwrap().is_routable(), expected, "{text}");
        }
        for (text, expected) in [
            ("ff00::/8", false),
            ("fe80::/64", false),
            ("2000::/3", true),
            ("::/0", true),
            ("::/127", true),
            ("::/128", false),
            ("::1/128", false),
            ("::2/128", true),
        ] {
            assert_eq!(text.parse::<Ipv6Prefix>().unwrap().is_routable(), expected, "{text}");
        }
    }
}
