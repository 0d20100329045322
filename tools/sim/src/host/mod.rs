//! A router: its kernel and its processes, each the real core with a few lines around it.
//!
//! The glue repeats the steps of the real processes, in their order. The rules of a client of the RIB or of the FEA
//! are in `kits/clients`, as for the real processes. Messages between processes are events, so that any process can
//! die alone. A protocol is a file here and an entry in the registry ([`ProcessId`]).

mod announcer;
mod base;
mod bgp;
mod classes;
mod configuration;
mod fea;
pub mod messages;
mod origin;
mod process;
mod rib;
mod statics;

pub use crate::fabric::ipc::{Instance, Ipc, Life, Message, ProcessId, TcpEvent};
pub use base::Base;
pub use bgp::BgpProcess;
pub use configuration::Configuration;
pub use fea::{FeaProcess, new_kernel};
pub use origin::OriginClient;
pub use process::{Class, Process};
pub use rib::RibProcess;

use crate::clock::Clock;
use crate::fabric::end::EndRef;
use crate::fabric::ipc::IpcWhat;
use crate::world::Fabric;
use sluice_base::{Asn, IpPrefix, component_name};
use sluice_bgp::speaker::Config;
use sluice_fea::sim::SimEngine;
use std::any::Any;

/// A router.
pub struct Host {
    /// The parts of the router that its processes see.
    pub base: Base,
    /// The configuration of its protocols, running or not.
    pub configuration: Configuration,
    /// The same for each named instance.
    instances: Vec<Configuration>,
    /// The router's processes, in the manager's starting order.
    ids: Vec<ProcessId>,
    processes: [Option<Box<dyn Process>>; ProcessId::COUNT],
}

impl Host {
    /// Returns a router that is switched off.
    pub fn new(id: u32, asn: Asn, clock: Clock, links: Vec<(u32, u8)>) -> Self {
        Host {
            base: Base::new(id, asn, clock, links),
            configuration: Configuration::default(),
            instances: Vec::new(),
            ids: ProcessId::single().collect(),
            processes: [const { None }; ProcessId::COUNT],
        }
    }

    /// Adds a named instance: the given classes run once more, with the given configuration and a table of their own.
    /// Returns the processes; `None` if a class does not exist, or the router already has its largest number of
    /// instances.
    pub fn add_instance(&mut self, classes: &[&str], configuration: Configuration) -> Option<Vec<ProcessId>> {
        let number = (self.instances.len() + 1).to_string();
        let ids = classes.iter().map(|class| ProcessId::named(&component_name(class, Some(&number))));
        let ids: Vec<ProcessId> = ids.collect::<Option<_>>()?;
        self.instances.push(configuration);
        self.ids.extend(&ids);
        Some(ids)
    }

    /// Returns true if a process runs.
    pub fn runs(&self, id: ProcessId) -> bool {
        self.processes[id.place()].is_some()
    }

    /// Returns the running process of a type.
    pub fn get<T: Process>(&self) -> Option<&T> {
        self.processes.iter().flatten().find_map(|p| (p.as_ref() as &dyn Any).downcast_ref())
    }

    /// Returns the running process of a type, to be changed.
    pub fn get_mut<T: Process>(&mut self) -> Option<&mut T> {
        self.processes.iter_mut().flatten().find_map(|p| (p.as_mut() as &mut dyn Any).downcast_mut())
    }

    /// The prefixes in BGP's configuration.
    pub fn networks(&self) -> Vec<IpPrefix> {
        let networks = self.configuration.get::<Config>().map(|bgp| bgp.networks.iter());
        networks.into_iter().flatten().filter_map(|network| network.ip()).collect()
    }

    /// Returns BGP's process, if it runs.
    pub fn bgp(&self) -> Option<&BgpProcess> {
        self.get()
    }

