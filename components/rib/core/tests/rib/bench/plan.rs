//! The addresses of the families in the model's test.

use super::label::LabelAddress;
use super::{Label, Net};
use sluice_base::{Address, Ipv4Prefix, Ipv6Prefix, Xid, XidPrefix, XidType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A family with the test's addresses.
pub trait Plan: Net {
    /// Numbers of hosts on a link that are no gateways: the router's own, and the broadcast addresses.
    const NO_GATEWAYS: &'static [u8];
    /// The additional length of prefixes compared with IPv4.
    const LONGER: u8;
    /// An address in the prefix of [`nth`] with `high` and `low`.
    fn far(high: u8, low: u8, host: u8) -> Self::Addr;
    /// Address `host` on link 0 or 1.
    fn near(link: u8, host: u8) -> Address;
    /// Returns an address to ask about; `None` for one that is no key of the family.
    fn asked(addr: Address) -> Option<Self::Addr> {
        Self::Addr::try_from(addr).ok()
    }
    /// Link and host of an address on a link.
    fn place(addr: Address) -> Option<(u8, u8)> {
        let all = (0..2).flat_map(|link| (0..=255).map(move |host| (link, host)));
        all.into_iter().find(|(link, host)| Self::near(*link, *host) == addr)
    }
}

impl Plan for Ipv4Prefix {
    const NO_GATEWAYS: &'static [u8] = &[0, 1, 255];
    const LONGER: u8 = 0;
    fn far(high: u8, low: u8, host: u8) -> Self::Addr {
        IpAddr::from(Ipv4Addr::new(20, high, low, host)).try_into().unwrap()
    }
    fn near(link: u8, host: u8) -> Address {
        Address::Ip(Ipv4Addr::new(10, 0, link, host).into())
    }
}

/// Labels lead through IPv4 neighbors, or through labels.
impl Plan for Label {
    const NO_GATEWAYS: &'static [u8] = Ipv4Prefix::NO_GATEWAYS;
    const LONGER: u8 = 0;
    fn far(high: u8, low: u8, host: u8) -> LabelAddress {
        LabelAddress(u32::from_be_bytes([20 + high, low, host, 0]))
    }
    fn near(link: u8, host: u8) -> Address {
        Ipv4Prefix::near(link, host)
    }
}

/// XIDs lead through tunnels to IPv4 neighbors, or through XIDs.
impl Plan for XidPrefix {
    const NO_GATEWAYS: &'static [u8] = Ipv4Prefix::NO_GATEWAYS;
    const LONGER: u8 = XidPrefix::TYPE_BITS;
    fn far(high: u8, low: u8, host: u8) -> Xid {
        let mut id = [0; 20];
        id[..3].copy_from_slice(&[20 + high, low, host]);
        Xid { kind: XidType::LPM, id }
    }
    fn near(link: u8, host: u8) -> Address {
        let mut id = [0; 20];
        id[..6].copy_from_slice(&[10, 0, link, host, 0x35, 0xd5]);
        Address::from(Xid { kind: XidType::U4ID, id })
    }
    fn asked(addr: Address) -> Option<Xid> {
        Xid::try_from(addr).ok().filter(|xid| xid.kind == XidType::LPM)
    }
}

impl Plan for Ipv6Prefix {
    const NO_GATEWAYS: &'static [u8] = &[1];
    const LONGER: u8 = 16;
    fn far(high: u8, low: u8, host: u8) -> Self::Addr {
        let places = [0x2a00, high.into(), u16::from(low) << 8, 0, 0, 0, 0, host.into()];
        IpAddr::from(Ipv6Addr::from(places)).try_into().unwrap()
    }
    fn near(link: u8, host: u8) -> Address {
        Address::Ip(Ipv6Addr::new(0x2001, 0xdb8, 0, link.into(), 0, 0, 0, host.into()).into())
    }
}
