//! The FEA's process: the core with the simulated kernel, and the observers of interfaces.

use super::messages::{FromFea, ToFea};
use super::process::{Class, Process};
use super::{Base, Configuration};
use crate::fabric::ipc::{Instance, Life, Message, word};
use crate::network;
use crate::world::Fabric;
use sluice_base::{
    Family, Instant, Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex, IpPrefix, Provenance,
    TableId,
};
use sluice_fea::engine::Link;
use sluice_fea::sim::SimEngine;
use sluice_fea::{Drive, Effect, Fea, Input};
use sluice_machine::{Budget, Progress};
use std::collections::BTreeMap;

/// Routes that the kernel refused, by table, in the form of the notification.
type Rejected = BTreeMap<TableId, Vec<(IpPrefix, Provenance, String)>>;

pub(super) const CLASS: Class =
    Class { name: "fea", start, is_in_light_worlds: false, has_connections: false };

fn start(base: &mut Base, fabric: &mut Fabric, _configuration: &Configuration) -> Box<dyn Process> {
    let kernel = base.kernel.take().unwrap_or_default();
    Box::new(FeaProcess::new(base, fabric, kernel))
}

/// The FEA's process.
pub struct FeaProcess {
    drive: Drive<SimEngine>,
    effects: Vec<Effect>,
    owner: Option<Instance>,
    subscribers: Vec<Instance>,
    /// Families of tables whose resync ends and is not over.
    ending: usize,
}

/// Returns a router's interfaces, one for each link, with their addresses.
pub fn interfaces(base: &Base, fabric: &Fabric) -> Vec<Interface> {
    let address = |addr, prefix_len| InterfaceAddress { addr, prefix_len, peer: None };
    let interface = |(place, (link, side)): (usize, &(u32, u8))| {
        let side = usize::from(*side);
        let ipv6 = fabric.settings.ipv6.then(|| address(network::ipv6(*link, side).into(), 126));
        let ipv4 = address(network::ipv4(*link, side).into(), 30);
        Some(Interface {
            index: InterfaceIndex::new(place as u32 + 1)?,
            name: interface_name(place),
            admin_up: true,
            running: fabric.links[*link as usize].carrier,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: Vec::new(),
            addresses: std::iter::once(ipv4).chain(ipv6).collect(),
        })
    };
    base.links.iter().enumerate().filter_map(interface).collect()
}

/// The kernel of a router that has just been switched on: interfaces and addresses.
pub fn new_kernel(base: &Base, fabric: &Fabric) -> SimEngine {
    let mut kernel = SimEngine::new();
    for interface in interfaces(base, fabric) {
        let Interface {
            index, name, admin_up, running, loopback, point_to_point, multicast, mtu, mac, ..
        } = interface;
        kernel.set_link(Link {
            index,
            name,
            admin_up,
            running,
            loopback,
            point_to_point,
            multicast,
            mtu,
            mac,
        });
        for address in interface.addresses {
            kernel.add_address(index, address);
        }
    }
    kernel
}

/// The name of the interface at a place among a router's links.
pub fn interface_name(place: usize) -> String {
    format!("eth{place}")
}

/// An interface gets a carrier, or loses it. A kernel keeps next hops over an interface without a carrier.
pub fn set_carrier(kernel: &mut SimEngine, links: &[(u32, u8)], link: u32, up: bool) {
    let Some(place) = links.iter().position(|(l, _)| *l == link) else { return };
    let Some(index) = InterfaceIndex::new(place as u32 + 1) else { return };
    if let Some((known, _)) = kernel.links.get(&index) {
        kernel.set_link(Link { running: up, ..known.clone() });
    }
}

impl FeaProcess {
    /// Starts the process: it adopts the kernel's contents before it serves clients.
    fn new(base: &Base, fabric: &Fabric, kernel: SimEngine) -> Self {
        let core = Fea::new(base.seed(fabric));
        let mut fea = FeaProcess {
            drive: Drive::new(core, kernel),
            effects: Vec::new(),
            owner: None,
            subscribers: Vec::new(),
            ending: 0,
        };
        while fea.drive.poll(base.now(fabric), &mut fea.effects) == Progress::More {}
        // Nobody has asked for anything yet.
        fea.effects.clear();
        fea
    }

    /// The kernel.
    pub fn kernel(&mut self) -> &mut SimEngine {
        self.drive.engine()
    }

