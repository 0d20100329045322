//! The router: the FEA's core with the kernel, or with the kernel and the fast path, in this process.

use crate::network::{self, OUT, interface};
use anyhow::{Result, ensure};
use sluice_base::*;
use sluice_bpf::Pins;
use sluice_fea::engine::{AuthorityRoutes, EngineSet};
use sluice_fea::xdp::XdpEngine;
use sluice_fea::{Drive, Effect, Fea, Input};
use sluice_fea_process::linux::LinuxEngine;
use sluice_fea_process::xdp::chain::Chain;
use sluice_fea_process::xdp::fast_path::FastPath;
use sluice_fea_process::xdp::watch::{Sighting, Watch};
use sluice_lab::Lab;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{self, Duration};
use tokio::sync::mpsc;

/// The engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engines {
    /// The kernel alone.
    Kernel,
    /// XDP in front of the kernel.
    Xdp,
}

impl Engines {
    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Engines::Kernel => "kernel",
            Engines::Xdp => "XDP",
        }
    }
}

/// Routes in a batch from the RIB.
const FROM_RIB: usize = 4096;

/// The group of every route of [`Router::load`].
const GROUP: GroupId = GroupId(1);

/// Returns the group of routes by one way.
fn group_of(way: usize) -> GroupId {
    GroupId(GROUP.0 + 1 + way as u32)
}

/// The group of the first end of [`Router::set_ends`], behind the groups of the ways.
const ENDS: GroupId = GroupId(100);

/// The longest wait for the fast path.
const PATIENCE: Duration = Duration::from_secs(300);

/// The fast path with what feeds it.
struct Fast {
    // Dropped first: its thread ends when nobody takes its sightings.
    sightings: mpsc::Receiver<Sighting>,
    _watch: Watch,
    path: FastPath,
    folder: PathBuf,
}

/// A router. Made and used on a thread inside the node `r`.
pub struct Router {
    drive: Drive<EngineSet>,
    effects: Vec<Effect>,
    ways: Vec<Interface>,
    fast: Option<Fast>,
    start: time::Instant,
}

/// An outgoing interface of the router.
#[derive(Clone, Copy)]
struct Interface {
    index: InterfaceIndex,
    number: u8,
}

impl Router {
    /// Starts a router with two ways. `pins` is a mounted bpffs.
    pub fn start(lab: &Lab, engines: Engines, pins: &Path) -> Result<Self> {
        Router::start_wide(lab, engines, OUT.len(), pins)
    }

