//! Connect and Active: there is no connection yet, or there is one and DelayOpen holds the OPEN back.
//!
//! Known deviation: when a connection cannot be made and DelayOpen is off, RFC 4271 goes from Connect to Idle, where it
//! refuses the peer's own connection. Sluice goes to Active, as with DelayOpen on: it listens, and tries again when
//! the ConnectRetryTimer expires.

use crate::event::{ConnectError, DownReason};
use crate::session::failures::Failures;
use crate::session::fsm::{Context, Event, Fsm, Timer};
use crate::state::State;
use alloc::string::String;

pub(in crate::session) fn handle(fsm: &mut Fsm, event: Event, cx: &mut Context<'_>) {
    let delaying = fsm.timers.deadline(Timer::DelayOpen).is_some();
    match event {
        Event::Start => {}
        Event::ManualStop(_) => {
            fsm.failures = Failures::default();
            fsm.idle(DownReason::Stopped, cx);
        }
        Event::Expired(Timer::ConnectRetry) => {
            fsm.timers.stop(Timer::DelayOpen);
            if cx.config.passive {
                fsm.start_retry(cx);
            } else {
                if fsm.state == State::Connect && !delaying {
                    cx.down = Some(DownReason::ConnectionFailed(ConnectError::NoAnswer));
                }
                fsm.connect(cx);
            }
        }
        Event::Expired(Timer::DelayOpen) => fsm.open(cx),
        Event::Connected => match cx.config.delay_open {
            Some(delay) => {
                fsm.timers.stop(Timer::ConnectRetry);
                fsm.timers.start(cx.now, Timer::DelayOpen, delay);
            }
            None => fsm.open(cx),
        },
        Event::ConnectionFails(error) if fsm.state == State::Connect => {
            fsm.connection = None;
            fsm.timers.stop(Timer::DelayOpen);
            fsm.start_retry(cx);
            cx.down = Some(DownReason::ConnectionFailed(error));
            fsm.state = State::Active;
        }
        Event::Open(open, negotiated) if delaying => {
            fsm.send_open(cx);
            fsm.confirm(open, negotiated, cx);
        }
        Event::Notification(n) if n.is_version_error() && delaying => fsm.idle(DownReason::Received(n), cx),
        Event::Notification(n) => fsm.fail(DownReason::Received(n), cx),
        // SendNOTIFICATIONwithoutOPEN is false: the peer is not sent.
        Event::Error(n) | Event::AutomaticStop(n) => fsm.fail(DownReason::Sent(n), cx),
        // While DelayOpen holds the OPEN back: a close like any other.
        Event::ConnectionFails(_) => fsm.fail(DownReason::ConnectionLost, cx),
        _ => fsm.fail(DownReason::ConnectionFailed(ConnectError::Other(String::new())), cx),
    }
}
