//! An engine beside the authority that loses operations is found by its digests and mended; an engine that loses none is never touched.

use crate::shared::{ALL, Shared, index};
use proptest::prelude::*;
use sluice_base::*;
use sluice_fea::engine::{Capability, EngineDigests, Mended, Objects, RoutePart, RouteReader};
use sluice_fea::xdp::{Forwarder, Memory, Port, XdpEngine};
use sluice_fea::{
    AuthorityRoutes, Drive, Effect, Engine, EngineOp, EngineSet, Event, Fea, Input, Notice, Refused,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const TABLE: TableId = TableId::MAIN;

/// An engine whose operations are lost while `loses` is true.
struct Lossy {
    engine: XdpEngine<Memory>,
    loses: Rc<Cell<bool>>,
}

impl Engine for Lossy {
    fn name(&self) -> &str {
        "lossy"
    }

    fn capabilities(&self) -> &[Capability] {
        self.engine.capabilities()
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        if !self.loses.get() {
            self.engine.apply(ops, refused);
        }
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        self.engine.poll(notices)
    }

    fn request_snapshot(&mut self) {}

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        None
    }

    fn replayed(&mut self) {
        self.engine.replayed();
    }

    fn keep_digests(&mut self, key: DigestKey) {
        self.engine.keep_digests(key);
    }

    fn digests(&self) -> Option<EngineDigests> {
        self.engine.digests()
    }

    fn mend_routes(&mut self, part: &RoutePart) -> Mended {
        self.engine.mend_routes(part)
    }

    fn mend_objects(&mut self, wanted: &Objects) -> Mended {
        self.engine.mend_objects(wanted)
    }
}

struct World {
    drive: Drive<EngineSet>,
    authority: Shared,
    forwarder: Rc<RefCell<Forwarder<Memory>>>,
    loses: Rc<Cell<bool>>,
    effects: Vec<Effect>,
    now: Instant,
}

fn forwarder() -> Rc<RefCell<Forwarder<Memory>>> {
    let mut forwarder = Forwarder::new(Memory::default());
    for n in [1, 2] {
        let port = Port { mac: Mac([2, 0, 0, 0, 0, n as u8]), mtu: 1500, sends: true };
        forwarder.set_port(index(n), Some(port));
        forwarder.set_neighbor(index(n), gateway(n), Some(Mac([2, 0, 0, 0, 1, n as u8])));
    }
    Rc::new(RefCell::new(forwarder))
}

fn gateway(n: u32) -> std::net::IpAddr {
    [10, 0, n as u8 - 1, 9].into()
}

fn prefix(n: u32) -> Ipv4Prefix {
    Prefix::from_parts(0xc000_0000 | n << 8, 24).unwrap()
}

/// The forwarding by ways; none: packets are dropped.
fn forwarding(ways: &[u32]) -> Forwarding {
    let hops = ways.iter().map(|n| NextHop::via_on(gateway(*n), index(*n)));
    Forwarding::many(hops).unwrap_or(Forwarding::Discard)
}

impl World {
    fn new() -> Self {
        let authority = Shared::new(ALL);
        let (forwarder, loses) = (forwarder(), Rc::new(Cell::new(false)));
        let mut engines = EngineSet::new(Box::new(authority.clone()));
        let engine = XdpEngine::new(Rc::clone(&forwarder));
        engines.join(Box::new(Lossy { engine, loses: Rc::clone(&loses) }));
        let drive = Drive::new(Fea::new(1), engines);
        let (effects, now) = (Vec::new(), Instant::ZERO);
        let mut world = World { drive, authority, forwarder, loses, effects, now };
        world.quiesce();
        (1..4).for_each(|group| world.apply(&Change::Group(group, vec![1])));
        world
    }

    fn quiesce(&mut self) {
        self.drive.quiesce(self.now, &mut self.effects);
    }

