//! Engines that join beside the authority end with what the authority holds, whatever happens meanwhile.

mod selection;

use crate::shared::{ALL, Shared, UNICAST, index};
use proptest::prelude::*;
use sluice_base::*;
use sluice_fea::engine::{Capability, Stage};
use sluice_fea::{
    AuthorityRoutes, Configuration, Drive, Effect, EngineSet, Event, Fea, Input, LinkConfiguration,
    RefusalKind,
};
use sluice_machine::{Budget, Progress};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const HOST: &[Capability] = &[Capability::Host];
const TABLES: [TableId; 2] = [TableId::MAIN, TableId(100)];

fn prefix(p: u8) -> Ipv4Prefix {
    format!("192.0.{p}.0/24").parse().unwrap()
}

fn prefix_v6(p: u8) -> Ipv6Prefix {
    format!("2001:db8:{p:x}::/48").parse().unwrap()
}

/// The forwarding by next hops: interface and host of each.
fn hops(hops: &[(u32, u8)]) -> Forwarding {
    let hop = |(n, host): &(u32, u8)| NextHop::via_on([10, 0, *n as u8 - 1, *host].into(), index(*n));
    Forwarding::many(hops.iter().map(hop)).unwrap()
}

fn address(n: u8) -> InterfaceAddress {
    InterfaceAddress { addr: [198, 51, 100, n].into(), prefix_len: 32, peer: None }
}

fn configuration(mtu: u32, addresses: impl IntoIterator<Item = u8>) -> Configuration {
    let addresses = addresses.into_iter().map(address).collect();
    let link = LinkConfiguration { enabled: None, mtu: Some(mtu), addresses };
    Configuration {
        interfaces: [("eth1".into(), link)].into(),
        forwarding: [(Family::Ipv4, true), (Family::Ipv6, mtu > 1300)].into(),
    }
}

fn route<P>(prefix: P, to: Option<(GroupId, bool)>) -> FibRoute<P> {
    let (group, is_external) = (to.map(|(group, _)| group), to.is_some_and(|(_, is_external)| is_external));
    FibRoute { prefix, group, is_external, provenance: Provenance::NONE }
}

struct World {
    now: Instant,
    drive: Drive<EngineSet>,
    effects: Vec<Effect>,
    authority: Shared,
    beside: Vec<Shared>,
    /// The groups that were announced.
    groups: BTreeMap<(TableId, bool, u32), Forwarding>,
    /// The routes that were announced: their groups, and true for an external route.
    routes: BTreeMap<(TableId, IpPrefix), (u32, bool)>,
    /// The routes that the authority takes.
    selection: AuthorityRoutes,
}

impl World {
    fn of(authority: Shared, beside: Vec<Shared>) -> Self {
        let mut set = EngineSet::new(Box::new(authority.clone()));
        for engine in &beside {
            set = set.with(Box::new(engine.clone()));
        }
        let drive = Drive::new(Fea::new(1), set);
        let (now, effects, selection) = (Instant::ZERO, Vec::new(), AuthorityRoutes::All);
        let (groups, routes) = (BTreeMap::new(), BTreeMap::new());
        World { now, drive, effects, authority, beside, groups, routes, selection }
    }

    /// The first snapshot is over.
    fn new() -> Self {
        let mut world = World::of(Shared::new(ALL), Vec::new());
        world.drive.quiesce(world.now, &mut world.effects);
        world
    }

    fn input(&mut self, input: Input) {
        self.drive.handle(self.now, input, &mut self.effects);
    }

    /// An engine joins whose links are as the authority's, and which refuses routes of these prefixes.
    fn join(&mut self, capabilities: &'static [Capability], refuse: &[u8]) -> Shared {
        let mut engine = Shared::new(capabilities);
        engine.forgotten = Some(Rc::default());
        for n in [1, 2] {
            let up = self.authority.engine.borrow().links[&index(n)].0.admin_up;
            engine.engine.borrow_mut().set_up(index(n), up);
        }
        let refused = refuse.iter().flat_map(|p| [IpPrefix::from(prefix(*p)), prefix_v6(*p).into()]);
        engine.engine.borrow_mut().refuse.extend(refused);
        self.drive.engine().join(Box::new(engine.clone()));
        self.beside.push(engine.clone());
        engine
    }

