//! Every state and every event: a table; then connections that collide, and timers.

use crate::family::{Families, FamilyIndex};
use crate::local_as::{LocalAs, LocalAsMode};
use crate::wire::notification::fsm as fsm_error;
use crate::wire::notification::{cease, code};
use crate::wire::{MessageType, header};
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};
use sluice_base::{Asn, Duration, RouterId};
use std::println;

mod ends;
mod keepalive;

use super::*;

const LOCAL_ID: u32 = 10;
const OUT0: ConnectionId = ConnectionId { direction: Direction::Outgoing, number: 0 };
const IN0: ConnectionId = ConnectionId { direction: Direction::Incoming, number: 0 };
const IN1: ConnectionId = ConnectionId { direction: Direction::Incoming, number: 1 };

fn config() -> SessionConfig {
    SessionConfig::new(Asn(65001), RouterId(LOCAL_ID), Asn(65002))
}

fn peer_open(id: u32) -> Open {
    let peer = SessionConfig::new(Asn(65002), RouterId(id), Asn(65001));
    negotiation::own_open(&peer, peer.local_as, Instant::ZERO)
}

struct Rig {
    session: Session,
    now: Instant,
    out: Outbox<Output>,
}

impl Rig {
    fn new(config: SessionConfig) -> Self {
        Rig { session: Session::new(config, 1), now: Instant::ZERO, out: Outbox::new() }
    }

    /// Returns the effects of an input, abbreviated.
    fn input(&mut self, input: Input) -> String {
        self.session.handle(self.now, input, &mut self.out);
        self.effects()
    }

    fn received(&mut self, connection: ConnectionId, received: Received) -> String {
        self.input(Input::Received(connection, received))
    }

    fn expire(&mut self, timer: Timer) -> String {
        self.now = self.session.timer(timer).expect("the timer runs");
        self.session.on_deadline(self.now, &mut self.out);
        self.effects()
    }

    fn effects(&mut self) -> String {
        let words: Vec<String> = self.out.drain().filter_map(|o| word(&o)).collect();
        words.join(" ")
    }

    fn in_state(state: State) -> Self {
        let mut rig = Rig::new(config());
        if state == State::Idle {
            return rig;
        }
        rig.input(Input::Start);
        match state {
            State::Idle | State::Connect => {}
            State::Active => {
                rig.input(Input::Closed(OUT0));
            }
            State::OpenSent | State::OpenConfirm | State::Established => {
                rig.input(Input::Connected(OUT0));
                if state >= State::OpenConfirm {
                    rig.received(OUT0, Received::Open(peer_open(20)));
                }
                if state == State::Established {
                    rig.received(OUT0, Received::Keepalive);
                }
            }
        }
        assert_eq!(rig.session.state(), state);
        rig
    }
}

fn word(output: &Output) -> Option<String> {
    let name = |c: &ConnectionId| match c.direction {
        Direction::Incoming => format!("in{}", c.number),
        Direction::Outgoing => format!("out{}", c.number),
    };
    Some(match output {
        Output::Connect(c) => format!("connect:{}", name(c)),
        Output::Close(c) => format!("close:{}", name(c)),
        Output::Send(c, bytes) => {
            let frame = header::frame(bytes).unwrap().unwrap();
            assert_eq!(frame.len(), bytes.len());
            let what = match frame.kind {
                MessageType::Notification => {
                    let n = Notification::decode(frame.body).unwrap();
                    format!("{}/{}", n.code, n.subcode)
                }
                kind => format!("{kind:?}").to_lowercase(),
            };
            format!("{what}:{}", name(c))
        }
        Output::Up(..) => "up".to_string(),
        Output::Down(_) => "down".to_string(),
        Output::NotOpened(_) | Output::Event(_) => return None,
    })
}

