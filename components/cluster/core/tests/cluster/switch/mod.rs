//! Elements on one switch, in virtual time.

use sluice_base::{Instant, Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex};
use sluice_cluster::event::Event;
use sluice_cluster::inventory::{ElementId, Inventory, PortNumber, Role};
use sluice_cluster::io::{Input, NeighborState, Output, WantedNeighbor};
use sluice_cluster::key::{ClusterKey, KeyRing};
use sluice_cluster::machine::Cluster;
use sluice_cluster::neighbors::NeighborKey;
use sluice_cluster::policy::Policy;
use sluice_cluster::settings::Settings;
use sluice_cluster::words::Mirror;
use sluice_machine::{Machine, Outbox};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The kind of hello frames, in their second octet.
pub const HELLO: u8 = 1;

/// Returns the settings of an element without a store, with the defaults of the policy.
pub fn settings(
    element: ElementId,
    inventory: Inventory,
    addresses: BTreeMap<PortNumber, BTreeSet<InterfaceAddress>>,
) -> Settings {
    Settings {
        element,
        interconnect: vec!["eth0".into()],
        inventory,
        drained: [].into(),
        reached: BTreeMap::new(),
        addresses,
        mtus: BTreeMap::new(),
        more_addresses: [].into(),
        policy: Policy::default(),
        keys: KeyRing::of(ClusterKey([7; 32])),
        store: None,
        shares_configuration: false,
        leader: None,
    }
}

/// Returns an interface of an element that is up. The link of a port (`port1`) has the port's addresses.
pub fn interface(number: u32, name: &str, settings: &Settings) -> Input {
    let of_port = |port: &PortNumber| name == format!("port{}", port.number());
    let addresses = settings.addresses.iter().filter(|(port, _)| of_port(port));
    Input::Interface(InterfaceEvent::Changed(Interface {
        index: InterfaceIndex::new(number).unwrap(),
        name: name.into(),
        admin_up: true,
        running: true,
        loopback: false,
        point_to_point: false,
        multicast: true,
        mtu: 1500,
        mac: vec![2, 0, 0, 0, 0, 9],
        addresses: addresses.flat_map(|(_, addresses)| addresses.iter().copied()).collect(),
    }))
}

/// Elements on one switch. Frames arrive at once at all elements but the sender and those that are cut off. Hello frames are for the
/// programs of balancers, and arrive at no process.
pub struct Switch {
    settings: fn(u16) -> Settings,
    pub now: Instant,
    pub elements: BTreeMap<u16, Cluster>,
    pub cut_off: BTreeSet<u16>,
    pub outputs: Vec<(u16, Output)>,
    pub frames: Vec<(u16, Vec<u8>)>,
}

impl Switch {
    /// Starts elements, whose settings are those of their numbers.
    pub fn new(elements: &[u16], settings: fn(u16) -> Settings) -> Self {
        let mut switch = Switch {
            settings,
            now: Instant::ZERO,
            elements: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            outputs: vec![],
            frames: vec![],
        };
        elements.iter().for_each(|element| switch.start(*element, 1));
        switch
    }

    pub fn start(&mut self, element: u16, epoch: u64) {
        self.elements.insert(element, Cluster::new(epoch));
        let settings = (self.settings)(element);
        let all: Vec<_> = settings.inventory.iter().collect();
        let is_balancer = |e: &&sluice_cluster::inventory::Element| e.roles.contains(&Role::Balancer);
        let own = all.iter().copied().filter(is_balancer).find(|e| e.id == settings.element);
        // A balancer has its ports themselves; each other element has a link for each port of all balancers.
        let ports: Vec<String> = match own {
            Some(own) => own.ports.iter().map(|port| port.interface.clone()).collect(),
            None => all
                .iter()
                .flat_map(|e| &e.ports)
                .map(|port| format!("port{}", port.number.number()))
                .collect(),
        };
        let is_balancer = own.is_some();
        let names = std::iter::once("eth0").chain(ports.iter().map(String::as_str));
        let interfaces: Vec<Input> =
            names.enumerate().map(|(place, name)| interface(place as u32 + 2, name, &settings)).collect();
        self.input(element, Input::Configure(Box::new(settings)));
        interfaces.into_iter().for_each(|input| self.input(element, input));
        if is_balancer {
            self.input(element, Input::Maps(Some(Mirror::default())));
        }
    }

    pub fn input(&mut self, element: u16, input: Input) {
        let mut out = Outbox::new();
        self.elements.get_mut(&element).unwrap().handle(self.now, input, &mut out);
        self.settle(element, out);
    }

    pub fn settle(&mut self, from: u16, mut out: Outbox<Output>) {
        let outputs: Vec<Output> = out.drain().collect();
        for output in outputs {
            if let Output::Send(octets) = &output {
                self.frames.push((from, octets.clone()));
                let all: Vec<u16> = self.elements.keys().copied().collect();
                let cut = |element: &u16| self.cut_off.contains(element);
                let to: Vec<u16> =
                    all.into_iter().filter(|to| *to != from && !cut(to) && !cut(&from)).collect();
                let to = to.into_iter().filter(|_| octets[1] != HELLO);
                to.for_each(|to| self.input(to, Input::Frame(octets.clone())));
            }
            self.outputs.push((from, output));
        }
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((at, element)) =
            self.elements.iter().filter_map(|(number, e)| Some((e.next_deadline()?, *number))).min()
        {
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            let mut out = Outbox::new();
            self.elements.get_mut(&element).unwrap().on_deadline(self.now, &mut out);
            self.settle(element, out);
        }
        self.now = end;
    }

    pub fn events(&self, of: u16) -> Vec<Event> {
        let event = |(element, output): &(u16, Output)| match output {
            Output::Event(event) if *element == of => Some(event.clone()),
            _ => None,
        };
        self.outputs.iter().filter_map(event).collect()
    }

    /// Returns the neighbors in an element's kernel, in order of arrival.
    pub fn neighbors(&self, of: u16) -> Vec<(NeighborKey, WantedNeighbor)> {
        let of_output = |(element, output): &(u16, Output)| match output {
            Output::SetNeighbors(neighbors) if *element == of => Some(neighbors.clone()),
            _ => None,
        };
        self.outputs.iter().filter_map(of_output).flatten().collect()
    }

    pub fn neighbor(&mut self, element: u16, key: NeighborKey, state: NeighborState) {
        self.input(element, Input::Neighbors { states: vec![(key, state)], is_whole: false });
    }
}
