//! Ends of sessions and attempts: the reason that is shown, and the reports.

use super::*;
use crate::event::down::ConnectError;
use crate::session::SessionEnd;

const SECOND: Duration = Duration::from_secs(1);

impl Rig {
    /// Returns the reports of failed attempts, which are outputs among others.
    fn reports(&mut self) -> Vec<String> {
        let text = |output: Output| match output {
            Output::NotOpened(reason) => Some(reason.to_string()),
            _ => None,
        };
        self.out.drain().filter_map(text).collect()
    }

    /// Makes an attempt that ends by `end`, and returns the reports.
    fn attempt(&mut self, end: impl Fn(ConnectionId) -> Input) -> Vec<String> {
        while self.session.primary.connection.is_none() {
            self.now = self.now.max(self.session.next_deadline().expect("another attempt"));
            self.session.on_deadline(self.now, &mut self.out);
        }
        let connection = self.session.primary.connection.expect("a connection");
        let ended = end(connection);
        if !matches!(ended, Input::Failed(..)) {
            self.session.handle(self.now, Input::Connected(connection), &mut self.out);
        }
        self.session.handle(self.now, ended, &mut self.out);
        self.reports()
    }

    fn reason(&self) -> String {
        self.session.last_down().map(|(_, reason)| reason.to_string()).unwrap_or_default()
    }
}

fn received(code: u8, subcode: u8) -> impl Fn(ConnectionId) -> Input {
    move |c| Input::Received(c, Received::Notification(Notification::new(code, subcode)))
}

fn opened(change: impl Fn(&mut Open)) -> impl Fn(ConnectionId) -> Input {
    move |c| {
        let mut open = peer_open(20);
        change(&mut open);
        Input::Received(c, Received::Open(open))
    }
}

fn failed(error: ConnectError) -> impl Fn(ConnectionId) -> Input {
    move |c| Input::Failed(c, error.clone())
}

/// An attempt that ends by `end` must be reported with `expected`, and shown with it.
fn check(end: impl Fn(ConnectionId) -> Input, expected: &str) {
    let mut rig = Rig::new(config());
    rig.input(Input::Start);
    assert_eq!(rig.attempt(end), [expected]);
    assert_eq!(rig.reason(), expected);
}

#[test]
fn each_end_of_an_attempt_is_reported() {
    check(failed(ConnectError::Refused), "connection refused");
    check(failed(ConnectError::Unreachable), "no route to the neighbor, or it is not there");
    check(failed(ConnectError::NoAnswer), "no answer to the attempt to connect");
    check(Input::Closed, "connection lost");
    check(received(2, 5), "received NOTIFICATION: OPEN message error: authentication failure (2/5)");
    check(received(2, 1), "received NOTIFICATION: OPEN message error: unsupported version number (2/1)");
    check(received(6, 5), "received NOTIFICATION: cease: connection rejected (6/5)");
    let other_as = |open: &mut Open| {
        open.capabilities.clear();
        open.as_field = 9;
    };
    check(opened(other_as), "neighbor sent AS 9, configured 65002");
    check(
        opened(|open| open.hold_time = 1),
        "sent NOTIFICATION: OPEN message error: unacceptable hold time (2/6)",
    );
    check(
        opened(|open| open.version = 3),
        "sent NOTIFICATION: OPEN message error: unsupported version number (2/1)",
    );
    check(
        |c| Input::Received(c, Received::Error(Notification::new(1, 1))),
        "sent NOTIFICATION: message header error: connection not synchronized (1/1)",
    );
    let mut rig = Rig::in_state(State::Connect);
    rig.session.on_deadline(rig.session.timer(Timer::ConnectRetry).expect("a timer"), &mut rig.out);
    assert_eq!(rig.reports(), ["no answer to the attempt to connect"]);
    let mut rig = Rig::in_state(State::OpenSent);
    rig.session.on_deadline(rig.session.timer(Timer::Hold).expect("a timer"), &mut rig.out);
    assert_eq!(rig.reports(), ["sent NOTIFICATION: hold timer expired (4/0)"]);
    let mut rig = Rig::in_state(State::OpenConfirm);
    rig.session.handle(rig.now, Input::Closed(OUT0), &mut rig.out);
    assert_eq!(rig.reports(), ["connection lost"]);
}

