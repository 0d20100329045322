//! OpenConfirm: both OPENs are known, the peer's first KEEPALIVE is awaited.

pub(super) use crate::event::down::DownReason;
use crate::session::Output;
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
        Event::Expired(Timer::Keepalive) => fsm.send_keepalive(cx),
        Event::ConnectionFails(_) => {
            fsm.connection = None;
            fsm.fail(DownReason::ConnectionLost, cx);
        }
        Event::CollisionDump => fsm.fail_with(collision(), cx),
        Event::Notification(n) if n.is_version_error() => fsm.idle(DownReason::Received(n), cx),
        Event::Notification(n) => fsm.fail(DownReason::Received(n), cx),
        Event::Keepalive => {
            fsm.restart_hold(cx.now);
            fsm.restart_send_hold(cx.now, cx.config);
            fsm.state = State::Established;
            if let (Some(connection), Some(negotiated)) = (fsm.connection, fsm.negotiated) {
                cx.out.push(Output::Up(connection, negotiated));
            }
        }
        Event::Expired(_) | Event::Connected | Event::Open(..) | Event::Update => {
            fsm.unexpected(subcode::OPEN_CONFIRM, cx);
        }
    }
}
