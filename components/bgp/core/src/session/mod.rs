//! A peer's session: the RFC 4271 state machine, its timers and connection collision (section 6.8).
//!
//! RFC 4271 has a state machine for each TCP connection. A [`Session`] owns the *primary* one, which makes and retries
//! connections, and at most one *second* one for a connection that the peer made meanwhile. Whichever survives the
//! collision is the primary from then on. The shell says what happened to connections, the reader says what
//! arrived; what comes out is what to send and close, and when the session is up or down.

mod config;
mod ends;
mod fsm;
mod handover;
mod negotiation;
mod states;
#[cfg(test)]
mod tests;

pub use crate::state::State;
pub(crate) use config::jittered;
pub use config::{AddPathFamilies, ConnectionId, Direction, OwnRestart, SessionConfig};
pub use ends::SessionEnd;
pub use fsm::Timer;
pub use handover::SessionState;
pub use negotiation::{Negotiated, PeerRestart};

use crate::event::{ConnectError, DownReason, SessionEvent};
use crate::wire::notification::{cease, code};
use crate::wire::{Notification, Open};
use alloc::string::String;
use alloc::vec::Vec;
use ends::Ends;
use fsm::{Context, Event, Failures, Fsm};
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, Instant, Rng};
use sluice_machine::{Machine, Outbox};

/// An event of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// The operator wants the session (events 1 and 4).
    Start,
    /// The session is not wanted any more (event 2): the Cease that is sent.
    Stop(Notification),
    /// The session is to be closed and opened again (event 8).
    Reset {
        /// Subcode of the Cease that is sent.
        subcode: u8,
        /// A word to the other operator (RFC 9003); empty for none.
        text: String,
    },
    /// A connection that [`Output::Connect`] asked for is there (event 16).
    Connected(ConnectionId),
    /// The peer made a connection (event 17).
    Accepted(ConnectionId),
    /// A connection could not be made, or is gone (event 18).
    Closed(ConnectionId),
    /// A connection that [`Output::Connect`] asked for could not be made, and why (event 18).
    Failed(ConnectionId, ConnectError),
    /// A message arrived.
    Received(ConnectionId, Received),
    /// UPDATEs were sent, which is as good as a KEEPALIVE.
    UpdateSent,
    /// The peer took octets on the connection that carries routes, or none wait to be sent there.
    Written,
}

/// A message from the peer, as far as the session cares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Received {
    /// OPEN (events 19 and 20, or 22 if it is unacceptable).
    Open(Open),
    /// KEEPALIVE (event 26).
    Keepalive,
    /// NOTIFICATION (events 24 and 25).
    Notification(Notification),
    /// Good UPDATEs arrived, at least one (event 27).
    Update,
    /// ROUTE-REFRESH; like an UPDATE, good only in Established.
    RouteRefresh,
    /// Octets that end the session; this is to be sent (events 21, 22 and 28).
    Error(Notification),
}

/// An effect that a session asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Make a connection to the peer.
    Connect(ConnectionId),
    /// Close a connection, once all that was sent on it is written.
    Close(ConnectionId),
    /// Write a whole message.
    Send(ConnectionId, Vec<u8>),
    /// The session is up: routes may flow.
    Up(ConnectionId, Negotiated),
    /// The session that was up is down: its routes are void.
    Down(DownReason),
    /// An attempt to open the session failed, and that is to be reported.
    NotOpened(DownReason),
    /// For the log.
    Event(SessionEvent),
}

/// Messages counted by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MessageCounters {
    /// OPEN.
    pub open: u64,
    /// UPDATE.
    pub update: u64,
    /// NOTIFICATION.
    pub notification: u64,
    /// KEEPALIVE.
    pub keepalive: u64,
    /// ROUTE-REFRESH.
    pub route_refresh: u64,
}

