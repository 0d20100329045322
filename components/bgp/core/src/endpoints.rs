//! The addresses for a session's next hops (RFC 4271, section 5.1.3; RFC 2545, section 3).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{AnyPrefix, Interface, InterfaceIndex, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_clients::InterfaceTable;
use smallvec::SmallVec;

/// The octets of a router's own next hop; none without a suitable address.
pub type OwnNextHop = SmallVec<[u8; 32]>;

/// The router's addresses on the link to a peer, from which the next hops of announced routes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Endpoints {
    /// The local address of the connection.
    pub local: IpAddr,
    /// An IPv4 address on the same interface, where `local` is IPv6.
    pub ipv4: Option<Ipv4Addr>,
    /// A global IPv6 address on the same interface, where `local` is IPv4.
    pub ipv6: Option<Ipv6Addr>,
    /// The link-local address, if the peer is on the same link (RFC 2545, section 3).
    pub link_local: Option<Ipv6Addr>,
    /// The interface, for a peer on the same link.
    pub interface: Option<InterfaceIndex>,
    /// The connected subnets on the link to the peer; none for a distant peer.
    pub subnets: Subnets,
    /// The TCP ports of the connection; `None` if unknown.
    pub ports: Option<Ports>,
}

/// The TCP ports of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ports {
    /// The router's port.
    pub local: u16,
    /// The peer's port.
    pub remote: u16,
}

/// The connected subnets shared with a peer, by family: the subnet of the peer's address, and in the second family the subnet of the
/// router's address on the same interface. Link-local subnets do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Subnets {
    /// The IPv4 subnet.
    pub ipv4: Option<Ipv4Prefix>,
    /// The IPv6 subnet.
    pub ipv6: Option<Ipv6Prefix>,
}

impl Subnets {
    /// No subnet.
    pub const NONE: Subnets = Subnets { ipv4: None, ipv6: None };

    /// Returns the subnet with prefixes of a kind.
    pub fn of<P: Prefix>(&self) -> Option<P> {
        let (ipv4, ipv6) = (self.ipv4.map(AnyPrefix::of), self.ipv6.map(AnyPrefix::of));
        [ipv4, ipv6].into_iter().flatten().find_map(|subnet| subnet.to::<P>())
    }

    /// Takes a subnet for its family, unless already known.
    fn add(&mut self, subnet: IpPrefix) {
        match subnet {
            IpPrefix::V4(subnet) => self.ipv4 = self.ipv4.or(Some(subnet)),
            IpPrefix::V6(subnet) => self.ipv6 = self.ipv6.or(Some(subnet)),
        }
    }
}

impl From<IpPrefix> for Subnets {
    fn from(subnet: IpPrefix) -> Self {
        let mut subnets = Subnets::NONE;
        subnets.add(subnet);
        subnets
    }
}

impl Endpoints {
    /// Returns the endpoints of a connection of which only the local address is known.
    pub const fn new(local: IpAddr) -> Self {
        Endpoints {
            local,
            ipv4: None,
            ipv6: None,
            link_local: None,
            interface: None,
            subnets: Subnets::NONE,
            ports: None,
        }
    }

    /// Returns the endpoints of a connection between `local` and `neighbor`: the addresses of the interface that has `local`. The
    /// interface and its link-local address are included if the neighbor is on the same link (RFC 2545, section 3).
    pub fn between(interfaces: &InterfaceTable, local: IpAddr, neighbor: IpAddr) -> Self {
        let mut endpoints = Endpoints::new(local);
        let has_local = |i: &&Interface| i.addresses.iter().any(|a| a.addr == local);
        let Some(interface) = interfaces.iter().find(has_local) else { return endpoints };
        let mut link_local = None;
        let mut shares_link = false;
        let (mut subnets, mut others) = (Subnets::NONE, Subnets::NONE);
        for address in &interface.addresses {
            let subnet = IpPrefix::new(address.peer.unwrap_or(address.addr), address.prefix_len);
            let shared = subnet.filter(|subnet| contains(*subnet, neighbor));
            shares_link |= shared.is_some();
            match address.addr {
                IpAddr::V6(a) if a.is_unicast_link_local() => link_local = link_local.or(Some(a)),
                address => {
                    shared.into_iter().for_each(|shared| subnets.add(shared));
                    let is_other = address.is_ipv4() != neighbor.is_ipv4();
                    subnet.into_iter().filter(|_| is_other).for_each(|subnet| others.add(subnet));
                    match address {
                        IpAddr::V4(a) => endpoints.ipv4 = endpoints.ipv4.or(Some(a)),
                        IpAddr::V6(a) => endpoints.ipv6 = endpoints.ipv6.or(Some(a)),
                    }
                }
            }
        }
        if shares_link {
            endpoints.subnets =
                Subnets { ipv4: subnets.ipv4.or(others.ipv4), ipv6: subnets.ipv6.or(others.ipv6) };
        }
        endpoints.link_local = link_local.filter(|_| shares_link);
        endpoints.interface = shares_link.then_some(interface.index);
        endpoints
    }

