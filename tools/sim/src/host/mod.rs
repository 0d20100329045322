//! A router: its kernel and its processes, each the real core with a shell of a few lines around it.
//!
//! The glue does what the shells do, in their order, and nothing else: messages between processes travel as events, so that any of
//! them can die alone. Where a shell has a rule of its own, the glue says whose it is.

mod bgp;
mod fea;
mod ipc;
mod rib;
mod statics;

pub use bgp::BgpProcess;
pub use fea::{FeaProcess, new_kernel};
pub use ipc::{Ipc, Message, Process};
pub use rib::RibProcess;
pub use statics::StaticProcess;

use crate::clock::Clock;
use crate::queue::Event;
use crate::tcp::EndRef;
use crate::world::Fabric;
use sluice_base::{Asn, Instant};
use sluice_bgp::speaker::Config;
use sluice_fea::sim::SimEngine;
use sluice_machine::Machine;
use sluice_static::route::StaticRoute;

/// How long a message between two processes of a router takes.
const IPC: u64 = 20_000;
/// How long the Finder takes to tell of a life or a death.
const FINDER: u64 = 1_000_000;

/// What all processes of a router see of it.
pub struct Base {
    /// Its number.
    pub id: u32,
    /// Its AS.
    pub asn: Asn,
    /// Its clock.
    pub clock: Clock,
    /// Its links, by number, and its side of each; the place is the number of the interface, less 1.
    pub links: Vec<(u32, u8)>,
    /// The number of each process's life, the dead ones' last.
    lives: [u32; Process::ALL.len()],
    alive: [bool; Process::ALL.len()],
    turn: Option<u64>,
    /// Whether the next turn is more than the passing of time.
    turn_is_work: bool,
    timer: Option<u64>,
}

impl Base {
    /// What the router's clock shows.
    pub fn now(&self, fabric: &Fabric) -> Instant {
        self.clock.local(fabric.now)
    }

    /// Sends a message to a process, if it lives.
    pub fn tell(&self, fabric: &mut Fabric, to: Process, message: Message) {
        self.tell_after(fabric, IPC, to, message);
    }

    fn tell_after(&self, fabric: &mut Fabric, after: u64, to: Process, message: Message) {
        if self.alive[to as usize] {
            let ipc = Ipc { to, life: self.lives[to as usize], message };
            fabric.queue.push(fabric.now + after, Event::Ipc(self.id, Box::new(ipc)));
        }
    }

    /// The number of a process's life.
    pub const fn life(&self, process: Process) -> u32 {
        self.lives[process as usize]
    }

    /// Whether a process lives.
    pub const fn is_alive(&self, process: Process) -> bool {
        self.alive[process as usize]
    }

    /// A seed for what a process draws in its present life.
    pub fn seed(&self, fabric: &Fabric, process: Process) -> u64 {
        let life = u64::from(self.lives[process as usize]);
        let who = u64::from(self.id) << 32 | life << 8 | process as u64;
        sluice_base::Rng::from_seed(fabric.seed ^ who.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next_u64()
    }

    /// Lets the processes have a turn soon; what comes until then is done together.
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

    /// A turn begins; whether it is one that was asked for.
    fn begin_turn(&mut self, fabric: &mut Fabric) -> bool {
        if self.turn != Some(fabric.now) {
            return false;
        }
        self.turn = None;
        if std::mem::take(&mut self.turn_is_work) {
            fabric.busy_hosts -= 1;
        }
        true
    }

    /// Forgets what was asked for: the router is off.
    fn rest(&mut self, fabric: &mut Fabric) {
        self.turn = None;
        self.timer = None;
        if std::mem::take(&mut self.turn_is_work) {
            fabric.busy_hosts -= 1;
        }
    }

    /// The router wants to be woken at `at` of its own clock. One event a router lies in the queue at most, but for those that an
    /// earlier deadline made void.
    fn set_timer(&mut self, fabric: &mut Fabric, at: Option<Instant>) {
        let Some(at) = at.map(|at| self.clock.global(at).max(fabric.now)) else { return };
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            fabric.queue.push(at, Event::Timer(self.id));
        }
    }
}

/// A router.
pub struct Host {
    /// What its processes see of it.
    pub base: Base,
    /// How BGP is configured, whether or not it runs.
    pub config: Config,
    /// The static routes, whether or not their process runs.
    pub static_routes: Vec<StaticRoute>,
    /// Its kernel, while no FEA has it in its hands.
    pub kernel: Option<SimEngine>,
    /// BGP.
    pub bgp: Option<Box<BgpProcess>>,
    /// The RIB.
    pub rib: Option<Box<RibProcess>>,
    /// The FEA.
    pub fea: Option<Box<FeaProcess>>,
    /// Static routes.
    pub statics: Option<Box<StaticProcess>>,
}

