//! The inventory of a cluster: elements, their roles, and the outer ports of balancers.

use crate::mac::{Mac, is_neighbor};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU16;
use serde::{Deserialize, Serialize};

/// The number of an element, 1 to 65535.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ElementId(NonZeroU16);

impl ElementId {
    /// Makes a number; `None` for 0.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(ElementId)
    }

    /// Returns the number.
    pub fn number(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an outer port in the cluster, 1 to 65534.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PortNumber(NonZeroU16);

impl PortNumber {
    /// Makes a number; `None` for 0 and 65535, which stand for no port and for several ports.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).filter(|number| number.get() != u16::MAX).map(PortNumber)
    }

    /// Returns the number.
    pub fn number(self) -> u16 {
        self.0.get()
    }
}

/// The work of an element. An element may have several roles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Outer ports; leads frames to elements.
    Balancer,
    /// Forwards packets.
    Router,
    /// Candidate for the control plane, which runs all protocols.
    Control,
    /// Waits until another element fails.
    Spare,
    /// Forwards packets of classes that need its filters.
    Filter,
}

impl Role {
    /// All roles, by their bits in announcements.
    pub const ALL: [Role; 5] = [Role::Balancer, Role::Router, Role::Control, Role::Spare, Role::Filter];

    /// Returns the role's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Role::Balancer => "balancer",
            Role::Router => "router",
            Role::Control => "control",
            Role::Spare => "spare",
            Role::Filter => "filter",
        }
    }
}

/// A set of roles.
pub type Roles = BTreeSet<Role>;

/// An outer port of a balancer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OuterPort {
    /// The port's number.
    pub number: PortNumber,
    /// The name of the balancer's interface.
    pub interface: String,
    /// The virtual MAC address, which neighbors see.
    pub mac: Mac,
}

/// A machine of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Element {
    /// The number.
    pub id: ElementId,
    /// The name, unique in the cluster.
    pub name: String,
    /// The roles.
    pub roles: Roles,
    /// The share of flows beside other elements, in the mode weighted. An element with 0 gets none.
    pub weight: u16,
    /// The outer ports; only a balancer has ports.
    pub ports: Vec<OuterPort>,
}

/// A reason against an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InventoryError {
    /// The name belongs to the given element.
    NameTaken(ElementId),
    /// The port's number occurs twice, the second time at the given element.
    PortTaken(PortNumber, ElementId),
    /// The virtual MAC address occurs twice, the second time at the given element.
    MacTaken(Mac, ElementId),
    /// The virtual MAC address is no station's, or has the prefix of elements.
    BadMac(Mac),
    /// The element has ports, but is no balancer.
    NoBalancer,
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InventoryError::NameTaken(id) => write!(f, "element {id} has the same name"),
            InventoryError::PortTaken(port, id) => {
                write!(f, "element {id} has the port number {} too", port.number())
            }
            InventoryError::MacTaken(mac, id) => write!(f, "element {id} has the MAC address {mac} too"),
            InventoryError::BadMac(mac) => {
                write!(
                    f,
                    "{mac} is no address for a port: use one without group bit and without the prefix 02:5c"
                )
            }
            InventoryError::NoBalancer => f.write_str("only an element with the role balancer has ports"),
        }
    }
}

impl core::error::Error for InventoryError {}

/// The elements of a cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Inventory(BTreeMap<ElementId, Element>);

impl Inventory {
    /// Adds an element, or replaces the element with the same number. A refused element changes nothing.
    ///
    /// # Errors
    ///
    /// If a name, port number or MAC address is taken, or the element contradicts itself.
    pub fn put(&mut self, element: Element) -> Result<(), InventoryError> {
        if !element.ports.is_empty() && !element.roles.contains(&Role::Balancer) {
            return Err(InventoryError::NoBalancer);
        }
        for (place, port) in element.ports.iter().enumerate() {
            if !is_neighbor(port.mac) {
                return Err(InventoryError::BadMac(port.mac));
            }
            let own = element.ports.iter().take(place).map(|other| (element.id, other));
            check_port(port, own)?;
        }
        for other in self.0.values().filter(|other| other.id != element.id) {
            if other.name == element.name {
                return Err(InventoryError::NameTaken(other.id));
            }
            for port in &element.ports {
                check_port(port, other.ports.iter().map(|port| (other.id, port)))?;
            }
        }
        self.0.insert(element.id, element);
        Ok(())
    }

