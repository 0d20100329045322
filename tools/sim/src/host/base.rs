//! The shared parts of a router's processes: its place in the network, its clock, its kernel, and the messages between
//! processes.

use crate::clock::Clock;
use crate::fabric::ipc::{Instance, Ipc, IpcWhat, Life, Message, ProcessId};
use crate::fabric::queue::Event;
use crate::world::Fabric;
use sluice_base::{Asn, Instant};
use sluice_fea::sim::SimEngine;

/// The time that a message between two processes of a router takes, in nanoseconds.
const IPC: u64 = 20_000;
/// The time after which the Finder announces a life or a death, in nanoseconds.
const FINDER: u64 = 1_000_000;

/// A router, as its processes see it.
pub struct Base {
    /// The router's number.
    pub id: u32,
    /// The router's AS.
    pub asn: Asn,
    /// The router's clock.
    pub clock: Clock,
    /// The router's links, by number, and its side of each link; the place is the number of the interface, less 1.
    pub links: Vec<(u32, u8)>,
    /// The router's kernel, while no FEA has it.
    pub kernel: Option<SimEngine>,
    /// The number of each process's life; the last one's for dead processes.
    lives: [u32; ProcessId::COUNT],
    alive: [bool; ProcessId::COUNT],
    /// The process that is being driven.
    current: Option<ProcessId>,
    turn: Option<u64>,
    /// True if the next turn is more than the passing of time.
    turn_is_work: bool,
    timer: Option<u64>,
}

impl Base {
    /// Returns a router that is switched off.
    pub const fn new(id: u32, asn: Asn, clock: Clock, links: Vec<(u32, u8)>) -> Self {
        Base {
            id,
            asn,
            clock,
            links,
            kernel: None,
            lives: [0; ProcessId::COUNT],
            alive: [false; ProcessId::COUNT],
            current: None,
            turn: None,
            turn_is_work: false,
            timer: None,
        }
    }

    /// The time that the router's clock shows.
    pub fn now(&self, fabric: &Fabric) -> Instant {
        self.clock.local(fabric.now)
    }

    /// Sends a message from the driven process to a further process, if the receiver is alive.
    pub fn send(&self, fabric: &mut Fabric, to: ProcessId, message: impl Message) {
        let Some(from) = self.current else { return };
        let what = IpcWhat::Message(self.instance(from), Box::new(message));
        self.queue(fabric, IPC, to, what);
    }

    /// Sends a message to a certain life of a process.
    pub fn send_to_instance(&self, fabric: &mut Fabric, to: Instance, message: impl Message) {
        if self.instance(to.process) == to {
            self.send(fabric, to.process, message);
        }
    }

    fn queue(&self, fabric: &mut Fabric, after: u64, to: ProcessId, what: IpcWhat) {
        if self.alive[to.place()] {
            let ipc = Ipc { to: self.instance(to), what };
            fabric.queue.push(fabric.now + after, Event::Ipc(self.id, Box::new(ipc)));
        }
    }

    /// Subscribes the process that is being driven to the interfaces of a FEA that started.
    pub fn subscribe_to_interfaces(&self, fabric: &mut Fabric, life: Life) {
        if matches!(life, Life::Born(fea) if fea.process == ProcessId::FEA) {
            self.send(fabric, ProcessId::FEA, super::messages::ToFea::Subscribe);
        }
    }

    /// The newest life of a process.
    pub const fn instance(&self, process: ProcessId) -> Instance {
        Instance { process, life: self.lives[process.place()] }
    }

    /// Returns true if a process lives.
    pub const fn is_alive(&self, process: ProcessId) -> bool {
        self.alive[process.place()]
    }

    /// Records the driven process, which is the sender of messages.
    pub const fn drive(&mut self, process: ProcessId) {
        self.current = Some(process);
    }

    /// A process starts.
    pub fn born(&mut self, process: ProcessId) {
        self.alive[process.place()] = true;
        self.lives[process.place()] += 1;
        self.drive(process);
    }

    /// A process is dead.
    pub const fn died(&mut self, process: ProcessId) {
        self.alive[process.place()] = false;
    }

    /// Introduces a started process and the running processes to each other, as the Finder does.
    pub fn introduce(&self, fabric: &mut Fabric, process: ProcessId) {
        for other in ProcessId::all().filter(|p| *p != process && self.is_alive(*p)) {
            let (known, new) = (Life::Born(self.instance(other)), Life::Born(self.instance(process)));
            self.queue(fabric, FINDER, process, IpcWhat::Life(known));
            self.queue(fabric, FINDER, other, IpcWhat::Life(new));
        }
    }

    /// The Finder announces a death.
    pub fn announce_death(&self, fabric: &mut Fabric, process: ProcessId) {
        for other in ProcessId::all() {
            self.queue(fabric, FINDER, other, IpcWhat::Life(Life::Died(self.instance(process))));
        }
    }

    /// Returns a random seed for the current life of the driven process.
    pub fn seed(&self, fabric: &Fabric) -> u64 {
        let place = self.current.map_or(0, ProcessId::place);
        let who = u64::from(self.id) << 32 | u64::from(self.lives[place]) << 8 | place as u64;
        sluice_base::Rng::from_seed(fabric.seed ^ who.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
    }

    /// Schedules a turn of the processes soon; messages until then are handled together.
    pub fn wake(&mut self, fabric: &mut Fabric, is_work: bool) {
        if is_work && !self.turn_is_work {
            self.turn_is_work = true;
            fabric.busy_hosts += 1;
        }
        if self.turn.is_none() {
            let at = fabric.now + fabric.settings.reaction;
            self.turn = Some(at);
            fabric.queue.push(at, Event::Turn(self.id));
        }
    }

    /// Begins a turn. Returns false if no turn is scheduled for the current time.
    pub fn begin_turn(&mut self, fabric: &mut Fabric) -> bool {
        if self.turn != Some(fabric.now) {
            return false;
        }
        self.turn = None;
        if std::mem::take(&mut self.turn_is_work) {
            fabric.busy_hosts -= 1;
        }
        true
    }

    /// Begins to fire timers. Returns false if no timer is due at the current time.
    pub fn begin_timer(&mut self, fabric: &Fabric) -> bool {
        let is_due = self.timer == Some(fabric.now);
        if is_due {
            self.timer = None;
        }
        is_due
    }

    /// Switches the router off and forgets scheduled turns.
    pub fn switch_off(&mut self, fabric: &mut Fabric) {
        self.alive = [false; ProcessId::COUNT];
        self.kernel = None;
        self.turn = None;
        self.timer = None;
        if std::mem::take(&mut self.turn_is_work) {
            fabric.busy_hosts -= 1;
        }
    }

    /// Schedules a wake-up of the router at `at` of its own clock. The queue has at most one valid wake-up a router;
    /// an earlier deadline voids the previous event.
    pub fn set_timer(&mut self, fabric: &mut Fabric, at: Option<Instant>) {
        let Some(at) = at.map(|at| self.clock.global(at).max(fabric.now)) else { return };
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            fabric.queue.push(at, Event::Timer(self.id));
        }
    }
}