    /// Returns the octets of the router's own IPv4 next hop; none if the router has no IPv4 address there.
    pub(crate) fn next_hop_ipv4(&self) -> OwnNextHop {
        let address = match self.local {
            IpAddr::V4(a) => Some(a),
            IpAddr::V6(_) => self.ipv4,
        };
        address.iter().flat_map(|a| a.octets()).collect()
    }

    /// Returns the octets of the router's own IPv6 next hop, with the link-local address if the peer is on the same link; none if the
    /// router has no IPv6 address there.
    pub(crate) fn next_hop_ipv6(&self) -> OwnNextHop {
        let address = match self.local {
            IpAddr::V6(a) => Some(a),
            IpAddr::V4(_) => self.ipv6,
        };
        let link_local = self.link_local.filter(|_| address.is_some());
        address.iter().chain(&link_local).flat_map(|a| a.octets()).collect()
    }
}

/// Returns true if an address is inside a subnet of its family.
fn contains(subnet: IpPrefix, address: IpAddr) -> bool {
    match (subnet, address) {
        (IpPrefix::V4(p), IpAddr::V4(a)) => p.contains(V4Addr(a)),
        (IpPrefix::V6(p), IpAddr::V6(a)) => p.contains(V6Addr(a)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use sluice_base::{InterfaceAddress, InterfaceEvent};

    #[test]
    fn next_hops_come_from_the_interface_of_the_session() {
        let address =
            |text: &str, prefix_len| InterfaceAddress { addr: text.parse().unwrap(), prefix_len, peer: None };
        let interface = Interface {
            index: InterfaceIndex::new(2).unwrap(),
            name: "eth0".into(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![],
            addresses: vec![address("10.0.0.1", 24), address("2001:db8::1", 64), address("fe80::1", 64)],
        };
        let mut interfaces = InterfaceTable::default();
        interfaces.apply(InterfaceEvent::Changed(interface));
        let of = |local: &str, neighbor: &str| {
            let parse = |text: &str| text.parse::<IpAddr>().unwrap();
            Endpoints::between(&interfaces, parse(local), parse(neighbor))
        };
        let near = of("10.0.0.1", "10.0.0.2");
        assert_eq!(near.ipv6, Some("2001:db8::1".parse().unwrap()));
        assert!(near.link_local.is_some() && of("2001:db8::1", "2001:db8::2").link_local.is_some());
        // Of the other family than the session's too.
        let both = Subnets {
            ipv4: Some("10.0.0.0/24".parse().unwrap()),
            ipv6: Some("2001:db8::/64".parse().unwrap()),
        };
        assert_eq!((near.subnets, of("2001:db8::1", "2001:db8::2").subnets), (both, both));
        // A neighbor that is known by a link-local address need not have another one.
        assert_eq!(of("fe80::1", "fe80::2").subnets, Subnets { ipv6: None, ..both });
        assert_eq!((both.of::<Ipv4Prefix>(), both.of::<Ipv6Prefix>()), (both.ipv4, both.ipv6));
        let far = of("10.0.0.1", "192.0.2.1");
        assert_eq!((far.link_local, far.interface, far.subnets), (None, None, Subnets::NONE));
        assert_eq!(
            (near.interface, of("fe80::1", "fe80::2").interface),
            (InterfaceIndex::new(2), near.interface)
        );
        assert!(of("10.9.0.1", "10.9.0.2").ipv6.is_none());
    }
}
