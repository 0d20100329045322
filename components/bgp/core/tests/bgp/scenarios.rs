//! Whole routers talking to each other in virtual time.

mod backups;
mod relationships;

use crate::world::World;
use sluice_base::{AnyPrefix, Duration};
use sluice_bgp::event::{DownReason, PeerEvent};
use sluice_bgp::family::ByFamily;
use sluice_bgp::session::State;
use sluice_bgp::speaker::Input;
use sluice_bgp::wire::notification::{cease, code};
use std::net::IpAddr;

const A4: &str = "10.0.0.1";
const B4: &str = "10.0.0.2";
const A6: &str = "2001:db8::1";
const B6: &str = "2001:db8::2";
const SECOND: Duration = Duration::from_secs(1);

fn two(as_a: u32, as_b: u32) -> World {
    World::new(&[(as_a, &[A4, A6]), (as_b, &[B4, B6])])
}

/// The addresses to peer over: every scenario runs over both families.
const TRANSPORTS: [(&str, &str); 2] = [(A4, B4), (A6, B6)];

fn networks(texts: &[&str]) -> Vec<AnyPrefix> {
    texts.iter().map(|t| t.parse().unwrap()).collect()
}

fn hop(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn two_routers_meet_and_exchange_both_families() {
    for (a, b) in TRANSPORTS {
        for passive in [false, true] {
            let mut world = two(65001, 65002);
            world.peer((0, a), (1, b), |_| {});
            world.routers[1].config.neighbors[0].passive = passive;
            world.routers[0].config.networks = networks(&["192.0.2.0/24", "2001:db8:1::/48"]);
            world.routers[1].config.networks = networks(&["198.51.100.0/24"]);
            world.configure_all();
            let took = world.until_up((0, a), (1, b), SECOND);
            // Both connect at once: the collision is resolved on the way, without waiting for anything.
            assert!(took <= Duration::from_millis(60), "{took:?}");
            world.pass(SECOND);
            let of = |n: usize, p: &str| world.routers[n].rib.get(&p.parse().unwrap()).copied();
            assert_eq!(of(1, "192.0.2.0/24"), hop(A4));
            assert_eq!(of(1, "2001:db8:1::/48"), hop(A6));
            assert_eq!(of(0, "198.51.100.0/24"), hop(B4));
            assert_eq!((world.routers[0].rib.len(), world.routers[1].rib.len()), (1, 2));
            let view = world.routers[0].speaker.neighbor(b.parse().unwrap()).unwrap();
            assert_eq!(view.end_of_rib, ByFamily::from_fn(|_| true));
            world.check();
        }
    }
}

#[test]
fn an_hour_of_silence_keeps_the_session() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |n| n.hold_time = 9);
    world.configure_all();
    world.until_up((0, A4), (1, B4), SECOND);
    world.pass(3600 * SECOND);
    assert_eq!((world.ups(0), world.ups(1)), (1, 1));
    let view = world.routers[0].speaker.neighbor(B4.parse().unwrap()).unwrap();
    assert!(view.received.keepalive > 1200 && view.received.keepalive < 1700, "{:?}", view.received);
}

#[test]
fn a_neighbor_that_falls_silent_is_dead_when_the_hold_time_is_over() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |n| n.hold_time = 9);
    world.routers[0].config.networks = networks(&["192.0.2.0/24"]);
    world.configure_all();
    world.until_up((0, A4), (1, B4), SECOND);
    world.pass(20 * SECOND);
    world.silent = true;
    world.pass(5 * SECOND);
    assert_eq!((world.state(0, B4), world.routers[1].rib.len()), (State::Established, 1));
    world.pass(5 * SECOND);
    let expired = |world: &World, router: usize| {
        let mut events = world.routers[router].events.iter();
        events.any(|e| matches!(&e.what, PeerEvent::Down(DownReason::Sent(n)) if n.code == code::HOLD_TIMER))
    };
    // Whose time is over first closes the connection, which the other one sees.
    assert!(expired(&world, 0) || expired(&world, 1));
    assert_eq!(world.routers[1].rib.len(), 0);
    world.silent = false;
    // OPENs were lost for good, as no TCP loses them: the wait for one is long.
    world.until_up((0, A4), (1, B4), 300 * SECOND);
    world.pass(SECOND);
    assert_eq!(world.routers[1].rib.len(), 1);
    world.check();
}

