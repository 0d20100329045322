//! The hand-over of a session to a new process: with the connection, if established.

use super::ends::{Ends, SessionEnd};
pub(super) use super::fsm::{Event, Failures, Fsm};
use super::{ConnectionId, MessageCounters, Negotiated, Output, Session, State, Timer, Which};
pub(super) use crate::event::down::DownReason;
use crate::wire::Open;
use serde::{Deserialize, Serialize};
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

/// The exported state of a session: the operator's wish, the history, and the session itself if established. Otherwise the session
/// begins anew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionState {
    /// True if the session was started.
    pub started: bool,
    /// The number of the next connection.
    next_connection: u32,
    /// The successive failures: the total, the number of errors, and true if the latest was an error.
    failures: (u32, u32, bool),
    sent: MessageCounters,
    received: MessageCounters,
    last_down: Option<(Instant, DownReason)>,
    last_end: Option<SessionEnd>,
    flaps: u64,
    established: Option<Established>,
}

/// An established session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Established {
    connection: ConnectionId,
    negotiated: Negotiated,
    peer_open: Option<Open>,
    own_open: Option<Open>,
    /// The time when the next KEEPALIVE is due.
    keepalive: Option<Instant>,
    since: Instant,
}

impl SessionState {
    /// The connection of an established session.
    pub fn connection(&self) -> Option<ConnectionId> {
        self.established.as_ref().map(|e| e.connection)
    }

    /// Returns the negotiated parameters of an established session.
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.established.as_ref().map(|e| &e.negotiated)
    }
}

impl Session {
    pub(super) fn export_state(&self) -> SessionState {
        let established = self.established().zip(self.primary.negotiated).zip(self.established_at);
        let failures = self.primary.failures;
        SessionState {
            started: self.started,
            next_connection: self.next_connection,
            failures: (failures.all, failures.errors, failures.last_is_error),
            sent: self.sent,
            received: self.received,
            last_down: self.ends.last.clone(),
            last_end: self.ends.session.clone(),
            flaps: self.flaps,
            established: established.map(|((connection, negotiated), since)| Established {
                connection,
                negotiated,
                peer_open: self.primary.peer_open.clone(),
                own_open: self.primary.own_open.clone(),
                keepalive: self.primary.timers.deadline(Timer::Keepalive),
                since,
            }),
        }
    }

    pub(super) fn import_state(&mut self, now: Instant, state: SessionState, out: &mut Outbox<Output>) {
        let (all, errors, last_is_error) = state.failures;
        self.next_connection = state.next_connection;
        (self.sent, self.received) = (state.sent, state.received);
        self.ends = Ends::resumed(state.last_down, state.last_end);
        self.flaps = state.flaps;
        match state.established {
            Some(established) => {
                self.started = state.started;
                self.established_at = Some(established.since);
                let mut fsm = Fsm::new(State::Established);
                fsm.connection = Some(established.connection);
                fsm.negotiated = Some(established.negotiated);
                (fsm.peer_open, fsm.own_open) = (established.peer_open, established.own_open);
                if let Some(at) = established.keepalive {
                    fsm.timers.start(now, Timer::Keepalive, at.saturating_since(now));
                }
                // The peer was last active when its messages were last read; what came since waits to be read.
                fsm.restart_hold(now);
                fsm.restart_send_hold(now, &self.config);
                self.primary = fsm;
            }
            None if state.started => self.handle(now, super::Input::Start, out),
            None => {}
        }
        self.primary.failures = Failures { all, errors, last_is_error };
    }

    /// Prepares a pause: a KEEPALIVE restarts the peer's hold timer.
    pub(crate) fn pause(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.established().is_some() {
            self.step(now, Which::Primary, Event::Expired(Timer::Keepalive), out);
        }
    }

    /// Ends a pause: the hold timer begins anew, because messages of the peer were not read meanwhile.
    pub(crate) fn go_on(&mut self, now: Instant) {
        if self.established().is_some() {
            self.primary.restart_hold(now);
        }
    }
}
