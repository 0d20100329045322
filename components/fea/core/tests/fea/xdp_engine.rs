//! The fast path beside a simulated authority: after any operations, and whenever the engine joined, each packet is treated as
//! the authority treats it or goes to the authority.

use crate::shared::{ALL, Shared, UNICAST, index};
use proptest::prelude::*;
use sluice_base::*;
use sluice_fea::engine::AuthorityRoutes;
use sluice_fea::sim::SimRoute;
use sluice_fea::xdp::{Action, Forwarder, Memory, Port, Way, XdpEngine};
use sluice_fea::{Drive, Effect, Engine, EngineSet, Fea, Input, Member, RouteTarget};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

const TABLE: TableId = TableId::MAIN;

/// The neighbors' link-layer addresses by the interface's number.
fn mac(interface: InterfaceIndex) -> Mac {
    Mac([2, 0, 0, 0, 1, interface.number() as u8])
}

/// A change.
#[derive(Clone, Debug)]
enum Change {
    /// A group leads to these ways (1 and 2), or drops packets if there are none.
    Group(u32, Vec<u8>),
    /// A prefix uses a group, or has no route.
    Route(Ipv4Prefix, Option<u32>),
    /// The link of an interface has a carrier or not.
    Link(u8, bool),
    /// The engine joins.
    Join,
}

fn prefixes() -> impl Strategy<Value = Ipv4Prefix> {
    (0u32..4, prop::sample::select(vec![0u8, 8, 16, 24, 26, 32])).prop_map(|(bits, len)| {
        let bits = 0xc000_0200 | bits << 6 | bits;
        let mask = if len == 0 { 0 } else { u32::MAX << (32 - len) };
        Prefix::from_parts(bits & mask, len).unwrap()
    })
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => (1u32..4, prop::collection::vec(1u8..3, 0..3)).prop_map(|(group, ways)| Change::Group(group, ways)),
        6 => (prefixes(), prop::option::of(1u32..4)).prop_map(|(prefix, group)| Change::Route(prefix, group)),
        1 => (1u8..3, any::<bool>()).prop_map(|(link, up)| Change::Link(link, up)),
        1 => Just(Change::Join),
    ]
}

struct World {
    drive: Drive<EngineSet>,
    authority: Shared,
    forwarder: Rc<RefCell<Forwarder<Memory>>>,
    joined: bool,
    effects: Vec<Effect>,
}

impl World {
    fn new() -> Self {
        let authority = Shared::new(ALL);
        let mut forwarder = Forwarder::new(Memory::default());
        for n in [1, 2] {
            let interface = index(n);
            forwarder.set_port(
                interface,
                Some(Port { mac: Mac([2, 0, 0, 0, 0, n as u8]), mtu: 1500, sends: true }),
            );
            forwarder.set_neighbor(interface, gateway(n as u8), Some(mac(interface)));
        }
        let drive = Drive::new(Fea::new(1), EngineSet::new(Box::new(authority.clone())));
        let forwarder = Rc::new(RefCell::new(forwarder));
        let mut world = World { drive, authority, forwarder, joined: false, effects: Vec::new() };
        world.quiesce();
        // Groups are announced before routes use them.
        (1..4).for_each(|group| world.apply(&Change::Group(group, vec![1])));
        world
    }

    fn quiesce(&mut self) {
        self.drive.quiesce(Instant::ZERO, &mut self.effects);
        self.effects.clear();
    }