    /// Removes an element.
    pub fn remove(&mut self, id: ElementId) -> Option<Element> {
        self.0.remove(&id)
    }

    /// Returns an element.
    pub fn get(&self, id: ElementId) -> Option<&Element> {
        self.0.get(&id)
    }

    /// Iterates over the elements by number.
    pub fn iter(&self) -> impl Iterator<Item = &Element> {
        self.0.values()
    }

    /// Iterates over the elements with a role, by number.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &Element> {
        self.iter().filter(move |element| element.roles.contains(&role))
    }
}

fn check_port<'a>(
    port: &OuterPort,
    others: impl Iterator<Item = (ElementId, &'a OuterPort)>,
) -> Result<(), InventoryError> {
    for (id, other) in others {
        if other.number == port.number {
            return Err(InventoryError::PortTaken(port.number, id));
        }
        if other.mac == port.mac {
            return Err(InventoryError::MacTaken(port.mac, id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn element(id: u16, ports: &[(u16, u8)]) -> Element {
        let port = |(number, mac): &(u16, u8)| OuterPort {
            number: PortNumber::new(*number).unwrap(),
            interface: "eth0".into(),
            mac: Mac([2, 0, 0, 0, 0, *mac]),
        };
        Element {
            id: ElementId::new(id).unwrap(),
            name: id.to_string(),
            roles: [Role::Balancer].into(),
            weight: 1,
            ports: ports.iter().map(port).collect(),
        }
    }

    #[test]
    fn numbers_names_and_addresses_are_unique() {
        let mut inventory = Inventory::default();
        inventory.put(element(1, &[(1, 1), (2, 2)])).unwrap();
        let one = ElementId::new(1).unwrap();
        let two = PortNumber::new(2).unwrap();
        assert_eq!(inventory.put(element(2, &[(2, 3)])), Err(InventoryError::PortTaken(two, one)));
        let mac = Mac([2, 0, 0, 0, 0, 2]);
        assert_eq!(inventory.put(element(2, &[(3, 2)])), Err(InventoryError::MacTaken(mac, one)));
        let same = element(3, &[(4, 4), (4, 5)]);
        assert!(matches!(inventory.put(same), Err(InventoryError::PortTaken(..))));
        let named = Element { name: "1".into(), ..element(2, &[]) };
        assert_eq!(inventory.put(named), Err(InventoryError::NameTaken(one)));
        // An element may take its own numbers again.
        inventory.put(element(1, &[(2, 2)])).unwrap();
        inventory.put(element(2, &[(1, 1)])).unwrap();
    }

    #[test]
    fn ports_need_the_role_and_an_address_of_their_own() {
        let mut inventory = Inventory::default();
        let router = Element { roles: [Role::Router].into(), ..element(1, &[(1, 1)]) };
        assert_eq!(inventory.put(router), Err(InventoryError::NoBalancer));
        for octets in [[1, 0, 0, 0, 0, 1], [2, 0x5c, 0, 1, 0, 1], [0; 6]] {
            let mut bad = element(1, &[(1, 1)]);
            bad.ports[0].mac = Mac(octets);
            assert_eq!(inventory.put(bad), Err(InventoryError::BadMac(Mac(octets))));
        }
        assert_eq!(inventory.iter().count(), 0);
        assert_eq!([0, u16::MAX].map(PortNumber::new), [None, None]);
        assert_eq!(vec![ElementId::new(0)], vec![None]);
    }
}
