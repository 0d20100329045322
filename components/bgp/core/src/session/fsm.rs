//! The state machine of one connection (RFC 4271, section 8.2.2): the data, and the common steps of the states.

use super::config::jittered;
pub(super) use super::failures::Failures;
use super::negotiation::{Negotiated, own_open};
use super::{ConnectionId, Direction, MessageCounters, Output, SessionConfig};
use crate::event::{ConnectError, DownReason, SessionEvent};
use crate::state::State;
use crate::wire::notification::code;
use crate::wire::{Notification, Open, header};
use alloc::vec::Vec;
use sluice_base::{Asn, Duration, Instant, Rng};
use sluice_machine::{Outbox, Timers};

/// The HoldTimer before the peer's OPEN proposes another (RFC 4271, section 8.2.2: "a large value").
const LARGE_HOLD: Duration = Duration::from_secs(240);

/// The timers of RFC 4271, sections 8 and 8.1.3, and of RFC 9687.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Timer {
    /// The time when to try the next connection.
    ConnectRetry,
    /// The time when the peer counts as dead.
    Hold,
    /// The time when to send a KEEPALIVE.
    Keepalive,
    /// The time when to send OPEN although the peer has not.
    DelayOpen,
    /// The time when to leave Idle.
    IdleHold,
    /// The end of the allowed time without progress (RFC 9687).
    SendHold,
}

/// The events of RFC 4271, section 8.1, with an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// Events 1 and 3 to 7.
    Start,
    /// Event 2.
    ManualStop(Notification),
    /// Event 8.
    AutomaticStop(Notification),
    /// Events 9 to 13.
    Expired(Timer),
    /// Events 16 and 17.
    Connected,
    /// Event 18.
    ConnectionFails(ConnectError),
    /// Events 19 and 20.
    Open(Open, Negotiated),
    /// Events 21, 22 and 28.
    Error(Notification),
    /// Event 23.
    CollisionDump,
    /// Events 24 and 25.
    Notification(Notification),
    /// Event 26.
    Keepalive,
    /// Event 27.
    Update,
}

/// The parts of a session for the states.
pub(super) struct Context<'a> {
    pub now: Instant,
    pub config: &'a SessionConfig,
    /// The AS of the router's OPEN.
    pub presented_as: Asn,
    pub rng: &'a mut Rng,
    pub next_connection: &'a mut u32,
    pub sent: &'a mut MessageCounters,
    /// Set when the connection ended.
    pub down: Option<DownReason>,
    pub out: &'a mut Outbox<Output>,
}

/// The state machine of one connection.
#[derive(Debug)]
pub(super) struct Fsm {
    pub state: State,
    pub timers: Timers<Timer>,
    pub connection: Option<ConnectionId>,
    pub negotiated: Option<Negotiated>,
    pub peer_open: Option<Open>,
    /// The sent OPEN of the connection.
    pub own_open: Option<Open>,
    /// The last sent NOTIFICATION.
    pub sent_notification: Option<Notification>,
    pub failures: Failures,
}

impl Fsm {
    pub fn new(state: State) -> Self {
        Fsm {
            state,
            timers: Timers::default(),
            connection: None,
            negotiated: None,
            peer_open: None,
            own_open: None,
            sent_notification: None,
            failures: Failures::default(),
        }
    }

    /// Asks for a connection and starts the timer for the next.
    pub fn connect(&mut self, cx: &mut Context<'_>) {
        self.drop_connection(cx);
        let connection = ConnectionId { direction: Direction::Outgoing, number: *cx.next_connection };
        *cx.next_connection = cx.next_connection.wrapping_add(1);
        self.connection = Some(connection);
        cx.out.push(Output::Connect(connection));
        self.start_retry(cx);
        self.state = State::Connect;
    }

    pub(crate) fn start_retry(&mut self, cx: &mut Context<'_>) {
        self.timers.start(cx.now, Timer::ConnectRetry, jittered(cx.config.connect_retry, cx.rng));
    }

    /// The machine has a connection and opens no further connection: as a second connection that became the primary.
    pub(crate) fn stop_retrying(&mut self) {
        self.timers.stop(Timer::ConnectRetry);
        self.timers.stop(Timer::IdleHold);
    }

    pub fn send(&mut self, cx: &mut Context<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(connection) = self.connection {
            let mut bytes = Vec::new();
            write(&mut bytes);
            cx.out.push(Output::Send(connection, bytes));
        }
    }

