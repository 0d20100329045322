//! Customers, peers and providers (RFC 9234; Gao and Rexford), with whole routers in virtual time.

use super::SECOND;
use crate::world::World;
use sluice_base::AnyPrefix;
use sluice_bgp::relationship::Relationship::{
    self, Customer, Peer, Provider, RouteServer, RouteServerClient,
};
use sluice_bgp::session::State;
use std::net::IpAddr;

/// Makes `a` and `b` neighbors over link number `link`; `b` is `relationship` to `a`.
fn relate(world: &mut World, link: u8, a: usize, b: usize, relationship: Option<Relationship>) {
    let ends = [address(link, a), address(link, b)];
    world.peer((a, &ends[0]), (b, &ends[1]), |_| {});
    let reverse = relationship.map(|r| match r {
        Customer => Provider,
        Peer => Peer,
        Provider => Customer,
        RouteServer => RouteServerClient,
        RouteServerClient => RouteServer,
    });
    for (router, relationship) in [(a, relationship), (b, reverse)] {
        world.routers[router].config.neighbors.last_mut().unwrap().relationship = relationship;
    }
}

fn address(link: u8, router: usize) -> String {
    format!("10.0.{link}.{}", router + 1)
}

/// Routers of these ASes, with an address on each of ten links, and a network of their own.
fn routers(ases: &[u32]) -> World {
    let addresses: Vec<Vec<String>> =
        (0..ases.len()).map(|router| (0..10).map(|link| address(link, router)).collect()).collect();
    let addresses: Vec<Vec<&str>> =
        addresses.iter().map(|all| all.iter().map(String::as_str).collect()).collect();
    let routers: Vec<(u32, &[&str])> =
        ases.iter().zip(&addresses).map(|(asn, all)| (*asn, &all[..])).collect();
    let mut world = World::new(&routers);
    for router in 0..ases.len() {
        world.routers[router].config.networks = vec![network(router)];
    }
    world
}

fn network(of: usize) -> AnyPrefix {
    format!("20.0.{of}.0/24").parse().unwrap()
}

/// Which routers have a route to the network of `of`, itself not counted.
fn receivers(world: &World, of: usize) -> Vec<usize> {
    (0..world.routers.len()).filter(|r| world.routers[*r].rib.contains_key(&network(of))).collect()
}

const PROVIDER_A: usize = 0;
const PROVIDER_B: usize = 1;
const LEFT: usize = 2;
const RIGHT: usize = 3;
const CUSTOMER: usize = 4;
const PEER: usize = 5;
const STRANGER: usize = 6;

/// Two routers of AS 65000: the left one has a provider and a peer, the right one a provider, a customer and a neighbor of which nothing is
/// said.
fn an_as_and_its_neighbors() -> World {
    let mut world = routers(&[65010, 65020, 65000, 65000, 65030, 65040, 65050]);
    relate(&mut world, 1, LEFT, PROVIDER_A, Some(Provider));
    relate(&mut world, 2, LEFT, PEER, Some(Peer));
    relate(&mut world, 3, LEFT, RIGHT, None);
    relate(&mut world, 4, RIGHT, PROVIDER_B, Some(Provider));
    relate(&mut world, 5, RIGHT, CUSTOMER, Some(Customer));
    relate(&mut world, 6, RIGHT, STRANGER, None);
    world.configure_all();
    world.pass(10 * SECOND);
    world
}

#[test]
fn nobody_carries_traffic_for_nothing() {
    let world = an_as_and_its_neighbors();
    let both = [LEFT, RIGHT];
    let check = |of: usize, others: &[usize]| {
        let mut expected: Vec<usize> = both.iter().chain(others).copied().filter(|r| *r != of).collect();
        expected.sort_unstable();
        assert_eq!(receivers(&world, of), expected, "of {of}");
    };
    // Routes of a provider or a peer to one router of the AS are sent by neither of them to other providers and peers.
    check(PROVIDER_A, &[CUSTOMER, STRANGER]);
    check(PROVIDER_B, &[CUSTOMER, STRANGER]);
    check(PEER, &[CUSTOMER, STRANGER]);
    // A customer's networks, the AS's own, and those of a neighbor of which nothing is said, are for all.
    let all = [PROVIDER_A, PROVIDER_B, CUSTOMER, PEER, STRANGER];
    check(CUSTOMER, &[PROVIDER_A, PROVIDER_B, PEER, STRANGER]);
    check(LEFT, &all);
    check(STRANGER, &[PROVIDER_A, PROVIDER_B, CUSTOMER, PEER]);
    world.check();
}

