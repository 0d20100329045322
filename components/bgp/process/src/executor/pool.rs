//! The threads for routes: readers, writers and tables are tasks of these threads.
//!
//! * *peer*: each connection and each table stays on one thread.
//! * *dynamic*: an idle thread takes a ready task. One task reads a connection, which keeps the order of messages.
//! * One thread: every task runs on the process's own thread.

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
    /// A common executor for all threads, or an executor for each thread.
    executors: Vec<Arc<Executor>>,
    /// The task that runs tasks on the process's own thread.
    here: Option<AbortHandle>,
}

impl Pool {
    /// Starts threads as planned. Call on the process's own thread, in the runtime.
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

    /// Starts a task, and returns the receiver of its result. With *peer* scheduling the tasks of a place share a thread.
    pub fn spawn<F>(&self, place: usize, task: F) -> oneshot::Receiver<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.executor(place).spawn(task)
    }

    /// Makes a socket for tasks of a place.
    pub fn socket(&self, place: usize, stream: TcpStream) -> io::Result<Socket> {
        Socket::new(self.executor(place), stream)
    }

    /// Makes a copy of a socket, for tasks of a place in this pool.
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
