//! IP prefixes.

use crate::address::Address;
use crate::family::{Family, FamilyId, WrongFamily};
use crate::prefix::{Prefix, PrefixError};
use alloc::vec::Vec;
use core::fmt::{self, Debug, Display};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP prefix as a key: the form of kernels and sockets.
pub trait IpKey:
    Prefix<Addr: Into<IpAddr> + TryFrom<IpAddr, Error = WrongFamily>>
    + Into<IpPrefix>
    + TryFrom<IpPrefix, Error = WrongFamily>
{
    /// The IP address family.
    const FAMILY: Family;
}

/// An address with a family known at compile time; needed because `core` has no `TryFrom<IpAddr>` for the types of `core`.
macro_rules! family {
    ($prefix:ident, $addr:ident, $std:ident, $bits:ident, $width:literal, $variant:ident, $family:expr, $id:expr, $doc:literal) => {
        #[doc = concat!("An ", $doc, " address.")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $addr(pub $std);

        impl Debug for $addr {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Debug::fmt(&self.0, f)
            }
        }

        impl Display for $addr {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Display::fmt(&self.0, f)
            }
        }

        impl From<$addr> for IpAddr {
            fn from(a: $addr) -> IpAddr {
                IpAddr::$variant(a.0)
            }
        }

        impl From<$addr> for Address {
            fn from(a: $addr) -> Address {
                Address::Ip(a.into())
            }
        }

        impl TryFrom<Address> for $addr {
            type Error = WrongFamily;

            fn try_from(a: Address) -> Result<Self, WrongFamily> {
                a.ip().ok_or(WrongFamily).and_then(Self::try_from)
            }
        }

        impl TryFrom<IpAddr> for $addr {
            type Error = WrongFamily;

            fn try_from(a: IpAddr) -> Result<Self, WrongFamily> {
                match a {
                    IpAddr::$variant(a) => Ok($addr(a)),
                    _ => Err(WrongFamily),
                }
            }
        }

        #[doc = concat!("An ", $doc, " prefix; host bits are zero.")]
        // An IPv6 prefix takes 20 octets of a table then, and not 32: the compiler's 128-bit integer wants to lie at multiples of 16.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(C, packed(4))]
        pub struct $prefix {
            bits: $bits,
            len: u8,
        }

        impl $prefix {
            const fn mask(len: u8) -> $bits {
                if len == 0 { 0 } else { $bits::MAX << ($width - len) }
            }
        }

        impl Prefix for $prefix {
            type Addr = $addr;
            type Bits = $bits;
            const WIDTH: u8 = $width;
            const ID: FamilyId = $id;

            fn new(addr: $addr, len: u8) -> Option<Self> {
                Self::from_parts(addr.0.to_bits(), len)
            }

            fn addr(self) -> $addr {
                $addr($std::from_bits(self.bits))
            }

            fn len(self) -> u8 {
                self.len
            }

            fn to_parts(self) -> ($bits, u8) {
                (self.bits, self.len)
            }

            fn from_parts(bits: $bits, len: u8) -> Option<Self> {
                (len <= $width).then(|| $prefix { bits: bits & Self::mask(len), len })
            }

            fn bit(self, index: u8) -> bool {
                index < $width && (self.bits >> ($width - 1 - index)) & 1 == 1
            }

            fn push_octets(self, out: &mut Vec<u8>) {
                let bits = self.bits;
                out.extend_from_slice(&bits.to_be_bytes()[..usize::from(self.len).div_ceil(8)]);
            }

            fn from_leading_octets(octets: &[u8], len: u8) -> Option<Self> {
                let mut whole = [0; $width / 8];
                whole.get_mut(..octets.len())?.copy_from_slice(octets);
                let bits = <$bits>::from_be_bytes(whole);
                Self::from_parts(bits, len).filter(|prefix| prefix.to_parts().0 == bits)
            }

            fn default_route() -> Self {
                $prefix { bits: 0, len: 0 }
            }

            fn host(addr: $addr) -> Self {
                $prefix { bits: addr.0.to_bits(), len: $width }
            }

            fn truncate(self, len: u8) -> Self {
                if len >= self.len { self } else { $prefix { bits: self.bits & Self::mask(len), len } }
            }

            fn child(self, right: bool) -> Option<Self> {
                (self.len < $width).then(|| {
                    let bit = if right { 1 << ($width - 1 - self.len) } else { 0 };
                    $prefix { bits: self.bits | bit, len: self.len + 1 }
                })
            }
        }

        impl IpKey for $prefix {
            const FAMILY: Family = $family;
        }

        impl Display for $prefix {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.addr(), self.len)
            }
        }

        impl Debug for $prefix {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Display::fmt(self, f)
            }
        }

        impl FromStr for $prefix {
            type Err = PrefixError;

            fn from_str(s: &str) -> Result<Self, PrefixError> {
                let (addr, len) = s.split_once('/').ok_or(PrefixError::NoSlash)?;
                let addr: $std = addr.parse().map_err(|_| PrefixError::Address)?;
                let len: u8 = len.parse().map_err(|_| PrefixError::Length)?;
                let prefix = Self::new($addr(addr), len).ok_or(PrefixError::Length)?;
                if prefix.bits == addr.to_bits() { Ok(prefix) } else { Err(PrefixError::HostBits) }
            }
        }

        impl Serialize for $prefix {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { (self.bits, self.len).serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $prefix {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                if d.is_human_readable() {
                    let text = alloc::string::String::deserialize(d)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    let (bits, len) = <($bits, u8)>::deserialize(d)?;
                    $prefix::from_parts(bits, len).ok_or_else(|| D::Error::custom(PrefixError::Length))
                }
            }
        }

        impl From<$prefix> for IpPrefix {
            fn from(p: $prefix) -> IpPrefix {
                IpPrefix::$variant(p)
            }
        }

        impl TryFrom<IpPrefix> for $prefix {
            type Error = WrongFamily;

            fn try_from(p: IpPrefix) -> Result<Self, WrongFamily> {
                match p {
                    IpPrefix::$variant(p) => Ok(p),
                    _ => Err(WrongFamily),
                }
            }
        }
    };
}

