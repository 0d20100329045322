//! The balancer: inventory, membership, neighbors and keys in, stores to the maps of the program `balance` out.
//!
//! The program passes over silent elements by itself. This machine decides which elements have shares at all: elements with
//! the class's role that are in service and not drained.

pub mod classes;
pub mod decision;
pub mod flow;
pub mod lines;
pub mod maglev;
pub mod policy;
pub mod reason;
pub mod resolution;
pub mod words;

use crate::balancer::policy::Policy;
use crate::balancer::words::{
    CLASSES, DSCP, INNER, INNERS, KEYS, Map, Mirror, NUMBERS, Place, SEED, SEVERAL, SILENCE, Store,
};
use crate::frames::key::KeyRing;
use crate::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber};
use crate::mac::{Mac, is_neighbor};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::Serialize;
use sluice_base::{Instant, InterfaceIndex};
use sluice_machine::{Machine, Outbox};

/// The side of an outer interface (`enum balance_side`).
const OUTER: u64 = 1;
/// The side of an inner interface.
const INNER_SIDE: u64 = 2;

/// An event for the machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum Input {
    /// The new inventory.
    Inventory(Inventory),
    /// The elements that are in service: members of the cluster that are not drained.
    InService(BTreeSet<ElementId>),
    /// The present control plane.
    Control(Option<ElementId>),
    /// The interface of an outer port of this balancer; `None` while the interface does not exist.
    Outer(PortNumber, Option<InterfaceIndex>),
    /// The inner interfaces that are up. Interfaces beyond the [`INNERS`]th are left out.
    Inner(Vec<InterfaceIndex>),
    /// The ports behind which a neighbor's MAC address is; none for a neighbor that left.
    Neighbor(Mac, BTreeSet<PortNumber>),
    /// The router's own addresses.
    Addresses(BTreeSet<IpAddr>),
    /// The configured choice of elements.
    Policy(Policy),
    /// The keys of the cluster.
    Keys(KeyRing),
    /// All inputs were given once: words that an earlier process left are cleared.
    Complete,
}

/// An effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Store a word. Stores are carried out in order.
    Store(Store),
    /// The table has no room for a neighbor, whose frames from routers are dropped.
    NoRoomForNeighbor(Mac),
    /// The table has no room for an own address, whose packets go to routers.
    NoRoomForAddress(IpAddr),
}

impl From<Store> for Output {
    fn from(store: Store) -> Self {
        Output::Store(store)
    }
}

/// The balancer's machine.
#[derive(Debug)]
pub struct Balancer {
    id: ElementId,
    seed: u64,
    mirror: Mirror,
    inventory: Inventory,
    in_service: BTreeSet<ElementId>,
    control: Option<ElementId>,
    outer: BTreeMap<PortNumber, InterfaceIndex>,
    inner: Vec<InterfaceIndex>,
    addresses: BTreeSet<IpAddr>,
    policy: Policy,
}

impl Balancer {
    /// Makes the machine of the balancer `id`. `seed` is the seed of all hashes: all balancers of a cluster have the same, so that both
    /// directions of the cluster's growth move the same flows. `mirror` has the words that are in the maps.
    pub fn new(id: ElementId, seed: u64, mirror: Mirror) -> Self {
        Balancer {
            id,
            seed,
            mirror,
            inventory: Inventory::default(),
            in_service: BTreeSet::new(),
            control: None,
            outer: BTreeMap::new(),
            inner: Vec::new(),
            addresses: BTreeSet::new(),
            policy: Policy::default(),
        }
    }

    /// Returns the words as they are in the maps once all stores are carried out.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Returns the elements with shares of a class, by number, with their weights.
    pub fn members(&self, class: usize) -> Vec<(ElementId, u16)> {
        let Some(class) = self.policy.class(class) else { return Vec::new() };
        let serves = |element: &&Element| self.in_service.contains(&element.id);
        let with_role = self.inventory.with_role(class.role).filter(serves);
        with_role.map(|element| (element.id, element.weight)).collect()
    }

