//! The threads that carry routes: readers and writers of connections, and tables, are tasks on them.
//!
//! * *peer*: each connection and each table stays on one thread.
//! * *dynamic*: whoever has nothing to do takes what is ready. A connection is read by one task, so that its order is kept.
//! * One thread: everything is on the process's own, and there is no other.

use crate::executor::{Executor, Socket};
use sluice_bgp::speaker::Scheduling;
use std::future::Future;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, spawn_local, unconstrained};

/// The number of threads, and the scheduling of tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// At least 1.
    pub threads: usize,
    /// The scheduling; without meaning for one thread.
    pub scheduling: Scheduling,
}

/// The threads.
pub struct Pool {
    plan: Plan,
    /// An executor for all threads, or for each.
    executors: Vec<Arc<Executor>>,
    /// The task that runs tasks on the process's own thread.
    here: Option<AbortHandle>,
}

impl Pool {
    /// Starts threads as planned. Call it on the process's own thread, in its runtime.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let mut pool = Pool { plan, executors: Vec::new(), here: None };
        if plan.threads <= 1 {
            let executor = Executor::here()?;
            let driver = Arc::clone(&executor).drive(executor.watch()?);
            pool.here = Some(spawn_local(unconstrained(driver)).abort_handle());
            pool.executors.push(executor);
            return Ok(pool);
        }
        for number in 0..plan.threads {
            if plan.scheduling == Scheduling::Peer || number == 0 {
                pool.executors.push(Executor::new()?);
            }
            if let Some(executor) = pool.executors.last() {
                executor.start(format!("bgp-{number}"))?;
            }
        }
        Ok(pool)
    }

    /// Returns the plan of the pool.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Returns the executor of a place.
    fn executor(&self, place: usize) -> &Arc<Executor> {
        &self.executors[place % self.executors.len()]
    }

    /// Starts a task; tasks of one place share a thread, if tasks stay. What it leaves comes to who waits for it.
    pub fn spawn<F>(&self, place: usize, task: F) -> oneshot::Receiver<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.executor(place).spawn(task)
    }

    /// A socket for tasks of a place.
    pub fn socket(&self, place: usize, stream: TcpStream) -> io::Result<Socket> {
        Socket::new(self.executor(place), stream)
    }

    /// The same socket for tasks of a place here.
    pub fn adopt(&self, place: usize, socket: &Socket) -> io::Result<Socket> {
        socket.for_tasks_of(self.executor(place))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // What still runs on it is of no use to anybody. Waiting for its threads would block this one.
        self.executors.iter().for_each(|executor| executor.end());
        if let Some(here) = &self.here {
            here.abort();
        }
    }
}