    /// Returns true if every process runs and waits only for events from outside.
    pub fn is_settled(&mut self) -> bool {
        let Host { ids, processes, .. } = self;
        ids.iter().all(|id| processes[id.place()].as_mut().is_some_and(|p| p.is_settled()))
    }

    /// Drives a process if it runs.
    fn drive(&mut self, id: ProcessId, act: impl FnOnce(&mut dyn Process, &mut Base)) {
        if let Some(process) = &mut self.processes[id.place()] {
            self.base.drive(id);
            act(process.as_mut(), &mut self.base);
        }
    }

    /// Drives a process of a certain type, if it runs, beyond the common interface.
    pub fn with<T: Process>(&mut self, act: impl FnOnce(&mut T, &mut Base)) {
        let found = ProcessId::all().find(|id| {
            self.processes[id.place()].as_ref().is_some_and(|p| (p.as_ref() as &dyn Any).is::<T>())
        });
        let Some(id) = found else { return };
        self.drive(id, |process, base| {
            if let Some(process) = (process as &mut dyn Any).downcast_mut() {
                act(process, base);
            }
        });
    }

    /// Switches the router on: its kernel, then its processes in the manager's order.
    pub fn boot(&mut self, fabric: &mut Fabric) {
        if std::mem::replace(&mut fabric.up[self.base.id as usize], true) {
            return;
        }
        if !fabric.settings.light {
            self.base.kernel = Some(new_kernel(&self.base, fabric));
        }
        let is_light = fabric.settings.light;
        for id in self.ids.clone().into_iter().filter(|id| !is_light || id.class().is_in_light_worlds) {
            self.start(fabric, id);
        }
    }

    /// Returns true if the router is switched on.
    pub fn is_on(&self) -> bool {
        self.base.kernel.is_some() || self.processes.iter().any(Option::is_some)
    }

    /// Cuts the power: no state is left, and nobody is notified.
    pub fn crash(&mut self, fabric: &mut Fabric) {
        fabric.up[self.base.id as usize] = false;
        for process in &mut self.processes {
            if let Some(mut process) = process.take() {
                process.power_lost(fabric);
            }
        }
        self.base.switch_off(fabric);
    }

    /// Starts a process that the router has, if the router is on and the process is not running.
    pub fn start(&mut self, fabric: &mut Fabric, id: ProcessId) {
        if !fabric.up[self.base.id as usize] || self.base.is_alive(id) || !self.ids.contains(&id) {
            return;
        }
        self.base.born(id);
        let configuration = match id.instance() {
            0 => &self.configuration,
            instance => &self.instances[instance - 1],
        };
        let process = (id.class().start)(&mut self.base, fabric, configuration);
        self.processes[id.place()] = Some(process);
        self.base.introduce(fabric, id);
        self.base.wake(fabric, true);
    }

    /// Kills a process; the kernel closes its sockets and the Finder notifies the others.
    pub fn kill(&mut self, fabric: &mut Fabric, id: ProcessId) {
        self.drive(id, |process, base| process.killed(base, fabric));
        if self.processes[id.place()].take().is_some() {
            self.base.died(id);
            self.base.announce_death(fabric, id);
        }
    }

    /// Changes the configuration of a protocol; running processes are notified.
    pub fn configure<T: Any + Default + Send>(&mut self, fabric: &mut Fabric, change: impl FnOnce(&mut T)) {
        self.configuration.change(change);
        for id in ProcessId::single() {
            if let Some(process) = &mut self.processes[id.place()] {
                self.base.drive(id);
                process.configure(&mut self.base, fabric, &self.configuration);
            }
        }
    }

    /// Sets or removes the carrier of an interface.
    pub fn set_carrier(&mut self, fabric: &mut Fabric, link: u32, up: bool) {
        let links = self.base.links.clone();
        if let Some(kernel) = self.look_at_kernel() {
            fea::set_carrier(kernel, &links, link, up);
            self.base.wake(fabric, true);
        }
    }