    fn slice(&mut self, budget: u32) -> Progress {
        self.drive.run_slice(self.now, Budget(budget), &mut self.effects)
    }

    fn group(&mut self, table: TableId, is_v6: bool, group: u32, forwarding: Forwarding) {
        self.groups.insert((table, is_v6, group), forwarding.clone());
        self.update(table, is_v6, vec![(GroupId(group), forwarding)], Vec::new());
    }

    /// Routes change their group, if that was announced, or go.
    fn routes(&mut self, table: TableId, is_v6: bool, group: Option<u32>, prefixes: &[u8]) {
        self.announce(table, is_v6, group.map(|group| (group, false)), prefixes);
    }

    /// Routes change to a group, and are external or not.
    fn announce(&mut self, table: TableId, is_v6: bool, to: Option<(u32, bool)>, prefixes: &[u8]) {
        if to.is_some_and(|(group, _)| !self.groups.contains_key(&(table, is_v6, group))) {
            return;
        }
        for p in prefixes {
            let key = (table, if is_v6 { prefix_v6(*p).into() } else { prefix(*p).into() });
            match to {
                Some(to) => drop(self.routes.insert(key, to)),
                None => drop(self.routes.remove(&key)),
            }
        }
        let to = to.map(|(group, is_external)| (GroupId(group), is_external));
        self.update(table, is_v6, Vec::new(), prefixes.iter().map(|p| (*p, to)).collect());
    }

    fn update(
        &mut self,
        table: TableId,
        is_v6: bool,
        groups: Vec<(GroupId, Forwarding)>,
        routes: Vec<(u8, Option<(GroupId, bool)>)>,
    ) {
        let unused = Vec::new();
        self.input(match is_v6 {
            false => {
                let route = |(p, to)| route(prefix(p), to);
                let routes = routes.into_iter().map(route).collect();
                Input::UpdateIpv4(table, FibBatch { groups, routes, unused })
            }
            true => {
                let route = |(p, to)| route(prefix_v6(p), to);
                let routes = routes.into_iter().map(route).collect();
                Input::UpdateIpv6(table, FibBatch { groups, routes, unused })
            }
        });
    }

    /// A link goes up or down at the host: each engine knows.
    fn link(&mut self, n: u32, up: bool) {
        for engine in self.beside.iter().chain([&self.authority]) {
            engine.engine.borrow_mut().set_up(index(n), up);
        }
    }

    fn select(&mut self, selection: AuthorityRoutes) {
        self.selection = selection.clone();
        self.input(Input::SelectRoutes(selection));
    }

    fn full(&mut self) {
        self.input(Input::Configure(configuration(1400, [1, 2])));
        for table in TABLES {
            for is_v6 in [false, true] {
                self.group(table, is_v6, 1, hops(&[(1, 2)]));
                self.group(table, is_v6, 2, hops(&[(1, 2), (2, 3)]));
                self.group(table, is_v6, 3, Forwarding::Reject);
                self.group(table, is_v6, 4, Forwarding::Discard);
                for p in 0..40 {
                    self.routes(table, is_v6, Some(1 + u32::from(p % 4)), &[p]);
                }
            }
        }
    }

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

    /// Returns true if only engines beside the authority are to have the route.
    fn is_beside(&self, key: &(TableId, IpPrefix)) -> bool {
        let Some((group, is_external)) = self.routes.get(key) else { return false };
        let forwarding = &self.groups[&(key.0, key.1.family() == Family::Ipv6, *group)];
        *forwarding != Forwarding::Reject && !self.selection.takes(key.1, *is_external)
    }

