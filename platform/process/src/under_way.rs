//! Calls under way to a target: sent in order, at most so many at a time, so that senders wait and memory stays
//! bounded.

use sluice_xrl::{Call, XrlError};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tracing::warn;

/// The calls.
pub struct UnderWay<Rep> {
    calls: RefCell<VecDeque<Call<Rep>>>,
    limit: usize,
    /// The log message of an error.
    on_error: &'static str,
}

impl<Rep> UnderWay<Rep>
where
    Call<Rep>: Future<Output = Result<Rep, XrlError>>,
{
    /// Makes an empty set of calls, at most `limit` (at least 1) at a time. An error reply is logged as `on_error`.
    pub fn new(limit: usize, on_error: &'static str) -> Self {
        UnderWay { calls: RefCell::default(), limit, on_error }
    }

    /// A call was made. Look for room before, or memory grows.
    pub fn push(&self, call: Call<Rep>) {
        self.calls.borrow_mut().push_back(call);
    }

    /// Whether one more may be made now.
    pub fn has_room(&self) -> bool {
        while self.calls.borrow().len() >= self.limit {
            match self.answered() {
                Some(result) => _ = self.note(result),
                None => return false,
            }
        }
        true
    }

    /// Returns the newest reply received since the last call, if any.
    pub(crate) fn newest_reply(&self) -> Option<Rep> {
        let mut newest = None;
        while let Some(result) = self.answered() {
            newest = self.note(result).or(newest);
        }
        newest
    }

    /// Returns the oldest call's answer, if received. Replies come in order of the calls: without the oldest answer
    /// there is no answer at all.
    fn answered(&self) -> Option<Result<Rep, XrlError>> {
        let mut oldest = self.calls.borrow_mut().pop_front()?;
        match Pin::new(&mut oldest).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => {
                self.calls.borrow_mut().push_front(oldest);
                None
            }
        }
    }

    /// Waits until there is room.
    pub async fn room(&self) {
        while !self.has_room() {
            self.oldest().await;
        }
    }

    /// Waits until everything that was sent has been answered.
    pub async fn drain(&self) {
        while !self.calls.borrow().is_empty() {
            self.oldest().await;
        }
    }

    /// Forgets the calls: their target is gone.
    pub fn clear(&self) {
        self.calls.borrow_mut().clear();
    }

    async fn oldest(&self) {
        let oldest = self.calls.borrow_mut().pop_front();
        if let Some(call) = oldest {
            self.note(call.await);
        }
    }

    fn note(&self, result: Result<Rep, XrlError>) -> Option<Rep> {
        result.inspect_err(|error| warn!(%error, "{}", self.on_error)).ok()
    }
}
