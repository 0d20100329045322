//! Maximum prefixes: warnings, ignored prefixes, ended sessions.

use sluice_base::{Duration, Ipv4Prefix};
use sluice_bgp::event::{DownReason, LimitReached, PeerEvent};
use sluice_bgp::session::State;
use sluice_bgp::speaker::{Config, Input, LimitAction, MaximumPrefixes};
use sluice_bgp::wire::notification::{cease, code};
use sluice_bgp_dut::{Dut, Net, Route, TestPolicy};

type Router = Dut<Ipv4Prefix>;

fn route() -> Route {
    Route::new(vec![65002], Ipv4Prefix::host_addr(2))
}

/// A router of two tables, with one neighbor that is up and has these bounds.
fn router(bounds: MaximumPrefixes) -> (Router, Config) {
    let mut router = Router::new(&[65002, 65003], 2);
    router.set_reach(Ipv4Prefix::host_addr(2), Some((0, true)));
    // Of 24 low prefixes 8 are rejected.
    router.peers[0].import = TestPolicy::RejectLow;
    let mut config = router.config();
    config.neighbors[0].ipv4_unicast.maximum_prefixes = bounds;
    router.input(Input::Configure(config.clone()));
    router.up(0);
    (router, config)
}

fn announce(router: &mut Router, numbers: std::ops::Range<u32>) {
    let prefixes: Vec<Ipv4Prefix> = numbers.map(Ipv4Prefix::nth).collect();
    router.announce(0, &prefixes, &route());
    router.settle();
}

fn reached(router: &mut Router) -> Vec<LimitReached> {
    let limit = |event: PeerEvent| match event {
        PeerEvent::MaximumPrefixes(_, reached) => Some(reached),
        _ => None,
    };
    router.events.drain(..).filter_map(|event| limit(event.what)).collect()
}

fn state(router: &Router) -> State {
    router.speaker.neighbor(router.peers[0].address).unwrap().state
}

#[test]
fn a_session_ends_and_comes_back_after_its_time() {
    let bounds =
        MaximumPrefixes { received: Some(20), restart_after: Some(60), ..MaximumPrefixes::default() };
    let (mut router, _) = router(bounds);
    announce(&mut router, 0..14);
    assert_eq!(reached(&mut router), []);
    announce(&mut router, 14..16);
    // Tables report one after the other.
    let warned = reached(&mut router);
    assert!(
        matches!(warned[..], [LimitReached { bound: 20, count: 15 | 16, is_accepted: false }]),
        "{warned:?}"
    );
    announce(&mut router, 16..20);
    assert_eq!((reached(&mut router).len(), state(&router)), (0, State::Established));
    announce(&mut router, 20..21);
    let down = |event: &PeerEvent| match event {
        PeerEvent::Down(DownReason::Sent(n)) => Some((n.code, n.subcode)),
        _ => None,
    };
    let ends: Vec<_> = router.events.iter().filter_map(|event| down(&event.what)).collect();
    assert_eq!(ends, [(code::CEASE, cease::MAX_PREFIXES)]);
    assert_eq!(state(&router), State::Idle);
    // Not before its time.
    router.now = router.now + Duration::from_secs(59);
    router.fire();
    assert_eq!(state(&router), State::Idle);
    router.now = router.now + Duration::from_secs(1);
    router.fire();
    assert_ne!(state(&router), State::Idle);
    router.settle();
    assert_eq!(
        router
            .speaker
            .tables()
            .received::<Ipv4Prefix>(router.speaker.neighbor(router.peers[0].address).unwrap().index),
        0
    );
}

