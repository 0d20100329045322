//! The stream of the RIB between a leader and followers, through a model of the store.

use crate::store::Store;
use proptest::prelude::*;
use sluice_base::{
    Address, Distance, Duration, Family, Forwarding, Instant, InterfaceIndex, Ipv4Prefix, Ipv6Prefix, Metric,
    NextHop, Prefix, Provenance, RouteAction, RouteBatch, RouteSet, RouteUpdate, TableId,
};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::stream::follower::{Followed, Follower};
use sluice_cluster::stream::leader::{LOG_ENTRIES, Leader, Standing, TAKEOVER_TIME};
use sluice_cluster::stream::loader::LoadError;
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::store::Outcome;
use sluice_cluster::stream::table::RouteKey;
use sluice_cluster::stream::wire::Routes;
use std::collections::BTreeMap;

const ORIGINS: [&str; 2] = ["bgp", "static"];

fn element(number: u16) -> ElementId {
    ElementId::new(number).unwrap()
}

fn section(origin: usize, family: Family) -> Section {
    Section { table: TableId::MAIN, family, origin: ORIGINS[origin].into() }
}

fn registration(origin: usize) -> StreamOrigin {
    StreamOrigin {
        distance: Distance(if origin == 0 { 20 } else { 1 }),
        external: origin == 0,
        grace: Duration::from_secs(60),
        kinds: Vec::new(),
    }
}

fn set(gateway: u32, metric: u32) -> RouteSet {
    let hop = NextHop::via(Address::Ip(std::net::Ipv4Addr::from_bits(0x0a00_0000 + gateway).into()));
    RouteSet { metric: Metric(metric), ..RouteSet::plain(Forwarding::one(hop)) }
}

/// The routes of a RIB, and what a follower's RIB received: origin, prefix, set.
type Rib = BTreeMap<(usize, String), RouteSet>;

fn prefix4(number: u32) -> Ipv4Prefix {
    Ipv4Prefix::from_parts(0x6400_0000 + (number << 8), 24).unwrap()
}

fn prefix6(number: u32) -> Ipv6Prefix {
    Ipv6Prefix::from_parts(0x2001_0db8_u128 << 96 | u128::from(number) << 64, 64).unwrap()
}

fn batch<P: Prefix>(changes: impl IntoIterator<Item = (P, Option<RouteSet>)>) -> RouteBatch<P> {
    let mut batch = RouteBatch::default();
    for (prefix, set) in changes {
        let action = set.map_or(RouteAction::Delete, |set| {
            batch.sets.push(set);
            RouteAction::Set(batch.sets.len() as u32 - 1)
        });
        batch.updates.push(RouteUpdate { prefix, action, provenance: Provenance::new(1, 7) });
    }
    batch
}

fn take_in(rib: &mut Rib, origin: usize, routes: &Routes) {
    for (prefix, place, _) in routes.updates() {
        let key = (origin, prefix.to_string());
        match place {
            Some(place) => rib.insert(key, routes.sets()[place as usize].clone()),
            None => rib.remove(&key),
        };
    }
}

/// A store, a leader with its RIB, a former leader, and followers with theirs.
struct World {
    now: Instant,
    store: Store,
    rib: Rib,
    leader: Leader,
    former: Option<Leader>,
    followers: Vec<(Follower, Rib)>,
}

impl World {
    fn new(followers: usize) -> Self {
        let mut store = Store::default();
        let leader = Leader::new(Instant::ZERO, store.elect(), element(1), [1, 2], None);
        let followers = (0..followers).map(|_| (Follower::default(), Rib::new())).collect();
        World { now: Instant::ZERO, store, rib: Rib::new(), leader, former: None, followers }
    }

    fn change(&mut self, origin: usize, routes: &Routes) {
        take_in(&mut self.rib, origin, routes);
        let section = section(origin, routes.family());
        assert!(self.leader.announce(self.now, &section, &registration(origin), routes));
    }

    /// Another leader, whose RIB announces all its routes.
    fn elect(&mut self, number: u16) {
        let epoch = self.store.elect();
        let next = Leader::new(self.now, epoch, element(number), [3, 4], self.store.load().ok());
        let is_again = self.leader.head().element == number;
        let next = next.holding(self.leader.holds_until().filter(|_| is_again));
        self.former = Some(core::mem::replace(&mut self.leader, next));
        self.refresh();
    }

