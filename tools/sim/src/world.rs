//! The world: virtual time, routers, links, and future events. A single seed, a single order, no threads.

use crate::clock::Clock;
use crate::fabric::connections::Connections;
use crate::fabric::history::History;
use crate::fabric::link::Link;
use crate::fabric::queue::{Event, Queue};
use crate::fabric::tcp::Arrived;
pub use crate::fabric::{Fabric, MILLISECOND, SECOND, Settings, Tap};
use crate::host::Host;
use crate::network::{self, Network};
use crate::scenario::Step;
use sluice_base::{AnyPrefix, IpPrefix, Metric, Rng, Tags};
use sluice_bgp::family::{Families, FamilyIndex};
use sluice_bgp::session::State;
use sluice_bgp::speaker::{Config, DefaultPolicy, NeighborConfig};
use sluice_machine::Outbox;
use sluice_static::{RouteKind, StaticNextHop, StaticRoute};
use std::net::IpAddr;

/// The world.
pub struct World {
    /// The shared parts, without the routers.
    pub fabric: Fabric,
    /// The routers.
    pub hosts: Vec<Host>,
    /// The time when anything but time last happened.
    pub last_work: u64,
    steps: Vec<Step>,
    network: Network,
}

impl World {
    /// A network with every router switched off.
    pub fn new(network: Network, settings: Settings, seed: u64) -> Self {
        let mut places = vec![Vec::new(); network.nodes.len()];
        for (number, link) in network.links.iter().enumerate() {
            places[link.a as usize].push((number as u32, 0));
            places[link.b as usize].push((number as u32, 1));
        }
        let hosts = places.into_iter().enumerate().map(|(id, links)| {
            let node = &network.nodes[id];
            let neighbors =
                links.iter().map(|(link, side)| neighbor(&network, *link, usize::from(*side), &settings));
            let config = Config {
                neighbors: neighbors.collect(),
                networks: node.networks.iter().copied().map(AnyPrefix::from).collect(),
                ..Config::default()
            };
            let clock = Clock::new(node.clock_offset, node.clock_ppm);
            let mut host = Host::new(id as u32, network::asn(node), clock, links);
            host.configuration.change(|bgp: &mut Config| *bgp = config);
            let routes = static_routes(&network, id as u32, &settings);
            host.configuration.change(|known: &mut Vec<StaticRoute>| *known = routes);
            host
        });
        let hosts: Vec<Host> = hosts.collect();
        let fabric = Fabric {
            now: 0,
            queue: Queue::default(),
            links: network.links.iter().map(Link::new).collect(),
            connections: Connections::default(),
            history: History::default(),
            rng: Rng::from_seed(seed),
            seed,
            settings,
            up: vec![false; hosts.len()],
            busy_hosts: 0,
            wrong: Vec::new(),
            outbox: Outbox::new(),
            ends: network.links.iter().map(|l| [l.a, l.b]).collect(),
            asns: network.nodes.iter().map(network::asn).collect(),
            rewrites: network.links.iter().map(|l| l.rewrites).collect(),
            tap: None,
        };
        World { fabric, hosts, last_work: 0, steps: Vec::new(), network }
    }

    /// Shows `tap` the input of every router from now on.
    pub fn tap(&mut self, tap: Tap) {
        self.fabric.tap = Some(tap);
    }

    /// Switches the routers on, in sequence, within `spread` nanoseconds.
    pub fn boot_all(&mut self, spread: u64) {
        for id in 0..self.hosts.len() as u32 {
            let at = self.fabric.now + self.fabric.rng.below(spread.max(1));
            let step = Step { at_ms: at / MILLISECOND, what: crate::scenario::What::Boot { node: id } };
            self.schedule_at(at, step);
        }
    }

    /// Schedules a step of a scenario at the step's time.
    pub fn schedule(&mut self, step: Step) {
        self.schedule_at(step.at_ms * MILLISECOND, step);
    }

    fn schedule_at(&mut self, at: u64, step: Step) {
        self.fabric.queue.push(at.max(self.fabric.now), Event::Step(self.steps.len() as u32));
        self.steps.push(step);
    }

    /// Returns true if nothing but time passes: no message but KEEPALIVEs is under way, and no router has work.
    pub fn is_quiet(&self) -> bool {
        !self.fabric.queue.has_work() && self.fabric.busy_hosts == 0
    }

    /// Handles the next event, if it is before `end`; returns true if an event was handled.
    pub fn step(&mut self, end: u64) -> bool {
        if self.fabric.queue.next_at().is_none_or(|at| at > end) {
            self.fabric.now = self.fabric.now.max(end);
            return false;
        }
        let Some((at, event)) = self.fabric.queue.pop() else { return false };
        self.fabric.now = at;
        self.fabric.history.events += 1;
        self.happen(event);
        if !self.is_quiet() {
            self.last_work = at;
        }
        true
    }

