//! The time between KEEPALIVEs.

use super::*;

/// Returns the time until the next KEEPALIVE of an established session, with the hold times that both sides propose.
fn until_next(keepalive_time: Option<u16>, hold_time: u16, of_peer: u16) -> Option<Duration> {
    let mut rig = Rig::new(SessionConfig { keepalive_time, hold_time, ..config() });
    rig.input(Input::Start);
    rig.input(Input::Connected(OUT0));
    rig.received(OUT0, Received::Open(Open { hold_time: of_peer, ..peer_open(20) }));
    rig.received(OUT0, Received::Keepalive);
    assert_eq!(rig.session.state(), State::Established);
    rig.session.timer(Timer::Keepalive).map(|at| at.saturating_since(rig.now))
}

/// Returns true if a time is 75 to 100 percent of `seconds`.
fn is_about(time: Option<Duration>, seconds: u32) -> bool {
    let whole = Duration::from_secs(seconds.into());
    time.is_some_and(|time| time <= whole && time >= whole * 3 / 4)
}

#[test]
fn keepalives_come_at_their_time_and_at_least_three_times_within_the_hold_time() {
    assert!(is_about(until_next(None, 90, 90), 30));
    assert!(is_about(until_next(Some(10), 90, 90), 10));
    // The negotiated hold time counts, and not the proposed one.
    assert!(is_about(until_next(Some(10), 90, 9), 3));
    assert!(is_about(until_next(Some(60), 90, 180), 30));
    // RFC 4271, section 4.4: a hold time of 0 means no KEEPALIVEs.
    assert_eq!(until_next(Some(10), 90, 0), None);
}

#[test]
fn another_keepalive_time_holds_at_once() {
    let mut rig = Rig::in_state(State::Established);
    assert_eq!(rig.session.keepalive_time(), 30);
    rig.session.configure(rig.now, SessionConfig { keepalive_time: Some(4), ..config() });
    assert!(is_about(rig.session.timer(Timer::Keepalive).map(|at| at.saturating_since(rig.now)), 4));
    assert_eq!(rig.session.keepalive_time(), 4);
    rig.session.configure(rig.now, config());
    assert!(is_about(rig.session.timer(Timer::Keepalive).map(|at| at.saturating_since(rig.now)), 30));
}