family!(Ipv4Prefix, V4Addr, Ipv4Addr, u32, 32, V4, Family::Ipv4, FamilyId::IPV4, "IPv4");
family!(Ipv6Prefix, V6Addr, Ipv6Addr, u128, 128, V6, Family::Ipv6, FamilyId::IPV6, "IPv6");

/// A prefix of either family, for the edges where the family is data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IpPrefix {
    /// An IPv4 prefix.
    V4(Ipv4Prefix),
    /// An IPv6 prefix.
    V6(Ipv6Prefix),
}

impl IpPrefix {
    /// The family.
    pub const fn family(self) -> Family {
        match self {
            IpPrefix::V4(_) => Family::Ipv4,
            IpPrefix::V6(_) => Family::Ipv6,
        }
    }

    /// The prefix of length `len` around `addr`, host bits cleared. `None` if `len` is above the address width.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        match addr {
            IpAddr::V4(a) => Ipv4Prefix::new(V4Addr(a), len).map(IpPrefix::V4),
            IpAddr::V6(a) => Ipv6Prefix::new(V6Addr(a), len).map(IpPrefix::V6),
        }
    }

    /// The first address.
    pub fn addr(self) -> IpAddr {
        match self {
            IpPrefix::V4(p) => p.addr().into(),
            IpPrefix::V6(p) => p.addr().into(),
        }
    }

    /// Returns true if every address of `other` is in this prefix.
    pub fn covers(self, other: Self) -> bool {
        match (self, other) {
            (IpPrefix::V4(a), IpPrefix::V4(b)) => a.covers(b),
            (IpPrefix::V6(a), IpPrefix::V6(b)) => a.covers(b),
            _ => false,
        }
    }

    /// The number of leading bits.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u8 {
        match self {
            IpPrefix::V4(p) => p.len(),
            IpPrefix::V6(p) => p.len(),
        }
    }
}

