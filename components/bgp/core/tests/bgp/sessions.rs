//! Rules about sessions of a whole router: scripted neighbors around it, in virtual time.

use sluice_base::{Asn, Duration, Instant, Ipv4Prefix};
use sluice_bgp::event::PeerEvent;
use sluice_bgp::family::{Families, FamilyCodes, FamilyIndex};
use sluice_bgp::session::State;
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::speaker::control::RefreshRefusal;
use sluice_bgp::wire::{AFI_IPV6, Capability, header};
use sluice_bgp::writer::put_end_of_rib;
use sluice_bgp_dut::{Dut, Net, Route};

const MS: Duration = Duration::from_millis(1);

type Router = Dut<Ipv4Prefix>;

fn route(first_as: u32) -> Route {
    Route::new(vec![first_as], Ipv4Prefix::host_addr(9))
}

/// Fires timers until all neighbors count as having announced everything, and returns how long that took. Neighbors that are up send a
/// KEEPALIVE each second.
fn until_converged(router: &mut Router) -> Duration {
    let begin = router.now;
    while !router.is_converged() {
        router.now = router.now + 100 * MS;
        if router.now.saturating_since(begin).as_millis().is_multiple_of(1000) {
            for peer in 0..router.peers.len() {
                keepalive(router, peer);
            }
        }
        router.fire();
        router.settle();
    }
    router.now.saturating_since(begin)
}

fn keepalive(router: &mut Router, peer: usize) {
    if router.peers[peer].connection.is_some() {
        let mut octets = vec![];
        header::put_keepalive(&mut octets);
        router.say(peer, &octets);
    }
}

#[test]
fn a_neighbor_that_is_up_and_quiet_has_announced_everything() {
    let mut router = Router::new(&[65002, 65003], 1);
    router.up(0);
    router.up(1);
    // The first one still announces when a second has passed.
    for n in 0..20 {
        router.now = router.now + 50 * MS;
        router.announce(0, &[Ipv4Prefix::nth(n)], &route(65002));
    }
    assert!(!router.is_converged());
    let took = until_converged(&mut router);
    assert!((2900 * MS..4000 * MS).contains(&took), "{took:?}");
}

#[test]
fn end_of_rib_ends_the_wait_at_once_and_a_neighbor_that_is_down_some_seconds_later() {
    let mut router = Router::new(&[65002, 65003], 1);
    let end_of_rib = |router: &mut Router, peer| {
        let mut octets = vec![];
        put_end_of_rib(FamilyIndex::IPV4, &FamilyCodes::DEFAULT, &mut octets);
        router.say(peer, &octets);
    };
    router.up(0);
    end_of_rib(&mut router, 0);
    let took = until_converged(&mut router);
    assert!(
        (Duration::from_secs(19)..Duration::from_secs(22)).contains(&took),
        "the other may be late: {took:?}"
    );

    let mut router = Router::new(&[65002, 65003], 1);
    for peer in [0, 1] {
        router.up(peer);
        end_of_rib(&mut router, peer);
    }
    router.settle();
    assert!(router.is_converged());
}

#[test]
fn a_neighbor_that_promises_end_of_rib_is_given_more_time() {
    let mut router = Router::new(&[65002], 1);
    let promise = Capability::GracefulRestart { flags: 0, restart_time: 0, families: vec![] };
    router.up_with(0, &[promise]);
    let took = until_converged(&mut router);
    assert!((Duration::from_secs(29)..Duration::from_secs(32)).contains(&took), "{took:?}");
}

#[test]
fn the_end_of_the_wait_is_a_deadline_of_its_own() {
    let mut router = Router::new(&[65002], 1);
    router.up(0);
    let mut fired = 0;
    while !router.is_converged() {
        let deadline = router.deadline().expect("the wait has an end");
        assert!(deadline <= Instant::ZERO + Duration::from_secs(4), "{deadline:?}");
        router.now = router.now.max(deadline);
        router.fire();
        fired += 1;
        assert!(fired < 20, "it does not go round in a circle");
    }
    assert_eq!(router.speaker.neighbor(Ipv4Prefix::host_addr(2)).unwrap().state, State::Established);
}

#[test]
fn a_flood_of_malformed_updates_is_reported_a_few_times() {
    const FLOOD: u64 = 100_000;
    let mut router = Router::new(&[65002], 1);
    router.up(0);
    let with_local_pref = Route { local_pref: Some(100), ..route(65002) };
    let mut octets = vec![];
    for _ in 0..1000 {
        octets.extend(sluice_bgp_dut::route::announcement(&[Ipv4Prefix::nth(1)], &with_local_pref));
    }
    for _ in 0..FLOOD / 1000 {
        router.say(0, &octets);
    }
    router.now = router.now + Duration::from_secs(20);
    keepalive(&mut router, 0);
    let malformed: Vec<&PeerEvent> =
        router.events.iter().map(|e| &e.what).filter(|e| is_malformed(e)).collect();
    let [PeerEvent::Malformed { update, .. }, PeerEvent::MoreMalformed { count, .. }] = malformed[..] else {
        panic!("{} events", malformed.len());
    };
    assert_eq!(*count, FLOOD - 1);
    assert!(update.len() > 20, "the first one is shown");
    let view = router.speaker.neighbor(router.peers[0].address).unwrap();
    assert_eq!(view.reader.attribute_discards, FLOOD);
}

