//! The core against the simulated engine: whatever happens, when all is quiet the engine holds what is wanted.

mod backups;
mod interfaces;

use proptest::prelude::*;
use sluice_base::*;
use sluice_fea::sim::{SimEngine, SimRoute};
use sluice_fea::{Configuration, Drive, Effect, Engine, Fea, Input, LinkConfiguration, RouteTarget};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const TABLE: TableId = TableId::MAIN;

fn index(n: u32) -> InterfaceIndex {
    InterfaceIndex::new(n).unwrap()
}

/// Interface `n` has 10.n.0.1/24 and fd00:n::1/64.
fn link(n: u32) -> sluice_fea::engine::Link {
    sluice_fea::engine::Link {
        index: index(n),
        name: format!("eth{n}"),
        admin_up: true,
        running: true,
        loopback: false,
        point_to_point: false,
        multicast: true,
        mtu: 1500,
        mac: vec![2, 0, 0, 0, 0, n as u8],
    }
}

fn gateway(interface: u32, host: u32, v6: bool) -> IpAddr {
    let text = if v6 { format!("fd00:{interface}::{host}") } else { format!("10.{interface}.0.{host}") };
    text.parse().unwrap()
}

fn engine() -> SimEngine {
    let mut engine = SimEngine::new();
    for n in 1..=3 {
        engine.set_link(link(n));
        for (addr, prefix_len) in [(gateway(n, 1, false), 24), (gateway(n, 1, true), 64)] {
            engine.add_address(index(n), InterfaceAddress { addr, prefix_len, peer: None });
        }
    }
    engine
}

/// What the RIB would want, in a form that a test can draw.
#[derive(Clone, Debug, PartialEq)]
enum Way {
    Hops(Vec<(u32, u32, bool, u8)>),
    /// A primary next hop and a backup: interface and host of each.
    Backed([(u32, u32); 2]),
    Discard,
    Reject,
    OffLink,
}

impl Way {
    fn forwarding(&self) -> Forwarding {
        match self {
            Way::Discard => Forwarding::Discard,
            Way::Reject => Forwarding::Reject,
            Way::OffLink => Forwarding::one(NextHop::via_on("172.16.0.1".parse().unwrap(), index(1))),
            Way::Backed([primary, backup]) => {
                let hop = |(i, host)| NextHop::via_on(gateway(i, host, false), index(i));
                Forwarding::many([hop(*primary), hop(*backup).as_backup()]).unwrap()
            }
            Way::Hops(hops) => Forwarding::many(hops.iter().map(|(i, host, v6, weight)| NextHop {
                weight: *weight,
                ..NextHop::via_on(gateway(*i, *host, *v6), index(*i))
            }))
            .unwrap(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Group(u32, Way),
    Route(u8, Option<u32>),
    /// A group is repointed, and as many of its routes follow into another group of the same way.
    Follow(u32, u32, (u32, u32), usize),
    Link(u32, bool),
    OutsiderDeletes(u8),
    OutsiderSets(u8),
    OutsiderDeletesNextHop(usize),
    OutsiderReplacesNextHop(usize),
    OutsiderSwitchesForwarding(bool),
    Refuse(u8, bool),
    Overrun,
    RibRestarts,
    FeaRestarts,
    Quiet,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        6 => proptest::collection::vec((1..4u32, 2..5u32, any::<bool>(), 1..4u8), 1..4).prop_map(Way::Hops),
        3 => ((1..4u32, 2..5u32), (1..4u32, 2..5u32)).prop_map(|(a, b)| Way::Backed([a, b])),
        1 => Just(Way::Discard),
        1 => Just(Way::Reject),
        1 => Just(Way::OffLink),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u32, way()).prop_map(|(g, w)| Step::Group(g, w)),
        12 => (0..12u8, proptest::option::weighted(0.8, 0..6u32)).prop_map(|(p, g)| Step::Route(p, g)),
        4 => (0..6u32, 0..6u32, (1..4u32, 2..5u32), 1..4usize).prop_map(|(g, h, to, n)| Step::Follow(g, h, to, n)),
        3 => (1..4u32, any::<bool>()).prop_map(|(n, up)| Step::Link(n, up)),
        2 => (0..12u8).prop_map(Step::OutsiderDeletes),
        2 => (0..12u8).prop_map(Step::OutsiderSets),
        2 => any::<usize>().prop_map(Step::OutsiderDeletesNextHop),
        2 => any::<usize>().prop_map(Step::OutsiderReplacesNextHop),
        1 => any::<bool>().prop_map(Step::OutsiderSwitchesForwarding),
        1 => (0..12u8, any::<bool>()).prop_map(|(p, on)| Step::Refuse(p, on)),
        1 => Just(Step::Overrun),
        1 => Just(Step::RibRestarts),
        1 => Just(Step::FeaRestarts),
        4 => Just(Step::Quiet),
    ]
}

/// The RIB's side of the story, and the FEA under test.
struct World {
    now: Instant,
    drive: Drive<SimEngine>,
    effects: Vec<Effect>,
    groups: BTreeMap<u32, Way>,
    routes: BTreeMap<u8, u32>,
}

fn prefix(p: u8) -> Ipv4Prefix {
    format!("192.0.{p}.0/24").parse().unwrap()
}

impl World {
    fn new() -> Self {
        let drive = Drive::new(Fea::new(1), engine());
        let now = Instant::from_nanos(1);
        let mut world =
            World { now, drive, effects: Vec::new(), groups: BTreeMap::new(), routes: BTreeMap::new() };
        world.configure();
        world.quiet();
        world
    }

