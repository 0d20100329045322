//! Backups for the RIB, and gateways that are lost with a session, with whole routers in virtual time.

use super::SECOND;
use crate::world::{World, reachable};
use sluice_base::interest::InterestAnswer;
use sluice_base::ip::V4Addr;
use sluice_base::{AnyPrefix, Ipv4Prefix};
use sluice_bgp::speaker::Input;
use std::net::IpAddr;

const ONE: &str = "10.0.1.2";
const TWO: &str = "10.0.2.2";

/// Router 0 between routers 1 and 2, which originate the same network; router 1 originates another one alone.
fn between() -> World {
    let mut world = World::new(&[(65001, &["10.0.1.1", "10.0.2.1"]), (65002, &[ONE]), (65003, &[TWO])]);
    world.peer((0, "10.0.1.1"), (1, ONE), |_| {});
    world.peer((0, "10.0.2.1"), (2, TWO), |_| {});
    world.routers[1].config.networks = vec![prefix("192.0.2.0/24"), prefix("198.51.100.0/24")];
    world.routers[2].config.networks = vec![prefix("192.0.2.0/24")];
    world
}

fn prefix(text: &str) -> AnyPrefix {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn backup(world: &World, of: &str) -> Option<IpAddr> {
    world.routers[0].backups.get(&prefix(of)).copied()
}

#[test]
fn the_rib_hears_the_second_best_path_when_the_table_rests() {
    let mut world = between();
    world.input(0, Input::RibRestarted);
    world.configure_all();
    world.pass(SECOND);
    let rib = &world.routers[0].rib;
    assert_eq!((rib[&prefix("192.0.2.0/24")], rib[&prefix("198.51.100.0/24")]), (address(ONE), address(ONE)));
    assert!(world.routers[0].backups.is_empty(), "too early");
    world.pass(SECOND * 3);
    assert_eq!(backup(&world, "192.0.2.0/24"), Some(address(TWO)));
    assert_eq!(backup(&world, "198.51.100.0/24"), None);
    // Nothing changes, and nothing more is sent.
    let sent = world.routers[0].changes_for_rib;
    world.pass(SECOND * 60);
    assert_eq!(world.routers[0].changes_for_rib, sent);
    // A RIB that starts anew knows nothing of before.
    world.routers[0].rib.clear();
    world.routers[0].backups.clear();
    world.input(0, Input::RibRestarted);
    world.pass(SECOND * 4);
    assert_eq!(backup(&world, "192.0.2.0/24"), Some(address(TWO)));
    // The backup goes with its path, and comes back with it.
    world.sever("10.0.2.1", TWO);
    world.pass(SECOND * 4);
    assert_eq!(world.routers[0].rib[&prefix("192.0.2.0/24")], address(ONE));
    assert_eq!(backup(&world, "192.0.2.0/24"), None);
    world.mend();
    world.pass(SECOND * 200);
    assert_eq!(backup(&world, "192.0.2.0/24"), Some(address(TWO)));
    world.check();
}

/// The best path stays, and the other one's next hop is reached later.
#[test]
fn a_backup_is_told_when_its_next_hop_is_reached() {
    let mut world = between();
    world.input(0, Input::RibRestarted);
    world.configure_all();
    world.pass(SECOND * 5);
    let reached = reachable::<Ipv4Prefix>(V4Addr(TWO.parse().unwrap()));
    world.input(0, Input::AnswerIpv4(InterestAnswer { route: None, ..reached.clone() }));
    world.pass(SECOND * 5);
    assert_eq!(backup(&world, "192.0.2.0/24"), None);
    world.input(0, Input::AnswerIpv4(reached));
    world.pass(SECOND * 5);
    assert_eq!(backup(&world, "192.0.2.0/24"), Some(address(TWO)));
    assert_eq!(world.routers[0].rib[&prefix("192.0.2.0/24")], address(ONE));
}

#[test]
fn a_gateway_is_lost_with_the_session_of_its_neighbor() {
    let mut world = between();
    world.input(0, Input::RibRestarted);
    world.configure_all();
    world.pass(SECOND * 5);
    world.sever("10.0.1.1", ONE);
    world.pass(SECOND);
    assert!(world.routers[0].lost.contains(&address(ONE)));
    assert_eq!(world.routers[0].rib.get(&prefix("192.0.2.0/24")), Some(&address(TWO)));
    assert_eq!(world.routers[0].rib.get(&prefix("198.51.100.0/24")), None);
    // Others may lead to that address when the neighbor's routes are withdrawn.
    world.pass(SECOND * 28);
    assert!(world.routers[0].lost.contains(&address(ONE)));
    world.pass(SECOND * 2);
    assert!(world.routers[0].lost.is_empty());
    world.mend();
    world.pass(SECOND * 200);
    world.sever("10.0.1.1", ONE);
    world.pass(SECOND);
    assert!(world.routers[0].lost.contains(&address(ONE)));
    world.mend();
    world.pass(SECOND * 200);
    assert!(world.routers[0].lost.is_empty());
    assert_eq!(world.routers[0].rib[&prefix("192.0.2.0/24")], address(ONE));
    assert_eq!(backup(&world, "192.0.2.0/24"), Some(address(TWO)));
}

/// A route reflector's session says nothing of the routers whose routes it passes on.
#[test]
fn third_party_next_hops_stay_usable() {
    let mut world =
        World::new(&[(65001, &["10.0.0.1"]), (65001, &["10.0.0.2", "10.0.1.1"]), (65002, &["10.0.1.2"])]);
    world.peer((0, "10.0.0.1"), (1, "10.0.0.2"), |_| {});
    world.peer((1, "10.0.1.1"), (2, "10.0.1.2"), |_| {});
    world.routers[2].config.networks = vec![prefix("192.0.2.0/24")];
    world.input(0, Input::RibRestarted);
    world.configure_all();
    world.pass(SECOND * 5);
    assert_eq!(world.routers[0].rib[&prefix("192.0.2.0/24")], address("10.0.1.2"), "not the reflector's");
    world.sever("10.0.0.1", "10.0.0.2");
    world.pass(SECOND);
    assert!(world.routers[0].lost.is_empty());
    assert!(world.routers[0].rib.is_empty());
}