    fn update(&mut self, batch: FibBatch<Ipv4Prefix>) {
        self.drive.handle(self.now, Input::UpdateIpv4(TABLE, batch), &mut self.effects);
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Group(group, ways) => {
                let groups = vec![(GroupId(*group), forwarding(ways))];
                self.update(FibBatch { groups, ..FibBatch::default() });
            }
            Change::Route(n, group) => self.routes(&[*n], *group),
            Change::Link(n, up) => self.authority.engine.borrow_mut().set_up(index(*n), *up),
            Change::Loses(loses) => self.loses.set(*loses),
        }
        self.quiesce();
    }

    fn routes(&mut self, numbers: &[u32], group: Option<u32>) {
        let route = |n: &u32| FibRoute {
            prefix: prefix(*n),
            group: group.map(GroupId),
            is_external: true,
            provenance: Provenance::NONE,
        };
        self.update(FibBatch { routes: numbers.iter().map(route).collect(), ..FibBatch::default() });
        self.quiesce();
    }

    /// Compares as the process does, for `rounds`; returns what was mended.
    fn compare(&mut self, rounds: usize) -> Vec<Mended> {
        self.effects.clear();
        for _ in 0..rounds {
            self.drive.compare(self.now, &mut self.effects);
            self.quiesce();
        }
        let mended = |effect: Effect| match effect {
            Effect::Event(Event::Mended(engine, mended)) => {
                assert_eq!(engine, "lossy");
                Some(mended)
            }
            _ => None,
        };
        self.effects.drain(..).filter_map(mended).collect()
    }

    /// Compares the engine with one that joins now.
    fn is_like_new(&mut self) -> bool {
        let new = forwarder();
        let id = self.drive.engine().join(Box::new(XdpEngine::new(Rc::clone(&new))));
        self.quiesce();
        self.drive.engine().leave(id);
        let (own, new) = (self.forwarder.borrow(), new.borrow());
        own.digests() == new.digests() && own.counts().routes == new.counts().routes
    }
}

/// A change.
#[derive(Clone, Debug)]
enum Change {
    Group(u32, Vec<u32>),
    Route(u32, Option<u32>),
    Link(u32, bool),
    Loses(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => (1u32..4, prop::collection::vec(1u32..3, 0..3)).prop_map(|(group, ways)| Change::Group(group, ways)),
        6 => (0u32..8, prop::option::of(1u32..4)).prop_map(|(n, group)| Change::Route(n, group)),
        1 => (1u32..3, any::<bool>()).prop_map(|(link, up)| Change::Link(link, up)),
        2 => any::<bool>().prop_map(Change::Loses),
    ]
}

/// Rounds in which a mended engine is equal again, whatever mendings before cost in patience.
const ROUNDS: usize = 12;

proptest! {
    #[test]
    fn lost_operations_are_mended(changes in prop::collection::vec(change(), 1..40)) {
        let mut world = World::new();
        changes.iter().for_each(|change| world.apply(change));
        world.apply(&Change::Loses(false));
        world.compare(ROUNDS);
        prop_assert!(world.is_like_new(), "{:?}", world.drive.engine().digests());
        prop_assert_eq!(world.compare(ROUNDS), []);
    }

    #[test]
    fn an_engine_that_loses_nothing_is_not_mended(changes in prop::collection::vec(change(), 1..40)) {
        let mut world = World::new();
        for change in &changes {
            if !matches!(change, Change::Loses(_)) {
                world.apply(change);
                prop_assert_eq!(world.compare(2), []);
            }
        }
        prop_assert_eq!(world.compare(ROUNDS), []);
        prop_assert!(!world.drive.compare(Instant::ZERO, &mut Vec::new()));
    }
}

#[test]
fn a_lost_batch_is_detected_by_its_first_route() {
    let mut world = World::new();
    world.routes(&(0..5000).collect::<Vec<_>>(), Some(1));
    assert_eq!(world.compare(ROUNDS), []);
    world.loses.set(true);
    world.routes(&(1000..1256).collect::<Vec<_>>(), None);
    world.routes(&(2000..2256).collect::<Vec<_>>(), Some(2));
    world.routes(&(6000..6010).collect::<Vec<_>>(), Some(1));
    world.loses.set(false);
    // The first comparison has the core count again, the second one mends.
    let mended = world.compare(2);
    let [Mended { routes: 522, objects: 1, first: Some(first) }] = &mended[..] else { panic!("{mended:?}") };
    assert_eq!(first, &format!("{} was surplus", prefix(1000)));
    assert!(world.is_like_new());
    // The second group was lost with its first route.
    assert_eq!(world.drive.core().totals().mended, 523);
}

#[test]
fn a_lost_change_of_a_group_is_mended() {
    let mut world = World::new();
    world.routes(&[1, 2, 3], Some(1));
    world.loses.set(true);
    world.apply(&Change::Group(1, vec![2]));
    world.loses.set(false);
    let mended = world.compare(1);
    assert_eq!(mended.iter().map(|mended| (mended.routes, mended.objects)).collect::<Vec<_>>(), [(0, 1)]);
    assert!(world.is_like_new());
}

/// Routes beside the authority are compared too.
#[test]
fn routes_that_the_kernel_does_not_have_are_mended() {
    let mut world = World::new();
    let select = Input::SelectRoutes(AuthorityRoutes::Internal(Vec::new()));
    world.drive.handle(world.now, select, &mut world.effects);
    world.quiesce();
    world.routes(&[1, 2, 3], Some(1));
    world.loses.set(true);
    world.routes(&[4, 5], Some(1));
    world.loses.set(false);
    let mended = world.compare(2);
    assert_eq!(mended.iter().map(|mended| mended.routes).collect::<Vec<_>>(), [2]);
    assert!(world.is_like_new());
}