    fn refresh(&mut self) {
        for family in Family::ALL {
            self.leader.begin_refresh(family);
        }
        for ((origin, prefix), set) in &self.rib {
            let routes = match prefix.parse::<Ipv4Prefix>() {
                Ok(prefix) => Routes::V4(batch([(prefix, Some(set.clone()))])),
                Err(_) => Routes::V6(batch([(prefix.parse::<Ipv6Prefix>().unwrap(), Some(set.clone()))])),
            };
            let section = section(*origin, routes.family());
            self.leader.announce(self.now, &section, &registration(*origin), &routes);
        }
        for family in Family::ALL {
            self.leader.end_refresh(self.now, family);
        }
    }

    /// A transaction of the leader; `fault`: 1 does not reach the store, 2 reaches it and is not answered.
    fn write(&mut self, fault: u8) -> bool {
        self.now = self.now + Duration::from_millis(6);
        let Some(transaction) = self.leader.next_transaction(self.now, 0) else { return false };
        assert!(self.leader.next_transaction(self.now, 0).is_none(), "one at a time");
        let outcome = if fault == 1 { Outcome::Unknown } else { self.store.transact(&transaction) };
        self.leader.answered(if fault == 2 { Outcome::Unknown } else { outcome });
        assert_eq!(self.leader.standing(), Standing::Leads);
        true
    }

    fn write_all(&mut self) {
        let mut count = 0;
        while self.write(0) || self.leader.waiting() > 0 {
            count += 1;
            assert!(count < 10_000, "the leader never rests");
        }
    }

    fn follow(&mut self, place: usize) {
        let (follower, rib) = &mut self.followers[place];
        match self.store.watch(follower.revision()).filter(|_| !follower.needs_load()) {
            Some(entries) => {
                for (revision, entry) in entries {
                    follower.follow(&entry, revision).unwrap();
                }
            }
            None => follower.lost(),
        }
        if follower.needs_load() {
            match self.store.load() {
                Ok(loaded) => follower.loaded(loaded),
                Err(error) => assert_eq!(error, LoadError::Empty),
            }
        }
        while follower.run_slice() {}
        let sections: Vec<Section> = follower.waiting().cloned().collect();
        for section in sections {
            let origin = ORIGINS.iter().position(|name| *name == section.origin).unwrap();
            while follower.waiting().any(|waiting| *waiting == section) {
                take_in(rib, origin, &follower.take(&section, 100));
            }
        }
    }

