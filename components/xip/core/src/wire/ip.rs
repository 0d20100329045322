//! XIDs that are IP destinations without a UDP port: I4ID and X4ID, I6ID and X6ID.

use super::udp::IllFormed;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use sluice_base::{Xid, XidType};

/// IPv4 destinations, reached by XIP directly in IPv4.
pub(crate) const I4ID: XidType = XidType(0x15);
/// IPv4 destinations, reached hop by hop with the IPv4 routing table.
pub(crate) const X4ID: XidType = XidType(0x50);
/// IPv6 destinations, reached by XIP directly in IPv6.
pub(crate) const I6ID: XidType = XidType(0x51);
/// IPv6 destinations, reached hop by hop with the IPv6 routing table.
pub(crate) const X6ID: XidType = XidType(0x52);

/// Returns the XID of an I4ID or I6ID: the address, then zeros.
pub fn tunneled(addr: IpAddr) -> Xid {
    with_kind(if addr.is_ipv4() { I4ID } else { I6ID }, addr)
}

/// Returns the XID of an X4ID or X6ID: the address, then zeros.
pub fn native(addr: IpAddr) -> Xid {
    with_kind(if addr.is_ipv4() { X4ID } else { X6ID }, addr)
}

fn with_kind(kind: XidType, addr: IpAddr) -> Xid {
    let mut id = [0; 20];
    let octets = match &addr {
        IpAddr::V4(addr) => &addr.octets()[..],
        IpAddr::V6(addr) => &addr.octets()[..],
    };
    id.iter_mut().zip(octets).for_each(|(place, octet)| *place = *octet);
    Xid { kind, id }
}

/// Returns the address of an I4ID, X4ID, I6ID or X6ID.
///
/// # Errors
/// [`IllFormed`] for XIDs of different types, the unspecified address and octets after the address that are not zero.
pub fn address(xid: Xid) -> Result<IpAddr, IllFormed> {
    let (addr, rest) = match xid.kind {
        I4ID | X4ID => {
            let [a, b, c, d, rest @ ..] = &xid.id;
            (IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d)), &rest[..])
        }
        I6ID | X6ID => {
            let (addr, rest) = xid.id.split_first_chunk::<16>().ok_or(IllFormed::Type)?;
            (IpAddr::V6(Ipv6Addr::from(*addr)), rest)
        }
        _ => return Err(IllFormed::Type),
    };
    if addr.is_unspecified() {
        return Err(IllFormed::Address);
    }
    if rest.iter().any(|octet| *octet != 0) { Err(IllFormed::Rest) } else { Ok(addr) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for text in ["10.2.71.2", "2001:db8::1"] {
            let addr: IpAddr = text.parse().unwrap();
            assert_eq!((address(tunneled(addr)), address(native(addr))), (Ok(addr), Ok(addr)));
            let mut xid = native(addr);
            xid.id[19] = 1;
            assert_eq!(address(xid), Err(IllFormed::Rest));
            assert_eq!(address(Xid { id: [0; 20], ..xid }), Err(IllFormed::Address));
            assert_eq!(address(Xid { kind: XidType::AD, ..xid }), Err(IllFormed::Type));
        }
    }
}