/// `event` in `state` must lead to `next` and have the effects `effects`.
fn check(state: State, event: &str, next: State, effects: &str) {
    let mut rig = Rig::in_state(state);
    let connection = rig.session.primary.connection.unwrap_or(OUT0);
    let cease = |subcode| Notification::new(code::CEASE, subcode);
    let got = match event {
        "start" => rig.input(Input::Start),
        "stop" => rig.input(Input::Stop(Notification::cease(cease::SHUTDOWN, ""))),
        "reset" => rig.input(Input::Reset { subcode: cease::RESET, text: String::new() }),
        "connect-retry" => rig.expire(Timer::ConnectRetry),
        "hold" => rig.expire(Timer::Hold),
        "keepalive-timer" => rig.expire(Timer::Keepalive),
        "connected" => rig.input(Input::Connected(connection)),
        "accepted" => rig.input(Input::Accepted(IN0)),
        "closed" => rig.input(Input::Closed(connection)),
        "open" => rig.received(connection, Received::Open(peer_open(20))),
        "bad-open" => rig.received(connection, Received::Open(Open { hold_time: 1, ..peer_open(20) })),
        "error" => rig.received(connection, Received::Error(Notification::new(1, 3))),
        "version-error" => rig.received(connection, Received::Notification(Notification::new(2, 1))),
        "notification" => rig.received(connection, Received::Notification(cease(2))),
        "keepalive" => rig.received(connection, Received::Keepalive),
        "update" => rig.received(connection, Received::Update),
        "refresh" => rig.received(connection, Received::RouteRefresh),
        _ => unreachable!("{event}"),
    };
    assert_eq!((rig.session.state(), got.as_str()), (next, effects), "{event} in {state}");
    let rests = rig.session.timer(Timer::IdleHold).is_some();
    assert_eq!(rests, next == State::Idle && rig.session.started, "{event} in {state}");
}

#[test]
fn every_event_in_every_state() {
    use State::*;
    let table = [
        (Idle, "start", Connect, "connect:out0"),
        (Idle, "stop", Idle, ""),
        (Idle, "reset", Idle, ""),
        (Idle, "accepted", Idle, "close:in0"),
        (Idle, "connected", Idle, "close:out0"),
        (Idle, "keepalive", Idle, ""),
        (Connect, "start", Connect, ""),
        (Connect, "stop", Idle, "close:out0"),
        (Connect, "reset", Idle, "close:out0"),
        (Connect, "connect-retry", Connect, "close:out0 connect:out1"),
        (Connect, "connected", OpenSent, "open:out0"),
        (Connect, "accepted", Connect, "open:in0"),
        (Connect, "closed", Active, ""),
        (Connect, "open", Idle, "close:out0"),
        (Connect, "error", Idle, "close:out0"),
        (Connect, "version-error", Idle, "close:out0"),
        (Connect, "notification", Idle, "close:out0"),
        (Connect, "keepalive", Idle, "close:out0"),
        (Connect, "update", Idle, "close:out0"),
        (Active, "start", Active, ""),
        (Active, "stop", Idle, ""),
        (Active, "reset", Idle, ""),
        (Active, "connect-retry", Connect, "connect:out1"),
        (Active, "accepted", OpenSent, "open:in0"),
        (Active, "keepalive", Active, ""),
        (OpenSent, "start", OpenSent, ""),
        (OpenSent, "stop", Idle, "6/2:out0 close:out0"),
        (OpenSent, "reset", Idle, "6/4:out0 close:out0"),
        (OpenSent, "hold", Idle, "4/0:out0 close:out0"),
        (OpenSent, "accepted", OpenSent, "open:in0"),
        (OpenSent, "closed", Active, ""),
        (OpenSent, "open", OpenConfirm, "keepalive:out0"),
        (OpenSent, "bad-open", Idle, "2/6:out0 close:out0"),
        (OpenSent, "error", Idle, "1/3:out0 close:out0"),
        (OpenSent, "version-error", Idle, "close:out0"),
        (OpenSent, "notification", Idle, "close:out0"),
        (OpenSent, "keepalive", Idle, "5/1:out0 close:out0"),
        (OpenSent, "update", Idle, "5/1:out0 close:out0"),
        (OpenSent, "refresh", Idle, "5/1:out0 close:out0"),
        (OpenConfirm, "start", OpenConfirm, ""),
        (OpenConfirm, "stop", Idle, "6/2:out0 close:out0"),
        (OpenConfirm, "reset", Idle, "6/4:out0 close:out0"),
        (OpenConfirm, "hold", Idle, "4/0:out0 close:out0"),
        (OpenConfirm, "keepalive-timer", OpenConfirm, "keepalive:out0"),
        (OpenConfirm, "closed", Idle, ""),
        (OpenConfirm, "open", Idle, "5/2:out0 close:out0"),
        (OpenConfirm, "bad-open", Idle, "2/6:out0 close:out0"),
        (OpenConfirm, "error", Idle, "1/3:out0 close:out0"),
        (OpenConfirm, "version-error", Idle, "close:out0"),
        (OpenConfirm, "notification", Idle, "close:out0"),
        (OpenConfirm, "keepalive", Established, "up"),
        (OpenConfirm, "update", Idle, "5/2:out0 close:out0"),
        (Established, "start", Established, ""),
        (Established, "stop", Idle, "6/2:out0 close:out0 down"),
        (Established, "reset", Idle, "6/4:out0 close:out0 down"),
        (Established, "hold", Idle, "4/0:out0 close:out0 down"),
        (Established, "keepalive-timer", Established, "keepalive:out0"),
        (Established, "accepted", Established, "open:in0"),
        (Established, "closed", Idle, "down"),
        (Established, "open", Idle, "5/3:out0 close:out0 down"),
        (Established, "error", Idle, "1/3:out0 close:out0 down"),
        (Established, "version-error", Idle, "close:out0 down"),
        (Established, "notification", Idle, "close:out0 down"),
        (Established, "keepalive", Established, ""),
        (Established, "update", Established, ""),
        (Established, "refresh", Established, ""),
    ];
    for (state, event, next, effects) in table {
        if event == "hold" && state >= OpenConfirm {
            continue; // The KeepaliveTimer comes first: `silence_ends_the_session` looks at it.
        }
        check(state, event, next, effects);
    }
}

