//! The connections of a session, and the collision (RFC 4271, section 6.8).

use super::config::{ConnectionId, Direction};
use super::fsm::{Event, Fsm};
use super::messages::Output;
use super::{Session, State, negotiation};
use crate::event::{ConnectError, DownReason};
use crate::wire::notification::{cease, code};
use crate::wire::{Notification, Open};
use alloc::string::String;
use sluice_base::Instant;
use sluice_machine::Outbox;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Which {
    Primary,
    Second,
}

impl Session {
    /// Replaces the primary connection by the second: if the primary is gone, or behind an established second.
    pub(super) fn promote(&mut self, out: &mut Outbox<Output>) {
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

    pub(super) fn which(&self, connection: ConnectionId) -> Option<Which> {
        if self.primary.connection == Some(connection) {
            Some(Which::Primary)
        } else if self.second.as_ref().is_some_and(|f| f.connection == Some(connection)) {
            Some(Which::Second)
        } else {
            None
        }
    }

    pub(super) fn accepted(&mut self, now: Instant, connection: ConnectionId, out: &mut Outbox<Output>) {
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

    pub(super) fn closed(
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

    /// Returns true if a new connection replaces the established connection: a peer prepared to restart opens a new connection
    /// after forgetting the first (RFC 4724, section 5).
    pub(super) fn is_restarting(&self, new: Which) -> bool {
        let old = match new {
            Which::Primary => self.second.as_ref(),
            Which::Second => Some(&self.primary),
        };
        old.filter(|fsm| fsm.state == State::Established)
            .and_then(|fsm| fsm.negotiated)
            .is_some_and(|negotiated| negotiated.restart.is_some())
    }

    /// Connection collision (RFC 4271, section 6.8; RFC 6286, section 2.3): closes the losing connection, after
    /// an acceptable OPEN on `which`.
    pub(super) fn collision_loser(&self, which: Which, open: &Open) -> Option<Which> {
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

    pub(super) fn opened(&mut self, now: Instant, which: Which, open: Open, out: &mut Outbox<Output>) {
        let event = match negotiation::negotiate(&self.config, self.presented_as(), &open) {
            Err(notification) => {
                let (received, configured) = (open.asn(), self.config.peer_as);
                let wrong_as =
                    (received != configured).then_some(DownReason::WrongPeerAs { received, configured });
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

    /// Makes an Established second connection the winner while the primary awaits the peer's OPEN (RFC 4271, section 6.8):
    /// messages on the second must not wait for the close of the first.
    pub(super) fn prefer_established(&mut self, now: Instant, out: &mut Outbox<Output>) {
        let is_up = self.second.as_ref().is_some_and(|f| f.state == State::Established);
        if is_up && self.primary.state == State::OpenSent {
            self.step(now, Which::Primary, Event::CollisionDump, out);
        }
    }
}

/// The Cease for a second connection after a lost collision.
pub(crate) fn collision() -> Notification {
    Notification::new(code::CEASE, cease::COLLISION)
}
