//! The FEA's process: the core with the simulated kernel in its hands, and those who want to know of interfaces.

use super::Base;
use super::ipc::{Message, Process};
use crate::network;
use crate::world::Fabric;
use sluice_base::{
    Family, Instant, InterfaceAddress, InterfaceEvent, InterfaceIndex, IpPrefix, Provenance, TableId,
};
use sluice_fea::engine::Link;
use sluice_fea::sim::SimEngine;
use sluice_fea::{Drive, Effect, Fea, Input};
use sluice_machine::{Budget, Progress};
use std::collections::BTreeMap;

/// Routes that the kernel refused, by table, as they are told.
type Rejected = BTreeMap<TableId, Vec<(IpPrefix, Provenance, String)>>;

/// The FEA's process.
pub struct FeaProcess {
    drive: Drive<SimEngine>,
    effects: Vec<Effect>,
    owner: Option<u32>,
    subscribers: Vec<(Process, u32)>,
    /// Families whose resync is over.
    resynced: u8,
}

/// The kernel of a router that has just been switched on: interfaces and addresses.
pub fn new_kernel(base: &Base, fabric: &Fabric) -> SimEngine {
    let mut kernel = SimEngine::new();
    for (place, (link, side)) in base.links.iter().enumerate() {
        let Some(index) = InterfaceIndex::new(place as u32 + 1) else { continue };
        let running = fabric.links[*link as usize].carrier;
        kernel.set_link(Link {
            index,
            name: interface_name(place),
            admin_up: true,
            running,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: Vec::new(),
        });
        let side = usize::from(*side);
        let address = |addr, prefix_len| InterfaceAddress { addr, prefix_len, peer: None };
        kernel.add_address(index, address(network::ipv4(*link, side).into(), 30));
        if fabric.settings.ipv6 {
            kernel.add_address(index, address(network::ipv6(*link, side).into(), 126));
        }
    }
    kernel
}

/// The name of the interface at a place among a router's links.
pub fn interface_name(place: usize) -> String {
    format!("eth{place}")
}

/// An interface gets a carrier, or loses it. A kernel keeps next hops over an interface without a carrier.
pub fn set_carrier(kernel: &mut SimEngine, base: &Base, link: u32, up: bool) {
    let Some(place) = base.links.iter().position(|(l, _)| *l == link) else { return };
    let Some(index) = InterfaceIndex::new(place as u32 + 1) else { return };
    if let Some((known, _)) = kernel.links.get(&index) {
        kernel.set_link(Link { running: up, ..known.clone() });
    }
}

impl FeaProcess {
    /// The process as it starts: what the kernel has is taken in before anybody is served.
    pub fn new(base: &Base, fabric: &Fabric, kernel: SimEngine) -> Self {
        let core = Fea::new(base.seed(fabric, Process::Fea));
        let mut fea = FeaProcess {
            drive: Drive::new(core, kernel),
            effects: Vec::new(),
            owner: None,
            subscribers: Vec::new(),
            resynced: 0,
        };
        while fea.drive.poll(base.now(fabric), &mut fea.effects) == Progress::More {}
        // Nobody has asked for anything yet.
        fea.effects.clear();
        fea
    }

    /// The kernel, which outlives the process.
    pub fn into_kernel(mut self) -> SimEngine {
        std::mem::take(self.drive.engine())
    }

    /// The kernel.
    pub fn kernel(&mut self) -> &mut SimEngine {
        self.drive.engine()
    }

    /// Whether the core has nothing left to do.
    pub fn is_idle(&mut self) -> bool {
        self.drive.core().totals().idle
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
                    for (process, life) in &self.subscribers {
                        if base.life(*process) == *life {
                            base.tell(fabric, *process, Message::Interfaces(vec![event.clone()]));
                        }
                    }
                }
                Effect::Resynced { .. } => {
                    self.resynced += 1;
                    if self.resynced == Family::ALL.len() as u8 {
                        self.resynced = 0;
                        self.tell_owner(base, fabric, Message::Resynced);
                    }
                }
                Effect::Event(event) => fabric.history.note(fabric.now, base.id, 10, || event.to_string()),
            }
        }
        for (table, routes) in rejected {
            self.tell_owner(base, fabric, Message::FibRejected(table, routes));
        }
    }

    fn tell_owner(&self, base: &Base, fabric: &mut Fabric, message: Message) {
        if self.owner == Some(base.life(Process::Rib)) {
            base.tell(fabric, Process::Rib, message);
        }
    }

    /// A message of another process.
    pub fn message(&mut self, base: &Base, fabric: &mut Fabric, message: Message) {
        match message {
            Message::Own(process, life) => {
                self.owner = Some(life);
                self.input(base, fabric, Input::BeginResync(TableId::MAIN));
                base.tell(fabric, process, Message::Owned);
                self.subscribe(base, fabric, process, life);
            }
            Message::Subscribe(process, life) => self.subscribe(base, fabric, process, life),
            Message::Died(process, life) => self.subscribers.retain(|s| *s != (process, life)),
            Message::FibIpv4(batch) => {
                self.input(base, fabric, Input::UpdateIpv4(TableId::MAIN, batch));
                self.tell_owner(base, fabric, Message::FibTaken);
            }
            Message::FibIpv6(batch) => {
                self.input(base, fabric, Input::UpdateIpv6(TableId::MAIN, batch));
                self.tell_owner(base, fabric, Message::FibTaken);
            }
            Message::EndResync => {
                self.resynced = 0;
                self.input(base, fabric, Input::EndResync(TableId::MAIN));
            }
            _ => {}
        }
    }

    fn subscribe(&mut self, base: &Base, fabric: &mut Fabric, process: Process, life: u32) {
        self.subscribers.retain(|(p, _)| *p != process);
        self.subscribers.push((process, life));
        let all = self.drive.core().interfaces().unwrap_or_default();
        let mut events: Vec<InterfaceEvent> = all.into_iter().map(InterfaceEvent::Changed).collect();
        events.push(InterfaceEvent::SnapshotEnd);
        base.tell(fabric, process, Message::Interfaces(events));
    }

    /// What the kernel tells, and background work.
    pub fn turn(&mut self, base: &mut Base, fabric: &mut Fabric) {
        let now = base.now(fabric);
        while self.drive.poll(now, &mut self.effects) == Progress::More {}
        let budget = Budget(fabric.settings.slice);
        if self.drive.run_slice(now, budget, &mut self.effects) == Progress::More {
            base.wake(fabric, true);
        }
        self.carry_out(base, fabric);
    }

    /// The next moment at which the process has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.drive.next_deadline()
    }

    /// Timers are due.
    pub fn on_deadline(&mut self, base: &mut Base, fabric: &mut Fabric) {
        self.drive.on_deadline(base.now(fabric), &mut self.effects);
        self.carry_out(base, fabric);
        base.wake(fabric, true);
    }
}
