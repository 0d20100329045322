//! The configuration of an element: the cluster as a whole, and the element's own place.

use crate::balancer::policy::Policy;
use crate::frames::frame::InnerMac;
use crate::frames::key::KeyRing;
use crate::inventory::{ElementId, Inventory, PortNumber, Role};
use crate::mac::Mac;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use serde::Serialize;
use sluice_base::InterfaceAddress;

/// The configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Settings {
    /// This element.
    pub element: ElementId,
    /// This element's interfaces on the interconnect. Links for outer ports are on the first.
    pub interconnect: Vec<String>,
    /// The elements and their outer ports.
    pub inventory: Inventory,
    /// Elements that get no packets.
    pub drained: BTreeSet<ElementId>,
    /// The addresses at which elements reach each other outside of the router's ports.
    pub reached: BTreeMap<ElementId, IpAddr>,
    /// The router's addresses on the outer ports.
    pub addresses: BTreeMap<PortNumber, BTreeSet<InterfaceAddress>>,
    /// The largest packets of outer ports in octets, where they are less than those of the interconnect.
    pub mtus: BTreeMap<PortNumber, u16>,
    /// Further addresses of the router, which the control plane has.
    pub more_addresses: BTreeSet<IpAddr>,
    /// The choice of elements.
    pub policy: Policy,
    /// The keys.
    pub keys: KeyRing,
    /// The store by which routes are distributed; `None`: there is none.
    pub store: Option<StoreSettings>,
    /// True if all elements share one configuration, which the store has.
    pub shares_configuration: bool,
    /// The leader that the store names; `None` before the store was reached.
    pub leader: Option<ElementId>,
}

/// The store that all elements share.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StoreSettings {
    /// The servers, in the order in which they are tried.
    pub endpoints: Vec<SocketAddr>,
    /// True if elements authenticate themselves to the servers, and the servers to the elements, by certificates (TLS).
    pub is_authenticated: bool,
    /// The elements that run a server each, with their addresses; empty for an etcd that runs elsewhere.
    pub members: BTreeMap<ElementId, IpAddr>,
    /// The members that were removed since the store began: they run no server.
    pub removed: BTreeSet<ElementId>,
    /// Another number begins a new, empty store on the members.
    pub generation: u32,
    /// The name under which the store has this cluster.
    pub name: String,
    /// The origins whose routes are distributed.
    pub origins: BTreeSet<String>,
}

impl Settings {
    /// Returns true if an element has a role.
    pub fn has_role(&self, element: ElementId, role: Role) -> bool {
        self.inventory.get(element).is_some_and(|element| element.roles.contains(&role))
    }

    /// Removes an element. The store keeps its identity, which the list of configured members is a part of.
    pub fn remove(&mut self, element: ElementId) {
        self.inventory.remove(element);
        self.drained.remove(&element);
        self.reached.remove(&element);
        if let Some(store) = &mut self.store
            && let Some(address) = store.members.get(&element)
        {
            store.removed.insert(element);
            // An element without any endpoint could not notice that it is a member again.
            if store.endpoints.len() > 1 {
                store.endpoints.retain(|endpoint| endpoint.ip() != *address);
            }
        }
    }

    /// Returns an element that runs a server of the store before and after a change, at another address, if the elements share one configuration.
    /// The addresses of servers are the store's identity: elements would take the change from one store and look for the next one elsewhere.
    pub fn moved_server(&self, after: &Settings) -> Option<ElementId> {
        let (store, next) = (self.store.as_ref()?, after.store.as_ref()?);
        let moved = |(element, address): (&ElementId, &IpAddr)| {
            next.members.get(element).is_some_and(|next| next != address).then_some(*element)
        };
        let shares = self.shares_configuration && after.shares_configuration;
        store.members.iter().filter(|_| shares).find_map(moved)
    }

    /// Returns true if an element sends hello frames: packets are sent to the element.
    pub(crate) fn sends_hello(&self, element: ElementId) -> bool {
        [Role::Router, Role::Filter, Role::Control].into_iter().any(|role| self.has_role(element, role))
    }

    /// Returns true if this element can be the control plane.
    pub fn is_candidate(&self) -> bool {
        self.has_role(self.element, Role::Control) && !self.drained.contains(&self.element)
    }