#[test]
fn silence_ends_the_session() {
    let mut rig = Rig::in_state(State::Established);
    let end = rig.session.timer(Timer::Hold).unwrap();
    let mut effects = vec![];
    while rig.session.state() == State::Established {
        rig.now = rig.session.next_deadline().unwrap();
        rig.session.on_deadline(rig.now, &mut rig.out);
        effects.push(rig.effects());
    }
    assert_eq!(rig.now, end);
    assert_eq!(effects.pop().unwrap(), "4/0:out0 close:out0 down");
    assert!(effects.len() >= 3 && effects.iter().all(|t| t == "keepalive:out0"), "{effects:?}");
    // A new life begins by itself.
    assert_eq!(rig.expire(Timer::IdleHold), "connect:out1");
}

#[test]
fn open_is_delayed_or_provoked() {
    let delayed = SessionConfig { delay_open: Some(Duration::from_secs(5)), ..config() };
    let mut rig = Rig::new(delayed.clone());
    rig.input(Input::Start);
    assert_eq!(rig.input(Input::Connected(OUT0)), "");
    assert_eq!(rig.expire(Timer::DelayOpen), "open:out0");
    assert_eq!(rig.session.state(), State::OpenSent);

    let mut rig = Rig::new(delayed);
    rig.input(Input::Start);
    rig.input(Input::Connected(OUT0));
    assert_eq!(rig.received(OUT0, Received::Open(peer_open(20))), "open:out0 keepalive:out0");
    assert_eq!(rig.session.state(), State::OpenConfirm);
}

#[test]
fn a_passive_session_waits() {
    let mut rig = Rig::new(SessionConfig { passive: true, ..config() });
    assert_eq!(rig.input(Input::Start), "");
    assert_eq!(rig.expire(Timer::ConnectRetry), "");
    assert_eq!(rig.input(Input::Accepted(IN0)), "open:in0");
    assert_eq!(rig.received(IN0, Received::Open(peer_open(20))), "keepalive:in0");
    assert_eq!(rig.received(IN0, Received::Keepalive), "up");
}

