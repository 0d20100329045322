//! A peer's session: the RFC 4271 state machine, timers and connection collision (section 6.8).
//!
//! RFC 4271 has a state machine for each TCP connection. A [`Session`] owns the *primary* machine, which makes and
//! retries connections, and at most one *second* machine for a connection made by the peer meanwhile. The survivor of the collision becomes
//! the primary. The process reports events of connections, the reader reports messages; the outputs are octets to send, connections to
//! close, and the session's ups and downs.

mod collision;
mod config;
mod ends;
mod failures;
mod fsm;
mod handover;
mod messages;
mod negotiation;
mod states;
#[cfg(test)]
mod tests;

use crate::event::{ConnectError, DownReason, SessionEvent};
use crate::wire::{Notification, Open};
use alloc::string::String;
use collision::Which;
use ends::Ends;
use failures::Failures;
use fsm::{Context, Event, Fsm};
use sluice_base::{Asn, Instant, Rng};
use sluice_machine::{Machine, Outbox};

pub use crate::state::State;
pub(crate) use config::jittered;
pub use config::{AddPathFamilies, ConnectionId, Direction, OwnRestart, SessionConfig};
pub use ends::SessionEnd;
pub use fsm::Timer;
pub use handover::SessionState;
pub use messages::{Input, MessageCounters, Output, Received};
pub use negotiation::{Negotiated, PeerRestart};

/// A peer's session.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    rng: Rng,
    started: bool,
    next_connection: u32,
    /// True if a peer that accepts either of two ASes is tried with the router's own.
    tries_own_as: bool,
    primary: Fsm,
    second: Option<Fsm>,
    /// Messages sent, without UPDATEs, which the writer counts.
    pub sent: MessageCounters,
    /// Messages received, without UPDATEs, which the reader counts.
    pub received: MessageCounters,
    ends: Ends,
    established_at: Option<Instant>,
    /// The number of times the session left Established.
    pub flaps: u64,
}

impl Session {
    /// Makes a session in Idle. `seed` feeds the jitter of timers.
    pub fn new(config: SessionConfig, seed: u64) -> Self {
        Session {
            config,
            rng: Rng::from_seed(seed),
            started: false,
            next_connection: 0,
            tries_own_as: false,
            primary: Fsm::new(State::Idle),
            second: None,
            sent: MessageCounters::default(),
            received: MessageCounters::default(),
            ends: Ends::default(),
            established_at: None,
            flaps: 0,
        }
    }

    /// The state of the primary connection.
    pub fn state(&self) -> State {
        self.primary.state
    }

