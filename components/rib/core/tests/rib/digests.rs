//! A RIB and an engine on the other side of a stream that loses messages: the digests find each loss, and the family that differs is
//! announced again.

use proptest::prelude::*;
use sluice_base::*;
use sluice_fea::engine::Link;
use sluice_fea::sim::SimEngine;
use sluice_fea::{Drive, Effect, Fea};
use sluice_machine::{Budget, Machine, Outbox, Progress, Request};
use sluice_rib::request::UpdateRoutes;
use sluice_rib::{Input, OriginSettings, Rib};

const TABLE: TableId = TableId::MAIN;

struct World {
    rib: Rib,
    out: Outbox<sluice_rib::Output>,
    fea: Drive<SimEngine>,
    effects: Vec<Effect>,
    /// Batches to lose.
    loses: usize,
}

fn interface() -> Interface {
    let addr = "10.0.0.1".parse().unwrap();
    Interface {
        index: InterfaceIndex::new(1).unwrap(),
        name: "eth1".into(),
        admin_up: true,
        running: true,
        loopback: false,
        point_to_point: false,
        multicast: true,
        mtu: 1500,
        mac: vec![2, 0, 0, 0, 0, 1],
        addresses: vec![InterfaceAddress { addr, prefix_len: 24, peer: None }],
    }
}

impl World {
    fn new() -> Self {
        let mut engine = SimEngine::new();
        let Interface { index, name, mac, addresses, .. } = interface();
        engine.set_link(Link {
            index,
            name,
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac,
        });
        engine.add_address(index, addresses[0]);
        let fea = Drive::new(Fea::new(5), engine);
        let mut world = World { rib: Rib::new(1, 2), out: Outbox::new(), fea, effects: Vec::new(), loses: 0 };
        world.fea.quiesce(Instant::ZERO, &mut world.effects);
        world.input(Input::Interface(InterfaceEvent::Changed(interface())));
        let (name, distance, grace) = ("bgp".into(), Distance(20), Duration::from_secs(60));
        let settings = OriginSettings { name, distance, external: true, grace, kinds: Vec::new() };
        world.input(Input::RegisterOrigin(TABLE, settings));
        let key = world.fea.core().digest_key();
        world.input(Input::FibDigestKey(key));
        world.fea.handle(Instant::ZERO, sluice_fea::Input::BeginResync(TABLE), &mut world.effects);
        world.input(Input::FibRestarted);
        world.send();
        world
    }

    fn input(&mut self, input: Input) {
        self.rib.handle(Instant::ZERO, input, &mut self.out);
        self.idle();
    }

    fn idle(&mut self) {
        while self.rib.run_slice(Instant::ZERO, Budget::SLICE, &mut self.out) == Progress::More {}
        self.out.drain().for_each(drop);
    }

    fn announce(&mut self, prefix: u32, gateway: Option<u8>) {
        let mut batch = RouteBatch::default();
        if let Some(gateway) = gateway {
            let hop = NextHop::via(Address::Ip([10, 0, 0, gateway].into()));
            batch.sets.push(RouteSet::plain(Forwarding::one(hop)));
        }
        let action = if gateway.is_some() { RouteAction::Set(0) } else { RouteAction::Delete };
        let prefix: Ipv4Prefix = Prefix::from_parts(0xc000_0000 | prefix << 8, 24).unwrap();
        batch.updates.push(RouteUpdate { prefix, action, provenance: Provenance::NONE });
        let update = UpdateRoutes { table: TABLE, origin: "bgp".into(), batch };
        update.make(&mut self.rib, Instant::ZERO, &mut self.out);
        self.idle();
        self.send();
    }

    /// Sends what waits, a few routes at a time.
    fn send(&mut self) {
        while self.rib.fib_work().next().is_some() {
            let mut batch = FibBatch::<Ipv4Prefix, Address>::default();
            self.rib.fill_fib(TABLE, 4, &mut batch);
            self.rib.fill_fib(TABLE, 4, &mut FibBatch::<Ipv6Prefix, Address>::default());
            if self.loses > 0 {
                self.loses -= 1;
                continue;
            }
            let batch = batch.convert(Address::ip).unwrap();
            let input = sluice_fea::Input::UpdateIpv4(TABLE, batch);
            self.fea.handle(Instant::ZERO, input, &mut self.effects);
        }
        self.fea.quiesce(Instant::ZERO, &mut self.effects);
    }

    fn are_equal(&mut self) -> bool {
        let sent = self.rib.fib_digests(TABLE, FamilyId::IPV4).unwrap();
        sent == self.fea.core().announced_digests(TABLE, Family::Ipv4)
    }

    fn refresh(&mut self) {
        let begin = sluice_fea::Input::BeginRefresh(TABLE, Family::Ipv4);
        self.fea.handle(Instant::ZERO, begin, &mut self.effects);
        self.input(Input::RefreshFib(TABLE, FamilyId::IPV4));
        self.send();
        let end = sluice_fea::Input::EndRefresh(TABLE, Family::Ipv4);
        self.fea.handle(Instant::ZERO, end, &mut self.effects);
        self.fea.quiesce(Instant::ZERO, &mut self.effects);
    }

    /// Returns true if the engine forwards as that of a world without losses.
    fn is_like(&mut self, other: &mut World) -> bool {
        self.fea.engine().forwarding() == other.fea.engine().forwarding()
    }
}

proptest! {
    #[test]
    fn lost_batches_are_found_and_announced_again(
        changes in prop::collection::vec((0u32..6, prop::option::of(2u8..6), prop::bool::weighted(0.2)), 1..40)
    ) {
        let (mut lossy, mut other) = (World::new(), World::new());
        for (prefix, gateway, is_lost) in changes {
            lossy.loses = usize::from(is_lost);
            lossy.announce(prefix, gateway);
            other.announce(prefix, gateway);
            lossy.loses = 0;
            prop_assert!(other.are_equal());
            if lossy.are_equal() {
                prop_assert!(lossy.is_like(&mut other));
            }
        }
        if !lossy.are_equal() {
            lossy.refresh();
        }
        prop_assert!(lossy.are_equal() && lossy.is_like(&mut other));
    }
}

/// The number of a group without routes is another group's soon: a route that stayed because its deletion was lost is not one of that.
#[test]
fn a_lost_deletion_is_found_although_the_number_of_its_group_is_used_again() {
    let (mut lossy, mut other) = (World::new(), World::new());
    for (prefix, gateway, is_lost) in [
        (4, Some(5), false),
        (5, Some(5), false),
        (5, None, true),
        (4, None, false),
        (0, Some(4), false),
        (5, Some(4), true),
    ] {
        lossy.loses = usize::from(is_lost);
        lossy.announce(prefix, gateway);
        other.announce(prefix, gateway);
        lossy.loses = 0;
    }
    assert!(!lossy.are_equal());
    lossy.refresh();
    assert!(lossy.are_equal() && lossy.is_like(&mut other));
}

#[test]
fn a_refresh_leaves_no_surplus_route_and_writes_nothing_twice() {
    let mut world = World::new();
    (0..20).for_each(|prefix| world.announce(prefix, Some(2)));
    world.loses = 1;
    world.announce(7, None);
    assert!(!world.are_equal());
    let before = world.fea.engine().operations;
    world.refresh();
    assert!(world.are_equal());
    assert_eq!(world.fea.engine().operations - before, 1, "only the surplus route is removed");
    assert_eq!(world.fea.engine().routes.len(), 19);
    assert_eq!(world.fea.core().totals().refreshed, 1);
}