impl Host {
    /// A router that is switched off.
    pub fn new(id: u32, asn: Asn, clock: Clock, links: Vec<(u32, u8)>, config: Config) -> Self {
        let base = Base {
            id,
            asn,
            clock,
            links,
            lives: [0; Process::ALL.len()],
            alive: [false; Process::ALL.len()],
            turn: None,
            turn_is_work: false,
            timer: None,
        };
        Host {
            base,
            config,
            static_routes: Vec::new(),
            kernel: None,
            bgp: None,
            rib: None,
            fea: None,
            statics: None,
        }
    }

    /// Switches the router on: its kernel, then its processes in the manager's order.
    pub fn boot(&mut self, fabric: &mut Fabric) {
        if std::mem::replace(&mut fabric.up[self.base.id as usize], true) {
            return;
        }
        if fabric.settings.light {
            return self.start(fabric, Process::Bgp);
        }
        self.kernel = Some(new_kernel(&self.base, fabric));
        for process in Process::ALL {
            self.start(fabric, process);
        }
    }

    /// The power goes: nothing is left, and nobody is told.
    pub fn crash(&mut self, fabric: &mut Fabric) {
        fabric.up[self.base.id as usize] = false;
        if let Some(bgp) = self.bgp.take() {
            bgp.connections().for_each(|end| fabric.vanish(end));
        }
        (self.rib, self.fea, self.statics, self.kernel) = (None, None, None, None);
        self.base.alive = [false; Process::ALL.len()];
        self.base.rest(fabric);
    }

    /// Starts a process, if the router is on and the process is not there.
    pub fn start(&mut self, fabric: &mut Fabric, process: Process) {
        let at = process as usize;
        if !fabric.up[self.base.id as usize] || self.base.alive[at] {
            return;
        }
        self.base.alive[at] = true;
        self.base.lives[at] += 1;
        match process {
            Process::Fea => {
                let kernel = self.kernel.take().unwrap_or_default();
                self.fea = Some(Box::new(FeaProcess::new(&self.base, fabric, kernel)));
            }
            Process::Rib => self.rib = Some(Box::new(RibProcess::new(&self.base, fabric))),
            Process::Static => {
                let mut statics = Box::new(StaticProcess::new(&self.base));
                statics.configure(&self.base, fabric, self.static_routes.clone());
                self.statics = Some(statics);
            }
            Process::Bgp => {
                let mut bgp = Box::new(BgpProcess::new(&self.base, fabric));
                bgp.configure(&mut self.base, fabric, self.config.clone());
                self.bgp = Some(bgp);
            }
        }
        for other in Process::ALL.into_iter().filter(|p| *p != process && self.base.alive[*p as usize]) {
            let life = self.base.lives[other as usize];
            self.base.tell_after(fabric, FINDER, process, Message::Born(other, life));
            self.base.tell_after(fabric, FINDER, other, Message::Born(process, self.base.lives[at]));
        }
        self.base.wake(fabric, true);
    }

    /// A process dies of itself; the kernel closes its sockets and the Finder tells the others.
    pub fn kill(&mut self, fabric: &mut Fabric, process: Process) {
        let at = process as usize;
        if !self.base.alive[at] {
            return;
        }
        self.base.alive[at] = false;
        match process {
            Process::Fea => self.kernel = self.fea.take().map(|fea| fea.into_kernel()),
            Process::Rib => self.rib = None,
            Process::Static => self.statics = None,
            Process::Bgp => {
                if let Some(bgp) = self.bgp.take() {
                    bgp.connections().for_each(|end| fabric.close(end));
                }
            }
        }
        for other in Process::ALL {
            let message = Message::Died(process, self.base.lives[at]);
            self.base.tell_after(fabric, FINDER, other, message);
        }
    }

    /// A new configuration of BGP.
    pub fn configure(&mut self, fabric: &mut Fabric, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        if let Some(bgp) = &mut self.bgp {
            bgp.configure(&mut self.base, fabric, self.config.clone());
        }
    }

    /// An interface gets a carrier, or loses it.
    pub fn set_carrier(&mut self, fabric: &mut Fabric, link: u32, up: bool) {
        let kernel = match (&mut self.fea, &mut self.kernel) {
            (Some(fea), _) => fea.kernel(),
            (None, Some(kernel)) => kernel,
            (None, None) => return,
        };
        fea::set_carrier(kernel, &self.base, link, up);
        self.base.wake(fabric, true);
    }

    /// The kernel, wherever it is.
    pub fn look_at_kernel(&mut self) -> Option<&mut SimEngine> {
        match &mut self.fea {
            Some(fea) => Some(fea.kernel()),
            None => self.kernel.as_mut(),
        }
    }