#[test]
fn counts_that_come_and_go_at_a_threshold_are_reported_once() {
    let bounds =
        MaximumPrefixes { received: Some(20), action: Some(LimitAction::Warn), ..MaximumPrefixes::default() };
    let (mut router, _) = router(bounds);
    let withdraw = |router: &mut Router, numbers: std::ops::Range<u32>| {
        router.withdraw(0, &numbers.map(Ipv4Prefix::nth).collect::<Vec<_>>());
        router.settle();
    };
    announce(&mut router, 0..16);
    assert_eq!(reached(&mut router).len(), 1);
    for _ in 0..5 {
        withdraw(&mut router, 14..16);
        announce(&mut router, 14..16);
    }
    assert_eq!(reached(&mut router), []);
    // Beyond the bound, and back below it.
    announce(&mut router, 16..22);
    assert_eq!(reached(&mut router).iter().filter(|reached| reached.count > 20).count(), 1);
    for _ in 0..5 {
        withdraw(&mut router, 19..22);
        announce(&mut router, 19..22);
    }
    assert_eq!(reached(&mut router), []);
    // Far below, so that coming near is news.
    withdraw(&mut router, 10..22);
    assert_eq!(reached(&mut router), []);
    announce(&mut router, 10..16);
    assert_eq!(reached(&mut router).len(), 1);
}

#[test]
fn an_operator_and_other_bounds_open_a_session_again() {
    let bounds = MaximumPrefixes { received: Some(5), ..MaximumPrefixes::default() };
    let (mut router, mut config) = router(bounds);
    let address = router.peers[0].address;
    announce(&mut router, 0..6);
    assert_eq!(state(&router), State::Idle);
    router.input(Input::Reset(address, String::new()));
    assert_ne!(state(&router), State::Idle);
    router.up(0);
    announce(&mut router, 0..6);
    assert_eq!(state(&router), State::Idle);
    config.neighbors[0].ipv4_unicast.maximum_prefixes.received = Some(10);
    router.input(Input::Configure(config));
    assert_ne!(state(&router), State::Idle);
}

#[test]
fn accepted_prefixes_have_a_bound_of_their_own() {
    let bounds = MaximumPrefixes {
        accepted: Some(8),
        warn_percent: Some(100),
        action: Some(LimitAction::Warn),
        ..MaximumPrefixes::default()
    };
    let (mut router, _) = router(bounds);
    announce(&mut router, 0..15);
    assert_eq!(reached(&mut router), []);
    announce(&mut router, 15..24);
    let counts: Vec<_> = reached(&mut router).iter().map(|l| (l.count, l.is_accepted)).collect();
    assert!(counts.last().is_some_and(|(count, is_accepted)| *count > 8 && *is_accepted), "{counts:?}");
    assert_eq!(state(&router), State::Established);
}

#[test]
fn new_prefixes_are_ignored_until_there_is_room_and_asked_for_then() {
    let bounds = MaximumPrefixes {
        received: Some(10),
        action: Some(LimitAction::Discard),
        ..MaximumPrefixes::default()
    };
    let (mut router, _) = router(bounds);
    announce(&mut router, 0..11);
    announce(&mut router, 11..24);
    let index = router.speaker.neighbor(router.peers[0].address).unwrap().index;
    let received = |router: &Router| router.speaker.tables().received::<Ipv4Prefix>(index);
    assert_eq!((received(&router), state(&router)), (11, State::Established));
    // A known prefix still changes.
    router.announce(0, &[Ipv4Prefix::nth(9)], &Route { origin: 2, ..route() });
    router.settle();
    assert_eq!(router.speaker.tables().route(Ipv4Prefix::nth(9)).unwrap().paths[0].view.origin as u8, 2);
    let asked = router.peers[0].messages.len();
    let gone: Vec<Ipv4Prefix> = (0..4).map(Ipv4Prefix::nth).collect();
    router.withdraw(0, &gone);
    router.settle();
    assert!(router.peers[0].messages.len() > asked, "a ROUTE-REFRESH");
    // The neighbor answers with all its routes, and the room of the withdrawn ones is filled.
    assert_eq!(received(&router), 11);
    assert!(gone.iter().all(|prefix| router.speaker.tables().route(*prefix).is_none()));
}

/// Returns the data of the Ceases that ended the session, and forgets all events.
fn ceases(router: &mut Router) -> Vec<Vec<u8>> {
    let cease = |event: PeerEvent| match event {
        PeerEvent::Down(DownReason::Sent(n)) if (n.code, n.subcode) == (code::CEASE, cease::MAX_PREFIXES) => {
            Some(n.data)
        }
        _ => None,
    };
    router.events.drain(..).filter_map(|event| cease(event.what)).collect()
}