    /// The configuration, which every life of the FEA gets: IPv4 is forwarded.
    fn configure(&mut self) {
        let forwarding = BTreeMap::from([(Family::Ipv4, true)]);
        let configuration = sluice_fea::Configuration { forwarding, ..Default::default() };
        self.drive.handle(self.now, Input::Configure(configuration), &mut self.effects);
    }

    fn send(&mut self, batch: FibBatch<Ipv4Prefix>) {
        self.drive.handle(self.now, Input::UpdateIpv4(TABLE, batch), &mut self.effects);
    }

    fn group(&mut self, g: u32, way: Way) {
        let groups = vec![(GroupId(g), way.forwarding())];
        self.groups.insert(g, way);
        self.send(FibBatch { groups, ..FibBatch::default() });
    }

    fn route(&mut self, p: u8, group: Option<u32>) {
        let group = group.filter(|g| self.groups.contains_key(g));
        let route = FibRoute {
            prefix: prefix(p),
            group: group.map(GroupId),
            is_external: false,
            provenance: Provenance::new(1, 1),
        };
        let mut batch = FibBatch { routes: vec![route], ..FibBatch::default() };
        let before = match group {
            Some(g) => self.routes.insert(p, g),
            None => self.routes.remove(&p),
        };
        if let Some(g) = before.filter(|g| !self.routes.values().any(|h| h == g)) {
            self.groups.remove(&g);
            batch.unused.push(GroupId(g));
        }
        self.send(batch);
    }

    fn announce_all(&mut self) {
        self.drive.handle(self.now, Input::BeginResync(TABLE), &mut self.effects);
        let groups = self.groups.iter().map(|(g, w)| (GroupId(*g), w.forwarding())).collect();
        let route = |(p, g): (&u8, &u32)| FibRoute {
            prefix: prefix(*p),
            group: Some(GroupId(*g)),
            is_external: false,
            provenance: Provenance::NONE,
        };
        let routes = self.routes.iter().map(route).collect();
        self.send(FibBatch { groups, routes, unused: Vec::new() });
        self.drive.handle(self.now, Input::EndResync(TABLE), &mut self.effects);
    }

    /// Lets time pass until no repair waits any more, and all work is done.
    fn quiet(&mut self) {
        self.drive.quiesce(self.now, &mut self.effects);
        for _ in 0..64 {
            let Some(deadline) = self.drive.next_deadline() else { return };
            self.now = self.now.max(deadline);
            self.drive.on_deadline(self.now, &mut self.effects);
            self.drive.quiesce(self.now, &mut self.effects);
        }
        panic!("repairs never end");
    }

