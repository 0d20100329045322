//! Numbers with a meaning: AS numbers, metrics, administrative distances, tags, router and table identifiers.

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// An autonomous system number, 4 octets (RFC 6793). Shown in asplain (RFC 5396).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Asn(pub u32);

impl Asn {
    /// AS_TRANS: stands for a 4-octet number where only 2 octets fit (RFC 6793, section 9).
    pub const TRANS: Asn = Asn(23456);

    /// The number in 2 octets, or AS_TRANS.
    pub const fn to_u16(self) -> u16 {
        if self.0 > 0xffff { Asn::TRANS.0 as u16 } else { self.0 as u16 }
    }

    /// Returns true if the number may be used in the Internet's routing: not 0, not the last (RFC 7607, RFC 7300).
    pub const fn is_usable(self) -> bool {
        self.0 != 0 && self.0 != 65535 && self.0 != u32::MAX
    }
}

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A protocol's own cost of a route; lower is better. Comparable only within one protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metric(pub u32);

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Administrative distance: how much the RIB trusts an origin, 0 (most) to 255 (never used).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distance(pub u8);

impl Distance {
    /// Routes of the router's own interfaces.
    pub const CONNECTED: Distance = Distance(0);
    /// Routes configured by an operator.
    pub const STATIC: Distance = Distance(1);
    /// BGP routes learned from a different AS.
    pub const EBGP: Distance = Distance(20);
    /// BGP routes learned inside the AS.
    pub const IBGP: Distance = Distance(200);
    /// Kept, shown, never used.
    pub const UNUSABLE: Distance = Distance(255);
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A mark on an origin's routes, for policy to match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(pub u32);

/// A router's 32-bit identifier, written like an IPv4 address (RFC 2328, RFC 4271 "BGP Identifier", RFC 6286).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouterId(pub u32);

impl fmt::Display for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from(self.0).fmt(f)
    }
}

impl FromStr for RouterId {
    type Err = core::net::AddrParseError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<Ipv4Addr>().map(|a| RouterId(a.into()))
    }
}

/// A routing table, by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

impl TableId {
    /// The kernel's main table.
    pub const MAIN: TableId = TableId(254);

    /// The kernel's table of local addresses and broadcasts: the first table of a look-up.
    pub const LOCAL: TableId = TableId(255);

    /// The kernel's table `default`: the last table of a look-up.
    pub const DEFAULT: TableId = TableId(253);
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == TableId::MAIN { f.write_str("main") } else { self.0.fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn as_numbers() {
        assert_eq!(Asn(65536).to_u16(), 23456);
        assert_eq!(Asn(64500).to_u16(), 64500);
        assert!(!Asn(0).is_usable() && !Asn(65535).is_usable() && !Asn(u32::MAX).is_usable());
        assert!(Asn(4_200_000_000).is_usable());
    }

    #[test]
    fn router_id_reads_like_an_address() {
        let id: RouterId = "10.0.0.1".parse().unwrap();
        assert_eq!((id.0, id.to_string().as_str()), (0x0a00_0001, "10.0.0.1"));
    }
}