    /// Returns an element's rows in a class's table, and all rows.
    pub fn share(&self, class: u32, element: ElementId) -> (u32, u32) {
        classes::share(&self.mirror, class, element)
    }

    fn set(&mut self, map: Map, entry: u32, word: u16, value: u64, out: &mut Outbox<Output>) {
        self.mirror.set(Place::new(map, entry, word), value, out);
    }

    fn set_setting(&mut self, word: u16, value: u64, out: &mut Outbox<Output>) {
        self.set(Map::Settings, 0, word, value, out);
    }

    fn write_classes(&mut self, out: &mut Outbox<Output>) {
        for class in 0..CLASSES {
            let members = self.members(class);
            let policy = self.policy.class(class).map(|class| (class.mode, &members[..]));
            classes::write(&mut self.mirror, class as u32, policy, self.seed, out);
        }
    }

    /// Writes the ports of this balancer. A port that another balancer took over is cleared.
    fn write_ports(&mut self, before: &[OuterPort], out: &mut Outbox<Output>) {
        let ports: Vec<OuterPort> =
            self.inventory.get(self.id).map(|element| element.ports.clone()).unwrap_or_default();
        for port in before.iter().filter(|port| ports.iter().all(|now| now.number != port.number)) {
            let number = port.number.number().into();
            self.set(Map::Ports, number, 1, 0, out);
            self.set(Map::Ports, number, 0, 0, out);
            if let Some(interface) = self.outer.get(&port.number).copied() {
                self.write_side(interface, 0, 0, out);
            }
        }
        for port in &ports {
            self.write_port(port, out);
        }
    }

    fn write_port(&mut self, port: &OuterPort, out: &mut Outbox<Output>) {
        let number = port.number.number();
        let interface = self.outer.get(&port.number).copied();
        self.set(Map::Ports, number.into(), 0, port.mac.number(), out);
        self.set(Map::Ports, number.into(), 1, interface.map_or(0, |index| index.number().into()), out);
        if let Some(interface) = interface {
            self.write_side(interface, port.mac.number() | u64::from(number) << 48, OUTER, out);
        }
    }

    fn write_side(&mut self, interface: InterfaceIndex, port: u64, side: u64, out: &mut Outbox<Output>) {
        self.set(Map::Interfaces, interface.number(), 0, port, out);
        self.set(Map::Interfaces, interface.number(), 1, side, out);
    }

    fn set_outer(&mut self, number: PortNumber, interface: Option<InterfaceIndex>, out: &mut Outbox<Output>) {
        let before = match interface {
            Some(interface) => self.outer.insert(number, interface),
            None => self.outer.remove(&number),
        };
        if let Some(before) = before.filter(|before| Some(*before) != interface) {
            self.write_side(before, 0, 0, out);
        }
        let ports = self.inventory.get(self.id).map(|element| &element.ports);
        let port = ports.and_then(|ports| ports.iter().find(|port| port.number == number)).cloned();
        if let Some(port) = port {
            self.write_port(&port, out);
        }
    }

    fn set_inner(&mut self, mut interfaces: Vec<InterfaceIndex>, out: &mut Outbox<Output>) {
        interfaces.truncate(INNERS);
        for gone in core::mem::take(&mut self.inner).into_iter().filter(|old| !interfaces.contains(old)) {
            self.write_side(gone, 0, 0, out);
        }
        for interface in &interfaces {
            self.write_side(*interface, 0, INNER_SIDE, out);
        }
        let pairs = interfaces
            .chunks(2)
            .map(|pair| pair.iter().rev().fold(0, |word, index| word << 32 | u64::from(index.number())));
        let pairs: Vec<u64> = pairs.collect();
        for word in 0..INNERS / 2 {
            self.set_setting(INNER + word as u16, pairs.get(word).copied().unwrap_or_default(), out);
        }
        self.inner = interfaces;
        self.write_numbers(out);
    }

