//! The wish that a task halts, which it looks for when it suits it.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The wish that one task halts: it stays wished.
///
/// The lock is held for a look.
#[derive(Debug, Default)]
pub struct Halt(Mutex<Wish>);

#[derive(Debug, Default)]
struct Wish {
    is_wished: bool,
    /// The task, if it waits.
    waiting: Option<Waker>,
}

impl Halt {
    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task is to halt.
    pub fn wish(&self) {
        let mut wish = self.lock();
        wish.is_wished = true;
        let waiting = wish.waiting.take();
        drop(wish);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns true if it is to.
    pub fn is_wished(&self) -> bool {
        self.lock().is_wished
    }

    /// Waits until it is to.
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