    /// Each engine beside the authority has what the authority has and what the authority does not take, but for what it refused.
    fn check(&mut self) {
        self.quiet();
        assert!(self.drive.core().totals().idle);
        let authority = self.authority.engine.borrow();
        let wanted = authority.forwarding();
        for (key, _) in wanted.iter().filter(|(_, forwarding)| forwarding.is_some()) {
            assert!(!self.is_beside(key), "the authority has {key:?}");
        }
        for (n, shared) in self.beside.iter().enumerate() {
            let beside = self.drive.engine().beside().nth(n).unwrap();
            let (stage, refused) = (beside.stage(), beside.refused());
            assert_eq!(stage, Stage::Complete);
            let engine = shared.engine.borrow();
            if shared.capabilities.contains(&Capability::Host) {
                assert_eq!(engine.forwards, authority.forwards);
                assert_eq!(engine.links, authority.links);
            } else {
                assert!(engine.forwards.is_empty());
            }
            if !shared.capabilities.contains(&Capability::Unicast) {
                assert!(engine.members.is_empty() && engine.groups.is_empty() && engine.routes.is_empty());
                continue;
            }
            let found = engine.forwarding();
            let forgotten = shared.forgotten.as_ref().unwrap().borrow();
            for (key, forwarding) in wanted.iter().filter(|(_, forwarding)| forwarding.is_some()) {
                match found.get(key) {
                    Some(found) => assert_eq!(found, forwarding, "{key:?}"),
                    None => assert!(forgotten.contains(key), "{key:?} should be {forwarding:?}"),
                }
            }
            let is_held = |key| wanted.get(key).is_some_and(Option::is_some);
            for key in found.keys() {
                assert!(is_held(key) || self.is_beside(key), "the authority has no {key:?}");
            }
            if refused == 0 {
                assert_eq!(engine.members, authority.members);
                assert_eq!(engine.groups, authority.groups);
                assert!(forgotten.is_empty());
            }
        }
    }

    /// When the authority takes all routes again, it gets the routes that only an engine beside it had, and no others.
    fn check_return(&mut self) {
        let routes = |engine: &Shared| -> BTreeSet<_> {
            let forwarding = engine.engine.borrow().forwarding();
            forwarding
                .into_iter()
                .filter(|(_, forwarding)| forwarding.is_some())
                .map(|(key, _)| key)
                .collect()
        };
        let (late, held) = (self.join(UNICAST, &[]), routes(&self.authority));
        self.check();
        let mut wanted = routes(&late);
        self.select(AuthorityRoutes::All);
        self.check();
        let refuse = self.authority.engine.borrow().refuse.clone();
        wanted.retain(|key| held.contains(key) || !refuse.contains(&key.1));
        assert_eq!(routes(&self.authority), wanted);
    }
}

#[test]
fn an_engine_joins_an_empty_set() {
    let mut world = World::new();
    let engine = world.join(ALL, &[]);
    assert_eq!(world.drive.engine().names(), ["sim", "sim"]);
    world.check();
    assert_eq!(engine.engine.borrow().operations, 0);
    world.full();
    world.check();
    assert_eq!(engine.engine.borrow().routes.len(), 160);
}

#[test]
fn an_engine_joins_a_full_set() {
    let mut world = World::new();
    world.full();
    let before = world.authority.engine.borrow().operations;
    let (unicast, host) = (world.join(UNICAST, &[]), world.join(HOST, &[]));
    world.check();
    assert_eq!(world.authority.engine.borrow().operations, before, "the authority is not concerned");
    assert_eq!((unicast.engine.borrow().routes.len(), unicast.engine.borrow().groups.len()), (160, 12));
    assert_eq!(unicast.engine.borrow().links[&index(1)].0.mtu, 1500);
    assert_eq!(host.engine.borrow().links[&index(1)].0.mtu, 1400);
    assert!(host.engine.borrow().links[&index(1)].1.contains(&address(2)));
    // Nothing is written twice.
    let objects = unicast.engine.borrow().members.len() as u64 + 12 + 160;
    assert_eq!(unicast.engine.borrow().operations, objects);
    assert!(world.drive.engine().beside().all(|beside| beside.refused() == 0));
}

/// The core takes routes of an earlier life in without an operation.
#[test]
fn an_engine_that_is_there_from_the_start_gets_what_an_earlier_life_left() {
    let mut world = World::new();
    world.full();
    world.quiet();
    let mut beside = Shared::new(UNICAST);
    beside.forgotten = Some(Rc::default());
    let mut later = World::of(world.authority, vec![beside.clone()]);
    assert_eq!(later.slice(1), Progress::Done, "nothing is known before the first snapshot");
    later.check();
    assert_eq!(beside.engine.borrow().routes.len(), 160);
}

