//! Work inside a node's network namespace.

use anyhow::{Result, anyhow};
use nix::sched::{CloneFlags, setns};
use sluice_lab::Lab;
use std::fs::File;

/// Runs `work` to its end on a separate thread inside the network namespace of a node. Sockets opened by `work` stay
/// in the namespace.
pub fn inside<T: Send>(lab: &Lab, node: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let state = lab.state();
    let file = File::open(state.scope.namespace_file(&state.node(node)?.namespace))?;
    std::thread::scope(|threads| {
        let inside = threads.spawn(|| {
            setns(file, CloneFlags::CLONE_NEWNET)?;
            work()
        });
        inside.join().map_err(|_| anyhow!("the thread in the namespace panicked"))?
    })
}