/// Both connections are in OpenSent; OPEN comes on `first`, then on the other. The effects of both, and which connection is
/// Established in the end.
fn collide(peer_id: u32, first: ConnectionId, effects: &str, winner: ConnectionId) {
    let mut rig = Rig::in_state(State::OpenSent);
    assert_eq!(rig.input(Input::Accepted(IN0)), "open:in0");
    let second = if first == IN0 { OUT0 } else { IN0 };
    rig.received(first, Received::Open(peer_open(peer_id)));
    assert_eq!(rig.received(second, Received::Open(peer_open(peer_id))), effects, "{peer_id} {first:?}");
    assert_eq!(rig.received(winner, Received::Keepalive), "up");
    assert_eq!(rig.session.established(), Some(winner));
    assert!(rig.session.second.is_none());
}

#[test]
fn of_two_connections_the_higher_identifier_s_stays() {
    collide(LOCAL_ID - 1, OUT0, "6/7:in0 close:in0", OUT0);
    collide(LOCAL_ID - 1, IN0, "6/7:in0 close:in0 keepalive:out0", OUT0);
    collide(LOCAL_ID + 1, OUT0, "6/7:out0 close:out0 keepalive:in0", IN0);
    collide(LOCAL_ID + 1, IN0, "6/7:out0 close:out0", IN0);
    // RFC 6286: with equal identifiers the larger AS decides; 65002 is the peer's.
    collide(LOCAL_ID, OUT0, "6/7:out0 close:out0 keepalive:in0", IN0);
}

#[test]
fn an_established_session_beats_a_new_connection() {
    let mut rig = Rig::in_state(State::Established);
    rig.input(Input::Accepted(IN0));
    // The peer tries once more: its earlier attempt is dropped, so that nothing piles up.
    assert_eq!(rig.input(Input::Accepted(IN1)), "close:in0 open:in1");
    assert_eq!(rig.received(IN1, Received::Open(peer_open(20))), "6/7:in1 close:in1");
    assert_eq!(rig.session.established(), Some(OUT0));
}

#[test]
fn a_second_connection_that_is_up_carries_routes_at_once() {
    // The peer's OPEN on the first connection is late: its messages on the second one must not wait for that.
    let mut rig = Rig::in_state(State::OpenSent);
    rig.input(Input::Accepted(IN0));
    rig.received(IN0, Received::Open(peer_open(20)));
    assert_eq!(rig.received(IN0, Received::Keepalive), "up 6/7:out0 close:out0");
    assert_eq!((rig.session.state(), rig.session.established()), (State::Established, Some(IN0)));
    // The late OPEN is for nobody.
    assert_eq!(rig.received(OUT0, Received::Open(peer_open(20))), "");
    assert_eq!(rig.session.flaps, 0);
}

#[test]
fn the_second_connection_replaces_a_first_that_is_not_there() {
    let mut rig = Rig::in_state(State::Connect);
    rig.input(Input::Accepted(IN0));
    rig.received(IN0, Received::Open(peer_open(20)));
    assert_eq!(rig.received(IN0, Received::Keepalive), "up close:out0");
    assert_eq!(rig.session.established(), Some(IN0));
    assert_eq!(rig.input(Input::Connected(OUT0)), "close:out0");

    let mut rig = Rig::in_state(State::OpenSent);
    rig.input(Input::Accepted(IN0));
    rig.received(OUT0, Received::Notification(Notification::new(6, 5)));
    assert_eq!((rig.session.state(), rig.session.follows(IN0)), (State::OpenSent, true));
    assert_eq!(rig.received(IN0, Received::Open(peer_open(20))), "keepalive:in0");
}