    fn step(&mut self, step: Step) {
        self.now = self.now + Duration::from_millis(1);
        let now = self.now;
        match step {
            Step::Group(g, way) => self.group(g, way),
            Step::Route(p, group) => self.route(p, group),
            Step::Follow(g, h, (interface, host), count) => {
                if g != h && self.groups.contains_key(&g) && !self.routes.values().any(|other| *other == h) {
                    self.group(g, hop(interface, host));
                    self.group(h, hop(interface, host));
                    let follow = |(p, group): (&u8, &u32)| (*group == g).then_some(*p);
                    let all: Vec<u8> = self.routes.iter().filter_map(follow).take(count).collect();
                    all.into_iter().for_each(|p| self.route(p, Some(h)));
                }
            }
            Step::Link(n, up) => {
                self.drive.engine().set_up(index(n), up);
                // Outages are noticed before the next batch, or not.
                if n != 2 {
                    self.drive.poll(now, &mut self.effects);
                }
            }
            Step::OutsiderDeletes(p) => self.drive.engine().outsider_deletes(TABLE, prefix(p).into()),
            Step::OutsiderSets(p) => self.drive.engine().outsider_sets(TABLE, prefix(p).into()),
            Step::OutsiderDeletesNextHop(n) => {
                let engine = self.drive.engine();
                let ids: Vec<_> = engine.members.keys().chain(engine.groups.keys()).copied().collect();
                if !ids.is_empty() {
                    engine.outsider_deletes_next_hop(ids[n % ids.len()]);
                }
            }
            Step::OutsiderReplacesNextHop(n) => {
                let engine = self.drive.engine();
                let ids: Vec<_> = engine.members.keys().chain(engine.groups.keys()).copied().collect();
                if !ids.is_empty() {
                    engine.outsider_replaces_next_hop(ids[n % ids.len()]);
                }
            }
            Step::OutsiderSwitchesForwarding(enabled) => {
                self.drive.engine().outsider_switches_forwarding(Family::Ipv4, enabled);
            }
            Step::Refuse(p, true) => drop(self.drive.engine().refuse.insert(prefix(p).into())),
            Step::Refuse(p, false) => drop(self.drive.engine().refuse.remove(&prefix(p).into())),
            Step::Overrun => self.drive.engine().overrun(),
            Step::RibRestarts => {
                // Groups get other numbers after a restart.
                self.groups = std::mem::take(&mut self.groups).into_iter().map(|(g, w)| (5 - g, w)).collect();
                self.routes.values_mut().for_each(|g| *g = 5 - *g);
                self.groups.retain(|g, _| self.routes.values().any(|h| h == g));
                self.announce_all();
            }
            Step::FeaRestarts => {
                let engine = self.drive.engine().clone();
                self.drive = Drive::new(Fea::new(2), engine);
                self.quiet();
                self.configure();
                self.announce_all();
            }
            Step::Quiet => self.check(),
        }
    }

    /// What is wanted, and possible as things are, is there and nothing else of ours.
    fn check(&mut self) {
        self.quiet();
        let engine = self.drive.engine().clone();
        let up = |n: u32| engine.links[&index(n)].0.admin_up;
        let mut expected = BTreeMap::new();
        for (p, g) in &self.routes {
            let key = (TABLE, IpPrefix::from(prefix(*p)));
            let hops: Vec<(IpAddr, u32, u8)> = match &self.groups[g] {
                Way::Reject => {
                    expected.insert(key, "unreachable".to_owned());
                    continue;
                }
                Way::Discard => {
                    expected.insert(key, "discard".to_owned());
                    continue;
                }
                Way::OffLink => continue,
                Way::Backed(ways) => {
                    let way = ways.iter().find(|(i, _)| up(*i));
                    way.map(|(i, host)| (gateway(*i, *host, false), *i, 1)).into_iter().collect()
                }
                way @ Way::Hops(_) => {
                    let forwarding = way.forwarding();
                    let hops = forwarding.next_hops().iter();
                    hops.map(|h| (h.gateway.unwrap(), h.interface.unwrap().number(), h.weight))
                        .filter(|(_, i, _)| up(*i))
                        .collect()
                }
            };
            if !hops.is_empty() {
                expected.insert(key, format!("{hops:?}"));
            }
        }
        let mut found = BTreeMap::new();
        for (key, route) in &engine.routes {
            let text = match route {
                SimRoute::Foreign => continue,
                SimRoute::Ours(RouteTarget::Unreachable) => "unreachable".to_owned(),
                SimRoute::Ours(RouteTarget::Group(id)) => describe(&engine, *id),
                SimRoute::Ours(RouteTarget::Other) => "other".to_owned(),
            };
            found.insert(*key, text);
        }
        for (key, text) in &expected {
            let foreign = engine.routes.get(key) == Some(&SimRoute::Foreign);
            if !foreign && !engine.refuse.contains(&key.1) && found.get(key) != Some(text) {
                // A refusal stays until something changes; the owner knows of it.
                assert!(
                    self.was_rejected(key.1) && !found.contains_key(key),
                    "{}: {:?} should be {text}",
                    key.1,
                    found.get(key)
                );
            }
        }
        for (key, text) in &found {
            assert!(
                expected.get(key) == Some(text) || engine.refuse.contains(&key.1),
                "{} has {text}, should be {:?}",
                key.1,
                expected.get(key)
            );
        }
        let used: BTreeSet<_> = engine
            .routes
            .values()
            .filter_map(|r| match r {
                SimRoute::Ours(RouteTarget::Group(id)) => Some(*id),
                _ => None,
            })
            .collect();
        assert!(used.iter().all(|id| engine.groups.contains_key(id)));
        let members = used.iter().flat_map(|id| &engine.groups[id]).map(|(member, _)| member);
        let foreign: Vec<_> = used.iter().chain(members).filter(|id| engine.foreign.contains(id)).collect();
        assert!(foreign.is_empty(), "routes forward by what another program put there: {foreign:?}");
        assert!(engine.forwards[&Family::Ipv4], "another program switched forwarding off");
        let total = self.drive.core().totals();
        assert!(total.idle);
    }