    /// All followers have the leader's routes, and so do their RIBs.
    fn check(&mut self) {
        self.write_all();
        self.now = self.now + TAKEOVER_TIME;
        self.write_all();
        for place in 0..self.followers.len() {
            self.follow(place);
            self.follow(place);
            let (follower, rib) = &self.followers[place];
            assert!(rib == &self.rib, "{} routes and {}", rib.len(), self.rib.len());
            assert_eq!(follower.table().unwrap().sums(), self.leader.table().sums());
            assert_eq!(follower.position().unwrap().1, self.leader.head().sequence);
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set { origin: usize, prefix: u32, gateway: u32, is_v6: bool },
    Delete { origin: usize, prefix: u32, is_v6: bool },
    Burst(u32),
    Write(u8),
    WriteAll,
    Elect(u16),
    Refresh,
    FormerWrites,
    Follow(usize),
    Load(usize, u8),
    LoseWatch(usize),
    Restart(usize),
    RibRestart(usize),
    Compact,
}

fn op() -> impl Strategy<Value = Op> {
    let follower = || 0..2_usize;
    prop_oneof![
        8 => (0..2_usize, 0..20_u32, 0..4_u32, any::<bool>())
            .prop_map(|(origin, prefix, gateway, is_v6)| Op::Set { origin, prefix, gateway, is_v6 }),
        4 => (0..2_usize, 0..20_u32, any::<bool>())
            .prop_map(|(origin, prefix, is_v6)| Op::Delete { origin, prefix, is_v6 }),
        1 => (0..4_u32).prop_map(Op::Burst),
        6 => (0..3_u8).prop_map(Op::Write),
        2 => Just(Op::WriteAll),
        2 => (1..3_u16).prop_map(Op::Elect),
        1 => Just(Op::Refresh),
        2 => Just(Op::FormerWrites),
        5 => follower().prop_map(Op::Follow),
        1 => (follower(), 0..4_u8).prop_map(|(place, slices)| Op::Load(place, slices)),
        1 => follower().prop_map(Op::LoseWatch),
        1 => follower().prop_map(Op::Restart),
        1 => follower().prop_map(Op::RibRestart),
        1 => Just(Op::Compact),
    ]
}

fn run(ops: Vec<Op>) {
    let mut world = World::new(2);
    for op in ops {
        match op {
            Op::Set { origin, prefix, gateway, is_v6 } => {
                let set = Some(set(gateway, 1));
                let routes = if is_v6 {
                    Routes::V6(batch([(prefix6(prefix), set)]))
                } else {
                    Routes::V4(batch([(prefix4(prefix), set)]))
                };
                world.change(origin, &routes);
            }
            Op::Delete { origin, prefix, is_v6: true } => {
                world.change(origin, &Routes::V6(batch([(prefix6(prefix), None)])));
            }
            Op::Delete { origin, prefix, is_v6: false } => {
                world.change(origin, &Routes::V4(batch([(prefix4(prefix), None)])));
            }
            Op::Burst(gateway) => {
                let changes = (0..3000).map(|number| (prefix4(number), Some(set(gateway, number % 7))));
                world.change(0, &Routes::V4(batch(changes)));
            }
            Op::Write(fault) => drop(world.write(fault)),
            Op::WriteAll => world.write_all(),
            Op::Elect(number) => world.elect(number),
            Op::Refresh => world.refresh(),
            Op::FormerWrites => {
                if let Some(former) = &mut world.former
                    && let Some(transaction) = former.next_transaction(world.now, 0)
                {
                    let outcome = world.store.transact(&transaction);
                    assert!(matches!(outcome, Outcome::Refused { is_leader: false, .. }), "fenced");
                    former.answered(outcome);
                    assert_eq!(former.standing(), Standing::Deposed);
                }
            }
            Op::Follow(place) => world.follow(place),
            Op::Load(place, slices) => {
                let follower = &mut world.followers[place].0;
                if let Ok(loaded) = world.store.load() {
                    follower.loaded(loaded);
                    for _ in 0..slices {
                        follower.run_slice();
                    }
                }
            }
            Op::LoseWatch(place) => world.followers[place].0.lost(),
            Op::Restart(place) => world.followers[place] = (Follower::default(), Rib::new()),
            Op::RibRestart(place) => {
                let (follower, rib) = &mut world.followers[place];
                rib.clear();
                follower.announce_all();
            }
            Op::Compact => world.store.compact(),
        }
    }
    world.check();
    assert!(world.leader.log_len() <= LOG_ENTRIES[0] + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens, all followers have the leader's routes in the end.
    #[test]
    fn followers_equal_the_leader_after_any_history(ops in prop::collection::vec(op(), 1..60)) {
        run(ops);
    }
}

#[test]
fn a_section_without_routes_is_like_one_that_never_was() {
    let set = |origin| Op::Set { origin, prefix: 1, gateway: 1, is_v6: false };
    let delete = Op::Delete { origin: 0, prefix: 1, is_v6: false };
    // The second follower reads the store when the first section is empty again.
    run(vec![set(0), set(1), Op::WriteAll, Op::Follow(0), delete, Op::WriteAll]);
}

#[test]
fn a_section_in_the_head_alone_reaches_those_who_follow_the_log() {
    let set = |origin| Op::Set { origin, prefix: 1, gateway: 1, is_v6: false };
    // The leader splits the first section, and is gone before the entry with the second section.
    run(vec![
        Op::Burst(0),
        Op::WriteAll,
        Op::Follow(0),
        Op::Burst(1),
        Op::Write(0),
        set(1),
        Op::Write(0),
        Op::Elect(2),
    ]);
    run(vec![
        Op::Write(0),
        Op::Burst(0),
        Op::Write(2),
        Op::Follow(0),
        Op::Elect(1),
        set(1),
        Op::Write(2),
        Op::Elect(1),
    ]);
}

#[test]
fn a_large_table_is_split_and_its_log_stays_short() {
    let mut world = World::new(1);
    for round in 0..3 {
        for block in 0..100 {
            let changes = (0..500).map(|n| (prefix4(block * 500 + n), Some(set(round, n % 50))));
            world.change(0, &Routes::V4(batch(changes)));
            world.write(0);
        }
        world.check();
    }
    assert_eq!(world.leader.table().len(), 50_000);
    let chunks = world.store.count("chunk/");
    assert!((25..200).contains(&chunks), "{chunks}");
    assert!(world.store.count("log/") <= LOG_ENTRIES[0] + 1);
    assert_eq!(world.followers[0].0.loads(), 1, "the log explains everything");
    world.followers.push((Follower::default(), Rib::new()));
    world.check();
    // Nothing changes: nothing is written.
    let written = world.leader.written();
    world.refresh();
    world.check();
    assert_eq!(world.leader.written(), written);
    // All routes go.
    world.rib.clear();
    world.refresh();
    world.check();
    assert!(world.leader.table().is_empty());
}

/// A cluster of 64 routers: a tenth of them is lost while the table changes, and is replaced by machines that know nothing.
#[test]
fn a_table_reaches_64_followers_and_those_who_come_later() {
    let mut world = World::new(64);
    for block in 0..4 {
        let changes = (0..500).map(|n| (prefix4(block * 500 + n), Some(set(1, n % 50))));
        world.change(0, &Routes::V4(batch(changes)));
        world.write(0);
    }
    world.check();
    let lost = world.followers.split_off(64 - 6);
    assert!(lost.iter().all(|(follower, _)| follower.table().is_some()));
    let changes = (0..300).map(|n| (prefix4(n * 6), (n % 3 > 0).then(|| set(2, 7))));
    world.change(0, &Routes::V4(batch(changes)));
    world.check();
    world.followers.extend((0..6).map(|_| (Follower::default(), Rib::new())));
    world.check();
    assert_eq!(world.leader.table().len(), 1_900);
    assert!(
        world.followers.iter().all(|(follower, _)| follower.loads() == 1),
        "nobody reads the table twice"
    );
}

#[test]
fn another_leader_keeps_the_routes_until_neighbors_had_time_to_announce_them() {
    let mut world = World::new(1);
    let routes = |numbers: std::ops::Range<u32>| {
        Routes::V4(batch(numbers.map(|number| (prefix4(number), Some(set(1, 1))))))
    };
    world.change(0, &routes(0..10));
    world.check();
    // The next leader's RIB has no routes yet, and reports that.
    world.rib.clear();
    world.elect(2);
    world.write_all();
    world.follow(0);
    assert_eq!(world.followers[0].1.len(), 10);
    world.change(0, &routes(3..5));
    world.write_all();
    world.follow(0);
    assert_eq!(world.followers[0].1.len(), 10);
    // It loses its lease, and leads again in the same time.
    world.elect(2);
    world.write_all();
    world.follow(0);
    assert_eq!(world.followers[0].1.len(), 10);
    world.now = world.now + TAKEOVER_TIME;
    world.write_all();
    world.follow(0);
    assert_eq!(world.followers[0].1.len(), 2);
    // The same element again knows what its RIB has.
    world.rib.clear();
    world.elect(2);
    world.write_all();
    world.follow(0);
    assert!(world.followers[0].1.is_empty());
}

#[test]
fn a_copy_that_went_astray_is_noticed_named_and_mended() {
    let mut world = World::new(1);
    world.change(0, &Routes::V4(batch((0..5000).map(|n| (prefix4(n), Some(set(n % 9, 0)))))));
    world.check();
    let mut loaded = world.store.load().unwrap();
    let id = loaded.head.catalog.id(&section(0, Family::Ipv4)).unwrap();
    let key = RouteKey { section: id, prefix: prefix4(77).into() };
    loaded.table.set(key, None, 0);
    let expected = loaded.table.chunk_of(&key);
    let (follower, rib) = &mut world.followers[0];
    follower.loaded(loaded);
    while follower.run_slice() {}
    assert!(follower.take_mended().is_none());
    take_in(rib, 0, &follower.take(&section(0, Family::Ipv4), 10));
    assert_eq!(rib.len(), 4999);
    world.change(0, &Routes::V4(batch([(prefix4(78), Some(set(1, 1)))])));
    world.write_all();
    let (follower, _) = &mut world.followers[0];
    let (_, entry) = world.store.watch(follower.revision()).unwrap().pop().unwrap();
    assert_eq!(follower.follow(&entry, 99).unwrap().0, Followed::Lost);
    follower.loaded(world.store.load().unwrap());
    assert!(!follower.is_complete());
    while follower.run_slice() {}
    let mended = follower.take_mended().unwrap();
    assert_eq!((mended.first, mended.chunks), (expected, 1));
    world.check();
}

#[test]
fn a_store_that_cannot_be_read_is_written_anew() {
    let mut world = World::new(1);
    world.change(0, &Routes::V4(batch((0..5000).map(|n| (prefix4(n), Some(set(n % 9, 0)))))));
    world.check();
    world.store.damage("log/00000000000000000001");
    let error = world.store.load().unwrap_err();
    assert!(error.to_string().contains("log/00000000000000000001"), "{error}");
    world.followers.push((Follower::default(), Rib::new()));
    let epoch = world.store.elect();
    let revision = world.leader.head_revision();
    world.leader = Leader::new(world.now, epoch, element(1), [5, 6], None).replacing(revision);
    world.refresh();
    world.write_all();
    world.followers[0].0.lost();
    world.check();
}

#[test]
fn a_store_that_was_wiped_is_noticed_by_its_revision_and_by_its_log() {
    for is_busy in [false, true] {
        let mut world = World::new(1);
        world.change(0, &Routes::V4(batch((0..5000).map(|n| (prefix4(n), Some(set(n % 9, 0)))))));
        for n in 0..20 {
            world.change(0, &Routes::V4(batch([(prefix4(n), None)])));
            world.write_all();
        }
        world.check();
        let before = world.followers[0].0.revision();
        // The same servers without their data: the leader writes its routes anew.
        world.store = Store::default();
        let epoch = world.store.elect();
        world.leader = Leader::new(world.now, epoch, element(1), [5, 6], None);
        world.refresh();
        world.write_all();
        let loaded = world.store.load().unwrap();
        let revision = loaded.revision;
        assert!(revision < before);
        let (follower, _) = &mut world.followers[0];
        assert!(follower.began_anew(&loaded));
        if is_busy {
            // The new store has come past the revision of the copy.
            let (_, entry) = world.store.watch(0).unwrap().pop().unwrap();
            assert_eq!(follower.follow(&entry, before).unwrap().0, Followed::Known);
            assert!(!follower.needs_load());
            assert_eq!(follower.follow(&entry, before + 1).unwrap().0, Followed::Lost);
        } else {
            follower.looked(before);
            assert!(!follower.needs_load());
            follower.looked(revision);
        }
        assert!(follower.needs_load());
        world.check();
    }
}

#[test]
fn next_hops_leave_by_the_elements_own_interfaces() {
    let index = |number| InterfaceIndex::new(number).unwrap();
    let mut world = World::new(1);
    let gateway = Address::Ip("fe80::1".parse().unwrap());
    let hop = |number| NextHop::via_on(gateway, index(number));
    let set = RouteSet::plain(Forwarding::many([hop(7), hop(8)]).unwrap());
    world.leader.set_interfaces([(index(7), "port1".into()), (index(8), "port2".into())].into());
    world.change(0, &Routes::V6(batch([(prefix6(1), Some(set))])));
    world.write_all();
    let section = section(0, Family::Ipv6);
    let (follower, _) = &mut world.followers[0];
    follower.loaded(world.store.load().unwrap());
    while follower.run_slice() {}
    let mut hops = |own: &[(&str, u32)]| {
        follower
            .set_interfaces(own.iter().map(|(name, number)| (name.to_string(), index(*number))).collect());
        let routes = follower.take(&section, 10);
        let hops = routes.sets().iter().flat_map(|set| set.forwarding.next_hops().to_vec());
        hops.map(|hop| hop.interface.unwrap().number()).collect::<Vec<_>>()
    };
    assert_eq!(hops(&[]), [0_u32; 0], "not announced");
    assert_eq!(hops(&[("port1", 3)]), [3]);
    assert_eq!(hops(&[("port1", 3), ("port2", 9)]), [3, 9]);
    assert_eq!(hops(&[("port1", 3), ("port2", 9)]), [0_u32; 0], "nothing changed");
}
