//! The vocabulary of `base` as protobuf messages and back: written once, here.

use crate::XrlError;
use crate::idl::{common::v1 as common, fea::v1 as fea};
use sluice_base::{
    Address, AnyPrefix, Encapsulation, Family, FamilyId, Forwarding, Interface, InterfaceAddress,
    InterfaceEvent, InterfaceIndex, IpPrefix, NextHop, Prefix, PrefixError,
};
use std::net::IpAddr;

/// A type of gateways in batches: any address, or IP addresses only.
pub trait Gateway: Copy + Ord + Into<Address> + TryFrom<Address> {}

impl Gateway for Address {}
impl Gateway for IpAddr {}

/// A message with a value outside its type of `base`.
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
    HostBits(Address, u32),
    /// IPv4 in place of IPv6, or IPv6 in place of IPv4.
    #[error("address of the wrong family")]
    WrongFamily,
    /// A missing required field.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number without a meaning.
    #[error("{what} {value}")]
    Number {
        /// The number's purpose.
        what: &'static str,
        /// The number.
        value: i64,
    },
}

impl From<ConvertError> for XrlError {
    fn from(e: ConvertError) -> Self {
        XrlError::BadArguments(e.to_string())
    }
}

/// Reads an address: without a family, by the number of its octets.
fn address(family: u32, octets: &[u8]) -> Result<Address, ConvertError> {
    let family = match (family, octets.len()) {
        (0, 4) => FamilyId::IPV4,
        (0, 16) => FamilyId::IPV6,
        (0, length) => return Err(ConvertError::Address(length)),
        (number, _) => family_id(number.into())?,
    };
    Address::from_octets(family, octets).ok_or(ConvertError::Address(octets.len()))
}

/// Returns the family for a message: 0 if the number of octets determines the family.
fn family_field(address: Address) -> u32 {
    match address {
        Address::Ip(_) => 0,
        Address::Identifier(id) => id.family().0.into(),
    }
}

impl From<Address> for common::Addr {
    fn from(addr: Address) -> Self {
        common::Addr { octets: addr.with_octets(<[u8]>::to_vec), family: family_field(addr) }
    }
}

impl From<IpAddr> for common::Addr {
    fn from(addr: IpAddr) -> Self {
        Address::Ip(addr).into()
    }
}

impl TryFrom<&common::Addr> for Address {
    type Error = ConvertError;

    fn try_from(addr: &common::Addr) -> Result<Self, ConvertError> {
        address(addr.family, &addr.octets)
    }
}

impl TryFrom<&common::Addr> for IpAddr {
    type Error = ConvertError;

    fn try_from(addr: &common::Addr) -> Result<Self, ConvertError> {
        Address::try_from(addr)?.ip().ok_or(ConvertError::WrongFamily)
    }
}

impl From<AnyPrefix> for common::Net {
    fn from(net: AnyPrefix) -> Self {
        common::Net {
            octets: net.addr().with_octets(<[u8]>::to_vec),
            length: net.len().into(),
            family: family_field(net.addr()),
        }
    }
}

impl From<IpPrefix> for common::Net {
    fn from(net: IpPrefix) -> Self {
        AnyPrefix::from(net).into()
    }
}

impl TryFrom<&common::Net> for AnyPrefix {
    type Error = ConvertError;

    fn try_from(net: &common::Net) -> Result<Self, ConvertError> {
        let addr = address(net.family, &net.octets)?;
        let length = u8::try_from(net.length).map_err(|_| ConvertError::Length(net.length))?;
        AnyPrefix::new(addr, length).map_err(|error| match error {
            PrefixError::HostBits => ConvertError::HostBits(addr, net.length),
            _ => ConvertError::Length(net.length),
        })
    }
}

impl TryFrom<&common::Net> for IpPrefix {
    type Error = ConvertError;

    fn try_from(net: &common::Net) -> Result<Self, ConvertError> {
        AnyPrefix::try_from(net)?.ip().ok_or(ConvertError::WrongFamily)
    }
}

/// The prefix as a message.
pub fn net<P: Prefix>(prefix: P) -> common::Net {
    AnyPrefix::of(prefix).into()
}

/// Converts a message to a prefix of a given family.
pub fn prefix<P: Prefix>(net: Option<&common::Net>) -> Result<P, ConvertError> {
    let net = net.ok_or(ConvertError::Missing("prefix"))?;
    AnyPrefix::try_from(net)?.to().ok_or(ConvertError::WrongFamily)
}

/// An address that may be absent.
pub fn optional_addr(addr: Option<&common::Addr>) -> Result<Option<IpAddr>, ConvertError> {
    addr.map(IpAddr::try_from).transpose()
}