    pub(crate) fn send_open(&mut self, cx: &mut Context<'_>) {
        let open = own_open(cx.config, cx.presented_as, cx.now);
        self.send(cx, |b| open.put(b));
        self.own_open = Some(open);
        cx.sent.open += 1;
    }

    pub fn send_keepalive(&mut self, cx: &mut Context<'_>) {
        self.send(cx, header::put_keepalive);
        cx.sent.keepalive += 1;
        self.restart_keepalive(cx.now, cx.config, cx.rng);
    }

    /// Returns the NOTIFICATION for the session's peer: a Hard Reset if the peer would otherwise keep routes.
    pub(crate) fn for_peer(&self, notification: Notification) -> Notification {
        if self.negotiated.is_some_and(|negotiated| negotiated.graceful_notifications) {
            notification.for_graceful_peer()
        } else {
            notification
        }
    }

    pub(crate) fn send_notification(&mut self, cx: &mut Context<'_>, notification: &Notification) {
        self.send(cx, |b| notification.put(b));
        cx.sent.notification += 1;
        self.sent_notification = Some(notification.clone());
        cx.out.push(Output::Event(SessionEvent::NotificationSent(notification.clone())));
    }

    /// From a fresh connection to OpenSent.
    pub fn open(&mut self, cx: &mut Context<'_>) {
        self.timers.stop(Timer::ConnectRetry);
        self.timers.stop(Timer::DelayOpen);
        self.send_open(cx);
        self.timers.start(cx.now, Timer::Hold, LARGE_HOLD);
        self.state = State::OpenSent;
    }

    /// Accepts the peer's OPEN: to OpenConfirm.
    pub fn confirm(&mut self, open: Open, negotiated: Negotiated, cx: &mut Context<'_>) {
        self.timers.stop(Timer::ConnectRetry);
        self.timers.stop(Timer::DelayOpen);
        self.negotiated = Some(negotiated);
        self.peer_open = Some(open);
        self.sent_notification = None;
        self.send_keepalive(cx);
        self.restart_hold(cx.now);
        self.state = State::OpenConfirm;
    }

    /// The peer gave a sign of life.
    pub fn restart_hold(&mut self, now: Instant) {
        match self.negotiated.map(|n| n.hold_time) {
            Some(0) | None => self.timers.stop(Timer::Hold),
            Some(seconds) => self.timers.start(now, Timer::Hold, Duration::from_secs(seconds.into())),
        }
    }

    /// KeepaliveTime from now, less jitter (RFC 4271, sections 4.4 and 10).
    pub(crate) fn restart_keepalive(&mut self, now: Instant, config: &SessionConfig, rng: &mut Rng) {
        match self.negotiated.and_then(|n| config.keepalive(n.hold_time)) {
            None => self.timers.stop(Timer::Keepalive),
            Some(time) => self.timers.start(now, Timer::Keepalive, jittered(time, rng)),
        }
    }

    /// The peer took octets, or no octets wait.
    pub(crate) fn restart_send_hold(&mut self, now: Instant, config: &SessionConfig) {
        match self.negotiated.and_then(|n| config.send_hold(n.hold_time)) {
            None => self.timers.stop(Timer::SendHold),
            Some(time) => self.timers.start(now, Timer::SendHold, time),
        }
    }

    pub(crate) fn drop_connection(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = self.connection.take() {
            cx.out.push(Output::Close(connection));
        }
    }

    /// Sends the peer the reason and goes to Idle; counts as a failure.
    pub fn fail_with(&mut self, notification: Notification, cx: &mut Context<'_>) {
        self.send_notification(cx, &notification);
        self.fail(DownReason::Sent(notification), cx);
    }

    /// Goes to Idle; counts as a failure.
    pub fn fail(&mut self, reason: DownReason, cx: &mut Context<'_>) {
        self.failures.add(&reason);
        self.idle(reason, cx);
    }

    /// Goes to Idle and clears the data.
    pub fn idle(&mut self, reason: DownReason, cx: &mut Context<'_>) {
        self.timers.clear();
        self.drop_connection(cx);
        if self.state == State::Established {
            cx.out.push(Output::Down(reason.clone()));
        }
        cx.down = Some(reason);
        self.negotiated = None;
        self.state = State::Idle;
    }

    /// Handles an unexpected event: Finite State Machine Error (RFC 4271, section 6.6; RFC 6608).
    pub fn unexpected(&mut self, subcode: u8, cx: &mut Context<'_>) {
        self.fail_with(Notification::new(code::FSM, subcode), cx);
    }
}