    fn input(&mut self, base: &Base, fabric: &mut Fabric, input: Input) {
        self.drive.handle(base.now(fabric), input, &mut self.effects);
        self.carry_out(base, fabric);
    }

    fn carry_out(&mut self, base: &Base, fabric: &mut Fabric) {
        let mut rejected = Rejected::new();
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Rejected { table, prefix, provenance, reason } => {
                    rejected.entry(table).or_default().push((prefix, provenance, reason));
                }
                Effect::Interface(event) => {
                    for subscriber in &self.subscribers {
                        base.send_to_instance(fabric, *subscriber, FromFea::Interfaces(vec![event.clone()]));
                    }
                }
                Effect::Resynced { .. } => {
                    self.ending = self.ending.saturating_sub(1);
                    if self.ending == 0 {
                        self.send_to_owner(base, fabric, FromFea::Resynced);
                    }
                }
                // A simulated router has one engine, which takes all routes.
                Effect::RoutesSelected => {}
                Effect::Event(event) => fabric.history.note(fabric.now, base.id, 10, || event.to_string()),
            }
        }
        for (table, routes) in rejected {
            self.send_to_owner(base, fabric, FromFea::RoutesRejected(table, routes));
        }
    }

    fn send_to_owner(&self, base: &Base, fabric: &mut Fabric, message: FromFea) {
        if let Some(owner) = self.owner {
            base.send_to_instance(fabric, owner, message);
        }
    }

    fn subscribe(&mut self, base: &Base, fabric: &mut Fabric, subscriber: Instance) {
        self.subscribers.retain(|known| known.process != subscriber.process);
        self.subscribers.push(subscriber);
        let all = self.drive.core().interfaces().unwrap_or_default().into_iter().map(InterfaceEvent::Changed);
        let begin = std::iter::once(InterfaceEvent::SnapshotBegin);
        let events = begin.chain(all).chain(std::iter::once(InterfaceEvent::SnapshotEnd));
        base.send_to_instance(fabric, subscriber, FromFea::Interfaces(events.collect()));
    }
}

impl Process for FeaProcess {
    fn life(&mut self, _base: &mut Base, _fabric: &mut Fabric, life: Life) {
        if let Life::Died(instance) = life {
            self.subscribers.retain(|known| *known != instance);
        }
    }

    fn message(&mut self, base: &mut Base, fabric: &mut Fabric, from: Instance, message: Box<dyn Message>) {
        let Ok(call) = word(message) else { return };
        match call {
            ToFea::SetOwner => {
                self.owner = Some(from);
                let known = self.drive.core().tables().collect();
                base.send_to_instance(fabric, from, FromFea::Owned(known));
            }
            ToFea::BeginResync(tables) => {
                for table in tables {
                    self.input(base, fabric, Input::BeginResync(table));
                }
            }
            ToFea::Subscribe => self.subscribe(base, fabric, from),
            ToFea::UpdateIpv4(table, batch) => {
                self.input(base, fabric, Input::UpdateIpv4(table, batch));
                self.send_to_owner(base, fabric, FromFea::FibTaken);
            }
            ToFea::UpdateIpv6(table, batch) => {
                self.input(base, fabric, Input::UpdateIpv6(table, batch));
                self.send_to_owner(base, fabric, FromFea::FibTaken);
            }
            ToFea::EndResync(tables) => {
                self.ending = Family::ALL.len() * tables.len();
                for table in tables {
                    self.input(base, fabric, Input::EndResync(table));
                }
            }
        }
    }

    fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let now = base.now(fabric);
        while self.drive.poll(now, &mut self.effects) == Progress::More {}
        let budget = Budget(fabric.settings.slice);
        if self.drive.run_slice(now, budget, &mut self.effects) == Progress::More {
            base.wake(fabric, true);
        }
        self.carry_out(base, fabric);
    }

    fn next_deadline(&self, _now: Instant) -> Option<Instant> {
        self.drive.next_deadline()
    }

    fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.drive.on_deadline(base.now(fabric), &mut self.effects);
        self.carry_out(base, fabric);
        base.wake(fabric, true);
    }

    fn is_settled(&mut self) -> bool {
        self.drive.core().totals().idle
    }

    fn killed(&mut self, base: &mut Base, _fabric: &mut Fabric) {
        base.kernel = Some(std::mem::take(self.drive.engine()));
    }
}