    /// Starts a router with `count` ways, those of the network. `pins` is a mounted bpffs.
    pub fn start_wide(lab: &Lab, engines: Engines, count: usize, pins: &Path) -> Result<Self> {
        let mut ways = Vec::new();
        for ((name, _, _), number) in network::WAYS.into_iter().take(count).zip(1..) {
            ways.push(Interface { index: interface(lab, "r", name)?.0, number });
        }
        let drive = Drive::new(Fea::new(1), EngineSet::new(Box::new(LinuxEngine::open()?)));
        let mut router = Router { drive, effects: Vec::new(), ways, fast: None, start: time::Instant::now() };
        router.quiesce();
        if engines == Engines::Xdp {
            let folder = pins.to_owned();
            let mut path = FastPath::open(&folder, 1)?;
            let (watch, sightings) = Watch::start()?;
            for interface in router.drive.core().interfaces().unwrap_or_default() {
                path.interface_event(&InterfaceEvent::Changed(interface));
            }
            let engine = XdpEngine::new(Rc::clone(path.forwarder()));
            router.drive.engine().join(Box::new(engine));
            router.fast = Some(Fast { sightings, _watch: watch, path, folder });
        }
        Ok(router)
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn quiesce(&mut self) {
        let now = self.now();
        self.drive.quiesce(now, &mut self.effects);
        self.effects.clear();
    }

    /// Takes in what the watch saw, and does what follows.
    pub fn pump(&mut self) -> Result<()> {
        self.quiesce();
        let Some(fast) = &mut self.fast else { return Ok(()) };
        while let Ok(sighting) = fast.sightings.try_recv() {
            fast.path.sighted(sighting)?;
        }
        if let Some(grace) = fast.path.settle(true)? {
            sluice_bpf::run::wait_for_runs()?;
            fast.path.end_grace(grace);
        }
        Ok(())
    }

    /// Returns the forwarding by the node at the end of a way, whose addresses end in 2.
    fn forwarding(&self, way: usize, family: Family) -> Forwarding {
        self.by_host(way, 2, family)
    }

    /// Returns the forwarding by the gateway on a way whose addresses end in `host`.
    fn by_host(&self, way: usize, host: u8, family: Family) -> Forwarding {
        let Interface { index, number } = self.ways[way];
        let gateway = match family {
            Family::Ipv4 => std::net::Ipv4Addr::new(10, 0, number, host).into(),
            Family::Ipv6 => std::net::Ipv6Addr::new(0xfd00, number.into(), 0, 0, 0, 0, 0, host.into()).into(),
        };
        Forwarding::one(NextHop::via_on(gateway, index))
    }

    /// Returns the fast path, if the router has one.
    pub fn fast_path(&self) -> Option<&FastPath> {
        self.fast.as_ref().map(|fast| &fast.path)
    }

    /// Sets the ends of routes for [`Router::announce_by`]: gateways whose addresses end in `hosts`, on the first way if even; after the
    /// gateways, an end that drops packets and an end that answers "unreachable".
    pub fn set_ends(&mut self, hosts: std::ops::Range<u8>) {
        let mut ends: Vec<_> = Vec::new();
        for host in hosts {
            let way = usize::from(host) % self.ways.len();
            ends.push(Family::ALL.map(|family| self.by_host(way, host, family)));
        }
        ends.push(Family::ALL.map(|_| Forwarding::Discard));
        ends.push(Family::ALL.map(|_| Forwarding::Reject));
        for (number, forwardings) in (ENDS.0..).zip(ends) {
            self.announce_group(GroupId(number), forwardings);
        }
    }

    /// Announces prefixes by the end with a number of [`Router::set_ends`].
    pub fn announce_by(&mut self, prefixes: &[IpPrefix], end: u32) {
        self.update(prefixes, Some(GroupId(ENDS.0 + end)));
    }

    /// Announces the prefixes of both families by the first way.
    pub fn load(&mut self, prefixes: &[IpPrefix]) -> Result<()> {
        self.point_to(0);
        self.change(prefixes, true);
        self.pump()
    }

    /// Announces the prefixes by a way each, the ways in turn.
    pub fn load_in_turn(&mut self, prefixes: &[IpPrefix]) -> Result<()> {
        let count = self.ways.len();
        for way in 0..count {
            self.set_group(group_of(way), way);
            let own: Vec<IpPrefix> = prefixes.iter().skip(way).step_by(count).copied().collect();
            self.move_to(&own, way);
        }
        self.pump()
    }

    /// Announces the prefixes by a way, in the place of an earlier one. [`Router::load_in_turn`] comes first.
    pub fn move_to(&mut self, prefixes: &[IpPrefix], way: usize) {
        self.update(prefixes, (way < self.ways.len()).then(|| group_of(way)));
    }

    /// Announces the prefixes, or withdraws them.
    pub fn change(&mut self, prefixes: &[IpPrefix], announced: bool) {
        self.update(prefixes, announced.then_some(GROUP));
    }

    fn update(&mut self, prefixes: &[IpPrefix], group: Option<GroupId>) {
        let ipv4: Vec<Ipv4Prefix> = prefixes.iter().filter_map(|p| (*p).try_into().ok()).collect();
        let ipv6: Vec<Ipv6Prefix> = prefixes.iter().filter_map(|p| (*p).try_into().ok()).collect();
        let now = self.now();
        for batch in ipv4.chunks(FROM_RIB) {
            let input = Input::UpdateIpv4(
                TableId::MAIN,
                FibBatch { routes: routes(batch, group), ..FibBatch::default() },
            );
            self.drive.handle(now, input, &mut self.effects);
        }
        for batch in ipv6.chunks(FROM_RIB) {
            let input = Input::UpdateIpv6(
                TableId::MAIN,
                FibBatch { routes: routes(batch, group), ..FibBatch::default() },
            );
            self.drive.handle(now, input, &mut self.effects);
        }
        self.effects.clear();
    }

    /// Takes the routes, which are of an external origin, out of the kernel.
    pub fn leave_kernel(&mut self) {
        let now = self.now();
        let input = Input::SelectRoutes(AuthorityRoutes::Internal(Vec::new()));
        self.drive.handle(now, input, &mut self.effects);
        self.quiesce();
    }

    /// Points the group of all routes to a way.
    pub fn point_to(&mut self, way: usize) {
        self.set_group(GROUP, way);
    }

    fn set_group(&mut self, group: GroupId, way: usize) {
        self.announce_group(group, Family::ALL.map(|family| self.forwarding(way, family)));
    }

    /// Announces a group of both families.
    fn announce_group(&mut self, group: GroupId, [ipv4, ipv6]: [Forwarding; 2]) {
        let now = self.now();
        let batch = |forwarding| vec![(group, forwarding)];
        let input = Input::UpdateIpv4(TableId::MAIN, FibBatch { groups: batch(ipv4), ..FibBatch::default() });
        self.drive.handle(now, input, &mut self.effects);
        let input = Input::UpdateIpv6(TableId::MAIN, FibBatch { groups: batch(ipv6), ..FibBatch::default() });
        self.drive.handle(now, input, &mut self.effects);
    }

    /// Waits until the fast path forwards and every next hop is resolved.
    pub fn settle(&mut self) -> Result<()> {
        let deadline = time::Instant::now() + PATIENCE;
        loop {
            self.pump()?;
            let is_ready = self.fast.as_ref().is_none_or(|fast| {
                fast.path.is_live() && fast.path.forwarder().borrow().counts().unresolved == 0
            });
            if is_ready {
                return Ok(());
            }
            ensure!(time::Instant::now() < deadline, "the fast path never forwarded");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(fast) = self.fast.take() {
            let folder = fast.folder.clone();
            drop(fast);
            let _ = Chain::remove(&folder);
        }
    }
}

fn routes<P: Copy>(prefixes: &[P], group: Option<GroupId>) -> Vec<FibRoute<P>> {
    prefixes
        .iter()
        .map(|prefix| FibRoute { prefix: *prefix, group, is_external: false, provenance: Provenance::NONE })
        .collect()
}

/// Mounts a bpffs for the pins of the benchmark's routers.
pub fn mount_pins(folder: &Path) -> Result<()> {
    Ok(Pins::mount(folder)?)
}