    /// Returns true if this element's RIB gets the routes of the control plane: a router that runs no protocols itself.
    pub fn takes_routes(&self) -> bool {
        let has = |role| self.has_role(self.element, role);
        self.store.is_some() && !has(Role::Control) && (has(Role::Router) || has(Role::Filter))
    }

    /// Returns the control plane: the leader that the store names. Without a store, or before it was reached, the element with the role
    /// and the lowest number that is not drained.
    pub fn control(&self) -> Option<ElementId> {
        if let Some(leader) = self.leader.filter(|_| self.store.is_some()) {
            return Some(leader);
        }
        let candidates = self.inventory.with_role(Role::Control).map(|element| element.id);
        candidates.filter(|id| !self.drained.contains(id)).min()
    }

    /// Returns all own addresses of the router.
    pub fn own_addresses(&self) -> BTreeSet<IpAddr> {
        let of_ports = self.addresses.values().flatten().map(|address| address.addr);
        of_ports.chain(self.more_addresses.iter().copied()).collect()
    }

    /// Iterates over the outer ports of all balancers.
    pub fn ports(&self) -> impl Iterator<Item = PortNumber> {
        self.inventory.iter().flat_map(|element| &element.ports).map(|port| port.number)
    }

    /// Returns the links of this machine for outer ports, by name: those of routers and candidates for the control plane.
    pub fn links(&self) -> BTreeMap<String, PortLink> {
        let is_control = self.has_role(self.element, Role::Control);
        let has_links = self.sends_hello(self.element);
        let link = |port: PortNumber, parent: &String| PortLink {
            parent: parent.clone(),
            mac: InnerMac { element: self.element, port: port.number() }.mac(),
            addresses: self.addresses.get(&port).cloned().unwrap_or_default(),
            mtu: self.mtus.get(&port).copied(),
            told_neighbors: !is_control,
        };
        let parent = self.interconnect.first().filter(|_| has_links);
        let links = parent.into_iter().flat_map(|parent| {
            let of_port = move |port| (link_name(port), link(port, parent));
            self.ports().map(of_port)
        });
        links.collect()
    }

    /// Returns the links that go, are made anew or lose an address with another configuration.
    pub fn interrupted_by(&self, after: &Settings) -> Vec<String> {
        let after = after.links();
        let is_kept = |name: &String, before: &PortLink| {
            after.get(name).is_some_and(|after| {
                before.addresses.is_subset(&after.addresses)
                    && PortLink { addresses: before.addresses.clone(), mtu: before.mtu, ..after.clone() }
                        == *before
            })
        };
        self.links().into_iter().filter(|(name, link)| !is_kept(name, link)).map(|(name, _)| name).collect()
    }

    /// Returns true if an address can be that of a neighbor on a port: in one of the port's subnets, or an address of the link.
    pub fn is_on_port(&self, port: PortNumber, address: IpAddr) -> bool {
        if matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
            return self.ports().any(|known| known == port);
        }
        let own = self.addresses.get(&port).into_iter().flatten();
        own.into_iter().any(|own| own.addr != address && is_in_subnet(own, address))
    }
}

fn is_in_subnet(own: &InterfaceAddress, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, true),
        IpAddr::V6(address) => (address.to_bits(), false),
    };
    let ((own_bits, is_v4), (bits, is_also_v4)) = (bits(own.addr), bits(address));
    let shared = (own_bits ^ bits).leading_zeros();
    is_v4 == is_also_v4 && shared >= u32::from(own.prefix_len).min(128)
}

/// A link of a router or the control plane for an outer port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PortLink {
    /// The interface below.
    pub parent: String,
    /// The MAC address on the interconnect.
    pub mac: Mac,
    /// The router's addresses on the port.
    pub addresses: BTreeSet<InterfaceAddress>,
    /// The largest packet in octets; `None` for that of the interface below.
    pub mtu: Option<u16>,
    /// True if the control plane sends the neighbors: the element sends no requests on the link.
    pub told_neighbors: bool,
}

/// Returns the name of the link for an outer port.
pub fn link_name(port: PortNumber) -> String {
    alloc::format!("port{}", port.number())
}

/// Returns the port of a link's name.
pub fn port_of_link(name: &str) -> Option<PortNumber> {
    name.strip_prefix("port")?.parse().ok().and_then(PortNumber::new)
}
