//! A balancer with two ports, three routers and a control plane.

use sluice_base::{Instant, InterfaceIndex};
use sluice_cluster::balancer::{Balancer, Input, Output};
use sluice_cluster::decision::{Arrival, Decision, Turns, decide};
use sluice_cluster::frame::{InnerMac, Mac};
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::key::{ClusterKey, KeyRing};
use sluice_cluster::policy::Policy;
use sluice_cluster::words::Mirror;
use sluice_machine::{Machine, Outbox};

/// The virtual MAC address of port 1.
pub const VIRTUAL: Mac = Mac([2, 0, 0, 0, 1, 1]);
/// A neighbor behind port 1.
pub const NEIGHBOR: Mac = Mac([2, 0, 0, 0, 9, 1]);

pub fn id(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn element(number: u16, role: Role, weight: u16, ports: &[u16]) -> Element {
    let port = |number: &u16| OuterPort {
        number: PortNumber::new(*number).unwrap(),
        interface: format!("eth{number}"),
        mac: Mac([2, 0, 0, 0, 1, *number as u8]),
    };
    Element {
        id: id(number),
        name: format!("e{number}"),
        roles: [role].into(),
        weight,
        ports: ports.iter().map(port).collect(),
    }
}

/// Returns an IPv4 frame of the flow `flow` to port 1.
pub fn frame4(flow: u32, tos: u8) -> Vec<u8> {
    let mut frame =
        [&VIRTUAL.0[..], &NEIGHBOR.0, &[8, 0, 0x45, tos, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]].concat();
    frame.extend_from_slice(&[192, 0, 2, 1, 198, 51, 100, 1]);
    frame.extend_from_slice(&flow.to_be_bytes());
    frame.extend_from_slice(&[0, 8, 0, 0]);
    frame
}

pub struct World {
    pub balancer: Balancer,
    pub outputs: Vec<Output>,
}

impl World {
    pub fn of(mirror: Mirror) -> Self {
        World { balancer: Balancer::new(id(1), 0x5eed, mirror), outputs: vec![] }
    }

    pub fn standard(policy: Policy) -> Self {
        let mut world = World::of(Mirror::default());
        world.fill(policy);
        world
    }

    pub fn input(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.balancer.handle(Instant::ZERO, input, &mut out);
        self.outputs.extend(out.drain());
    }

    /// Gives all inputs but the last.
    pub fn fill(&mut self, mut policy: Policy) {
        policy.silence = None;
        let mut inventory = Inventory::default();
        for element in [
            element(1, Role::Balancer, 1, &[1, 2]),
            element(2, Role::Router, 1, &[]),
            element(3, Role::Router, 2, &[]),
            element(4, Role::Router, 3, &[]),
            element(5, Role::Balancer, 1, &[3]),
            element(9, Role::Control, 1, &[]),
        ] {
            inventory.put(element).unwrap();
        }
        let port = |number| PortNumber::new(number).unwrap();
        let index = |number| InterfaceIndex::new(number).unwrap();
        self.input(Input::Policy(policy));
        self.input(Input::Keys(KeyRing::of(ClusterKey([7; 32]))));
        self.input(Input::Outer(port(1), Some(index(10))));
        self.input(Input::Outer(port(2), Some(index(11))));
        self.input(Input::Inner(vec![index(20), index(21)]));
        self.input(Input::Inventory(inventory));
        self.input(Input::InService([1, 2, 3, 4, 5, 9].map(id).into()));
        self.input(Input::Control(Some(id(9))));
        self.input(Input::Addresses(
            ["192.0.2.254".parse().unwrap(), "2001:db8::fe".parse().unwrap()].into(),
        ));
        self.input(Input::Neighbor(NEIGHBOR, [port(1)].into()));
        self.input(Input::Neighbor(Mac([2, 0, 0, 0, 9, 2]), [port(1), port(2)].into()));
    }

    /// Returns the element to which a frame from port 1 is led.
    pub fn element(&self, frame: &[u8]) -> u16 {
        let arrival = Arrival { interface: 10, frame, now: 1 << 40 };
        match decide(self.balancer.mirror(), &mut Turns::default(), arrival) {
            Decision::Send { mac, .. } => InnerMac::of(mac).unwrap().element.number(),
            other => panic!("{other:?}"),
        }
    }
}
