//! Tasks on threads, and no more than readers, writers and tables need of that: between the arrival of a packet and its reading lies as
//! little code as can be, which matters most where it was not used for a while.
//!
//! A thread that has nothing to do takes the task that was made ready first, or waits for sockets. What a task makes ready is
//! run by the same thread as soon as the task waits: a reader's table, with what was read still at hand.

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
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use task::Task;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

/// Tasks that are run before sockets are looked at.
const ROUND: usize = 16;
/// Tasks that make each other ready before others have their turn.
const CHAIN: usize = 4;

/// The tasks that are ready.
#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<Task>>,
    /// Threads that wait for sockets, because nothing else was to be done.
    waiting: usize,
    /// True while the bell is rung for a waiting thread.
    is_rung: bool,
    is_over: bool,
}

impl Queue {
    /// Returns true if the bell is to be rung for what is here.
    fn rings(&mut self) -> bool {
        let rings = !self.tasks.is_empty() && self.waiting > 0 && !self.is_rung;
        self.is_rung |= rings;
        rings
    }
}

/// The state of a thread that runs tasks.
struct Turn {
    executor: Arc<Executor>,
    /// The task that was made ready first by the one that is running.
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
    /// The bell of an executor on a thread that does other things too.
    here: Option<Notify>,
}

impl Executor {
    /// Makes an executor whose tasks wait for threads.
    pub fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Executor { queue: Mutex::default(), poller: Poller::new()?, here: None }))
    }

    /// Starts a thread more for its tasks.
    pub fn start(self: &Arc<Self>, name: String) -> io::Result<()> {
        let executor = Arc::clone(self);
        std::thread::Builder::new().name(name).spawn(move || executor.work())?;
        Ok(())
    }

    /// Makes an executor without threads: its tasks run where [`Executor::drive`] does.
    pub fn here() -> io::Result<Arc<Self>> {
        let queue = Mutex::new(Queue { waiting: 1, ..Queue::default() });
        Ok(Arc::new(Executor { queue, poller: Poller::new()?, here: Some(Notify::new()) }))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the poller by which its threads wait for sockets.
    pub fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Starts a task; what it leaves comes to who waits for it, or an error if it panicked.
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

    /// A task is to be run: next by this thread, if it is one of these and nothing else is next, or by who is free first.
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

    /// Runs what is next on this thread, and what that makes ready.
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

    /// Runs what the running task has made ready, before that goes on.
    pub fn run_made_ready(&self) {
        if let Some(task) = with_turn(self, |turn| turn.next.take()).flatten() {
            self.run(task);
        }
    }

    /// Runs a task; if it is to be run once more it comes behind all others. Nobody is woken for it: this thread looks for more
    /// anyway.
    fn run(&self, task: Arc<Task>) {
        if task.run() {
            self.queue().tasks.push_back(task);
        }
    }

    /// Runs some of what is ready.
    fn run_ready(&self) {
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
            // Not before what was heard of: the bell may be rung for a thread too many, and a packet does not wait for that.
            let mut queue = self.queue();
            queue.waiting -= usize::from(patiently);
            // If this thread came for the bell, it rings it again where there is more to do than it does itself.
            queue.is_rung = false;
        }
        // The next one is to hear it too.
        self.ring();
    }

    fn begin(self: &Arc<Self>) {
        let turn = Turn { executor: Arc::clone(self), next: None };
        TURN.set(Some(turn));
    }

    /// Makes the descriptor that wakes [`Executor::drive`] for sockets, in the runtime in which that runs.
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

    /// Ends its threads when they have run what they are running. What is left of its tasks is void.
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

/// Returns true if other tasks wait for the thread of the one that asks, or for any.
pub fn others_wait() -> bool {
    TURN.with_borrow(|turn| {
        let waits = |turn: &Turn| turn.next.is_some() || !turn.executor.queue().tasks.is_empty();
        turn.as_ref().is_some_and(waits)
    })
}

/// Lets others have their turn.
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
