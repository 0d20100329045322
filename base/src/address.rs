//! Addresses whose family is data.

use crate::family::{Family, FamilyId, WrongFamily};
use crate::xid::Xid;
use core::fmt::{self, Debug, Display};
use core::net::IpAddr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An address that is no IP address: an identifier of a registered family, of at most [`Identifier::ROOM`] octets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    family: FamilyId,
    octets: [u8; Identifier::ROOM],
    length: u8,
}

impl Identifier {
    /// The most octets of an identifier: a principal type and 160 bits need 24; IPv6 source and group 31.
    pub const ROOM: usize = 32;

    /// Makes an identifier; `None` if there are more than [`Identifier::ROOM`] octets, or if the family has IP addresses or is none (0).
    pub fn new(family: FamilyId, octets: &[u8]) -> Option<Self> {
        let mut whole = [0; Self::ROOM];
        whole.get_mut(..octets.len())?.copy_from_slice(octets);
        let is_known = family.0 != 0 && family.ip().is_none();
        is_known.then_some(Identifier { family, octets: whole, length: octets.len() as u8 })
    }

    /// Makes the identifier of an XID.
    pub fn of_xid(xid: Xid) -> Self {
        let mut octets = [0; Self::ROOM];
        octets.iter_mut().zip(xid.octets()).for_each(|(to, from)| *to = from);
        Identifier { family: FamilyId::XID, octets, length: Xid::LEN as u8 }
    }

    /// Returns the family.
    pub const fn family(&self) -> FamilyId {
        self.family
    }

    /// Returns the octets.
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..usize::from(self.length)).unwrap_or(&self.octets)
    }
}

impl Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(xid) = Xid::try_from(Address::Identifier(*self)) {
            return Display::fmt(&xid, f);
        }
        write!(f, "{}:", self.family)?;
        self.octets().iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Serialize for Identifier {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        (self.family, self.octets()).serialize(s)
    }
}

impl<'de> Deserialize<'de> for Identifier {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let (family, octets) = <(FamilyId, alloc::vec::Vec<u8>)>::deserialize(d)?;
        Identifier::new(family, &octets)
            .ok_or_else(|| D::Error::custom("expected an identifier of at most 32 octets"))
    }
}

/// An address of any family: the target of a next hop of any table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Address {
    /// An IP address.
    Ip(IpAddr),
    /// An identifier of another family.
    Identifier(Identifier),
}

impl Address {
    /// Returns the IP address; `None` for an identifier.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Address::Ip(addr) => Some(addr),
            Address::Identifier(_) => None,
        }
    }

    /// Returns the family of the address's keys.
    pub fn family(self) -> FamilyId {
        match self {
            Address::Ip(addr) => Family::of(&addr).into(),
            Address::Identifier(id) => id.family(),
        }
    }

    /// Passes the address's octets on: 4 of IPv4, 16 of IPv6, as many as the identifier has.
    pub fn with_octets<R>(&self, use_octets: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Address::Ip(IpAddr::V4(addr)) => use_octets(&addr.octets()),
            Address::Ip(IpAddr::V6(addr)) => use_octets(&addr.octets()),
            Address::Identifier(id) => use_octets(id.octets()),
        }
    }

    /// Makes an address of a family from octets; `None` if the number of octets does not fit the family.
    pub fn from_octets(family: FamilyId, octets: &[u8]) -> Option<Self> {
        match family.ip() {
            Some(Family::Ipv4) => <[u8; 4]>::try_from(octets).ok().map(|o| Address::Ip(o.into())),
            Some(Family::Ipv6) => <[u8; 16]>::try_from(octets).ok().map(|o| Address::Ip(o.into())),
            None => Identifier::new(family, octets).map(Address::Identifier),
        }
    }
}

impl From<IpAddr> for Address {
    fn from(addr: IpAddr) -> Self {
        Address::Ip(addr)
    }
}

impl TryFrom<Address> for IpAddr {
    type Error = WrongFamily;

    fn try_from(addr: Address) -> Result<Self, WrongFamily> {
        addr.ip().ok_or(WrongFamily)
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(addr) => Display::fmt(addr, f),
            Address::Identifier(id) => Display::fmt(id, f),
        }
    }
}

impl From<Xid> for Address {
    fn from(xid: Xid) -> Address {
        Address::Identifier(Identifier::of_xid(xid))
    }
}

impl TryFrom<Address> for Xid {
    type Error = WrongFamily;

    fn try_from(addr: Address) -> Result<Self, WrongFamily> {
        match addr {
            Address::Identifier(id) if id.family() == FamilyId::XID => {
                id.octets().try_into().map(Xid::from_octets).map_err(|_| WrongFamily)
            }
            _ => Err(WrongFamily),
        }
    }
}
