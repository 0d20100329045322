//! A request to halt for one task, which checks at suitable moments.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A request to halt for one task. A request stays.
///
/// The lock is held for a look.
#[derive(Debug, Default)]
pub struct Halt(Mutex<Wish>);

#[derive(Debug, Default)]
struct Wish {
    is_wished: bool,
    /// The waker of the waiting task.
    waiting: Option<Waker>,
}

impl Halt {
    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the halt.
    pub fn wish(&self) {
        let mut wish = self.lock();
        wish.is_wished = true;
        let waiting = wish.waiting.take();
        drop(wish);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns true if the task is to halt.
    pub fn is_wished(&self) -> bool {
        self.lock().is_wished
    }

    /// Waits until the task is to halt.
    pub async fn wished(&self) {
        poll_fn(|context| {
            let mut wish = self.lock();
            if wish.is_wished {
                return Poll::Ready(());
            }
            if !wish.waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                wish.waiting = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
