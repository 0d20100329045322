//! A large network from the first OPEN until rest.

use crate::host::Host;
use crate::network::{self, Network};
use crate::world::{SECOND, Settings, World};
use sluice_base::{Family, IpPrefix, Rng};
use std::time::Instant;

/// The content of a run.
pub struct Plan {
    /// The network, networks of routers included.
    pub network: Network,
    /// The seed of everything.
    pub seed: u64,
    /// The parameters of the run.
    pub settings: Settings,
    /// The longest virtual time, in seconds.
    pub until: u64,
    /// The virtual time within which every router is switched on, in nanoseconds.
    pub boot_spread: u64,
}

/// The results of the run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Summary {
    /// Routers.
    pub routers: usize,
    /// Links, each with a session.
    pub links: usize,
    /// Sessions that are up at both ends.
    pub sessions: usize,
    /// Number of originated prefixes.
    pub prefixes: usize,
    /// Routes in every table: prefixes with a best path.
    pub routes: usize,
    /// Routers that know every prefix.
    pub complete: usize,
    /// UPDATE messages received.
    pub updates: u64,
    /// True if the network came to rest.
    pub quiet: bool,
    /// Virtual seconds until the last event other than the passing of time.
    pub virtual_seconds: f64,
    /// Events delivered.
    pub events: u64,
    /// Events a second of real time.
    pub events_per_second: f64,
    /// Real seconds.
    pub seconds: f64,
    /// Most memory used, in octets.
    pub memory: u64,
    /// Fingerprint of the history.
    pub history: String,
}

/// Gives every router `count` prefixes of its own.
pub fn originate(network: &mut Network, count: u32) {
    for (id, node) in network.nodes.iter_mut().enumerate() {
        node.networks.extend((0..count).map(|n| IpPrefix::from(network::prefix_of(id as u32, n, count))));
    }
}

/// Runs a plan in a world that `prepare` may still change; returns the summary and the world.
pub fn run(plan: Plan, prepare: impl FnOnce(&mut World)) -> (Summary, World) {
    let start = Instant::now();
    let (routers, links) = (plan.network.nodes.len(), plan.network.links.len());
    let prefixes = plan.network.nodes.iter().map(|n| n.networks.len()).sum();
    let mut world = World::new(plan.network, plan.settings, plan.seed);
    prepare(&mut world);
    world.boot_all(plan.boot_spread);
    let quiet = world.run_to_rest(plan.until * SECOND, |world| world.established() == 2 * links);
    let seconds = start.elapsed().as_secs_f64();
    let events = world.fabric.history.events;
    let mut summary = Summary {
        routers,
        links,
        sessions: world.established() / 2,
        prefixes,
        routes: 0,
        complete: 0,
        updates: 0,
        quiet,
        virtual_seconds: world.last_work as f64 / SECOND as f64,
        events,
        events_per_second: events as f64 / seconds.max(1e-9),
        seconds,
        memory: peak_memory(),
        history: format!("{:016x}", world.fabric.history.hash()),
    };
    for bgp in world.hosts.iter().filter_map(Host::bgp) {
        let view = bgp.speaker.tables().view(Family::Ipv4);
        summary.routes += view.prefixes;
        summary.complete += usize::from(view.prefixes == prefixes);
        let neighbors = bgp.speaker.neighbors().filter_map(|a| bgp.speaker.neighbor(a));
        summary.updates += neighbors.map(|n| n.received.update).sum::<u64>();
    }
    (summary, world)
}

/// The peak memory of the process, in octets; 0 if the system does not report the peak.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Leaves prefixes to `count` routers, chosen by the seed.
pub fn thin(network: &mut Network, count: usize, seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut order: Vec<usize> = (0..network.nodes.len()).collect();
    for place in 0..count.min(order.len()) {
        let other = place + rng.below((order.len() - place) as u64) as usize;
        order.swap(place, other);
    }
    for node in order.into_iter().skip(count) {
        network.nodes[node].networks.clear();
    }
}
