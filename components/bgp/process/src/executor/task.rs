//! A task: a future with a state.

use super::Executor;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// To be run, or to be run once more.
const WOKEN: u8 = 1;
/// A thread runs the task.
const RUNNING: u8 = 2;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task of an executor.
pub struct Task {
    executor: Weak<Executor>,
    /// [`WOKEN`] and [`RUNNING`]. A woken task that does not run is in a queue; an ended task counts as running for ever.
    state: AtomicU8,
    /// The lock is never contended: only the thread that runs the task takes the lock.
    work: Mutex<Option<Work>>,
}

impl Task {
    /// Makes a woken task, not queued yet.
    pub fn new(executor: Weak<Executor>, work: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Task { executor, state: AtomicU8::new(WOKEN), work: Mutex::new(Some(Box::pin(work))) })
    }

    /// Runs the task until the task waits. Returns true if the task was woken meanwhile.
    pub fn run(self: &Arc<Self>) -> bool {
        self.state.swap(RUNNING, Ordering::AcqRel);
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = &mut *work else { return false };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        // Who waits for a task's result receives none; the others go on.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context))) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) | Err(_) => {
                *work = None;
                return false;
            }
        }
        drop(work);
        if self.state.compare_exchange(RUNNING, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return false;
        }
        self.state.store(WOKEN, Ordering::Release);
        true
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) == 0
            && let Some(executor) = self.executor.upgrade()
        {
            executor.ready(Arc::clone(self));
        }
    }
}
