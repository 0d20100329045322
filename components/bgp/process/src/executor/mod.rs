//! Tasks on threads, for readers, writers and tables only. Little code runs between the arrival of a packet and the read: after a
//! pause even that code has left the cache.
//!
//! An idle thread takes the oldest ready task, or waits for sockets. A task made ready by a running task runs on the same thread as soon as
//! the running task waits: a reader's table, with the octets still in the cache.

mod halt;
pub mod pool;
mod readiness;
mod task;
#[cfg(test)]
mod tests;

pub use halt::Halt;
pub use readiness::Socket;

use crate::ffi;
use readiness::Poller;
use sluice_process::clock;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use task::Task;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

/// Tasks between two polls of the sockets.
const ROUND: usize = 16;
/// The time after which the sockets are polled before a further task: arriving octets must not wait for background work.
const ROUND_TIME: Duration = Duration::from_micros(500);
/// Tasks in a row, each made ready by the previous task, before queued tasks have a turn.
const CHAIN: usize = 4;

/// The ready tasks.
#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<Task>>,
    /// Idle threads, which wait for sockets.
    waiting: usize,
    /// True while the bell is rung for a waiting thread.
    is_rung: bool,
    is_over: bool,
}

impl Queue {
    /// Returns true if the bell has to ring for the ready tasks.
    fn rings(&mut self) -> bool {
        let rings = !self.tasks.is_empty() && self.waiting > 0 && !self.is_rung;
        self.is_rung |= rings;
        rings
    }
}