    fn was_rejected(&self, p: IpPrefix) -> bool {
        self.effects.iter().any(|e| matches!(e, Effect::Rejected { prefix, .. } if *prefix == p))
    }
}

fn describe(engine: &SimEngine, id: sluice_fea::NextHopId) -> String {
    let mut hops = Vec::new();
    for (member, weight) in &engine.groups[&id] {
        match engine.members[member] {
            sluice_fea::Member::Blackhole { .. } => return "discard".to_owned(),
            sluice_fea::Member::Via { gateway, interface } => {
                hops.push((gateway, interface.number(), *weight));
            }
            sluice_fea::Member::Direct { .. } => unreachable!("the test never asks for it"),
        }
    }
    hops.sort_unstable();
    format!("{hops:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.check();
    }
}

fn hop(interface: u32, host: u32) -> Way {
    Way::Hops(vec![(interface, host, false, 1)])
}

#[test]
fn a_group_change_is_one_operation() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    for p in 0..200 {
        world.route(p, Some(1));
    }
    let before = world.drive.engine().operations;
    world.group(1, hop(2, 2));
    world.quiet();
    // The new member, the group, and the old member's end.
    assert_eq!(world.drive.engine().operations - before, 3);
    world.check();
}

#[test]
fn restarts_touch_nothing() {
    let mut world = World::new();
    // Two groups that forward alike stay two.
    for g in 1..=3 {
        world.group(g, hop(1 + g / 2, 2));
    }
    world.group(4, Way::Reject);
    for p in 0..40 {
        world.route(p, Some(1 + u32::from(p % 4)));
    }
    let before = world.drive.engine().operations;
    world.step(Step::RibRestarts);
    world.quiet();
    assert_eq!(world.drive.engine().operations, before, "after a restart of the RIB");
    world.step(Step::FeaRestarts);
    world.quiet();
    // The switch for forwarding is written with every configuration.
    assert_eq!(world.drive.engine().operations, before + 1, "after a restart of the FEA");
    let resynced = world.effects.iter().filter(|e| matches!(e, Effect::Resynced { kept: 40, swept: 0, .. }));
    assert_eq!(resynced.count(), 2);
}

#[test]
fn what_is_not_announced_again_is_swept() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    for p in 0..10 {
        world.route(p, Some(1));
    }
    world.routes.retain(|p, _| *p < 3);
    world.step(Step::FeaRestarts);
    world.check();
    assert!(world.effects.iter().any(|e| matches!(e, Effect::Resynced { kept: 3, swept: 7, .. })));
    assert_eq!(world.drive.engine().routes.len(), 3);
}

/// The RIB lost routes while it was dead: the FEA, which knows them all as announced, sweeps those.
#[test]
fn what_a_restarted_rib_does_not_announce_is_swept() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    for p in 0..10 {
        world.route(p, Some(1));
    }
    world.routes.retain(|p, _| *p < 3);
    world.step(Step::RibRestarts);
    world.check();
    assert!(world.effects.iter().any(|e| matches!(e, Effect::Resynced { kept: 3, swept: 7, .. })));
    assert_eq!(world.drive.engine().routes.len(), 3);
}

