//! Interfaces, and their own routes: the connected origin.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use sluice_base::{Address, Interface, InterfaceEvent, InterfaceIndex, IpPrefix};
use sluice_clients::InterfaceTable;

/// The interfaces as announced by the forwarding engine, and their routes.
#[derive(Default)]
pub struct Interfaces {
    known: InterfaceTable,
}

impl Interfaces {
    /// Applies an event. Returns false if no property changed on which routes depend.
    pub fn apply(&mut self, event: InterfaceEvent) -> bool {
        self.known.apply(event)
    }

    /// Iterates over the interfaces.
    pub fn all(&self) -> impl Iterator<Item = &Interface> {
        self.known.iter()
    }

    /// Returns true if packets can leave through an interface.
    pub fn is_running(&self, index: InterfaceIndex) -> bool {
        self.known.get(index).is_some_and(|i| i.running)
    }

    /// Returns the addresses on links that cannot be gateways (RFC 4271, section 6.3): the router's own addresses, and
    /// the first and last address of an IPv4 subnet, which stand for every host.
    pub(crate) fn no_gateways(&self) -> BTreeSet<Address> {
        let running = self.known.iter().filter(|i| i.running);
        let mut found = BTreeSet::new();
        for address in running.flat_map(|i| &i.addresses) {
            found.insert(Address::Ip(address.addr));
            // A subnet of two addresses has no others than its hosts' (RFC 3021).
            if let (IpAddr::V4(host), 0..=30) = (address.peer.unwrap_or(address.addr), address.prefix_len) {
                let hosts = u32::MAX >> address.prefix_len;
                found.insert(Address::Ip(Ipv4Addr::from_bits(host.to_bits() & !hosts).into()));
                found.insert(Address::Ip(Ipv4Addr::from_bits(host.to_bits() | hosts).into()));
            }
        }
        found
    }

    /// The subnets of all running interfaces, each once. Link-local subnets are on every link and lead nowhere by themselves.
    pub fn connected(&self) -> BTreeMap<IpPrefix, Vec<InterfaceIndex>> {
        let mut subnets: BTreeMap<IpPrefix, Vec<InterfaceIndex>> = BTreeMap::new();
        for interface in self.known.iter().filter(|i| i.running) {
            for address in &interface.addresses {
                let subnet_of = address.peer.unwrap_or(address.addr);
                if is_link_local(subnet_of) || subnet_of.is_loopback() {
                    continue;
                }
                let Some(prefix) = IpPrefix::new(subnet_of, address.prefix_len) else { continue };
                let on = subnets.entry(prefix).or_default();
                if !on.contains(&interface.index) {
                    on.push(interface.index);
                }
            }
        }
        subnets
    }

    /// Returns the names of all interfaces.
    pub fn names(&self) -> BTreeMap<InterfaceIndex, String> {
        self.known.iter().map(|interface| (interface.index, interface.name.clone())).collect()
    }

    /// An interface's name, for messages to people.
    pub fn name(&self, index: InterfaceIndex) -> Option<&str> {
        self.known.get(index).map(|i| i.name.as_str())
    }
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(a) => a.is_link_local(),
        IpAddr::V6(a) => a.is_unicast_link_local(),
    }
}