impl Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpPrefix::V4(p) => Display::fmt(p, f),
            IpPrefix::V6(p) => Display::fmt(p, f),
        }
    }
}

impl IpPrefix {
    /// Parses `address/length` and clears the host bits, as operators may write any address of a subnet.
    ///
    /// # Errors
    /// The text has no slash, no valid address or no valid length.
    pub fn parse_subnet(text: &str) -> Result<Self, PrefixError> {
        let (addr, len) = text.split_once('/').ok_or(PrefixError::NoSlash)?;
        let addr: IpAddr = addr.parse().map_err(|_| PrefixError::Address)?;
        let len: u8 = len.parse().map_err(|_| PrefixError::Length)?;
        IpPrefix::new(addr, len).ok_or(PrefixError::Length)
    }
}

impl FromStr for IpPrefix {
    type Err = PrefixError;

    fn from_str(s: &str) -> Result<Self, PrefixError> {
        if s.contains(':') { s.parse().map(IpPrefix::V6) } else { s.parse().map(IpPrefix::V4) }
    }
}

impl Serialize for IpPrefix {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() { s.collect_str(self) } else { (self.addr(), self.len()).serialize(s) }
    }
}

impl<'de> Deserialize<'de> for IpPrefix {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        if d.is_human_readable() {
            alloc::string::String::deserialize(d)?.parse().map_err(D::Error::custom)
        } else {
            let (addr, len) = <(IpAddr, u8)>::deserialize(d)?;
            IpPrefix::new(addr, len).ok_or_else(|| D::Error::custom(PrefixError::Length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn check<P: Prefix>(text: &str, expected: Result<(&str, u8), PrefixError>) {
        let got = text.parse::<P>().map(|p| (p.to_string(), p.len()));
        assert_eq!(got.as_ref().map(|(t, l)| (t.as_str(), *l)).map_err(|e| *e), expected, "{text}");
    }

    #[test]
    fn reads_and_prints() {
        check::<Ipv4Prefix>("10.0.0.0/8", Ok(("10.0.0.0/8", 8)));
        check::<Ipv4Prefix>("0.0.0.0/0", Ok(("0.0.0.0/0", 0)));
        check::<Ipv4Prefix>("10.0.0.1/8", Err(PrefixError::HostBits));
        check::<Ipv4Prefix>("10.0.0.0/33", Err(PrefixError::Length));
        check::<Ipv4Prefix>("10.0.0.0", Err(PrefixError::NoSlash));
        check::<Ipv4Prefix>("2001:db8::/32", Err(PrefixError::Address));
        check::<Ipv6Prefix>("2001:db8::/32", Ok(("2001:db8::/32", 32)));
        check::<Ipv6Prefix>("::/0", Ok(("::/0", 0)));
        check::<Ipv6Prefix>("2001:db8::1/32", Err(PrefixError::HostBits));
        check::<Ipv6Prefix>("2001:db8::/129", Err(PrefixError::Length));
    }

    fn walk<P: Prefix>(text: &str) {
        let p: P = text.parse().unwrap();
        assert!(P::default_route().covers(p) && p.covers(p));
        for right in [false, true] {
            let c = p.child(right).unwrap();
            assert!(p.covers(c) && !c.covers(p));
            assert_eq!(c.truncate(p.len()), p);
            assert_eq!(c.bit(p.len()), right);
        }
        assert!(p.contains(p.addr()));
        assert_eq!(P::host(p.addr()).child(true), None);
        assert_eq!(P::from_parts(p.to_parts().0, p.len()), Some(p));
    }

    #[test]
    fn covering_and_children() {
        walk::<Ipv4Prefix>("192.0.2.0/24");
        walk::<Ipv4Prefix>("0.0.0.0/0");
        walk::<Ipv6Prefix>("2001:db8::/32");
        walk::<Ipv6Prefix>("::/0");
    }
}
