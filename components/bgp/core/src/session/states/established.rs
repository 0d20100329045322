//! Established: routes flow.

pub(super) use crate::event::down::DownReason;
use crate::session::collision::collision;
use crate::session::failures::Failures;
use crate::session::fsm::{Context, Event, Fsm, Timer};
use crate::wire::Notification;
use crate::wire::notification::{cease, code, fsm as subcode};

pub(in crate::session) fn handle(fsm: &mut Fsm, event: Event, cx: &mut Context<'_>) {
    match event {
        Event::Start => {}
        Event::ManualStop(n) => {
            let is_for_prefixes = n.subcode == cease::MAX_PREFIXES;
            let n = fsm.for_peer(n);
            fsm.send_notification(cx, &n);
            fsm.failures = Failures::default();
            // Whoever looks for the reason of a session that ended for too many prefixes did not stop it.
            let reason = if is_for_prefixes { DownReason::Sent(n) } else { DownReason::Stopped };
            fsm.idle(reason, cx);
        }
        Event::AutomaticStop(n) | Event::Error(n) => fsm.fail_with(fsm.for_peer(n), cx),
        Event::Expired(Timer::Hold) => fsm.fail_with(Notification::new(code::HOLD_TIMER, 0), cx),
        // The NOTIFICATION waits behind all that the peer does not take: the driver gives it a moment and then ends the connection.
        Event::Expired(Timer::SendHold) => fsm.fail_with(Notification::new(code::SEND_HOLD_TIMER, 0), cx),
        Event::Expired(Timer::Keepalive) => fsm.send_keepalive(cx),
        Event::ConnectionFails(_) => {
            fsm.connection = None;
            fsm.fail(DownReason::ConnectionLost, cx);
        }
        Event::CollisionDump => fsm.fail_with(collision(), cx),
        Event::Notification(n) => fsm.fail(DownReason::Received(n), cx),
        Event::Keepalive | Event::Update => fsm.restart_hold(cx.now),
        Event::Expired(_) | Event::Connected | Event::Open(..) => fsm.unexpected(subcode::ESTABLISHED, cx),
    }
}
