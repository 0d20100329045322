//! Tasks of a registration of a process at the Finder.

use std::cell::RefCell;
use tokio::task::{AbortHandle, JoinHandle};

/// The tasks that run while a process is registered. A new registration, as after a failed hand-over, replaces every
/// task.
#[derive(Debug, Default)]
pub struct Tasks(RefCell<Vec<AbortHandle>>);

impl Tasks {
    /// Replaces the tasks; those of an earlier registration are aborted.
    pub fn replace(&self, tasks: impl IntoIterator<Item = JoinHandle<()>>) {
        let tasks = tasks.into_iter().map(|task| task.abort_handle()).collect();
        self.0.replace(tasks).iter().for_each(AbortHandle::abort);
    }
}