/// Converts a required address.
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

/// A family of keys out of a message's number.
pub fn family_id(number: i64) -> Result<FamilyId, ConvertError> {
    let octet = u8::try_from(number).ok().filter(|octet| *octet != 0);
    octet.map(FamilyId).ok_or(ConvertError::Number { what: "family", value: number })
}

impl<G: Gateway> From<&NextHop<G>> for common::NextHop {
    fn from(hop: &NextHop<G>) -> Self {
        common::NextHop {
            gateway: hop.gateway.map(|gateway| gateway.into().into()),
            interface: hop.interface.map_or(0, InterfaceIndex::number),
            weight: hop.weight.into(),
            backup: hop.is_backup,
            encapsulation: hop.encapsulation.map(|encapsulation| common::Encapsulation {
                kind: encapsulation.kind().into(),
                parameters: encapsulation.parameters().to_vec(),
            }),
        }
    }
}

impl TryFrom<&common::Encapsulation> for Encapsulation {
    type Error = ConvertError;

    fn try_from(e: &common::Encapsulation) -> Result<Self, ConvertError> {
        let wrong = ConvertError::Number { what: "encapsulation", value: e.kind.into() };
        u8::try_from(e.kind).ok().and_then(|kind| Encapsulation::new(kind, &e.parameters)).ok_or(wrong)
    }
}

impl<G: Gateway> TryFrom<&common::NextHop> for NextHop<G> {
    type Error = ConvertError;

    fn try_from(hop: &common::NextHop) -> Result<Self, ConvertError> {
        let weight = u8::try_from(hop.weight.max(1));
        Ok(NextHop {
            is_backup: hop.backup,
            gateway: match &hop.gateway {
                Some(addr) => {
                    Some(G::try_from(Address::try_from(addr)?).map_err(|_| ConvertError::WrongFamily)?)
                }
                None => None,
            },
            interface: InterfaceIndex::new(hop.interface),
            encapsulation: hop.encapsulation.as_ref().map(Encapsulation::try_from).transpose()?,
            weight: weight.map_err(|_| ConvertError::Number { what: "weight", value: hop.weight.into() })?,
        })
    }
}

impl<G: Gateway> From<&Forwarding<G>> for common::Forwarding {
    fn from(forwarding: &Forwarding<G>) -> Self {
        let kind = match forwarding {
            Forwarding::NextHops(_) => common::ForwardingKind::NextHops,
            Forwarding::Discard => common::ForwardingKind::Discard,
            Forwarding::Reject => common::ForwardingKind::Reject,
            Forwarding::Local => common::ForwardingKind::Local,
        };
        common::Forwarding {
            kind: kind.into(),
            next_hops: forwarding.next_hops().iter().map(Into::into).collect(),
        }
    }
}

impl<G: Gateway> TryFrom<&common::Forwarding> for Forwarding<G> {
    type Error = ConvertError;

    fn try_from(forwarding: &common::Forwarding) -> Result<Self, ConvertError> {
        match common::ForwardingKind::try_from(forwarding.kind) {
            Ok(common::ForwardingKind::NextHops) => {
                let hops: Vec<NextHop<G>> =
                    forwarding.next_hops.iter().map(NextHop::try_from).collect::<Result<_, _>>()?;
                Forwarding::many(hops).ok_or(ConvertError::Missing("next hop"))
            }
            Ok(common::ForwardingKind::Discard) => Ok(Forwarding::Discard),
            Ok(common::ForwardingKind::Reject) => Ok(Forwarding::Reject),
            Ok(common::ForwardingKind::Local) => Ok(Forwarding::Local),
            Err(_) => Err(ConvertError::Number { what: "forwarding kind", value: forwarding.kind.into() }),
        }
    }
}

/// Converts required forwarding.
pub fn forwarding<G: Gateway>(
    forwarding: Option<&common::Forwarding>,
) -> Result<Forwarding<G>, ConvertError> {
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

/// An interface as a message, without counters.
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
            let got = IpPrefix::try_from(&common::Net { octets: octets.to_vec(), length, family: 0 });
            assert_eq!(got.map(|p| p.to_string()), expected.map(str::to_owned));
        };
        check(&[10, 0, 0, 0], 8, Ok("10.0.0.0/8"));
        check(&[0; 16], 0, Ok("::/0"));
        check(&[10, 0, 0, 1], 8, Err(ConvertError::HostBits(Address::Ip([10, 0, 0, 1].into()), 8)));
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
        assert_eq!(Forwarding::<IpAddr>::try_from(&none), Err(ConvertError::Missing("next hop")));
    }
}