#[test]
fn a_replay_goes_on_in_slices() {
    let mut world = World::new();
    world.full();
    world.quiet();
    let engine = world.join(UNICAST, &[]);
    let (mut slices, mut last) = (0, 0);
    while world.slice(10) == Progress::More {
        let operations = engine.engine.borrow().operations;
        assert!(operations - last <= 10);
        (slices, last) = (slices + 1, operations);
        assert!(!world.drive.core().totals().idle);
    }
    assert!(slices >= 17, "{slices}");
    world.check();
}

/// Routes before and behind the place of the replay change, and so do their groups.
#[test]
fn routes_change_during_a_replay() {
    for slices in 0..40 {
        let mut world = World::new();
        world.full();
        world.quiet();
        let engine = world.join(ALL, &[]);
        for _ in 0..slices {
            world.slice(5);
        }
        let table = TABLES[slices % 2];
        world.group(table, false, 2, hops(&[(2, 5)]));
        world.group(table, false, 3, hops(&[(2, 6)]));
        world.group(table, false, 9, hops(&[(1, 7), (2, 7)]));
        world.routes(table, false, Some(9), &[0, 20, 39]);
        world.routes(table, false, Some(1), &[50]);
        world.routes(table, false, None, &[1, 21, 38]);
        world.input(Input::Configure(configuration(1300, [2, 3])));
        world.check();
        assert_eq!(world.drive.engine().beside().next().unwrap().refused(), 0, "after {slices} slices");
        assert_eq!(engine.engine.borrow().routes.len(), 158);
    }
}

#[test]
fn an_engine_joins_and_refuses_a_part() {
    let mut world = World::new();
    world.full();
    let (engine, other) = (world.join(UNICAST, &[3, 4]), world.join(UNICAST, &[]));
    world.check();
    assert_eq!((engine.engine.borrow().routes.len(), other.engine.borrow().routes.len()), (152, 160));
    let refused = |world: &mut World| world.drive.engine().beside().next().unwrap().refused();
    assert_eq!(refused(&mut world), 8);
    let reported = |world: &World| {
        let is_first = |e: &&Effect| matches!(e, Effect::Event(Event::RefusedBeside(..)));
        world.effects.iter().filter(is_first).cloned().collect::<Vec<_>>()
    };
    let [Effect::Event(event)] = &reported(&world)[..] else { panic!("{:?}", reported(&world)) };
    assert_eq!(event.id(), "fea.engine.refused-beside");
    let text = event.to_string();
    assert!(text.starts_with("engine sim refused for the first time: refused on order: SetRoute"), "{text}");
    // What the authority refuses does not reach the others.
    world.authority.engine.borrow_mut().refuse.insert(prefix(5).into());
    world.routes(TABLES[0], false, Some(3), &[5]);
    let late = world.join(UNICAST, &[]);
    world.check();
    assert_eq!((engine.engine.borrow().routes.len(), late.engine.borrow().routes.len()), (151, 159));
    // The routes and groups that the engine does not have are deleted without another refusal.
    world.routes(TABLES[0], false, None, &[3, 4, 5]);
    world.check();
    assert_eq!(refused(&mut world), 8);
    assert_eq!(reported(&world).len(), 1);
    // An engine of the same name refuses too.
    engine.engine.borrow_mut().refuse.clear();
    world.join(UNICAST, &[6]);
    world.check();
    let counts: Vec<_> = world.drive.engine().refused_beside().into_iter().collect();
    assert_eq!(counts, [(("sim", RefusalKind::Invalid), 12)]);
    assert_eq!(reported(&world).len(), 2);
}

/// The authority loses members, groups and routes with a link, without a word; so the operations that delete them fail there.
#[test]
fn a_link_goes_down_beside_the_authority_too() {
    let mut world = World::new();
    world.full();
    let engine = world.join(UNICAST, &[]);
    world.quiet();
    // The other engine does not see the link.
    world.authority.engine.borrow_mut().set_up(index(1), false);
    world.check();
    assert_eq!(engine.engine.borrow().routes.len(), 120);
    world.authority.engine.borrow_mut().set_up(index(1), true);
    world.check();
    assert_eq!(engine.engine.borrow().routes.len(), 160);
}