#[test]
fn a_reason_is_reported_at_growing_intervals_and_another_one_at_once() {
    let mut rig = Rig::new(config());
    rig.input(Input::Start);
    let mut at = vec![];
    let end = rig.now + SECOND * 20_000;
    while rig.now < end {
        let begin = rig.now;
        if !rig.attempt(failed(ConnectError::Refused)).is_empty() {
            at.push(rig.now.saturating_since(Instant::ZERO).as_secs());
        }
        assert!(rig.now > begin || at.len() == 1, "attempts take time");
    }
    let gaps: Vec<u64> = at.array_windows().map(|[one, next]| next - one).collect();
    assert!((8..12).contains(&at.len()), "{at:?}");
    assert!(gaps.array_windows().take(5).all(|[one, next]| next > one) && gaps[0] >= 60, "{gaps:?}");
    assert_eq!(rig.attempt(failed(ConnectError::Unreachable)).len(), 1);
    assert_eq!(rig.attempt(failed(ConnectError::Refused)).len(), 0);
}

#[test]
fn a_peer_with_many_reasons_is_reported_a_few_times() {
    let mut ends = Ends::default();
    let reports = (0..10_000u32)
        .filter(|n| {
            let reason = DownReason::WrongPeerAs { received: Asn(*n), configured: Asn(1) };
            ends.is_report_due(Instant::ZERO, &reason)
        })
        .count();
    assert_eq!(reports, 8);
    // The data of a NOTIFICATION make no other reason.
    let mut ends = Ends::default();
    let reports = (0..=u8::MAX).filter(|n| {
        let reason = DownReason::Received(Notification { code: 6, subcode: 2, data: vec![*n] });
        ends.is_report_due(Instant::ZERO, &reason)
    });
    assert_eq!(reports.count(), 1);
}

#[test]
fn the_reason_is_the_last_attempts_and_not_that_of_a_commit() {
    let mut rig = Rig::in_state(State::Established);
    rig.now = rig.now + SECOND * 5;
    rig.input(Input::Reset { subcode: cease::CONFIGURATION, text: String::new() });
    let commit = "sent NOTIFICATION: cease: other configuration change (6/6)";
    assert_eq!(rig.reason(), commit);
    assert_eq!(rig.attempt(Input::Closed), ["connection lost"]);
    assert_eq!(rig.reason(), "connection lost");
    let end = rig.session.last_end().expect("an end");
    assert_eq!((end.reason.to_string().as_str(), end.lasted), (commit, SECOND * 5));
    // A reason of an attempt hides ends without one for a while, and not for ever.
    assert_eq!(rig.attempt(received(2, 2)).len(), 1);
    let refused = rig.reason();
    assert_eq!((rig.attempt(Input::Closed).len(), rig.reason()), (0, refused));
    rig.now = rig.now + SECOND * 130;
    rig.attempt(Input::Closed);
    assert_eq!(rig.reason(), "connection lost");
}

#[test]
fn an_attempt_that_this_router_gives_up_is_no_failure() {
    for input in [
        Input::Stop(Notification::cease(cease::SHUTDOWN, "")),
        Input::Reset { subcode: cease::CONFIGURATION, text: String::new() },
    ] {
        let mut rig = Rig::in_state(State::OpenSent);
        rig.session.handle(rig.now, input, &mut rig.out);
        assert_eq!(rig.reports(), [""; 0]);
    }
    // One of two connections ends, and the other one goes on.
    let mut rig = Rig::in_state(State::OpenSent);
    rig.input(Input::Accepted(IN0));
    rig.session.handle(rig.now, Input::Closed(IN0), &mut rig.out);
    assert_eq!(rig.reports(), [""; 0]);
    rig.session.handle(rig.now, Input::Closed(OUT0), &mut rig.out);
    assert_eq!(rig.reports(), ["connection lost"]);
}

#[test]
fn a_session_that_was_up_reports_again() {
    let mut rig = Rig::new(config());
    rig.input(Input::Start);
    assert_eq!(rig.attempt(failed(ConnectError::Refused)).len(), 1);
    assert_eq!(rig.attempt(failed(ConnectError::Refused)).len(), 0);
    rig.attempt(opened(|_| {}));
    let connection = rig.session.primary.connection.expect("a connection");
    rig.received(connection, Received::Keepalive);
    assert_eq!(rig.session.state(), State::Established);
    rig.session.handle(rig.now, Input::Closed(connection), &mut rig.out);
    assert_eq!(rig.reports(), [""; 0], "the end of a session is another report");
    assert!(matches!(rig.session.last_end(), Some(SessionEnd { reason: DownReason::ConnectionLost, .. })));
    assert_eq!(rig.attempt(failed(ConnectError::Refused)).len(), 1);
}
