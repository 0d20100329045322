//! MP_REACH_NLRI and MP_UNREACH_NLRI (RFC 4760, sections 3 and 4) and their next hops (RFC 2545, section 3).

use super::{Expected, WireError};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use sluice_base::{Address, InterfaceIndex, Xid, XidType};
use sluice_wire::Cursor;

/// The value of an MP_REACH_NLRI attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpReach<'a> {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The next hop's octets.
    pub next_hop: &'a [u8],
    /// The offset of the next hop in the message body.
    pub next_hop_offset: usize,
    /// The announced prefixes.
    pub nlri: &'a [u8],
    /// The offset of the prefixes in the message body.
    pub nlri_offset: usize,
}

impl<'a> MpReach<'a> {
    /// Reads the value, which begins at `offset` of the message body.
    pub fn decode(value: &'a [u8], offset: usize) -> Result<Self, WireError> {
        let mut c = Cursor::at(value, offset);
        let (afi, safi, len) = (c.u16()?, c.u8()?, c.u8()?);
        let next_hop_offset = c.offset();
        let next_hop = c.take(len.into())?;
        // Reserved: must be ignored (RFC 4760, section 3).
        c.u8()?;
        Ok(MpReach { afi, safi, next_hop, next_hop_offset, nlri: c.rest(), nlri_offset: c.offset() })
    }
}

/// The value of an MP_UNREACH_NLRI attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MpUnreach<'a> {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// The withdrawn prefixes; empty: the family's End-of-RIB marker (RFC 4724, section 2).
    pub withdrawn: &'a [u8],
    /// The offset of the withdrawn prefixes in the message body.
    pub withdrawn_offset: usize,
}

impl<'a> MpUnreach<'a> {
    /// Reads the value, which begins at `offset` of the message body.
    pub fn decode(value: &'a [u8], offset: usize) -> Result<Self, WireError> {
        let mut c = Cursor::at(value, offset);
        let (afi, safi) = (c.u16()?, c.u8()?);
        Ok(MpUnreach { afi, safi, withdrawn: c.rest(), withdrawn_offset: c.offset() })
    }
}

/// A route's next hop, from NEXT_HOP or MP_REACH_NLRI.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NextHop {
    /// The address; for IPv6 the global address, or the link-local address without a global address; for XIDs an XID of any type.
    pub address: Address,
    /// The next hop's link-local address, if on a link with the receiver.
    pub link_local: Option<Ipv6Addr>,
    /// The interface of a link-local `address`; `None` for further addresses.
    pub interface: Option<InterfaceIndex>,
}

impl NextHop {
    /// Makes a next hop of an IP address.
    pub const fn new(address: IpAddr) -> Self {
        Self::at(Address::Ip(address))
    }

    /// Makes a next hop of an address of any family.
    pub const fn at(address: Address) -> Self {
        NextHop { address, link_local: None, interface: None }
    }

    /// Returns the next hop as said by a peer on the link of `interface`.
    #[must_use]
    pub fn on(self, interface: Option<InterfaceIndex>) -> Self {
        NextHop { interface: interface.filter(|_| self.is_link_local()), ..self }
    }

    /// Returns true if the address has no meaning without an interface.
    pub fn is_link_local(&self) -> bool {
        matches!(self.address, Address::Ip(IpAddr::V6(a)) if a.is_unicast_link_local())
    }

    /// Reads an IPv4 next hop of an MP_REACH_NLRI, at `offset` of the message body.
    pub(crate) fn decode_ipv4(octets: &[u8], offset: usize) -> Result<Self, WireError> {
        match <[u8; 4]>::try_from(octets) {
            Ok(address) => Ok(NextHop::new(Ipv4Addr::from(address).into())),
            Err(_) => Err(wrong_length(octets, offset)),
        }
    }

    /// Reads an IPv6 next hop of an MP_REACH_NLRI, at `offset` of the message body.
    ///
    /// RFC 2545 has no form for a router without a global address. In use are a link-local address alone, `::` and the link-local
    /// address, and the link-local address twice: in all three the link-local address becomes the address.
    pub(crate) fn decode_ipv6(octets: &[u8], offset: usize) -> Result<Self, WireError> {
        let mut c = Cursor::at(octets, offset);
        match octets.len() {
            16 => Ok(NextHop::new(Ipv6Addr::from(c.array::<16>()?).into())),
            32 => {
                let address = Ipv6Addr::from(c.array::<16>()?);
                let link_local = Some(Ipv6Addr::from(c.array::<16>()?)).filter(|a| a.is_unicast_link_local());
                Ok(match link_local {
                    Some(only) if address.is_unspecified() || address.is_unicast_link_local() => {
                        NextHop::new(only.into())
                    }
                    _ => NextHop { link_local, ..NextHop::new(address.into()) },
                })
            }
            _ => Err(wrong_length(octets, offset)),
        }
    }

