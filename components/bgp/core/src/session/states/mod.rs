//! The states, one a file; each takes an event and returns its effects (RFC 4271, section 8.2.2).

pub mod connecting;
pub mod established;
pub mod idle;
pub mod open_confirm;
pub mod open_sent;

use super::fsm::{Context, Event, Fsm};
use crate::state::State;

/// Handles an event in the state of the machine.
pub(super) fn handle(fsm: &mut Fsm, event: Event, cx: &mut Context<'_>) {
    match fsm.state {
        State::Idle => idle::handle(fsm, &event, cx),
        State::Connect | State::Active => connecting::handle(fsm, event, cx),
        State::OpenSent => open_sent::handle(fsm, event, cx),
        State::OpenConfirm => open_confirm::handle(fsm, event, cx),
        State::Established => established::handle(fsm, event, cx),
    }
}