/// A peer's session.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    rng: Rng,
    started: bool,
    next_connection: u32,
    /// True if a peer that knows this router by either of two ASes is tried with the router's own.
    tries_own_as: bool,
    primary: Fsm,
    second: Option<Fsm>,
    /// Messages sent, without UPDATEs, which the writer counts.
    pub sent: MessageCounters,
    /// Messages received, without UPDATEs, which the reader counts.
    pub received: MessageCounters,
    ends: Ends,
    established_at: Option<Instant>,
    /// Times that the session went from Established to another state.
    pub flaps: u64,
}

impl Session {
    /// A session in Idle. `seed` feeds the jitter of its timers.
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
    pub fn has_negotiated(&self) -> bool {
        self.primary.negotiated.is_some() || self.second.as_ref().is_some_and(|fsm| fsm.negotiated.is_some())
    }

    /// The OPEN that the peer sent on the primary connection.
    pub fn peer_open(&self) -> Option<&Open> {
        self.primary.peer_open.as_ref()
    }

    /// The OPEN that this router sent on the primary connection.
    pub fn own_open(&self) -> Option<&Open> {
        self.primary.own_open.as_ref()
    }

    /// The NOTIFICATION that this router sent last on the primary connection, since the peer's OPEN was accepted.
    pub fn sent_notification(&self) -> Option<&Notification> {
        self.primary.sent_notification.as_ref()
    }