/// Returns how many routes are wanted and how many of them are refused.
fn counts(world: &mut World) -> (usize, usize) {
    let tables = world.drive.core().totals().tables;
    let sum = |of: fn(&sluice_fea::Summary) -> usize| tables.iter().map(|(_, _, s)| of(s)).sum();
    (sum(|s| s.wanted), sum(|s| s.refused))
}

#[test]
fn refused_routes_are_counted_until_they_are_installed() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    world.group(2, Way::OffLink);
    for p in 0..6 {
        world.route(p, Some(1 + u32::from(p % 2)));
    }
    world.quiet();
    assert_eq!(counts(&mut world), (6, 3));
    world.group(2, hop(2, 2));
    world.quiet();
    assert_eq!(counts(&mut world), (6, 0));
    // The engine refuses to replace a route: the old one must not go on forwarding.
    world.drive.engine().refuse.insert(prefix(0).into());
    world.route(0, Some(2));
    world.quiet();
    assert_eq!(counts(&mut world), (6, 1));
    assert!(!world.drive.engine().routes.contains_key(&(TABLE, prefix(0).into())));
    let degraded = world.drive.core().totals().degraded();
    assert!(degraded.len() == 1 && degraded[0].contains("the kernel refuses"), "{degraded:?}");
    world.drive.engine().refuse.clear();
    world.route(0, None);
    world.quiet();
    assert_eq!(counts(&mut world), (5, 0));
}

#[test]
fn no_object_outlives_its_last_route() {
    let mut world = World::new();
    for g in 1..=3 {
        world.group(g, hop(g, 2));
    }
    for p in 0..9 {
        world.route(p, Some(1 + u32::from(p % 3)));
    }
    // Routes change their groups, which the groups that are left must not survive.
    for p in 0..9 {
        world.route(p, Some(1));
    }
    world.quiet();
    assert_eq!((world.drive.engine().groups.len(), world.drive.engine().members.len()), (1, 1));
    for p in 0..9 {
        world.route(p, None);
    }
    world.quiet();
    assert_eq!((world.drive.engine().groups.len(), world.drive.engine().members.len()), (0, 0));
    assert_eq!(world.drive.core().totals().nexthop_objects, 0);
}

/// A route and a group that were changed while notices were lost carry our mark: only their content shows the damage.
#[test]
fn damage_that_no_notice_named_is_repaired() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    world.group(2, Way::Hops(vec![(1, 2, false, 1), (2, 2, false, 1)]));
    world.route(1, Some(1));
    world.route(2, Some(2));
    world.check();
    let engine = world.drive.engine();
    engine.routes.insert((TABLE, prefix(1).into()), SimRoute::Ours(RouteTarget::Unreachable));
    let two = engine.groups.values_mut().find(|members| members.len() == 2).unwrap();
    two.pop();
    engine.overrun();
    world.check();
}

#[test]
fn every_refusal_reaches_the_owner() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    world.group(2, Way::OffLink);
    world.drive.engine().outsider_sets(TABLE, prefix(7).into());
    world.quiet();
    world.route(7, Some(1));
    for p in 20..40 {
        world.route(p, Some(2));
    }
    let reasons: Vec<(String, String)> = world
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Rejected { prefix, reason, .. } => Some((prefix.to_string(), reason.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(reasons[0], ("192.0.7.0/24".to_owned(), "File exists".to_owned()));
    assert_eq!(reasons.len(), 21);
    assert!(reasons[1..].iter().all(|(_, r)| r == "Nexthop has invalid gateway"));
    assert_eq!(world.drive.engine().routes[&(TABLE, prefix(7).into())], SimRoute::Foreign);
    // The outsider leaves; the route takes its place.
    world.drive.engine().outsider_deletes(TABLE, prefix(7).into());
    world.quiet();
    assert!(matches!(world.drive.engine().routes[&(TABLE, prefix(7).into())], SimRoute::Ours(_)));
}

#[test]
fn a_fight_does_not_burn_the_processor() {
    let mut world = World::new();
    world.group(1, hop(1, 2));
    world.route(1, Some(1));
    let before = world.drive.engine().operations;
    for _ in 0..10_000 {
        world.now = world.now + Duration::from_millis(1);
        world.drive.engine().outsider_deletes(TABLE, prefix(1).into());
        world.drive.poll(world.now, &mut world.effects);
        if world.drive.next_deadline().is_some_and(|d| d <= world.now) {
            world.drive.on_deadline(world.now, &mut world.effects);
        }
    }
    assert!(world.drive.engine().operations - before < 20);
    world.check();
}
