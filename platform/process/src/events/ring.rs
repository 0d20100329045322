//! The newest events of this process, for operators to follow.

use sluice_xrl::idl::common::v1 as pb;
use sluice_xrl::{CallContext, Service, XrlError};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Events that are kept.
pub(super) const KEPT: usize = 4096;
/// Events of a reply, at most.
const PAGE: usize = 1000;
/// For how long a call may wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The newest events of this process.
#[derive(Default)]
pub(super) struct Ring {
    kept: Mutex<Kept>,
    come: Notify,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<pb::Event>,
    last: u64,
}

pub(super) fn ring() -> &'static Ring {
    static RING: OnceLock<Ring> = OnceLock::new();
    RING.get_or_init(Ring::default)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    pub(super) fn push(&self, mut event: pb::Event) {
        let mut kept = lock(&self.kept);
        kept.last += 1;
        event.number = kept.last;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
        drop(kept);
        self.come.notify_waiters();
    }

    pub(super) fn take(&self, after: u64, limit: usize) -> pb::TakeEventsReply {
        let kept = lock(&self.kept);
        // A number of an earlier life of the process has no meaning in this one.
        let after = if after > kept.last { 0 } else { after };
        let oldest = kept.last + 1 - kept.events.len() as u64;
        let skipped = (after + 1).saturating_sub(oldest);
        let events: Vec<pb::Event> = kept
            .events
            .iter()
            .skip(usize::try_from(skipped).unwrap_or(usize::MAX))
            .take(limit)
            .cloned()
            .collect();
        let last = events.last().map_or(after, |e| e.number);
        pb::TakeEventsReply { events, last, lost: oldest.saturating_sub(after + 1) }
    }
}

/// Serves the ring.
struct Served;

impl pb::Events for Served {
    async fn take(
        &self,
        _ctx: &CallContext,
        request: pb::TakeEventsRequest,
    ) -> Result<pb::TakeEventsReply, XrlError> {
        let limit = if request.limit == 0 { PAGE } else { (request.limit as usize).min(PAGE) };
        let wait = Duration::from_millis(request.wait_ms.into()).min(MAX_WAIT);
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            let mut come = std::pin::pin!(ring().come.notified());
            // From here on nothing that comes is missed.
            come.as_mut().enable();
            let reply = ring().take(request.after, limit);
            if !reply.events.is_empty() || tokio::time::timeout_at(deadline, come).await.is_err() {
                return Ok(reply);
            }
        }
    }
}

/// The service `common.v1.Events` of this process.
pub fn service() -> Service {
    pb::events_service(Rc::new(Served))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest() {
        let ring = Ring::default();
        let event = |text: usize| pb::Event { text: text.to_string(), ..pb::Event::default() };
        assert_eq!(ring.take(0, 10), pb::TakeEventsReply::default());
        (0..KEPT + 3).for_each(|n| ring.push(event(n)));
        let reply = ring.take(0, 2);
        assert_eq!((reply.events[0].text.as_str(), reply.last, reply.lost), ("3", 5, 3));
        let reply = ring.take(KEPT as u64 + 2, 10);
        assert_eq!((reply.events.len(), reply.lost), (1, 0));
        assert!(ring.take(KEPT as u64 + 3, 10).events.is_empty());
        // The number of another life.
        assert_eq!(ring.take(u64::MAX, 1).events.len(), 1);
    }
}