fn is_malformed(event: &PeerEvent) -> bool {
    matches!(event, PeerEvent::Malformed { .. } | PeerEvent::MoreMalformed { .. })
}

#[test]
fn a_refresh_is_refused_where_nobody_would_answer_it() {
    let mut router = Router::new(&[65002, 65003], 1);
    let refusal = |router: &Router, peer: usize| router.speaker.refresh_refusal(router.peers[peer].address);
    assert_eq!(refusal(&router, 0), Some(RefreshRefusal::NotEstablished(State::Active)));
    router.up(0);
    assert_eq!(refusal(&router, 0), None);
    router.down(0);
    assert!(matches!(refusal(&router, 0), Some(RefreshRefusal::NotEstablished(_))));
    router.up_without_refresh(1);
    assert_eq!(refusal(&router, 1), Some(RefreshRefusal::NotNegotiated));
}

#[test]
fn a_family_without_an_own_next_hop_is_ended_and_reported() {
    // The endpoints of scripted neighbors are of IPv4 alone.
    let mut router = Router::new(&[65002], 1);
    router.families = Families::ALL;
    router.configure();
    router.up_with(0, &[Capability::unicast(AFI_IPV6)]);
    router.settle();
    let view = router.speaker.neighbor(router.peers[0].address).unwrap();
    let both = Families::ALL.without(Families::only(FamilyIndex::XID));
    assert_eq!(view.negotiated.unwrap().families, both);
    assert_eq!(view.untold, Families::only(FamilyIndex::IPV6));
    assert_eq!(router.peers[0].ended, [true, true], "both families are ended");
    assert_eq!(view.writer.updates, 2);
    let reported = router.events.iter().filter(|e| e.what == PeerEvent::NoNextHop(FamilyIndex::IPV6)).count();
    assert_eq!(reported, 1);
    assert!(!router.events.iter().any(|e| e.what == PeerEvent::NoNextHop(FamilyIndex::IPV4)));
}

#[test]
fn work_for_one_neighbor_looks_at_no_other() {
    let mut router = Router::new(&[65002; 210], 1);
    router.families = Families::ALL;
    router.configure();
    for peer in 0..10 {
        router.up(peer);
    }
    // Neighbors that receive nothing of IPv4: another family was agreed on.
    for peer in 10..210 {
        router.up_speaking(peer, vec![Capability::unicast(AFI_IPV6), Capability::FourOctetAs(Asn(65002))]);
    }
    router.settle();
    let with_output = |router: &Router| {
        let mut peers = vec![];
        router.speaker.tables().with_output(&mut peers);
        peers
    };
    assert_eq!(with_output(&router), []);
    router.set_reach(Ipv4Prefix::host_addr(9), Some((0, true)));
    router.announce(0, &[Ipv4Prefix::nth(1)], &route(65002));
    while router.answer_one() {}
    router.slice(1000);
    let peers = with_output(&router);
    assert_eq!(peers.len(), 10, "{peers:?}");
    router.settle();
    assert_eq!(with_output(&router), []);
}

#[test]
fn numbers_of_neighbors_that_are_gone_are_given_to_others() {
    let mut router = Router::new(&[65002, 65003, 65004], 1);
    // The first numbers are sources of the router's own.
    let index = |router: &Router, peer: usize| {
        let view = router.speaker.neighbor(router.peers[peer].address);
        view.map(|v| v.index.0 - PeerIndex::OWN_SOURCES + 1)
    };
    let numbers: Vec<_> = (0..3).map(|peer| index(&router, peer)).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
    router.up(1);
    router.announce(1, &[Ipv4Prefix::nth(1)], &route(65003));
    router.settle();
    let all = router.config();
    let without = |places: &[usize]| {
        let mut config = all.clone();
        let mut place = 0;
        config.neighbors.retain(|_| {
            place += 1;
            !places.contains(&(place - 1))
        });
        config
    };
    let configure = |router: &mut Router, places: &[usize]| {
        router.input(sluice_bgp::speaker::Input::Configure(without(places)));
    };
    // The number of one that had routes is not free before these are forgotten.
    configure(&mut router, &[1]);
    configure(&mut router, &[]);
    assert_eq!(index(&router, 1), Some(4));
    router.settle();
    configure(&mut router, &[0]);
    configure(&mut router, &[]);
    assert_eq!(index(&router, 0), Some(1), "the lowest");
    configure(&mut router, &[1]);
    configure(&mut router, &[]);
    assert_eq!((index(&router, 1), index(&router, 2)), (Some(2), Some(3)));
}

#[test]
fn a_neighbor_that_is_owed_anything_is_listed_until_it_has_it() {
    let mut router = Router::new(&[65002, 65003], 1);
    router.set_reach(Ipv4Prefix::host_addr(9), Some((0, true)));
    router.up(0);
    for n in 0..100 {
        router.announce(0, &[Ipv4Prefix::nth(n)], &Route { med: Some(n), ..route(65002) });
    }
    router.settle();
    router.up(1);
    let mut steps = 0;
    while !router.peers[1].end_of_rib {
        let mut listed = vec![];
        router.speaker.tables().with_output(&mut listed);
        assert_eq!(listed.len(), 1, "after {steps} steps");
        router.transmit(1, 1);
        steps += 1;
    }
    assert!(steps > 50, "a message at a time: {steps}");
    assert_eq!(router.peers[1].received.len(), 100);
}