/// The state of a thread that runs tasks.
struct Turn {
    executor: Arc<Executor>,
    /// The first task made ready by the running task.
    next: Option<Arc<Task>>,
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Calls `act` with this thread's turn, if the thread runs tasks of this executor.
fn with_turn<R>(executor: &Executor, act: impl FnOnce(&mut Turn) -> R) -> Option<R> {
    TURN.with_borrow_mut(|turn| {
        let turn = turn.as_mut().filter(|turn| std::ptr::eq(Arc::as_ptr(&turn.executor), executor))?;
        Some(act(turn))
    })
}

/// The tasks of some threads.
pub struct Executor {
    queue: Mutex<Queue>,
    poller: Poller,
    /// The bell of an executor that shares a thread with a runtime.
    here: Option<Notify>,
}

impl Executor {
    /// Makes an executor whose tasks wait for threads.
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Executor { queue: Mutex::default(), poller: Poller::new()?, here: None }))
    }

    /// Starts a further thread for the executor's tasks.
    pub fn start(self: &Arc<Self>, name: String) -> io::Result<()> {
        let executor = Arc::clone(self);
        std::thread::Builder::new().name(name).spawn(move || executor.work())?;
        Ok(())
    }

    /// Makes an executor without threads: tasks run inside [`Executor::drive`].
    pub fn here() -> io::Result<Arc<Self>> {
        let queue = Mutex::new(Queue { waiting: 1, ..Queue::default() });
        Ok(Arc::new(Executor { queue, poller: Poller::new()?, here: Some(Notify::new()) }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the poller with which the threads wait for sockets.
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Starts a task. The returned handle yields the task's result, or an error after a panic.
    pub fn spawn<F>(self: &Arc<Self>, work: F) -> oneshot::Receiver<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (end, ended) = oneshot::channel();
        let work = async move {
            // Perhaps nobody wants to know.
            let _ = end.send(work.await);
        };
        self.ready(Task::new(Arc::downgrade(self), work));
        ended
    }

    /// Schedules a task: next on the present thread, if a thread of the executor without a next task, otherwise on the first free
    /// thread.
    fn ready(&self, task: Arc<Task>) {
        let mut task = Some(task);
        with_turn(self, |turn| {
            if turn.next.is_none() {
                turn.next = task.take();
            }
        });
        let Some(task) = task else { return };
        let mut queue = self.queue();
        queue.tasks.push_back(task);
        let rings = queue.rings();
        drop(queue);
        if rings {
            self.ring();
        }
    }

    fn ring(&self) {
        match &self.here {
            None => self.poller.ring(),
            Some(here) => here.notify_one(),
        }
    }

    /// Runs the thread's next task, and the tasks made ready by the next task.
    fn run_next(&self) {
        for _ in 0..CHAIN {
            let Some(task) = with_turn(self, |turn| turn.next.take()).flatten() else { break };
            self.run(task);
        }
        // Nor is anybody woken for what is left of a long chain.
        if let Some(next) = with_turn(self, |turn| turn.next.take()).flatten() {
            self.queue().tasks.push_back(next);
        }
    }

    /// Runs the task made ready by the running task, before the running task goes on.
    pub fn run_made_ready(&self) {
        if let Some(task) = with_turn(self, |turn| turn.next.take()).flatten() {
            self.run(task);
        }
    }

    /// Runs a task, and queues the task again if woken meanwhile. No thread is woken for the queued task: the present thread
    /// looks for tasks next.
    fn run(&self, task: Arc<Task>) {
        if task.run() {
            self.queue().tasks.push_back(task);
        }
    }

    /// Runs some of the ready tasks.
    fn run_ready(&self) {
        let begin = clock::now();
        for _ in 0..ROUND {
            let mut queue = self.queue();
            let Some(task) = queue.tasks.pop_front() else { return };
            let rings = queue.rings();
            drop(queue);
            if rings {
                self.ring();
            }
            with_turn(self, |turn| turn.next = Some(task));
            self.run_next();
            if clock::now().saturating_since(begin) > ROUND_TIME {
                return;
            }
        }
    }

    /// Runs tasks on a thread until the executor ends.
    fn work(self: Arc<Self>) {
        self.begin();
        let mut events = Poller::events();
        loop {
            self.run_ready();
            let mut queue = self.queue();
            if queue.is_over {
                break;
            }
            let patiently = queue.tasks.is_empty();
            queue.waiting += usize::from(patiently);
            drop(queue);
            let count = self.poller.wait(&mut events, patiently);
            let is_rung = self.poller.deliver(&events[..count]);
            if is_rung && count > 1 && self.queue().waiting > usize::from(patiently) {
                // This thread has sockets to look at first, another one has nothing.
                self.ring();
            }
            self.run_next();
            // Not before the reported events: the bell may be rung for a thread too many, and a packet does not wait for that.
            let mut queue = self.queue();
            queue.waiting -= usize::from(patiently);
            // If this thread came for the bell, it rings it again where there is more to do than it does itself.
            queue.is_rung = false;
        }
        // The next one is to be woken too.
        self.ring();
    }

    fn begin(self: &Arc<Self>) {
        let turn = Turn { executor: Arc::clone(self), next: None };
        TURN.set(Some(turn));
    }

    /// Makes the descriptor that wakes [`Executor::drive`] for sockets, in the runtime of [`Executor::drive`].
    pub fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        ffi::watch(self.poller.descriptor()?)
    }

    /// Runs the tasks of an executor without threads, as long as the runtime lives.
    pub async fn drive(self: Arc<Self>, sockets: AsyncFd<OwnedFd>) {
        let Some(bell) = &self.here else { return };
        let mut events = Poller::events();
        loop {
            self.begin();
            let count = self.poller.wait(&mut events, false);
            self.queue().is_rung = false;
            self.poller.deliver(&events[..count]);
            self.run_next();
            self.run_ready();
            TURN.set(None);
            if count > 0 || !self.queue().tasks.is_empty() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = bell.notified() => {}
                // What comes later makes it ready once more.
                guard = sockets.readable() => match guard {
                    Ok(mut guard) => guard.clear_ready(),
                    Err(_) => return,
                },
            }
        }
    }

    /// Ends the threads after the running tasks have waited. The remaining tasks are dropped.
    pub fn end(&self) {
        let mut queue = self.queue();
        queue.is_over = true;
        let tasks = std::mem::take(&mut queue.tasks);
        drop(queue);
        drop(tasks);
        self.poller.forget();
        self.ring();
    }
}

/// Returns true if tasks wait for the calling task's thread, or for any thread.
pub fn others_wait() -> bool {
    TURN.with_borrow(|turn| {
        let waits = |turn: &Turn| turn.next.is_some() || !turn.executor.queue().tasks.is_empty();
        turn.as_ref().is_some_and(waits)
    })
}

/// Yields to the ready tasks.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
