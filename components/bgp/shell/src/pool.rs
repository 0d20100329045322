//! The threads that carry routes: readers and writers of connections, and tables, are tasks on them.
//!
//! * *peer*: each connection and each table stays on one thread.
//! * *dynamic*: whoever has nothing to do takes what is ready. A connection is read by one task, so that its order is kept.
//! * One thread: everything is on the process's own, and there is no other.

use std::future::Future;
use std::io;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How tasks find their threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduling {
    /// Each stays where it was put.
    Peer,
    /// An idle thread takes what is ready.
    #[default]
    Dynamic,
}

/// How many threads there are to be, and how tasks find them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// At least 1.
    pub threads: usize,
    /// Of no meaning with one thread.
    pub scheduling: Scheduling,
}

/// The threads.
pub struct Pool {
    plan: Plan,
    kind: Kind,
}

enum Kind {
    Here(Handle),
    Pinned(Vec<Worker>),
    Stealing(Option<Runtime>),
}

struct Worker {
    handle: Handle,
    /// Dropped, it ends the thread.
    _end: oneshot::Sender<()>,
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name(format!("bgp-{number}")).spawn(move || {
            let _ = runtime.block_on(ended);
        })?;
        Ok(Worker { handle, _end: end })
    }
}

impl Pool {
    /// Starts threads as planned. Call it on the process's own thread, in its runtime.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let kind = match plan {
            Plan { threads: 0 | 1, .. } => Kind::Here(Handle::current()),
            Plan { threads, scheduling: Scheduling::Peer } => {
                Kind::Pinned((0..threads).map(Worker::start).collect::<io::Result<Vec<_>>>()?)
            }
            Plan { threads, scheduling: Scheduling::Dynamic } => {
                let mut builder = Builder::new_multi_thread();
                let runtime = builder.worker_threads(threads).thread_name("bgp").enable_all().build()?;
                Kind::Stealing(Some(runtime))
            }
        };
        Ok(Pool { plan, kind })
    }

    /// What it was started for.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    fn handle(&self, place: usize) -> Handle {
        match &self.kind {
            Kind::Here(handle) => handle.clone(),
            Kind::Pinned(workers) => workers[place % workers.len()].handle.clone(),
            Kind::Stealing(runtime) => runtime.as_ref().map_or_else(Handle::current, |r| r.handle().clone()),
        }
    }

    /// Starts a task; tasks of one place share a thread, if tasks stay.
    pub fn spawn<F>(&self, place: usize, task: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle(place).spawn(task)
    }

    /// Lets sockets be registered for tasks of a place.
    pub fn at<R>(&self, place: usize, act: impl FnOnce() -> R) -> R {
        let handle = self.handle(place);
        let _guard = handle.enter();
        act()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // What still runs on it is of no use to anybody. Waiting for its threads would block this one.
        if let Kind::Stealing(runtime) = &mut self.kind
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}
