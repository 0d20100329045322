//! Idle: nothing is tried. Only a start leads out of it.

use crate::session::failures::Failures;
use crate::session::fsm::{Context, Event, Fsm, Timer};
use crate::state::State;

pub(in crate::session) fn handle(fsm: &mut Fsm, event: &Event, cx: &mut Context<'_>) {
    match event {
        Event::Start | Event::Expired(Timer::IdleHold) => {
            if *event == Event::Start {
                fsm.failures = Failures::default();
            }
            fsm.timers.clear();
            if cx.config.passive {
                fsm.state = State::Active;
                fsm.start_retry(cx);
            } else {
                fsm.connect(cx);
            }
        }
        // RFC 4271: no other event changes the state.
        _ => {}
    }
}