#[test]
fn customers_are_preferred_even_from_afar() {
    let mut world = an_as_and_its_neighbors();
    let shared: AnyPrefix = "20.1.0.0/24".parse().unwrap();
    let next_hop = |world: &World| world.routers[LEFT].rib.get(&shared).copied();
    let hop = |link, router| Some(address(link, router).parse::<IpAddr>().unwrap());
    for (router, expected) in [
        (PROVIDER_A, hop(1, PROVIDER_A)),
        (PEER, hop(2, PEER)),
        // By way of the other router of the AS: LOCAL_PREF counts before anything else.
        (CUSTOMER, hop(5, CUSTOMER)),
    ] {
        world.routers[router].config.networks.push(shared);
        world.configure(router);
        world.pass(SECOND);
        assert_eq!(next_hop(&world), expected);
    }
    // The customer's route went everywhere; without it the peer's is sent to customers only.
    assert!(world.routers[PROVIDER_B].rib.contains_key(&shared));
    world.routers[CUSTOMER].config.networks.pop();
    world.configure(CUSTOMER);
    world.pass(SECOND);
    assert_eq!(next_hop(&world), hop(2, PEER));
    assert!(!world.routers[PROVIDER_B].rib.contains_key(&shared));
    assert!(world.routers[CUSTOMER].rib.contains_key(&shared));
    world.check();
}

#[test]
fn a_relationship_can_change() {
    let mut world = an_as_and_its_neighbors();
    assert!(!receivers(&world, PEER).contains(&PROVIDER_A));
    world.routers[LEFT].config.neighbors[1].relationship = Some(Customer);
    world.routers[PEER].config.neighbors[0].relationship = Some(Provider);
    world.configure(LEFT);
    world.configure(PEER);
    world.pass(60 * SECOND);
    assert!(receivers(&world, PEER).contains(&PROVIDER_A) && receivers(&world, PROVIDER_A).contains(&PEER));
    world.check();
}

#[test]
fn roles_that_contradict_each_other_are_refused() {
    let check = |here: Option<Relationship>, there: Option<Relationship>, expected: bool| {
        let mut world = routers(&[65001, 65002]);
        relate(&mut world, 1, 0, 1, None);
        world.routers[0].config.neighbors[0].relationship = here;
        world.routers[1].config.neighbors[0].relationship = there;
        world.configure_all();
        world.pass(5 * SECOND);
        assert_eq!(world.state(0, &address(1, 1)) == State::Established, expected, "{here:?} {there:?}");
        let events = world.routers.iter().flat_map(|r| &r.events);
        assert_eq!(events.filter(|e| e.to_string().contains("role mismatch")).count() == 0, expected);
    };
    check(Some(Customer), Some(Provider), true);
    check(Some(Peer), Some(Peer), true);
    check(Some(Customer), None, true);
    check(Some(Customer), Some(Customer), false);
    check(Some(Provider), Some(Provider), false);
    check(Some(Peer), Some(Provider), false);
}

/// A customer that does not know of roles announces the routes of one provider to the other.
#[test]
fn a_leak_is_seen_and_not_used() {
    let mut world = routers(&[65010, 65020, 65030]);
    relate(&mut world, 1, 0, 2, Some(Customer));
    relate(&mut world, 2, 1, 2, Some(Customer));
    for neighbor in &mut world.routers[2].config.neighbors {
        neighbor.relationship = None;
    }
    world.configure_all();
    world.pass(5 * SECOND);
    assert_eq!(receivers(&world, 0), [2]);
    assert_eq!(receivers(&world, 2), [0, 1]);
    let leaks = |router: usize, link| {
        world.routers[router].speaker.neighbor(address(link, 2).parse().unwrap()).unwrap().reader.leaks
    };
    assert!(leaks(0, 1) > 0 && leaks(1, 2) > 0);
    world.check();
}
