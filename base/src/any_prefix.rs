//! Prefixes whose family is data.

use crate::address::{Address, Identifier};
use crate::family::FamilyId;
use crate::ip::IpPrefix;
use crate::prefix::{Prefix, PrefixError};
use crate::xid_prefix::XidPrefix;
use core::fmt::{self, Display};
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A key of any family: the first address, and the number of significant leading bits. Host bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AnyPrefix {
    addr: Address,
    len: u8,
}

impl AnyPrefix {
    /// Erases a key's type.
    pub fn of<P: Prefix>(prefix: P) -> Self {
        AnyPrefix { addr: prefix.addr().into(), len: prefix.len() }
    }

    /// Returns the key of a family; `None` for a key of another family.
    pub fn to<P: Prefix>(self) -> Option<P> {
        let addr = P::Addr::try_from(self.addr).ok()?;
        P::new(addr, self.len).filter(|prefix| prefix.addr() == addr)
    }

    /// Returns the first address.
    pub const fn addr(self) -> Address {
        self.addr
    }

    /// Returns the last address of the key: the bits after the length are set.
    pub fn last_addr(self) -> Address {
        let mut octets = [0; Identifier::ROOM];
        let count = self.addr.with_octets(|from| {
            octets.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            from.len()
        });
        for (place, octet) in octets.iter_mut().enumerate().take(count) {
            let kept = usize::from(self.len).saturating_sub(place * 8);
            *octet |= 0xff_u8.checked_shr(kept as u32).unwrap_or(0);
        }
        octets
            .get(..count)
            .and_then(|octets| Address::from_octets(self.family(), octets))
            .unwrap_or(self.addr)
    }

    /// Returns the number of leading bits.
    #[allow(clippy::len_without_is_empty)] // the length is in bits: a prefix is never empty
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Returns the family.
    pub fn family(self) -> FamilyId {
        self.addr.family()
    }

    /// Returns true if `other` is the key or lies inside; false for a key of another family.
    pub fn covers(self, other: Self) -> bool {
        if self.family() != other.family() || self.len > other.len {
            return false;
        }
        let (whole, rest) = (usize::from(self.len / 8), self.len % 8);
        self.addr.with_octets(|outer| {
            other.addr.with_octets(|inner| {
                let differs = |place: usize| {
                    outer
                        .get(place)
                        .zip(inner.get(place))
                        .is_some_and(|(a, b)| (a ^ b) & !(0xff_u8 >> rest) != 0)
                };
                outer.get(..whole) == inner.get(..whole) && !differs(whole)
            })
        })
    }

    /// Returns true if an address lies inside the key; false for an address of another family.
    pub fn contains(self, addr: Address) -> bool {
        self.addr <= addr && addr <= self.last_addr()
    }

    /// Returns the IP prefix; `None` for a key of another family.
    pub fn ip(self) -> Option<IpPrefix> {
        IpPrefix::new(self.addr.ip()?, self.len)
    }

    /// Makes a key of an address and a length in bits.
    ///
    /// # Errors
    /// The length is above the address's width, or bits after the length are not zero.
    pub fn new(addr: Address, len: u8) -> Result<Self, PrefixError> {
        let has_host_bits = addr.with_octets(|octets| {
            if usize::from(len) > octets.len() * 8 {
                return Err(PrefixError::Length);
            }
            let whole = usize::from(len / 8);
            let rest = octets.get(whole).is_some_and(|octet| octet & (0xff_u8 >> (len % 8)) != 0);
            Ok(rest || octets.iter().skip(whole + 1).any(|octet| *octet != 0))
        })?;
        if has_host_bits { Err(PrefixError::HostBits) } else { Ok(AnyPrefix { addr, len }) }
    }
}

impl From<IpPrefix> for AnyPrefix {
    fn from(prefix: IpPrefix) -> Self {
        AnyPrefix { addr: Address::Ip(prefix.addr()), len: prefix.len() }
    }
}

impl FromStr for AnyPrefix {
    type Err = PrefixError;

    /// Reads an IP prefix, or XIDs as [`XidPrefix`] is written; keys of other families have no form to be read from.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let is_of_xids = text.contains('-') || text.starts_with("xid");
        if is_of_xids {
            text.parse().map(AnyPrefix::of::<XidPrefix>)
        } else {
            text.parse::<IpPrefix>().map(AnyPrefix::from)
        }
    }
}