    /// Reads the next hop of XIDs of an MP_REACH_NLRI: an XID, type first.
    pub(crate) fn decode_xid(octets: &[u8], offset: usize) -> Result<Self, WireError> {
        match octets.try_into() {
            Ok(octets) => Ok(NextHop::at(Xid::from_octets(octets).into())),
            Err(_) => Err(wrong_length(octets, offset)),
        }
    }

    /// Returns true for a possible destination of packets: not unspecified, not loopback, not a group (RFC 4271, section 6.3), and not
    /// an XID of the null type.
    pub fn is_host(&self) -> bool {
        match self.address {
            Address::Ip(IpAddr::V4(a)) => {
                !(a.octets()[0] == 0 || a.is_loopback() || a.is_multicast() || a.octets()[0] >= 240)
            }
            Address::Ip(IpAddr::V6(a)) => !(a.is_unspecified() || a.is_loopback() || a.is_multicast()),
            Address::Identifier(_) => Xid::try_from(self.address).is_ok_and(|xid| xid.kind != XidType::NAT),
        }
    }

    /// Returns true without an address: the placeholder for the router itself.
    pub fn is_unspecified(&self) -> bool {
        match self.address {
            Address::Ip(address) => address.is_unspecified(),
            Address::Identifier(id) => id.octets().iter().all(|octet| *octet == 0),
        }
    }
}

fn wrong_length(octets: &[u8], offset: usize) -> WireError {
    WireError { offset, expected: Expected::NextHopLength(octets.len() as u8) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn reach_and_unreach() {
        let value = [0, 2, 1, 1, 9, 0, 8, 32];
        let reach = MpReach::decode(&value, 10).unwrap();
        assert_eq!((reach.afi, reach.safi, reach.next_hop, reach.nlri), (2, 1, &[9][..], &[8, 32][..]));
        assert_eq!((reach.next_hop_offset, reach.nlri_offset), (14, 16));
        for n in 0..6 {
            assert!(MpReach::decode(&value[..n], 0).is_err(), "{n}");
        }
        let unreach = MpUnreach::decode(&[0, 2, 1], 0).unwrap();
        assert_eq!((unreach.afi, unreach.safi, unreach.withdrawn), (2, 1, &[][..]));
        assert!(MpUnreach::decode(&[0, 2], 0).is_err());
    }

    #[test]
    fn next_hops() {
        let v4 = NextHop::decode_ipv4(&[10, 0, 0, 1], 0).unwrap();
        assert_eq!(v4, NextHop::new("10.0.0.1".parse().unwrap()));
        let (global, local): (Ipv6Addr, Ipv6Addr) =
            ("2001:db8::1".parse().unwrap(), "fe80::1".parse().unwrap());
        let mut both = global.octets().to_vec();
        both.extend_from_slice(&local.octets());
        let hop = NextHop::decode_ipv6(&both, 0).unwrap();
        assert_eq!((hop.address, hop.link_local), (Address::Ip(global.into()), Some(local)));
        assert_eq!(NextHop::decode_ipv6(&both[..16], 0).unwrap().link_local, None);
        // Without a global address.
        let unspecified = Ipv6Addr::UNSPECIFIED.octets();
        for form in [vec![local], vec![Ipv6Addr::UNSPECIFIED, local], vec![local, local]] {
            let octets: Vec<u8> = form.iter().flat_map(Ipv6Addr::octets).collect();
            assert_eq!(NextHop::decode_ipv6(&octets, 0), Ok(NextHop::new(local.into())), "{form:?}");
        }
        let nowhere = NextHop::decode_ipv6(&[unspecified; 2].concat(), 0).unwrap();
        assert_eq!((nowhere.is_host(), nowhere.link_local), (false, None));
        let wrong = WireError { offset: 3, expected: Expected::NextHopLength(9) };
        assert_eq!(NextHop::decode_ipv6(&both[..9], 3), Err(wrong));
    }

    #[test]
    fn next_hops_of_xids() {
        let xid: Xid = "u4id-c000020135d50000000000000000000000000000".parse().unwrap();
        let octets = xid.octets();
        let hop = NextHop::decode_xid(&octets, 0).unwrap();
        assert_eq!((hop, hop.is_host(), hop.is_unspecified()), (NextHop::at(xid.into()), true, false));
        for len in (0..24).chain(25..40) {
            let wrong = WireError { offset: 5, expected: Expected::NextHopLength(len) };
            let octets = vec![0x16; len.into()];
            assert_eq!(NextHop::decode_xid(&octets, 5), Err(wrong));
        }
        let nowhere = NextHop::decode_xid(&[0; 24], 0).unwrap();
        assert!(!nowhere.is_host() && nowhere.is_unspecified());
    }

    #[test]
    fn martians() {
        for (text, expected) in [
            ("10.0.0.1", true),
            ("0.0.0.0", false),
            ("127.0.0.1", false),
            ("224.0.0.5", false),
            ("255.255.255.255", false),
            ("2001:db8::1", true),
            ("::", false),
            ("::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(NextHop::new(text.parse().unwrap()).is_host(), expected, "{text}");
        }
    }
}