#[test]
fn opens_are_checked() {
    let check = |change: &dyn Fn(&mut Open), expected: &str| {
        let mut rig = Rig::in_state(State::OpenSent);
        let mut open = peer_open(20);
        change(&mut open);
        let effects = rig.received(OUT0, Received::Open(open));
        assert_eq!(effects.split(':').next(), Some(expected));
    };
    check(&|_| {}, "keepalive");
    check(&|o| o.version = 3, "2/1");
    check(&|o| o.as_field = 0, "2/2");
    check(&|o| o.capabilities = vec![Capability::FourOctetAs(Asn(7))], "2/2");
    check(&|o| o.router_id = RouterId(0), "2/3");
    check(&|o| o.router_id = RouterId(LOCAL_ID), "keepalive");
    check(&|o| o.hold_time = 2, "2/6");
    check(&|o| o.hold_time = 0, "keepalive");
    check(&|o| o.capabilities = vec![Capability::unicast(99)], "2/7");
    check(&|o| o.capabilities.clear(), "keepalive");
    use crate::wire::Capability;

    let inside = SessionConfig::new(Asn(65001), RouterId(LOCAL_ID), Asn(65001));
    let same = negotiation::own_open(&inside, inside.local_as, Instant::ZERO);
    assert_eq!(negotiation::negotiate(&inside, inside.local_as, &same).unwrap_err().subcode, 3);
}

#[test]
fn a_peer_that_refuses_one_as_is_tried_with_the_other() {
    let other = LocalAs { number: Asn(64999), mode: LocalAsMode::Prepend, dual: true };
    for dual in [false, true] {
        let mut rig = Rig::new(SessionConfig { other_as: Some(LocalAs { dual, ..other }), ..config() });
        let mut presented = vec![];
        for number in 0..3 {
            let connection = ConnectionId { direction: Direction::Incoming, number };
            if rig.session.state() == State::Idle {
                rig.input(Input::Start);
            }
            rig.input(Input::Accepted(connection));
            presented.push(rig.session.presented_as().0);
            let refusal = Notification::new(code::OPEN, crate::wire::notification::open::PEER_AS);
            rig.received(connection, Received::Notification(refusal));
        }
        assert_eq!(presented, if dual { [64999, 65001, 64999] } else { [64999; 3] });
    }
}

#[test]
fn what_is_agreed_on() {
    let mut open = peer_open(20);
    open.hold_time = 30;
    // IPv4 alone is left.
    open.capabilities.drain(1..FamilyIndex::all().count());
    let agreed = negotiation::negotiate(&config(), config().local_as, &open).unwrap();
    assert_eq!((agreed.hold_time, agreed.four_octet_as, agreed.route_refresh), (30, true, true));
    assert_eq!(agreed.families, Families::only(FamilyIndex::IPV4));
    open.capabilities.clear();
    let old = negotiation::negotiate(&config(), config().local_as, &open).unwrap();
    assert_eq!(
        (old.four_octet_as, old.route_refresh, old.families.has(FamilyIndex::IPV4)),
        (false, false, true)
    );
}

#[test]
fn rests_get_longer() {
    let mut rig = Rig::in_state(State::Connect);
    let mut rests = vec![];
    for _ in 0..25 {
        while rig.session.state() != State::Connect {
            let before = rig.now;
            rig.expire(Timer::IdleHold);
            rests.push(rig.now.saturating_since(before));
        }
        let connection = rig.session.primary.connection.unwrap();
        rig.input(Input::Connected(connection));
        rig.received(connection, Received::Keepalive);
    }
    println!("{rests:?}");
    assert!(rests[..10].iter().all(|r| *r <= Duration::from_millis(100)));
    assert!(rests[23] > Duration::from_secs(80) && rests[23] <= Duration::from_secs(120));
}