#[test]
fn a_bound_below_the_count_is_judged_when_it_is_committed() {
    for before in [None, Some(50)] {
        let (mut router, mut config) = router(MaximumPrefixes { received: before, ..MaximumPrefixes::NONE });
        announce(&mut router, 0..20);
        let bounds = MaximumPrefixes { received: Some(15), ..MaximumPrefixes::NONE };
        config.neighbors[0].ipv4_unicast.maximum_prefixes = bounds;
        let overruns: Vec<String> =
            router.speaker.overruns(&config).iter().map(ToString::to_string).collect();
        let address = router.peers[0].address;
        assert_eq!(
            overruns,
            [format!(
                "{address} ipv4: 20 prefixes received, more than the configured maximum of 15: the session ends and stays down"
            )]
        );
        router.input(Input::Configure(config.clone()));
        assert_eq!(state(&router), State::Idle, "{before:?}");
        // AFI, SAFI and the bound (RFC 4486, section 4).
        assert_eq!(ceases(&mut router), [vec![0, 1, 1, 0, 0, 0, 15]]);
        let view = router.speaker.neighbor(address).unwrap();
        let stop = view.stopped.expect("it ended for a bound");
        assert_eq!((stop.reached.bound, stop.reached.count, stop.restart_at), (15, 20, None));
        assert_eq!(view.reason(), "ipv4: 20 prefixes received, more than the configured maximum of 15");
        // A neighbor that is down has no prefixes.
        assert_eq!(router.speaker.overruns(&config), []);
    }
}

#[test]
fn a_bound_that_is_changed_with_the_session_opens_it() {
    let bounds = MaximumPrefixes { received: Some(5), ..MaximumPrefixes::default() };
    let (mut router, mut config) = router(bounds);
    announce(&mut router, 0..6);
    assert_eq!(state(&router), State::Idle);
    config.neighbors[0].ipv4_unicast.maximum_prefixes.received = Some(10);
    config.neighbors[0].hold_time = 30;
    router.input(Input::Configure(config));
    assert_ne!(state(&router), State::Idle);
}

#[test]
fn another_import_policy_is_judged_too() {
    let bounds = MaximumPrefixes { accepted: Some(18), ..MaximumPrefixes::default() };
    let (mut router, mut config) = router(bounds);
    announce(&mut router, 0..24);
    assert_eq!(state(&router), State::Established);
    config.neighbors[0].import = Vec::new();
    router.input(Input::Configure(config));
    router.settle();
    assert_eq!(state(&router), State::Idle);
    assert_eq!(ceases(&mut router).len(), 1);
}

#[test]
fn another_action_takes_back_what_the_one_before_did() {
    let bounds = MaximumPrefixes {
        received: Some(10),
        action: Some(LimitAction::Discard),
        ..MaximumPrefixes::default()
    };
    for other in [MaximumPrefixes { action: Some(LimitAction::Warn), ..bounds }, MaximumPrefixes::NONE] {
        let (mut router, mut config) = router(bounds);
        announce(&mut router, 0..11);
        announce(&mut router, 11..24);
        let index = router.speaker.neighbor(router.peers[0].address).unwrap().index;
        assert_eq!(router.speaker.tables().received::<Ipv4Prefix>(index), 11);
        config.neighbors[0].ipv4_unicast.maximum_prefixes = other;
        router.input(Input::Configure(config));
        router.settle();
        assert_eq!(router.speaker.tables().received::<Ipv4Prefix>(index), 24, "{other:?}");
        assert_eq!(state(&router), State::Established);
    }
}

#[test]
fn a_session_that_ended_for_a_bound_is_opened_by_the_next_process_too() {
    let bounds =
        MaximumPrefixes { received: Some(20), restart_after: Some(60), ..MaximumPrefixes::default() };
    let (mut router, _) = router(bounds);
    announce(&mut router, 0..21);
    assert_eq!(state(&router), State::Idle);
    router.hand_over();
    assert_eq!(state(&router), State::Idle);
    router.now = router.now + Duration::from_secs(60);
    router.fire();
    assert_ne!(state(&router), State::Idle);
}