#[test]
fn a_late_joiner_and_a_third_router_receive_everything() {
    let c = ["10.0.1.3", "2001:db8:0:1::3"];
    let b = ["10.0.0.2", "10.0.1.2", "2001:db8::2", "2001:db8:0:1::2"];
    let mut world = World::new(&[(65001, &[A4, A6]), (65002, &b), (65003, &c)]);
    world.peer((0, A4), (1, B4), |_| {});
    world.peer((1, "10.0.1.2"), (2, "10.0.1.3"), |_| {});
    let many: Vec<String> = (0..250).map(|n| format!("20.0.{n}.0/24")).collect();
    world.routers[0].config.networks = many.iter().map(|t| t.parse().unwrap()).collect();
    world.configure(0);
    world.configure(1);
    world.until_up((0, A4), (1, B4), SECOND);
    world.pass(SECOND);
    assert_eq!(world.routers[1].rib.len(), 250);
    world.configure(2);
    world.until_up((1, "10.0.1.2"), (2, "10.0.1.3"), 60 * SECOND);
    world.pass(SECOND);
    assert_eq!(world.routers[2].rib.len(), 250);
    // All equal attributes: one UPDATE, and the End-of-RIB markers of three families.
    let view = world.routers[1].speaker.neighbor("10.0.1.3".parse().unwrap()).unwrap();
    assert_eq!((view.writer.updates, view.writer.announced), (4, 250));
    // The origin withdraws: every router receives it.
    world.routers[0].config.networks.truncate(1);
    world.configure(0);
    world.pass(SECOND);
    assert_eq!((world.routers[1].rib.len(), world.routers[2].rib.len()), (1, 1));
    world.check();
}

#[test]
fn a_lost_session_loses_its_routes_and_comes_back() {
    for (a, b) in TRANSPORTS {
        let mut world = two(65001, 65002);
        world.peer((0, a), (1, b), |_| {});
        world.routers[0].config.networks = networks(&["192.0.2.0/24", "2001:db8:1::/48"]);
        world.configure_all();
        for flap in 1..=20 {
            world.until_up((0, a), (1, b), 600 * SECOND);
            world.pass(SECOND);
            assert_eq!((world.routers[1].rib.len(), world.ups(1)), (2, flap));
            world.sever(a, b);
            world.pass(SECOND);
            assert_eq!(world.routers[1].rib.len(), 0);
            world.mend();
        }
        world.check();
    }
}

#[test]
fn internal_peers_keep_the_next_hop_and_do_not_pass_on() {
    let b = ["10.0.0.2", "10.0.1.2", "2001:db8::2", "2001:db8:0:1::2"];
    let c = ["10.0.1.3", "10.0.2.3", "2001:db8:0:1::3", "2001:db8:0:2::3"];
    let d = ["10.0.2.4", "2001:db8:0:2::4"];
    // 65001 - (65002 = 65002 = 65002)
    let mut world = World::new(&[(65001, &[A4, A6]), (65002, &b), (65002, &c), (65002, &d)]);
    world.peer((0, A4), (1, B4), |_| {});
    world.peer((1, "10.0.1.2"), (2, "10.0.1.3"), |_| {});
    world.peer((2, "10.0.2.3"), (3, "10.0.2.4"), |_| {});
    world.routers[0].config.networks = networks(&["192.0.2.0/24", "2001:db8:1::/48"]);
    world.configure_all();
    world.pass(5 * SECOND);
    let of = |w: &World, n: usize, p: &str| w.routers[n].rib.get(&p.parse().unwrap()).copied();
    assert_eq!(of(&world, 2, "192.0.2.0/24"), hop(A4));
    assert_eq!(of(&world, 2, "2001:db8:1::/48"), hop(A6));
    assert!(world.routers[3].rib.is_empty());
    // Next hop self is advertised at once, without a reset.
    world.routers[1].config.neighbors[1].next_hop_self = true;
    world.configure(1);
    world.pass(SECOND);
    assert_eq!(of(&world, 2, "192.0.2.0/24"), hop("10.0.1.2"));
    assert_eq!((world.ups(1), world.ups(2)), (2, 2));
    world.check();
}

#[test]
fn who_prepares_to_go_is_left_while_all_sessions_stay() {
    let b = ["10.0.0.2", "10.0.1.2", "2001:db8::2", "2001:db8:0:1::2"];
    let c = ["10.0.1.3", "10.0.2.3", "2001:db8:0:1::3", "2001:db8:0:2::3"];
    let a = [A4, "10.0.2.1", A6, "2001:db8:0:2::1"];
    // 65001 - (65002 = 65002) - 65001: two ways from the one AS to the other.
    let mut world = World::new(&[(65001, &a), (65002, &b), (65002, &c)]);
    world.peer((0, A4), (1, B4), |_| {});
    world.peer((0, "10.0.2.1"), (2, "10.0.2.3"), |_| {});
    world.peer((1, "10.0.1.2"), (2, "10.0.1.3"), |n| n.next_hop_self = true);
    world.routers[0].config.networks = networks(&["192.0.2.0/24"]);
    world.routers[1].config.networks = networks(&["198.51.100.0/24"]);
    world.routers[2].config.networks = networks(&["198.51.100.0/24"]);
    world.configure_all();
    world.pass(5 * SECOND);
    let of = |w: &World, n: usize, p: &str| w.routers[n].rib.get(&p.parse().unwrap()).copied();
    let drain = |world: &mut World, router: usize, on: bool| {
        world.routers[router].config.neighbors.iter_mut().for_each(|n| n.graceful_shutdown = on);
        world.configure(router);
        world.pass(SECOND);
    };
    for (router, other) in [(1, "10.0.2.3"), (2, "10.0.0.2"), (1, "10.0.2.3")] {
        drain(&mut world, router, true);
        assert_eq!(of(&world, 0, "198.51.100.0/24"), hop(other), "the other AS goes the other way");
        assert_eq!(of(&world, 1, "192.0.2.0/24"), hop(A4), "each still has its own way");
        assert_eq!(of(&world, 2, "192.0.2.0/24"), hop("10.0.2.1"));
        drain(&mut world, router, false);
    }
    // Where there is no other way it is still used.
    drain(&mut world, 1, true);
    drain(&mut world, 2, true);
    assert!(of(&world, 0, "198.51.100.0/24").is_some());
    assert_eq!((world.ups(0), world.ups(1), world.ups(2)), (2, 2, 2));
    world.check();
}