/// The longest of 40 rests between sessions, each of which ends with `input` on the connection; then whether it is an error's.
fn longest_rest(end: impl Fn(&mut Rig, ConnectionId)) -> (Duration, Failures) {
    let mut rig = Rig::in_state(State::Established);
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let connection = rig.session.established().unwrap();
        end(&mut rig, connection);
        assert_eq!(rig.session.state(), State::Idle);
        let before = rig.now;
        rig.expire(Timer::IdleHold);
        longest = longest.max(rig.now.saturating_since(before));
        let connection = rig.session.primary.connection.unwrap();
        rig.input(Input::Connected(connection));
        rig.received(connection, Received::Open(peer_open(20)));
        rig.received(connection, Received::Keepalive);
    }
    (longest, rig.session.primary.failures)
}

#[test]
fn a_peer_that_only_goes_and_comes_is_not_kept_waiting() {
    let second = Duration::from_secs(1);
    let cease = |n| Notification::new(code::CEASE, n);
    let all = |errors| Failures { all: 40, errors, last_is_error: errors > 0 };

    let (rest, failures) = longest_rest(|rig, c| drop(rig.input(Input::Closed(c))));
    assert!(rest > second / 2 && rest <= second, "{rest:?}");
    assert_eq!(failures, all(0));
    let (rest, failures) =
        longest_rest(|rig, c| drop(rig.received(c, Received::Notification(cease(cease::SHUTDOWN)))));
    assert_eq!((rest <= second, failures), (true, all(0)));
    let (rest, failures) = longest_rest(|rig, _| {
        drop(rig.input(Input::Reset { subcode: cease::RESET, text: String::new() }));
    });
    assert_eq!((rest <= second, failures), (true, all(0)));

    let (rest, failures) =
        longest_rest(|rig, c| drop(rig.received(c, Received::Notification(Notification::new(3, 1)))));
    assert!(rest > second * 80, "{rest:?}");
    assert_eq!(failures, all(40));
}

#[test]
fn a_close_neither_counts_as_an_error_nor_forgives_one() {
    let mut failures = Failures::default();
    let rest = |failures: &Failures| config().idle_hold(failures, &mut Rng::from_seed(1));
    for _ in 0..15 {
        failures.add(&DownReason::Received(Notification::new(3, 1)));
    }
    assert!(rest(&failures) > Duration::from_secs(2));
    for _ in 0..15 {
        failures.add(&DownReason::ConnectionLost);
    }
    assert!(rest(&failures) <= Duration::from_secs(1));
    failures.add(&DownReason::Received(Notification::new(3, 1)));
    let again = rest(&failures);
    assert!(again > Duration::from_secs(4) && again < Duration::from_secs(7), "{again:?}");
}

#[test]
fn unknown_fsm_error_subcodes_have_names() {
    let n = Notification::new(code::FSM, fsm_error::ESTABLISHED);
    assert_eq!(n.to_string(), "finite state machine error: unexpected message in Established (5/3)");
}

#[test]
fn the_reason_names_what_is_wrong() {
    let reason =
        |rig: &Rig| rig.session.last_down().map(|(_, reason)| reason.to_string()).unwrap_or_default();
    let check = |state: State, act: &dyn Fn(&mut Rig), expected: &str| {
        let mut rig = Rig::in_state(state);
        act(&mut rig);
        assert_ne!(rig.session.state(), State::Established, "{expected}");
        assert_eq!(reason(&rig), expected);
    };
    let failed =
        |error: ConnectError| move |rig: &mut Rig| drop(rig.input(Input::Failed(OUT0, error.clone())));
    check(State::Connect, &failed(ConnectError::Refused), "connection refused");
    check(State::Connect, &failed(ConnectError::Unreachable), "no route to the neighbor, or it is not there");
    check(
        State::Connect,
        &|rig| drop(rig.expire(Timer::ConnectRetry)),
        "no answer to the attempt to connect",
    );
    let other_as = SessionConfig::new(Asn(65009), RouterId(20), Asn(65001));
    check(
        State::OpenSent,
        &|rig| {
            drop(rig.received(
                OUT0,
                Received::Open(negotiation::own_open(&other_as, other_as.local_as, Instant::ZERO)),
            ))
        },
        "neighbor sent AS 65009, configured 65002",
    );
    let notification = Notification::cease(cease::SHUTDOWN, "moving");
    check(
        State::Established,
        &|rig| drop(rig.received(OUT0, Received::Notification(notification.clone()))),
        "received NOTIFICATION: cease: administrative shutdown (6/2), \"moving\"",
    );
    let mut rig = Rig::in_state(State::Established);
    while rig.session.state() == State::Established {
        rig.now = rig.session.next_deadline().expect("a timer");
        rig.session.on_deadline(rig.now, &mut rig.out);
    }
    assert_eq!(reason(&rig), "sent NOTIFICATION: hold timer expired (4/0)");
}

