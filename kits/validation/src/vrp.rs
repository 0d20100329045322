//! A validated ROA payload (VRP, RFC 6811, section 2).

use core::fmt;
use serde::Serialize;
use sluice_base::{Asn, IpKey, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};

/// A key of tables of VRPs: an IPv4 or IPv6 prefix.
pub trait VrpFamily: IpKey {}

impl VrpFamily for Ipv4Prefix {}
impl VrpFamily for Ipv6Prefix {}

/// A validated ROA payload: the AS may originate the prefix, and prefixes inside it up to a length. Sorted by
/// address, then by length: a prefix comes before the prefixes inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub struct Vrp<P> {
    /// The prefix.
    pub prefix: P,
    /// The length in bits up to which routes inside the prefix are valid.
    pub max_length: u8,
    /// The origin AS. AS 0 makes no route valid (RFC 6483, section 4).
    pub asn: Asn,
}

impl<P: Prefix> Vrp<P> {
    /// Makes a VRP. Returns `None` if `max_length` is below the prefix's length or above the family's width.
    pub fn new(prefix: P, max_length: u8, asn: Asn) -> Option<Self> {
        (prefix.len() <= max_length && max_length <= P::WIDTH).then_some(Vrp { prefix, max_length, asn })
    }

    /// Returns true if the VRP makes a covered route valid: the AS is the route's origin, and the route is not longer than allowed
    /// ("matched", RFC 6811, section 2).
    pub fn matches(&self, route: P, origin: Option<Asn>) -> bool {
        self.asn.0 != 0 && origin == Some(self.asn) && route.len() <= self.max_length
    }
}

/// A VRP of either family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
pub enum AnyVrp {
    /// Payloads of IPv4.
    V4(Vrp<Ipv4Prefix>),
    /// Payloads of IPv6.
    V6(Vrp<Ipv6Prefix>),
}

impl AnyVrp {
    /// Makes a VRP. Returns `None` if `max_length` is below the prefix's length or above the family's width.
    pub fn new(prefix: IpPrefix, max_length: u8, asn: Asn) -> Option<Self> {
        match prefix {
            IpPrefix::V4(prefix) => Vrp::new(prefix, max_length, asn).map(AnyVrp::V4),
            IpPrefix::V6(prefix) => Vrp::new(prefix, max_length, asn).map(AnyVrp::V6),
        }
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> IpPrefix {
        match self {
            AnyVrp::V4(vrp) => vrp.prefix.into(),
            AnyVrp::V6(vrp) => vrp.prefix.into(),
        }
    }

    /// Returns the length in bits up to which routes are valid.
    pub const fn max_length(&self) -> u8 {
        match self {
            AnyVrp::V4(vrp) => vrp.max_length,
            AnyVrp::V6(vrp) => vrp.max_length,
        }
    }

    /// Returns the origin AS.
    pub const fn asn(&self) -> Asn {
        match self {
            AnyVrp::V4(vrp) => vrp.asn,
            AnyVrp::V6(vrp) => vrp.asn,
        }
    }
}

impl From<Vrp<Ipv4Prefix>> for AnyVrp {
    fn from(vrp: Vrp<Ipv4Prefix>) -> Self {
        AnyVrp::V4(vrp)
    }
}

impl From<Vrp<Ipv6Prefix>> for AnyVrp {
    fn from(vrp: Vrp<Ipv6Prefix>) -> Self {
        AnyVrp::V6(vrp)
    }
}

impl fmt::Display for AnyVrp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, longest) = (self.prefix(), self.max_length());
        write!(f, "{prefix}")?;
        if longest != prefix.len() {
            write!(f, " up to /{longest}")?;
        }
        write!(f, " AS {}", self.asn())
    }
}