    fn happen(&mut self, event: Event) {
        let World { fabric, hosts, .. } = self;
        match event {
            Event::Turn(host) => hosts[host as usize].turn(fabric),
            Event::Timer(host) => hosts[host as usize].timer(fabric),
            Event::Ipc(host, ipc) => hosts[host as usize].ipc(fabric, *ipc),
            Event::Step(number) => self.take_step(number),
            arrival => match fabric.arrive(arrival) {
                Arrived::Nothing => {}
                Arrived::Readable(host, end, is_work) => {
                    hosts[host as usize].readable(fabric, end, is_work);
                }
                Arrived::Asked(end) => {
                    let host = fabric.connections.end_mut(end).map_or(0, |e| e.host);
                    if fabric.is_host_up(host) {
                        hosts[host as usize].asked(fabric, end);
                    } else {
                        fabric.vanish(end);
                    }
                }
                Arrived::Connected(host, end) => hosts[host as usize].connected(fabric, end),
                Arrived::Writable(host, end) => hosts[host as usize].writable(fabric, end),
            },
        }
    }

    fn take_step(&mut self, number: u32) {
        let what = self.steps[number as usize].what.clone();
        let now = self.fabric.now;
        self.fabric.history.mix(u64::from(number));
        self.fabric.history.line(now, format_args!("step {what:?}"));
        what.happen(self);
        self.last_work = now;
    }

    /// Runs until `end`.
    pub fn run_until(&mut self, end: u64) {
        while self.step(end) {}
    }

    /// Runs until `is_done` confirms rest, or until `end`; returns true at rest. `is_done` is called only while no
    /// event is under way, and again after each later event.
    pub fn run_to_rest(&mut self, end: u64, mut is_done: impl FnMut(&mut World) -> bool) -> bool {
        loop {
            if self.is_quiet() && is_done(self) {
                return true;
            }
            if !self.step(end) {
                return false;
            }
        }
    }

    /// Sessions that are up, counted at both ends.
    pub fn established(&self) -> usize {
        self.hosts.iter().filter_map(Host::bgp).map(|b| b.speaker.summary().established).sum()
    }

    /// The network's description.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The neighbor over a link, from the description.
    pub fn original_neighbor(&self, link: u32, side: usize) -> Option<NeighborConfig> {
        ((link as usize) < self.network.links.len())
            .then(|| neighbor(&self.network, link, side, &self.fabric.settings))
    }

    /// Returns true if a session between the ends of a link is as it should be: wanted by both, possible, and up; or else down.
    pub fn can_be_up(&self, link: u32) -> bool {
        let wants = |side: usize| {
            let host = &self.hosts[self.fabric.host_at(link, side) as usize];
            let address: IpAddr = network::ipv4(link, 1 - side).into();
            let config = host.configuration.get::<Config>();
            let config = config.and_then(|c| c.neighbors.iter().find(|n| n.address == address));
            host.bgp().is_some() && config.is_some_and(|n| n.enabled)
        };
        self.fabric.links[link as usize].is_up() && wants(0) && wants(1)
    }

    /// The state of a link's session at a side.
    pub fn state(&self, link: u32, side: usize) -> State {
        let host = &self.hosts[self.fabric.host_at(link, side) as usize];
        let neighbor = host.bgp().and_then(|b| b.speaker.neighbor(network::ipv4(link, 1 - side).into()));
        neighbor.map_or(State::Idle, |n| n.state)
    }
}

/// The neighbor over a link, as configured on its side.
pub fn neighbor(network: &Network, link: u32, side: usize, settings: &Settings) -> NeighborConfig {
    let description = &network.links[link as usize];
    let peer = &network.nodes[description.end(1 - side) as usize];
    let mut config = NeighborConfig::new(network::ipv4(link, 1 - side).into(), network::asn(peer));
    // Neighbors do not always agree.
    config.hold_time = settings.hold_time + 3 * (description.end(side) % 2) as u16;
    let is_offered = |family| match family {
        FamilyIndex::IPV4 => true,
        FamilyIndex::IPV6 => settings.ipv6,
        _ => false,
    };
    config.offer(Families::of(is_offered));
    config.next_hop_self = network.nodes[description.end(side) as usize].next_hop_self;
    config.relationship = description.neighbor_is(side);
    config.default_policy = Some(DefaultPolicy::Accept);
    config
}

/// A router's static routes to the remaining links of its internal neighbors.
fn static_routes(network: &Network, node: u32, settings: &Settings) -> Vec<StaticRoute> {
    let mut routes = Vec::new();
    if settings.light || !network.nodes[node as usize].static_routes {
        return routes;
    }
    for (inner, side) in network.links_of(node).filter(|(l, _)| network.is_internal(*l)) {
        let neighbor = network.links[inner as usize].end(1 - side);
        for (outer, _) in network.links_of(neighbor).filter(|(l, _)| !network.is_internal(*l)) {
            let mut add = |prefix: IpPrefix, gateway: IpAddr| {
                let hop = StaticNextHop { gateway: Some(gateway.into()), interface: None, weight: 1 };
                let kind = RouteKind::NextHops(vec![hop]);
                routes.push(StaticRoute {
                    prefix: prefix.into(),
                    kind,
                    distance: None,
                    metric: Metric(0),
                    tags: Tags::NONE,
                });
            };
            add(network::subnet_ipv4(outer).into(), network::ipv4(inner, 1 - side).into());
            if settings.ipv6 {
                add(network::subnet_ipv6(outer).into(), network::ipv6(inner, 1 - side).into());
            }
        }
    }
    routes
}