#[test]
fn a_connection_lost_without_a_reason_hides_none() {
    let mut rig = Rig::in_state(State::OpenSent);
    rig.input(Input::Accepted(IN0));
    let other_as = SessionConfig::new(Asn(65009), RouterId(20), Asn(65001));
    rig.received(OUT0, Received::Open(negotiation::own_open(&other_as, other_as.local_as, Instant::ZERO)));
    rig.input(Input::Closed(IN0));
    let known = rig.session.last_down().map(|(_, reason)| reason.clone());
    assert!(matches!(known, Some(DownReason::WrongPeerAs { .. })), "{known:?}");
    // Who loses a collision has nothing wrong with it.
    let mut rig = Rig::in_state(State::OpenSent);
    rig.input(Input::Accepted(IN0));
    rig.received(IN0, Received::Open(peer_open(20)));
    rig.received(OUT0, Received::Open(peer_open(20)));
    assert_eq!(rig.session.last_down(), None);
}

/// Fires timers for so long, with a KEEPALIVE of the peer each second; whether the session is still up.
fn stays_up(rig: &mut Rig, time: Duration, written: impl Fn(&Rig) -> bool) -> bool {
    let end = rig.now + time;
    while rig.now < end && rig.session.state() == State::Established {
        rig.now = rig.now + Duration::from_secs(1);
        rig.received(OUT0, Received::Keepalive);
        if written(rig) {
            rig.input(Input::Written);
        }
        rig.session.on_deadline(rig.now, &mut rig.out);
    }
    rig.session.state() == State::Established
}

#[test]
fn a_peer_that_takes_nothing_loses_its_session() {
    let mut rig = Rig::in_state(State::Established);
    assert!(stays_up(&mut rig, Duration::from_secs(10_000), |_| true));
    assert!(stays_up(&mut rig, Duration::from_secs(479), |_| false), "8 minutes");
    assert!(!stays_up(&mut rig, Duration::from_secs(2), |_| false));
    let reason = rig.session.last_down().map(|(_, reason)| reason.to_string()).unwrap_or_default();
    assert_eq!(reason, "sent NOTIFICATION: send hold timer expired (8/0)");
    assert!(rig.effects().contains("8/0:out0 close:out0 down"));
}

#[test]
fn the_send_hold_time_is_more_than_the_hold_time() {
    let after = |send_hold_time, hold_time| {
        let config = SessionConfig { send_hold_time, ..config() };
        config.send_hold(hold_time).map(|time| time.as_secs())
    };
    assert_eq!((after(None, 90), after(None, 0), after(None, 300)), (Some(480), Some(480), Some(600)));
    assert_eq!((after(Some(100), 90), after(Some(100), 200)), (Some(100), Some(201)));
    assert_eq!(after(Some(0), 90), None);
    // It holds at once where it is changed.
    let mut rig = Rig::in_state(State::Established);
    rig.session.configure(rig.now, SessionConfig { send_hold_time: Some(0), ..config() });
    assert!(stays_up(&mut rig, Duration::from_secs(10_000), |_| false));
    rig.session.configure(rig.now, SessionConfig { send_hold_time: Some(100), ..config() });
    assert!(stays_up(&mut rig, Duration::from_secs(99), |_| false));
    assert!(!stays_up(&mut rig, Duration::from_secs(2), |_| false));
}
