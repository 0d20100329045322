//! The vocabulary of `base` as protobuf messages and back: written once, here.

use std::net::IpAddr;

use sluice_base::{
    Family, Forwarding, Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex, IpPrefix, NextHop,
    Prefix,
};

use crate::XrlError;
use crate::idl::{common::v1 as common, fea::v1 as fea};

/// A message holds what its type of `base` cannot.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConvertError {
    /// An address of neither 4 nor 16 octets.
    #[error("an address of {0} octets")]
    Address(usize),
    /// A prefix length above the address width.
    #[error("prefix length {0}")]
    Length(u32),
    /// A prefix with bits set after its length.
    #[error("{0}/{1} has host bits")]
    HostBits(IpAddr, u32),
    /// IPv4 where IPv6 was needed or the other way round.
    #[error("address of the wrong family")]
    WrongFamily,
    /// Something that must be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number that stands for nothing.
    #[error("{what} {value}")]
    Number {
        /// What the number is for.
        what: &'static str,
        /// Its value.
        value: i64,
    },
}

impl From<ConvertError> for XrlError {
    fn from(e: ConvertError) -> Self {
        XrlError::BadArguments(e.to_string())
    }
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Result<IpAddr, ConvertError> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Ok(v4.into());
    }
    <[u8; 16]>::try_from(octets).map(IpAddr::from).map_err(|_| ConvertError::Address(octets.len()))
}

impl From<IpAddr> for common::Addr {
    fn from(addr: IpAddr) -> Self {
        common::Addr { octets: octets(addr) }
    }
}

impl TryFrom<&common::Addr> for IpAddr {
    type Error = ConvertError;

    fn try_from(addr: &common::Addr) -> Result<Self, ConvertError> {
        address(&addr.octets)
    }
}

impl From<IpPrefix> for common::Net {
    fn from(net: IpPrefix) -> Self {
        let (addr, length): (IpAddr, u8) = match net {
            IpPrefix::V4(p) => (p.addr().into(), p.len()),
            IpPrefix::V6(p) => (p.addr().into(), p.len()),
        };
        common::Net { octets: octets(addr), length: length.into() }
    }
}

impl TryFrom<&common::Net> for IpPrefix {
    type Error = ConvertError;

    fn try_from(net: &common::Net) -> Result<Self, ConvertError> {
        let addr = address(&net.octets)?;
        let length = u8::try_from(net.length).map_err(|_| ConvertError::Length(net.length))?;
        let prefix = IpPrefix::new(addr, length).ok_or(ConvertError::Length(net.length))?;
        let first: IpAddr = match prefix {
            IpPrefix::V4(p) => p.addr().into(),
            IpPrefix::V6(p) => p.addr().into(),
        };
        if first == addr { Ok(prefix) } else { Err(ConvertError::HostBits(addr, net.length)) }
    }
}

/// The prefix as a message.
pub fn net<P: Prefix>(prefix: P) -> common::Net {
    let prefix: IpPrefix = prefix.into();
    prefix.into()
}

/// The prefix of one family out of a message.
pub fn prefix<P: Prefix>(net: Option<&common::Net>) -> Result<P, ConvertError> {
    let net = net.ok_or(ConvertError::Missing("prefix"))?;
    let any = IpPrefix::try_from(net)?;
    let addr: IpAddr = match any {
        IpPrefix::V4(p) => p.addr().into(),
        IpPrefix::V6(p) => p.addr().into(),
    };
    let addr = P::Addr::try_from(addr).map_err(|_| ConvertError::WrongFamily)?;
    u8::try_from(net.length).ok().and_then(|l| P::new(addr, l)).ok_or(ConvertError::Length(net.length))
}

/// An address that may be absent.
pub fn optional_addr(addr: Option<&common::Addr>) -> Result<Option<IpAddr>, ConvertError> {
    addr.map(IpAddr::try_from).transpose()
}

/// An address that must be there.
pub fn addr(addr: Option<&common::Addr>) -> Result<IpAddr, ConvertError> {
    addr.ok_or(ConvertError::Missing("address")).and_then(IpAddr::try_from)
}

impl From<Family> for common::Family {
    fn from(family: Family) -> Self {
        match family {
            Family::Ipv4 => common::Family::Ipv4,
            Family::Ipv6 => common::Family::Ipv6,
        }
    }
}