    /// Returns the negotiated parameters; `None` unless Established.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.primary.negotiated.as_ref().filter(|_| self.state() == State::Established)
    }

    /// Returns true if an OPEN of the peer was accepted on a connection that still exists.
    pub(crate) fn has_negotiated(&self) -> bool {
        self.primary.negotiated.is_some() || self.second.as_ref().is_some_and(|fsm| fsm.negotiated.is_some())
    }

    /// Returns the peer's OPEN on the primary connection.
    pub(crate) fn peer_open(&self) -> Option<&Open> {
        self.primary.peer_open.as_ref()
    }

    /// Returns the router's OPEN on the primary connection.
    pub fn own_open(&self) -> Option<&Open> {
        self.primary.own_open.as_ref()
    }

    /// Returns the router's last NOTIFICATION on the primary connection, since the peer's OPEN was accepted.
    pub(crate) fn sent_notification(&self) -> Option<&Notification> {
        self.primary.sent_notification.as_ref()
    }

    /// Returns the primary connection, in any state.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.primary.connection
    }

    /// Returns the connection with routes.
    pub fn established(&self) -> Option<ConnectionId> {
        self.primary.connection.filter(|_| self.state() == State::Established)
    }

    /// Returns the time when `timer` of the primary connection fires.
    pub fn timer(&self, timer: Timer) -> Option<Instant> {
        self.primary.timers.deadline(timer)
    }

    /// Returns the time when and why the session last ended or could not be opened.
    pub fn last_down(&self) -> Option<&(Instant, DownReason)> {
        self.ends.last.as_ref()
    }

    /// Returns the last end of the established session.
    pub fn last_end(&self) -> Option<&SessionEnd> {
        self.ends.session.as_ref()
    }

    /// Since when the session is Established.
    pub fn established_at(&self) -> Option<Instant> {
        self.established_at
    }

    /// The configuration.
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Replaces the configuration. The configuration applies from the next connection on, SendHoldTime and KeepaliveTime at once.
    pub fn configure(&mut self, now: Instant, config: SessionConfig) {
        let has_other_send_hold = self.config.send_hold_time != config.send_hold_time;
        let has_other_keepalive = self.config.keepalive_time != config.keepalive_time;
        self.config = config;
        if self.established().is_none() {
            return;
        }
        if has_other_send_hold {
            self.primary.restart_send_hold(now, &self.config);
        }
        if has_other_keepalive {
            self.primary.restart_keepalive(now, &self.config, &mut self.rng);
        }
    }

    /// Returns the seconds between KEEPALIVEs of the established session; 0 without a session, or for no KEEPALIVEs.
    pub fn keepalive_time(&self) -> u64 {
        let time = self.negotiated().and_then(|negotiated| self.config.keepalive(negotiated.hold_time));
        time.map_or(0, |time| time.as_secs())
    }

    /// Returns true if the session still follows `connection`.
    pub fn follows(&self, connection: ConnectionId) -> bool {
        self.primary.connection == Some(connection)
            || self.second.as_ref().is_some_and(|f| f.connection == Some(connection))
    }

    /// Runs an event of a connection's machine, then tidies up.
    fn step(&mut self, now: Instant, which: Which, event: Event, out: &mut Outbox<Output>) {
        self.step_ending(now, which, event, None, out);
    }

    /// Runs one event of one connection's machine, then tidies up. If the connection ends, `why` is the reason in place of the machine's.
    fn step_ending(
        &mut self,
        now: Instant,
        which: Which,
        event: Event,
        why: Option<DownReason>,
        out: &mut Outbox<Output>,
    ) {
        let before = self.primary.state;
        let was = match which {
            Which::Primary => before,
            Which::Second => self.second.as_ref().map_or(State::Idle, |second| second.state),
        };
        let mut cx = Context {
            now,
            config: &self.config,
            presented_as: self.config.presented_as(self.tries_own_as),
            rng: &mut self.rng,
            next_connection: &mut self.next_connection,
            sent: &mut self.sent,
            down: None,
            out,
        };
        match which {
            Which::Primary => states::handle(&mut self.primary, event, &mut cx),
            Which::Second => {
                if let Some(second) = &mut self.second {
                    states::handle(second, event, &mut cx);
                }
            }
        }
        let ended = cx.down.take().map(|reason| why.unwrap_or(reason));
        let failed = ended.and_then(|reason| self.ends.note(now, was, self.established_at, reason));
        if self.second.as_ref().is_some_and(|f| f.connection.is_none()) {
            self.second = None;
        }
        self.promote(out);
        let after = self.primary.state;
        // While another connection goes on, the session may still be opened.
        let failed = failed.filter(|_| after < State::OpenSent);
        if let Some(reason) = failed.filter(|reason| self.ends.is_report_due(now, reason)) {
            out.push(Output::NotOpened(reason));
        }
        if before != after {
            out.push(Output::Event(SessionEvent::State { from: before, to: after }));
            self.note_established(now, before, after);
        }
        self.rest(now);
    }

    fn note_established(&mut self, now: Instant, before: State, after: State) {
        if after == State::Established {
            self.established_at = Some(now);
            self.ends.forget_reports();
        } else if before == State::Established {
            let since = self.established_at.take().unwrap_or(now);
            self.flaps += 1;
            if now.saturating_since(since) >= config::STABLE {
                self.primary.failures = Failures::default();
            }
        }
    }

    /// Restarts a wanted Idle session after the rest (events 3 and 13).
    fn rest(&mut self, now: Instant) {
        let waiting = self.primary.timers.deadline(Timer::IdleHold).is_some();
        if self.started && self.primary.state == State::Idle && !waiting {
            let hold = self.config.idle_hold(&self.primary.failures, &mut self.rng);
            self.primary.timers.start(now, Timer::IdleHold, hold);
        }
    }

    /// Returns the AS of the router's next OPEN.
    pub fn presented_as(&self) -> Asn {
        self.config.presented_as(self.tries_own_as)
    }

    /// Switches the AS for the next attempt after a peer refused the router's AS.
    fn note_refusal(&mut self, which: Which, notification: &Notification) {
        let fsm = match which {
            Which::Primary => Some(&self.primary),
            Which::Second => self.second.as_ref(),
        };
        let is_opening = fsm.is_some_and(|fsm| matches!(fsm.state, State::OpenSent | State::OpenConfirm));
        if is_opening && notification.is_bad_peer_as() {
            self.tries_own_as = !self.tries_own_as;
        }
    }

    fn received(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        received: Received,
        out: &mut Outbox<Output>,
    ) {
        let Some(which) = self.which(connection) else { return };
        let event = match received {
            Received::Open(open) => {
                self.received.open += 1;
                return self.opened(now, which, open, out);
            }
            Received::Keepalive => {
                self.received.keepalive += 1;
                Event::Keepalive
            }
            Received::Notification(n) => {
                self.received.notification += 1;
                out.push(Output::Event(SessionEvent::NotificationReceived(n.clone())));
                self.note_refusal(which, &n);
                Event::Notification(n)
            }
            Received::Update => Event::Update,
            Received::RouteRefresh => {
                self.received.route_refresh += 1;
                Event::Update
            }
            Received::Error(n) => Event::Error(n),
        };
        self.step(now, which, event, out);
        self.prefer_established(now, out);
    }

    /// Ends both connections with `event`.
    fn end(&mut self, now: Instant, event: &Event, out: &mut Outbox<Output>) {
        if self.second.is_some() {
            self.step(now, Which::Second, event.clone(), out);
        }
        self.step(now, Which::Primary, event.clone(), out);
    }
}

