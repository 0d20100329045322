//! Families: the kinds of addresses of sockets and kernels, and the kinds of keys of tables.

use core::fmt::{self, Display};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// An IP address family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl Family {
    /// Both families, in the order of presentation.
    pub const ALL: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// Returns the family of an address.
    pub const fn of(addr: &IpAddr) -> Family {
        match addr {
            IpAddr::V4(_) => Family::Ipv4,
            IpAddr::V6(_) => Family::Ipv6,
        }
    }
}

impl Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        })
    }
}

/// The number of a family of keys: of IPv4 prefixes, of IPv6 prefixes, or of identifiers of a further architecture.
///
/// The set is open: tables and batches carry the number, and each registers the families of its own code. Code about sockets and
/// the kernel uses [`Family`], a closed set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FamilyId(pub u8);

impl FamilyId {
    /// IPv4 prefixes.
    pub const IPV4: FamilyId = FamilyId(4);
    /// IPv6 prefixes.
    pub const IPV6: FamilyId = FamilyId(6);
    /// XIDs of XIA's principals.
    pub const XID: FamilyId = FamilyId(10);

    /// Returns the IP address family; `None` for keys other than IP prefixes.
    pub const fn ip(self) -> Option<Family> {
        match self {
            FamilyId::IPV4 => Some(Family::Ipv4),
            FamilyId::IPV6 => Some(Family::Ipv6),
            _ => None,
        }
    }
}

impl From<Family> for FamilyId {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => FamilyId::IPV4,
            Family::Ipv6 => FamilyId::IPV6,
        }
    }
}

impl Display for FamilyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(family) => Display::fmt(&family, f),
            None if *self == FamilyId::XID => f.pad("xid"),
            None => write!(f, "family-{}", self.0),
        }
    }
}

/// An address of the wrong family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongFamily;

impl Display for WrongFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("address of the wrong family")
    }
}

impl core::error::Error for WrongFamily {}