#[test]
fn members_that_the_authority_refused_are_not_replayed() {
    let mut world = World::new();
    world.full();
    world.authority.engine.borrow_mut().set_up(index(1), false);
    world.quiet();
    let engine = world.join(UNICAST, &[]);
    engine.engine.borrow_mut().set_up(index(1), true);
    world.check();
    assert_eq!(world.drive.engine().beside().next().unwrap().refused(), 0);
    assert_eq!(engine.engine.borrow().routes.len(), 120);
}

/// A slice that writes a route again does not replay the route too: the authority may refuse it.
#[test]
fn an_operation_under_way_is_not_replayed() {
    let mut world = World::new();
    world.full();
    world.authority.engine.borrow_mut().set_up(index(1), false);
    world.quiet();
    // The route of a group that has no member left; another program takes its place.
    world.authority.engine.borrow_mut().outsider_sets(TABLES[0], prefix(0).into());
    world.quiet();
    let engine = world.join(UNICAST, &[]);
    world.link(1, true);
    world.drive.poll(world.now, &mut world.effects);
    world.slice(Budget::SLICE.0);
    world.check();
    assert_eq!(engine.engine.borrow().routes.len(), 159);
}

#[test]
fn an_address_that_vanished_while_notices_were_lost_is_not_replayed() {
    let mut world = World::new();
    world.full();
    world.quiet();
    let authority = Rc::clone(&world.authority.engine);
    authority.borrow_mut().links.get_mut(&index(1)).unwrap().1.remove(&address(1));
    authority.borrow_mut().overrun();
    world.quiet();
    world.join(HOST, &[]);
    world.check();
}

/// A commit that fails is taken back at once.
#[test]
fn a_configuration_that_is_taken_back_before_its_effects_are_shown() {
    let mut world = World::new();
    let authority = Rc::clone(&world.authority.engine);
    let with = |mtu, up, addresses: [u8; 2]| {
        let mut configuration = configuration(mtu, addresses);
        configuration.interfaces.get_mut("eth1").unwrap().enabled = Some(up);
        Input::Configure(configuration)
    };
    world.input(with(1400, true, [1, 2]));
    world.quiet();
    for turns in 1..4 {
        for _ in 0..turns {
            world.input(with(1300, false, [2, 3]));
            world.input(with(1400, true, [1, 2]));
        }
        world.quiet();
        let (link, addresses) = authority.borrow().links[&index(1)].clone();
        assert_eq!((link.mtu, link.admin_up), (1400, true), "{turns}");
        assert!(addresses.contains(&address(1)) && addresses.contains(&address(2)), "{turns}: {addresses:?}");
        assert!(!addresses.contains(&address(3)), "{turns}: {addresses:?}");
    }
}

#[test]
fn settings_that_the_authority_refused_are_not_replayed() {
    let mut world = World::new();
    let authority = Rc::clone(&world.authority.engine);
    let link = authority.borrow_mut().links.remove(&index(1)).unwrap();
    // The core was not notified that the interface is gone.
    world.input(Input::Configure(configuration(1300, [1, 2, 3])));
    authority.borrow_mut().links.insert(index(1), link);
    let engine = world.join(HOST, &[]);
    world.check();
    assert_eq!(engine.engine.borrow().links[&index(1)].0.mtu, 1500);
    // The next configuration asks again.
    world.input(Input::Configure(configuration(1300, [1, 2, 3])));
    world.join(HOST, &[]);
    world.check();
}

