//! OpenSent: OPEN was sent, the peer's is awaited.

pub(super) use crate::event::down::DownReason;
use crate::session::collision::collision;
use crate::session::failures::Failures;
use crate::session::fsm::{Context, Event, Fsm, Timer};
use crate::state::State;
use crate::wire::Notification;
use crate::wire::notification::{code, fsm as subcode};

pub(in crate::session) fn handle(fsm: &mut Fsm, event: Event, cx: &mut Context<'_>) {
    match event {
        Event::Start => {}
        Event::ManualStop(n) => {
            fsm.send_notification(cx, &n);
            fsm.failures = Failures::default();
            fsm.idle(DownReason::Stopped, cx);
        }
        Event::AutomaticStop(n) | Event::Error(n) => fsm.fail_with(n, cx),
        Event::Expired(Timer::Hold) => fsm.fail_with(Notification::new(code::HOLD_TIMER, 0), cx),
        Event::ConnectionFails(_) => {
            fsm.connection = None;
            fsm.timers.clear();
            // A connection that the peer made is not retried from this side; one of ours is, later.
            cx.down = Some(DownReason::ConnectionLost);
            fsm.start_retry(cx);
            fsm.state = State::Active;
        }
        Event::Open(open, negotiated) => fsm.confirm(open, negotiated, cx),
        Event::CollisionDump => fsm.fail_with(collision(), cx),
        Event::Notification(n) if n.is_version_error() => fsm.idle(DownReason::Received(n), cx),
        // RFC 4271 answers event 25 with a NOTIFICATION here; section 6.4 forbids to answer one, and peers agree.
        Event::Notification(n) => fsm.fail(DownReason::Received(n), cx),
        Event::Expired(_) | Event::Connected | Event::Keepalive | Event::Update => {
            fsm.unexpected(subcode::OPEN_SENT, cx);
        }
    }
}