#[test]
fn configuration_touches_only_what_it_must() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |_| {});
    world.peer((0, A6), (1, B6), |_| {});
    world.configure_all();
    world.pass(5 * SECOND);
    assert_eq!(world.ups(0), 2);
    // The same once more, and what nobody at the other end can see.
    world.configure(0);
    world.routers[0].config.neighbors[0].description = "a note".into();
    world.configure(0);
    world.pass(5 * SECOND);
    assert_eq!((world.ups(0), world.ups(1)), (2, 2));
    // A hold time is negotiated: one session must go, the other stays.
    world.routers[0].config.neighbors[0].hold_time = 30;
    world.configure(0);
    world.pass(5 * SECOND);
    assert_eq!((world.ups(0), world.ups(1)), (3, 3));
    let down = |world: &World, subcode: u8| {
        world.routers[1].events.iter().any(|e| match &e.what {
            // Ends that are meant to last come in a Hard Reset (RFC 8538).
            PeerEvent::Down(DownReason::Received(n)) => {
                let inside = n.reason();
                let n = inside.as_ref().unwrap_or(n);
                n.code == 6 && n.subcode == subcode
            }
            _ => false,
        })
    };
    assert!(down(&world, cease::CONFIGURATION));
    let view = world.routers[1].speaker.neighbor(A4.parse().unwrap()).unwrap();
    assert_eq!(view.negotiated.unwrap().hold_time, 30);
    // Off, on, and gone.
    world.routers[0].config.neighbors[0].enabled = false;
    world.configure(0);
    world.pass(5 * SECOND);
    assert!(down(&world, cease::SHUTDOWN) && world.state(0, B4) == State::Idle);
    world.routers[0].config.neighbors[0].enabled = true;
    world.configure(0);
    world.until_up((0, A4), (1, B4), 100 * SECOND);
    world.routers[0].config.neighbors.remove(1);
    world.configure(0);
    world.pass(5 * SECOND);
    assert!(down(&world, cease::DECONFIGURED));
    assert_eq!(world.state(0, B4), State::Established);
    world.input(0, Input::Reset(B4.parse().unwrap(), "coffee".into()));
    world.pass(5 * SECOND);
    let said = world.routers[1].events.iter().any(|e| e.to_string().contains("\"coffee\""));
    assert!(said && world.state(0, B4) == State::Established);
}

#[test]
fn a_refresh_sends_everything_again() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |_| {});
    world.routers[0].config.networks = networks(&["192.0.2.0/24", "2001:db8:1::/48"]);
    world.configure_all();
    world.pass(SECOND);
    let sent = |w: &World| w.routers[0].speaker.neighbor(B4.parse().unwrap()).unwrap().writer.announced;
    assert_eq!(sent(&world), 2);
    world.input(1, Input::Refresh(A4.parse().unwrap()));
    world.pass(SECOND);
    assert_eq!(sent(&world), 4);
    assert_eq!(world.routers[1].rib.len(), 2);
    world.check();
}

#[test]
fn the_wrong_as_is_refused_and_the_refusal_gets_rarer() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |_| {});
    world.routers[0].config.neighbors[0].peer_as = sluice_base::Asn(65009);
    world.configure_all();
    world.pass(600 * SECOND);
    assert_eq!(world.ups(0), 0);
    let refused =
        world.routers[0].events.iter().filter(|e| e.to_string().contains("sent NOTIFICATION")).count();
    assert!((10..200).contains(&refused), "{refused}");
    // Mended, it comes up, at the latest when the longest rest is over.
    world.routers[0].config.neighbors[0].peer_as = sluice_base::Asn(65002);
    world.configure(0);
    world.until_up((0, A4), (1, B4), 300 * SECOND);
}

#[test]
fn the_rib_may_restart() {
    let mut world = two(65001, 65002);
    world.peer((0, A4), (1, B4), |_| {});
    world.routers[0].config.networks = networks(&["192.0.2.0/24", "2001:db8:1::/48"]);
    world.configure_all();
    world.pass(SECOND);
    world.routers[1].rib.clear();
    world.input(1, Input::RibRestarted);
    world.pass(SECOND);
    assert_eq!(world.routers[1].rib.len(), 2);
    assert_eq!(world.ups(1), 1);
}