    fn update(&mut self, batch: FibBatch<Ipv4Prefix>) {
        self.drive.handle(Instant::ZERO, Input::UpdateIpv4(TABLE, batch), &mut self.effects);
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Group(group, ways) => {
                let hops: Vec<_> =
                    ways.iter().map(|n| NextHop::via_on(gateway(*n), index((*n).into()))).collect();
                let forwarding = Forwarding::many(hops).unwrap_or(Forwarding::Discard);
                self.update(FibBatch { groups: vec![(GroupId(*group), forwarding)], ..FibBatch::default() });
            }
            Change::Route(prefix, group) => {
                let group = group.map(GroupId);
                let route =
                    FibRoute { prefix: *prefix, group, provenance: Provenance::NONE, is_external: true };
                self.update(FibBatch { routes: vec![route], ..FibBatch::default() });
            }
            Change::Link(link, up) => {
                self.authority.engine.borrow_mut().set_up(index((*link).into()), *up);
                let port = Port { mac: Mac([2, 0, 0, 0, 0, *link]), mtu: 1500, sends: *up };
                self.forwarder.borrow_mut().set_port(index((*link).into()), Some(port));
            }
            Change::Join if self.joined => {}
            Change::Join => {
                self.joined = true;
                let engine = XdpEngine::new(Rc::clone(&self.forwarder));
                assert_eq!(engine.capabilities(), UNICAST);
                self.drive.engine().join(Box::new(engine));
            }
        }
        self.quiesce();
    }

    /// Returns the members of the authority's route for an address; `None` without a route that leads to a group.
    fn authority_members(&self, address: Ipv4Addr) -> Option<Vec<Member>> {
        let engine = self.authority.engine.borrow();
        let matching = engine.routes.iter().filter(|((table, prefix), _)| {
            *table == TABLE && matches!(prefix, IpPrefix::V4(prefix) if prefix.contains(ip::V4Addr(address)))
        });
        let (_, route) = matching.max_by_key(|((_, prefix), _)| prefix.len())?;
        let SimRoute::Ours(RouteTarget::Group(id)) = route else { return None };
        let members = engine.groups.get(id)?;
        Some(members.iter().filter_map(|(id, _)| engine.members.get(id).copied()).collect())
    }

    fn check(&self) {
        let forwarder = self.forwarder.borrow();
        for bits in 0..16u32 {
            let address = Ipv4Addr::from_bits(0xc000_0200 | bits << 5 | (bits & 3));
            let expected = self.authority_members(address);
            for flow in [0, 17, 64, 127] {
                let way = forwarder.tables().way(forwarder.tables().lookup_ipv4(address, flow));
                assert!(agrees(&way, expected.as_deref()), "{address} {flow}: {way:?}, {expected:?}");
            }
        }
    }
}

fn gateway(n: u8) -> IpAddr {
    [10, 0, n - 1, 2].into()
}

fn agrees(way: &Way, members: Option<&[Member]>) -> bool {
    let members = members.unwrap_or_default();
    match way.action {
        Action::Kernel => true,
        Action::Unresolved => false,
        Action::Drop => members.iter().any(|member| matches!(member, Member::Blackhole { .. })),
        Action::Forward => members.iter().any(|member| {
            member.interface() == way.interface && way.interface.map(mac) == Some(way.destination)
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_packet_is_treated_as_the_authority_treats_it(list in prop::collection::vec(changes(), 1..40)) {
        let mut world = World::new();
        for change in &list {
            world.apply(change);
            world.check();
        }
        world.apply(&Change::Join);
        prop_assert!(world.forwarder.borrow().is_complete());
        world.check();
    }
}

/// A route of an external origin that the authority does not take is forwarded all the same.
#[test]
fn a_route_that_the_authority_does_not_take_is_forwarded() {
    let mut world = World::new();
    world.apply(&Change::Join);
    world.drive.handle(
        Instant::ZERO,
        Input::SelectRoutes(AuthorityRoutes::Internal(vec![])),
        &mut world.effects,
    );
    world.apply(&Change::Route("192.0.2.0/24".parse().unwrap(), Some(1)));
    assert!(world.authority.engine.borrow().routes.is_empty());
    let forwarder = world.forwarder.borrow();
    let way = forwarder.tables().way(forwarder.tables().lookup_ipv4([192, 0, 2, 1].into(), 0));
    assert_eq!(way.action, Action::Forward);
}

/// What is left to the kernel is left for a reason: a route over a link that runs is forwarded.
#[test]
fn a_route_is_forwarded_once_the_engine_has_joined() {
    let mut world = World::new();
    world.apply(&Change::Route("192.0.2.0/24".parse().unwrap(), Some(1)));
    world.apply(&Change::Join);
    let way = |world: &World| {
        let forwarder = world.forwarder.borrow();
        forwarder.tables().way(forwarder.tables().lookup_ipv4([192, 0, 2, 1].into(), 0))
    };
    assert_eq!((way(&world).action, way(&world).interface), (Action::Forward, Some(index(1))));
    world.apply(&Change::Group(1, vec![2]));
    assert_eq!((way(&world).action, way(&world).interface), (Action::Forward, Some(index(2))));
    world.apply(&Change::Group(1, vec![]));
    assert_ne!(way(&world).action, Action::Forward);
}
