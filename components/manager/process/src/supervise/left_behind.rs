//! Leftovers of a killed manager: running components, and the file with their names.

use crate::supervise::sole;
use crate::supervise::state;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use sluice_process::socket_folder;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A component as the last manager wrote it down.
#[derive(Clone, Debug)]
pub struct LeftBehind {
    /// Its class.
    pub component: String,
    /// Its process.
    pub pid: u32,
    /// True while that process runs.
    pub is_alive: bool,
}

impl LeftBehind {
    /// Returns the Unix socket on which the component answers, if there is one.
    pub fn socket(&self, run_dir: &Path) -> Option<PathBuf> {
        let beginning = format!("{}-", self.pid);
        let entries = std::fs::read_dir(socket_folder(run_dir, &self.component))
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let mut own = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&beginning));
        own.next().map(|entry| entry.path())
    }
}

/// Returns true if no manager runs in a run-time folder: no process accepts connections to the Finder, and the holder
/// of the lock has ended. A manager that replaces its executable keeps its process, and so counts as running meanwhile.
pub fn is_manager_dead(run_dir: &Path) -> bool {
    is_refused(&run_dir.join("finder.sock")) && manager_pid(run_dir).is_none()
}

/// Returns true if nobody listens at a Unix socket. Returns at once, also if the listener's queue is full.
fn is_refused(path: &Path) -> bool {
    let Ok(address) = UnixAddr::new(path) else { return true };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let Ok(socket) = socket(AddressFamily::Unix, SockType::Stream, flags, None) else { return false };
    matches!(connect(socket.as_raw_fd(), &address), Err(Errno::ECONNREFUSED | Errno::ENOENT))
}

/// Returns the process of the manager of a run-time folder, if it runs.
pub fn manager_pid(run_dir: &Path) -> Option<u32> {
    state::lock_holder(run_dir)
}

/// Keeps routers from starting in the network namespace until the value is dropped. The error names the running router.
pub fn claim_network() -> anyhow::Result<Option<UnixListener>> {
    sole::claim(sole::ROUTER)
}

/// Returns the components recorded by the last manager; empty after an orderly end.
pub fn left_behind(run_dir: &Path) -> Vec<LeftBehind> {
    let recorded = state::load(run_dir).into_iter();
    let described = |(component, process): (String, state::Recorded)| LeftBehind {
        component,
        pid: process.pid,
        is_alive: process.is_alive(),
    };
    recorded.map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};

    #[test]
    fn a_full_queue_is_no_dead_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        assert!(is_refused(&path));
        let address = UnixAddr::new(&path).expect("short");
        let listener =
            socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(listener.as_raw_fd(), &address).expect("a free path");
        assert!(is_refused(&path), "nobody listens yet");
        listen(&listener, Backlog::new(1).expect("small")).expect("a queue");
        // Nobody accepts: connections fill the queue, and one more would wait.
        let kept: Vec<_> = (0..4)
            .map(|_| {
                let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
                let own = socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("a socket");
                let _full = connect(own.as_raw_fd(), &address);
                own
            })
            .collect();
        assert!(!is_refused(&path));
        drop((kept, listener));
        assert!(is_refused(&path));
    }
}