impl Display for AnyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = self.to::<XidPrefix>() {
            return Display::fmt(&prefix, f);
        }
        write!(f, "{}/{}", self.addr, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4Prefix, Ipv6Prefix};
    use alloc::string::ToString;

    #[test]
    fn keys_keep_their_family_without_their_type() {
        let prefix: Ipv4Prefix = "10.0.0.0/8".parse().unwrap();
        let any = AnyPrefix::of(prefix);
        assert_eq!((any.to(), any.to::<Ipv6Prefix>()), (Some(prefix), None));
        assert_eq!((any.family(), any.to_string().as_str()), (FamilyId::IPV4, "10.0.0.0/8"));
        assert_eq!(any.ip(), Some(IpPrefix::V4(prefix)));
        let id = Identifier::new(FamilyId(9), &[1, 0xab]).unwrap();
        let any = AnyPrefix::new(Address::Identifier(id), 16).unwrap();
        assert_eq!(
            (any.family(), any.ip(), any.to_string().as_str()),
            (FamilyId(9), None, "family-9:01ab/16")
        );
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let xid = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
        let prefix = "lpm-0a00000000000000000000000000000000000000/8";
        for text in ["10.0.0.0/8", "2001:db8::/32", xid, prefix, "xid/0"] {
            assert_eq!(text.parse::<AnyPrefix>().unwrap().to_string(), text);
        }
        assert_eq!("ad-a1".parse::<AnyPrefix>(), Err(PrefixError::Address));
        assert_eq!("10.0.0.1/8".parse::<AnyPrefix>(), Err(PrefixError::HostBits));
    }

    #[test]
    fn the_last_address_of_a_key_has_all_host_bits() {
        let last = |text: &str| AnyPrefix::from(text.parse::<IpPrefix>().unwrap()).last_addr().to_string();
        assert_eq!(last("10.0.0.0/8"), "10.255.255.255");
        assert_eq!(last("192.0.2.64/27"), "192.0.2.95");
        assert_eq!(last("192.0.2.1/32"), "192.0.2.1");
        assert_eq!(last("0.0.0.0/0"), "255.255.255.255");
        assert_eq!(last("2001:db8::/33"), "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff");
    }

    #[test]
    fn keys_cover_those_of_their_family_that_lie_inside() {
        let covers = |outer: &str, inner: &str| {
            let [outer, inner] = [outer, inner].map(|text| text.parse::<AnyPrefix>().unwrap());
            outer.covers(inner)
        };
        assert!(covers("10.0.0.0/8", "10.0.0.0/8") && covers("10.0.0.0/8", "10.1.0.0/16"));
        assert!(covers("10.128.0.0/9", "10.255.0.0/16") && !covers("10.128.0.0/9", "10.127.0.0/16"));
        assert!(!covers("10.0.0.0/16", "10.0.0.0/8"), "longer");
        assert!(covers("0.0.0.0/0", "10.0.0.0/8") && !covers("::/0", "10.0.0.0/8"), "of another family");
        let (type_and_8, inside) =
            ("ad-a100000000000000000000000000000000000000/8", "ad-a1ff0000000000000000000000000000000000ff");
        assert!(covers(type_and_8, inside) && !covers(type_and_8, &inside.replace("ad-", "hid-")));
        assert!(covers("192.0.2.1/32", "192.0.2.1/32") && covers("2001:db8::1/128", "2001:db8::1/128"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let id = Address::Identifier(Identifier::new(FamilyId(9), &[1, 0xab]).unwrap());
        assert_eq!(AnyPrefix::new(id, 17), Err(PrefixError::Length));
        assert_eq!(AnyPrefix::new(id, 15), Err(PrefixError::HostBits));
        assert_eq!(AnyPrefix::new(id, 7), Err(PrefixError::HostBits));
        assert_eq!(Identifier::new(FamilyId(9), &[0; 33]), None);
        assert_eq!(Identifier::new(FamilyId::IPV4, &[0; 4]), None);
        assert_eq!(Identifier::new(FamilyId(0), &[0; 4]), None);
        assert_eq!(Address::from_octets(FamilyId::IPV6, &[0; 4]), None);
    }
}