#[derive(Clone, Debug)]
enum Step {
    Group(usize, bool, u32, Option<Vec<(u32, u8)>>),
    Routes(usize, bool, Option<(u32, bool)>, Vec<u8>),
    Configure(u32, BTreeSet<u8>),
    Link(u32, bool),
    Join(&'static [Capability], Vec<u8>),
    Select(AuthorityRoutes),
    OutsiderDeletes(u8),
    OutsiderDeletesNextHop(usize),
    AuthorityRefuses(u8, bool),
    Overrun,
    Poll,
    Slice(u32),
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let forwarding = proptest::option::weighted(0.9, proptest::collection::vec((1..3u32, 2..5u8), 1..3));
    let prefixes = || proptest::collection::vec(0..12u8, 1..4);
    prop_oneof![
        6 => (0..2usize, any::<bool>(), 0..4u32, forwarding).prop_map(|(t, v6, g, f)| Step::Group(t, v6, g, f)),
        12 => (0..2usize, any::<bool>(), proptest::option::weighted(0.8, (0..4u32, any::<bool>())), prefixes())
            .prop_map(|(t, v6, g, p)| Step::Routes(t, v6, g, p)),
        2 => (1299..1302u32, proptest::collection::btree_set(0..4u8, 0..3))
            .prop_map(|(mtu, addresses)| Step::Configure(mtu, addresses)),
        2 => (1..3u32, any::<bool>()).prop_map(|(n, up)| Step::Link(n, up)),
        3 => Just(Step::Join(UNICAST, Vec::new())),
        2 => prefixes().prop_map(|p| Step::Join(UNICAST, p)),
        1 => Just(Step::Join(ALL, Vec::new())),
        2 => Just(Step::Select(AuthorityRoutes::All)),
        3 => proptest::collection::vec(0..12u8, 0..3)
            .prop_map(|list| Step::Select(AuthorityRoutes::Internal(list.into_iter().map(|p| prefix(p).into()).collect()))),
        1 => (0..12u8).prop_map(Step::OutsiderDeletes),
        1 => any::<usize>().prop_map(Step::OutsiderDeletesNextHop),
        1 => (0..12u8, any::<bool>()).prop_map(|(p, on)| Step::AuthorityRefuses(p, on)),
        1 => Just(Step::Overrun),
        2 => Just(Step::Poll),
        14 => (1..12u32).prop_map(Step::Slice),
        1 => Just(Step::Check),
    ]
}

impl World {
    fn step(&mut self, step: Step) {
        self.now = self.now + Duration::from_millis(1);
        match step {
            Step::Group(table, is_v6, group, forwarding) => {
                let forwarding = forwarding.map_or(Forwarding::Reject, |f| hops(&f));
                self.group(TABLES[table], is_v6, group, forwarding);
            }
            Step::Routes(table, is_v6, to, prefixes) => {
                self.announce(TABLES[table], is_v6, to, &prefixes);
            }
            Step::Configure(mtu, addresses) => {
                self.input(Input::Configure(configuration(mtu, addresses)));
                // The core knows an address that it gave when the engine reports it.
                while self.drive.poll(self.now, &mut self.effects) == Progress::More {}
            }
            Step::Link(n, up) => {
                self.link(n, up);
                if n == 1 {
                    self.drive.poll(self.now, &mut self.effects);
                }
            }
            Step::Join(capabilities, refuse) => drop(self.join(capabilities, &refuse)),
            Step::Select(selection) => self.select(selection),
            Step::OutsiderDeletes(p) => {
                self.authority.engine.borrow_mut().outsider_deletes(TABLES[0], prefix(p).into());
            }
            Step::OutsiderDeletesNextHop(n) => {
                let mut engine = self.authority.engine.borrow_mut();
                let ids: Vec<_> = engine.members.keys().chain(engine.groups.keys()).copied().collect();
                if !ids.is_empty() {
                    engine.outsider_deletes_next_hop(ids[n % ids.len()]);
                }
            }
            Step::AuthorityRefuses(p, true) => {
                self.authority.engine.borrow_mut().refuse.insert(prefix(p).into());
            }
            Step::AuthorityRefuses(p, false) => {
                self.authority.engine.borrow_mut().refuse.remove(&prefix(p).into());
            }
            Step::Overrun => self.authority.engine.borrow_mut().overrun(),
            Step::Poll => drop(self.drive.poll(self.now, &mut self.effects)),
            Step::Slice(budget) => drop(self.slice(budget)),
            Step::Check => self.check(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_meanwhile(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.check();
        world.check_return();
    }
}