    /// The primary connection, whatever its state.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.primary.connection
    }

    /// The connection that carries routes.
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

    /// Replaces the configuration. It holds from the next connection on, SendHoldTime and KeepaliveTime at once.
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

    /// Returns true if `connection` is one that the session still follows.
    pub fn follows(&self, connection: ConnectionId) -> bool {
        self.primary.connection == Some(connection)
            || self.second.as_ref().is_some_and(|f| f.connection == Some(connection))
    }

    /// Runs one event of one connection's machine, then tidies up.
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
            Which::Primary => self.primary.handle(event, &mut cx),
            Which::Second => {
                if let Some(second) = &mut self.second {
                    second.handle(event, &mut cx);
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

    /// The second connection takes over when the primary one is out of the race: gone, or behind when the second is up.
    fn promote(&mut self, out: &mut Outbox<Output>) {
        let Some(second) = &self.second else { return };
        let primary_out = match self.primary.state {
            State::Idle => true,
            State::Connect | State::Active => second.state == State::Established,
            _ => false,
        };
        if !primary_out {
            return;
        }
        if let Some(mut second) = self.second.take() {
            if let Some(connection) = self.primary.connection.take() {
                out.push(Output::Close(connection));
            }
            second.failures = self.primary.failures;
            self.primary = second;
            self.primary.stop_retrying();
        }
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

    /// An Idle session that is wanted starts again by itself when its hold is over (events 3 and 13).
    fn rest(&mut self, now: Instant) {
        let waiting = self.primary.timers.deadline(Timer::IdleHold).is_some();
        if self.started && self.primary.state == State::Idle && !waiting {
            let hold = self.config.idle_hold(&self.primary.failures, &mut self.rng);
            self.primary.timers.start(now, Timer::IdleHold, hold);
        }
    }

    fn which(&self, connection: ConnectionId) -> Option<Which> {
        if self.primary.connection == Some(connection) {
            Some(Which::Primary)
        } else if self.second.as_ref().is_some_and(|f| f.connection == Some(connection)) {
            Some(Which::Second)
        } else {
            None
        }
    }

    fn accepted(&mut self, now: Instant, connection: ConnectionId, out: &mut Outbox<Output>) {
        match self.primary.state {
            // RFC 4271, section 8.2.2: in Idle, incoming connections are refused.
            State::Idle => out.push(Output::Close(connection)),
            State::Active if self.primary.connection.is_none() => {
                self.primary.connection = Some(connection);
                self.step(now, Which::Primary, Event::Connected, out);
            }
            _ => {
                // A peer that connects once more has given up the connection before.
                if let Some(connection) = self.second.take().and_then(|old| old.connection) {
                    out.push(Output::Close(connection));
                }
                let mut second = Fsm::new(State::Active);
                second.connection = Some(connection);
                self.second = Some(second);
                self.step(now, Which::Second, Event::Connected, out);
            }
        }
    }

    fn closed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        error: ConnectError,
        out: &mut Outbox<Output>,
    ) {
        if let Some(which) = self.which(connection) {
            self.step(now, which, Event::ConnectionFails(error), out);
        }
    }

    /// Returns true if a new connection takes the place of the established one: a peer that is prepared to restart opens another
    /// connection when it has forgotten the first (RFC 4724, section 5).
    fn is_restarting(&self, new: Which) -> bool {
        let old = match new {
            Which::Primary => self.second.as_ref(),
            Which::Second => Some(&self.primary),
        };
        old.filter(|fsm| fsm.state == State::Established)
            .and_then(|fsm| fsm.negotiated)
            .is_some_and(|negotiated| negotiated.restart.is_some())
    }

    /// Returns the AS of this router's next OPEN.
    pub fn presented_as(&self) -> Asn {
        self.config.presented_as(self.tries_own_as)
    }

    /// Tries a peer that refused this router's AS with the other AS the next time.
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

    /// Connection collision (RFC 4271, section 6.8; RFC 6286, section 2.3): whose connection must go, now that an
    /// acceptable OPEN arrived on `which`.
    fn collision_loser(&self, which: Which, open: &Open) -> Option<Which> {
        let second = self.second.as_ref()?;
        let (this, other, rival) = match which {
            Which::Primary => (&self.primary, second, Which::Second),
            Which::Second => (second, &self.primary, Which::Primary),
        };
        match other.state {
            State::Established if self.is_restarting(which) => Some(rival),
            State::Established => Some(which),
            State::OpenConfirm => {
                let (ours, theirs) = (this.connection?.direction, other.connection?.direction);
                if ours == theirs {
                    return Some(rival);
                }
                let (local, remote) = (self.config.router_id, open.router_id);
                let remote_wins = (local, self.presented_as()) < (remote, open.asn());
                let keep = if remote_wins { Direction::Incoming } else { Direction::Outgoing };
                Some(if ours == keep { rival } else { which })
            }
            _ => None,
        }
    }

    fn opened(&mut self, now: Instant, which: Which, open: Open, out: &mut Outbox<Output>) {
        let event = match negotiation::negotiate(&self.config, self.presented_as(), &open) {
            Err(notification) => {
                let (says, configured) = (open.asn(), self.config.peer_as);
                let wrong_as = (says != configured).then_some(DownReason::WrongPeerAs { says, configured });
                return self.step_ending(now, which, Event::Error(notification), wrong_as, out);
            }
            Ok(negotiated) => match self.collision_loser(which, &open) {
                Some(loser) if loser == which => Event::CollisionDump,
                loser => {
                    if let Some(loser) = loser {
                        let event = match self.is_restarting(which) {
                            true => Event::ConnectionFails(ConnectError::Other(String::new())),
                            false => Event::CollisionDump,
                        };
                        self.step(now, loser, event, out);
                    }
                    // Dumping the primary made the second one primary.
                    let event = Event::Open(open, negotiated);
                    let which = if self.second.is_none() { Which::Primary } else { which };
                    return self.step(now, which, event, out);
                }
            },
        };
        self.step(now, which, event, out);
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

    /// A second connection that is Established while the peer's OPEN on the first one is awaited has won (RFC 4271, section 6.8):
    /// what comes on it must not wait until the first one is closed.
    fn prefer_established(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let is_up = self.second.as_ref().is_some_and(|f| f.state == State::Established);
        if is_up && self.primary.state == State::OpenSent {
            self.step(now, Which::Primary, Event::CollisionDump, out);
        }
    }

    /// Ends both connections with `event`.
    fn end(&mut self, now: Instant, event: &Event, out: &mut Outbox<Output>) {
        if self.second.is_some() {
            self.step(now, Which::Second, event.clone(), out);
        }
        self.step(now, Which::Primary, event.clone(), out);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Primary,
    Second,
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

/// The Cease of a second connection that lost against the first.
fn collision() -> Notification {
    Notification::new(code::CEASE, cease::COLLISION)
}