/// A family out of a message's number.
pub fn family(number: i32) -> Result<Family, ConvertError> {
    match common::Family::try_from(number) {
        Ok(common::Family::Ipv4) => Ok(Family::Ipv4),
        Ok(common::Family::Ipv6) => Ok(Family::Ipv6),
        _ => Err(ConvertError::Number { what: "family", value: number.into() }),
    }
}

impl From<&NextHop> for common::NextHop {
    fn from(hop: &NextHop) -> Self {
        common::NextHop {
            gateway: hop.gateway.map(Into::into),
            interface: hop.interface.map_or(0, InterfaceIndex::number),
            weight: hop.weight.into(),
        }
    }
}

impl TryFrom<&common::NextHop> for NextHop {
    type Error = ConvertError;

    fn try_from(hop: &common::NextHop) -> Result<Self, ConvertError> {
        let weight = u8::try_from(hop.weight.max(1));
        Ok(NextHop {
            gateway: optional_addr(hop.gateway.as_ref())?,
            interface: InterfaceIndex::new(hop.interface),
            weight: weight.map_err(|_| ConvertError::Number { what: "weight", value: hop.weight.into() })?,
        })
    }
}

impl From<&Forwarding> for common::Forwarding {
    fn from(forwarding: &Forwarding) -> Self {
        let kind = match forwarding {
            Forwarding::NextHops(_) => common::ForwardingKind::NextHops,
            Forwarding::Discard => common::ForwardingKind::Discard,
            Forwarding::Reject => common::ForwardingKind::Reject,
        };
        common::Forwarding {
            kind: kind.into(),
            next_hops: forwarding.next_hops().iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<&common::Forwarding> for Forwarding {
    type Error = ConvertError;

    fn try_from(forwarding: &common::Forwarding) -> Result<Self, ConvertError> {
        match common::ForwardingKind::try_from(forwarding.kind) {
            Ok(common::ForwardingKind::NextHops) => {
                let hops: Vec<NextHop> =
                    forwarding.next_hops.iter().map(NextHop::try_from).collect::<Result<_, _>>()?;
                Forwarding::many(hops).ok_or(ConvertError::Missing("next hop"))
            }
            Ok(common::ForwardingKind::Discard) => Ok(Forwarding::Discard),
            Ok(common::ForwardingKind::Reject) => Ok(Forwarding::Reject),
            Err(_) => Err(ConvertError::Number { what: "forwarding kind", value: forwarding.kind.into() }),
        }
    }
}

/// Forwarding that must be there.
pub fn forwarding(forwarding: Option<&common::Forwarding>) -> Result<Forwarding, ConvertError> {
    forwarding.ok_or(ConvertError::Missing("forwarding")).and_then(Forwarding::try_from)
}

impl From<&InterfaceAddress> for fea::InterfaceAddress {
    fn from(a: &InterfaceAddress) -> Self {
        fea::InterfaceAddress {
            addr: Some(a.addr.into()),
            prefix_length: a.prefix_len.into(),
            peer: a.peer.map(Into::into),
        }
    }
}

impl TryFrom<&fea::InterfaceAddress> for InterfaceAddress {
    type Error = ConvertError;

    fn try_from(a: &fea::InterfaceAddress) -> Result<Self, ConvertError> {
        let width = |addr: &IpAddr| if addr.is_ipv4() { 32 } else { 128 };
        let addr = addr(a.addr.as_ref())?;
        let prefix_len = u8::try_from(a.prefix_length).ok().filter(|l| *l <= width(&addr));
        Ok(InterfaceAddress {
            addr,
            prefix_len: prefix_len.ok_or(ConvertError::Length(a.prefix_length))?,
            peer: optional_addr(a.peer.as_ref())?,
        })
    }
}

/// An interface as a message; its counters are not known here.
impl From<&Interface> for fea::Interface {
    fn from(i: &Interface) -> Self {
        fea::Interface {
            index: i.index.number(),
            name: i.name.clone(),
            admin_up: i.admin_up,
            running: i.running,
            loopback: i.loopback,
            point_to_point: i.point_to_point,
            multicast: i.multicast,
            mtu: i.mtu,
            mac: Some(common::Mac { octets: i.mac.clone() }),
            addresses: i.addresses.iter().map(Into::into).collect(),
            ..Default::default()
        }
    }
}

impl TryFrom<&fea::Interface> for Interface {
    type Error = ConvertError;

    fn try_from(i: &fea::Interface) -> Result<Self, ConvertError> {
        let no_index = ConvertError::Number { what: "interface index", value: i.index.into() };
        Ok(Interface {
            index: InterfaceIndex::new(i.index).ok_or(no_index)?,
            name: i.name.clone(),
            admin_up: i.admin_up,
            running: i.running,
            loopback: i.loopback,
            point_to_point: i.point_to_point,
            multicast: i.multicast,
            mtu: i.mtu,
            mac: i.mac.as_ref().map(|m| m.octets.clone()).unwrap_or_default(),
            addresses: i.addresses.iter().map(InterfaceAddress::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&InterfaceEvent> for fea::InterfaceEvent {
    fn from(event: &InterfaceEvent) -> Self {
        use fea::interface_event::Event;
        let event = match event {
            InterfaceEvent::Changed(interface) => Event::Changed(interface.into()),
            InterfaceEvent::Removed(index) => Event::Removed(index.number()),
            InterfaceEvent::SnapshotBegin => Event::SnapshotBegin(true),
            InterfaceEvent::SnapshotEnd => Event::SnapshotEnd(true),
        };
        fea::InterfaceEvent { event: Some(event) }
    }
}

impl TryFrom<&fea::InterfaceEvent> for InterfaceEvent {
    type Error = ConvertError;

    fn try_from(event: &fea::InterfaceEvent) -> Result<Self, ConvertError> {
        use fea::interface_event::Event;
        match &event.event {
            Some(Event::Changed(interface)) => Interface::try_from(interface).map(InterfaceEvent::Changed),
            Some(Event::Removed(index)) => InterfaceIndex::new(*index)
                .map(InterfaceEvent::Removed)
                .ok_or(ConvertError::Number { what: "interface index", value: (*index).into() }),
            Some(Event::SnapshotBegin(_)) => Ok(InterfaceEvent::SnapshotBegin),
            Some(Event::SnapshotEnd(_)) => Ok(InterfaceEvent::SnapshotEnd),
            None => Err(ConvertError::Missing("event")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let check = |octets: &[u8], length, expected: Result<&str, ConvertError>| {
            let got = IpPrefix::try_from(&common::Net { octets: octets.to_vec(), length });
            assert_eq!(got.map(|p| p.to_string()), expected.map(str::to_owned));
        };
        check(&[10, 0, 0, 0], 8, Ok("10.0.0.0/8"));
        check(&[0; 16], 0, Ok("::/0"));
        check(&[10, 0, 0, 1], 8, Err(ConvertError::HostBits([10, 0, 0, 1].into(), 8)));
        check(&[10, 0, 0, 0], 33, Err(ConvertError::Length(33)));
        check(&[10, 0, 0, 0], 4096 + 8, Err(ConvertError::Length(4104)));
        check(&[10, 0, 0], 8, Err(ConvertError::Address(3)));
    }

    #[test]
    fn interfaces_come_back() {
        let interface = Interface {
            index: InterfaceIndex::new(3).unwrap(),
            name: "eth0".to_owned(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: true,
            multicast: true,
            mtu: 1500,
            mac: vec![2, 0, 0, 0, 0, 1],
            addresses: vec![InterfaceAddress {
                addr: "fe80::1".parse().unwrap(),
                prefix_len: 64,
                peer: Some("fe80::2".parse().unwrap()),
            }],
        };
        for event in [
            InterfaceEvent::Changed(interface.clone()),
            InterfaceEvent::Removed(interface.index),
            InterfaceEvent::SnapshotBegin,
            InterfaceEvent::SnapshotEnd,
        ] {
            assert_eq!(InterfaceEvent::try_from(&fea::InterfaceEvent::from(&event)), Ok(event));
        }
    }

    #[test]
    fn forwarding_needs_next_hops() {
        let none = common::Forwarding { kind: 0, next_hops: vec![] };
        assert_eq!(Forwarding::try_from(&none), Err(ConvertError::Missing("next hop")));
    }
}