    /// Returns the kernel, with or without a FEA.
    pub fn look_at_kernel(&mut self) -> Option<&mut SimEngine> {
        if self.base.kernel.is_some() {
            return self.base.kernel.as_mut();
        }
        self.get_mut::<FeaProcess>().map(FeaProcess::kernel)
    }

    /// Runs the turn of the processes.
    pub fn turn(&mut self, fabric: &mut Fabric) {
        if !self.base.begin_turn(fabric) {
            return;
        }
        for id in ProcessId::all() {
            self.drive(id, |process, base| process.turn(base, fabric));
        }
        self.note_deadline(fabric);
    }

    /// Timers may be due.
    pub fn timer(&mut self, fabric: &mut Fabric) {
        if !self.base.begin_timer(fabric) {
            return;
        }
        let now = self.base.now(fabric);
        for id in ProcessId::all() {
            self.drive(id, |process, base| {
                if process.next_deadline(now).is_some_and(|at| at <= now) {
                    process.on_deadline(base, fabric);
                }
            });
        }
        if !fabric.settings.light {
            // Waits that are no timer of a core are met in a turn.
            self.base.wake(fabric, false);
        }
        self.note_deadline(fabric);
    }

    fn note_deadline(&mut self, fabric: &mut Fabric) {
        let now = self.base.now(fabric);
        let at = self.processes.iter().flatten().filter_map(|p| p.next_deadline(now)).min();
        self.base.set_timer(fabric, at);
    }

    /// A message between processes arrives.
    pub fn ipc(&mut self, fabric: &mut Fabric, ipc: Ipc) {
        let to = ipc.to.process;
        if self.base.instance(to) != ipc.to || !self.base.is_alive(to) {
            return;
        }
        let (id, what) = (self.base.id, ipc.what);
        let kind = 16 + to.place() as u8;
        fabric.history.note(fabric.now, id, kind, || format!("{} receives {what:?}", to.name()));
        self.drive(to, |process, base| match what {
            IpcWhat::Life(life) => process.life(base, fabric, life),
            IpcWhat::Message(from, message) => process.message(base, fabric, from, message),
        });
        self.base.wake(fabric, true);
    }

    fn tcp(&mut self, fabric: &mut Fabric, event: TcpEvent) -> bool {
        let mut alive = ProcessId::all().filter(|id| id.class().has_connections && self.base.is_alive(*id));
        let mut owner = alive.next();
        if let Some(end) = alive.next().map(|_| event.end()) {
            let neighbor = fabric.connections.end_mut(end).map(|e| e.neighbor);
            let serves = |id: &ProcessId| {
                neighbor.zip(self.processes[id.place()].as_ref()).is_some_and(|(n, p)| p.serves(n))
            };
            owner = ProcessId::all().find(serves);
        }
        if let Some(id) = owner {
            self.drive(id, |process, base| process.tcp(base, fabric, event));
        }
        owner.is_some()
    }

    /// A neighbor asks for a connection.
    pub fn asked(&mut self, fabric: &mut Fabric, end: EndRef) {
        if !self.tcp(fabric, TcpEvent::Asked(end)) {
            fabric.reject(end);
        }
    }

    /// Handles an established connection that the router requested.
    pub fn connected(&mut self, fabric: &mut Fabric, end: EndRef) {
        self.tcp(fabric, TcpEvent::Connected(end));
    }

    /// Handles readable octets or their end.
    pub fn readable(&mut self, fabric: &mut Fabric, end: EndRef, is_work: bool) {
        if self.tcp(fabric, TcpEvent::Readable(end)) {
            self.base.wake(fabric, is_work);
        }
    }

    /// A connection takes octets again.
    pub fn writable(&mut self, fabric: &mut Fabric, end: EndRef) {
        if self.tcp(fabric, TcpEvent::Writable(end)) {
            self.base.wake(fabric, true);
        }
    }
}