    /// Writes the word with the EtherTypes, which are in network order, the control plane, and the number of inner interfaces.
    fn write_numbers(&mut self, out: &mut Outbox<Output>) {
        let [first, second] = self.policy.ether_types.map(|number| u64::from(number.swap_bytes()));
        let control = self.control.map_or(0, |element| u64::from(element.number()));
        let word = first | second << 16 | control << 32 | (self.inner.len() as u64) << 48;
        self.set_setting(NUMBERS, word, out);
    }

    fn set_addresses(&mut self, addresses: BTreeSet<IpAddr>, out: &mut Outbox<Output>) {
        for gone in self.addresses.difference(&addresses) {
            lines::remove_address(&mut self.mirror, lines::address_words(*gone), self.seed, out);
        }
        for address in &addresses {
            let key = lines::address_words(*address);
            if lines::add_address(&mut self.mirror, key, self.seed, out).is_err() {
                out.push(Output::NoRoomForAddress(*address));
            }
        }
        self.addresses = addresses;
    }

    fn set_policy(&mut self, policy: Policy, out: &mut Outbox<Output>) {
        let silence = policy.silence.map_or(0, |silence| silence.as_nanos() as u64);
        let (dscp, _) = policy.dscp().as_chunks::<8>();
        let dscp: Vec<u64> = dscp.iter().map(|classes| u64::from_le_bytes(*classes)).collect();
        self.policy = policy;
        self.set_setting(SEED, self.seed, out);
        self.set_setting(SILENCE, silence, out);
        self.write_numbers(out);
        self.write_classes(out);
        for (word, classes) in dscp.into_iter().enumerate() {
            self.set_setting(DSCP + word as u16, classes, out);
        }
    }

    fn set_keys(&mut self, keys: &KeyRing, out: &mut Outbox<Output>) {
        let keys = [Some(keys.current.hello()), keys.other.as_ref().map(|key| key.hello())];
        for (place, word) in keys.into_iter().flat_map(Option::unwrap_or_default).enumerate() {
            self.set_setting(KEYS + place as u16, word, out);
        }
    }
}

impl Machine for Balancer {
    type Input = Input;
    type Output = Output;
    /// The state is in the maps, and in the inputs that the next process gets.
    type State = ();

    fn handle(&mut self, _now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Inventory(inventory) => {
                let own = self.inventory.get(self.id);
                let before = own.map(|element| element.ports.clone()).unwrap_or_default();
                self.inventory = inventory;
                self.write_ports(&before, out);
                self.write_classes(out);
            }
            Input::InService(elements) => {
                self.in_service = elements;
                self.write_classes(out);
            }
            Input::Control(element) => {
                self.control = element;
                self.write_numbers(out);
            }
            Input::Outer(port, interface) => self.set_outer(port, interface, out),
            Input::Inner(interfaces) => self.set_inner(interfaces, out),
            Input::Neighbor(mac, ports) => {
                let mut ports = ports.into_iter();
                let port = match (ports.next(), ports.next()) {
                    (None, _) => 0,
                    (Some(port), None) => port.number(),
                    _ => SEVERAL,
                };
                // A neighbor with an element's address would catch frames between elements.
                if is_neighbor(mac)
                    && lines::set_neighbor(&mut self.mirror, mac, port, self.seed, out).is_err()
                {
                    out.push(Output::NoRoomForNeighbor(mac));
                }
            }
            Input::Addresses(addresses) => self.set_addresses(addresses, out),
            Input::Policy(policy) => self.set_policy(policy, out),
            Input::Keys(keys) => self.set_keys(&keys, out),
            Input::Complete => self.mirror.sweep(out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn on_deadline(&mut self, _now: Instant, _out: &mut Outbox<Output>) {}

    fn export(&self) {}

    fn import(&mut self, _now: Instant, (): (), _out: &mut Outbox<Output>) {}
}