impl Machine for Session {
    type Input = Input;
    type Output = Output;
    type State = SessionState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        match input {
            Input::Start => {
                self.started = true;
                self.ends.forget_reports();
                self.step(now, Which::Primary, Event::Start, out);
            }
            Input::Stop(cease) => {
                self.started = false;
                self.end(now, &Event::ManualStop(cease), out);
                self.primary.timers.clear();
            }
            Input::Reset { subcode, text } => {
                self.ends.forget_reports();
                self.end(now, &Event::AutomaticStop(Notification::cease(subcode, &text)), out);
            }
            Input::Connected(connection) => match self.which(connection) {
                Some(which) => self.step(now, which, Event::Connected, out),
                None => out.push(Output::Close(connection)),
            },
            Input::Accepted(connection) => self.accepted(now, connection, out),
            Input::Closed(connection) => {
                self.closed(now, connection, ConnectError::Other(String::new()), out);
            }
            Input::Failed(connection, error) => self.closed(now, connection, error, out),
            Input::Received(connection, received) => self.received(now, connection, received, out),
            Input::UpdateSent => self.primary.restart_keepalive(now, &self.config, &mut self.rng),
            Input::Written => {
                if self.established().is_some() {
                    self.primary.restart_send_hold(now, &self.config);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let second = self.second.as_ref().and_then(|f| f.timers.next_deadline());
        [self.primary.timers.next_deadline(), second].into_iter().flatten().min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        while let Some(timer) = self.second.as_mut().and_then(|f| f.timers.pop_due(now)) {
            self.step(now, Which::Second, Event::Expired(timer), out);
        }
        while let Some(timer) = self.primary.timers.pop_due(now) {
            self.step(now, Which::Primary, Event::Expired(timer), out);
        }
    }

    fn export(&self) -> SessionState {
        self.export_state()
    }

    fn import(&mut self, now: Instant, state: SessionState, out: &mut Outbox<Output>) {
        self.import_state(now, state, out);
    }
}