    /// The processes have their turn.
    pub fn turn(&mut self, fabric: &mut Fabric) {
        if !self.base.begin_turn(fabric) {
            return;
        }
        if let Some(fea) = &mut self.fea {
            fea.turn(&mut self.base, fabric);
        }
        if let Some(rib) = &mut self.rib {
            rib.turn(&mut self.base, fabric);
        }
        if let Some(bgp) = &mut self.bgp {
            bgp.turn(&mut self.base, fabric);
        }
        self.note_deadline(fabric);
    }

    /// Timers may be due.
    pub fn timer(&mut self, fabric: &mut Fabric) {
        if self.base.timer != Some(fabric.now) {
            return;
        }
        self.base.timer = None;
        let now = self.base.now(fabric);
        if let Some(fea) = self.fea.as_mut().filter(|p| p.next_deadline().is_some_and(|at| at <= now)) {
            fea.on_deadline(&mut self.base, fabric);
        }
        if let Some(rib) = self.rib.as_mut().filter(|p| p.rib.next_deadline().is_some_and(|at| at <= now)) {
            rib.on_deadline(&mut self.base, fabric);
        }
        if !fabric.settings.light {
            // The processes' own waits are met in a turn.
            self.base.wake(fabric, false);
        }
        if let Some(bgp) = self.bgp.as_mut().filter(|p| p.speaker.next_deadline().is_some_and(|at| at <= now))
        {
            bgp.on_deadline(&mut self.base, fabric);
        }
        self.note_deadline(fabric);
    }

    fn note_deadline(&mut self, fabric: &mut Fabric) {
        let fea = self.fea.as_ref().and_then(|p| p.next_deadline());
        let now = self.base.now(fabric);
        let rib = self.rib.as_ref().and_then(|p| p.next_deadline(now));
        let bgp = self.bgp.as_ref().and_then(|p| p.next_deadline(now));
        let at = [fea, rib, bgp].into_iter().flatten().min();
        self.base.set_timer(fabric, at);
    }

    /// A message between processes arrives.
    pub fn ipc(&mut self, fabric: &mut Fabric, ipc: Ipc) {
        let at = ipc.to as usize;
        if !self.base.alive[at] || self.base.lives[at] != ipc.life {
            return;
        }
        let (base, message) = (&mut self.base, ipc.message);
        let (id, to) = (base.id, ipc.to);
        fabric.history.note(fabric.now, id, 16 + at as u8, || format!("{} hears {message:?}", to.name()));
        match to {
            Process::Fea => {
                if let Some(fea) = &mut self.fea {
                    fea.message(base, fabric, message);
                }
            }
            Process::Rib => {
                if let Some(rib) = &mut self.rib {
                    rib.message(base, fabric, message);
                }
            }
            Process::Static => {
                if let Some(statics) = &mut self.statics {
                    statics.message(base, fabric, message);
                }
            }
            Process::Bgp => {
                if let Some(bgp) = &mut self.bgp {
                    bgp.message(base, fabric, message);
                }
            }
        }
        base.wake(fabric, true);
    }

    /// Somebody connects.
    pub fn asked(&mut self, fabric: &mut Fabric, end: EndRef) {
        match &mut self.bgp {
            Some(bgp) => bgp.asked(&mut self.base, fabric, end),
            None => fabric.reject(end),
        }
    }

    /// A connection that was asked for is there.
    pub fn connected(&mut self, fabric: &mut Fabric, end: EndRef) {
        if let Some(bgp) = &mut self.bgp {
            bgp.connected(&mut self.base, fabric, end);
        }
    }

    /// There is something to read, or the end of it.
    pub fn readable(&mut self, fabric: &mut Fabric, end: EndRef, is_work: bool) {
        if let Some(bgp) = &mut self.bgp {
            bgp.readable(fabric, end);
            self.base.wake(fabric, is_work);
        }
    }

    /// A connection takes octets again.
    pub fn writable(&mut self, fabric: &mut Fabric, end: EndRef) {
        if let Some(bgp) = &mut self.bgp {
            bgp.writable(end);
            self.base.wake(fabric, true);
        }
    }
}

/// This side's addresses of a session with the neighbour at `address`.
fn network_endpoints(fabric: &Fabric, address: std::net::IpAddr) -> sluice_bgp::endpoints::Endpoints {
    use sluice_bgp::endpoints::Endpoints;
    let Some((link, side)) = crate::network::place(address) else { return Endpoints::new(address) };
    let mut endpoints = Endpoints::new(crate::network::ipv4(link, 1 - side).into());
    if fabric.settings.ipv6 {
        endpoints.ipv6 = Some(crate::network::ipv6(link, 1 - side));
    }
    endpoints
}
