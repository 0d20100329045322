//! Leftovers of a killed manager: running components, and the file with their names.

use crate::start_error::StartError;
use crate::supervise::sole;
use crate::supervise::state;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use sluice_process::socket_folder;
use std::fs::DirEntry;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use tracing::error;

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

/// Returns the processes recorded by the last manager, which the next manager adopts. A damaged record names none: its components are
/// started anew, and processes without a record end when they reach the Finder.
///
/// # Errors
/// A later version wrote the record, and components run: a start would end their processes, which the later version can adopt.
pub(crate) fn recorded(run_dir: &Path) -> Result<state::Processes, StartError> {
    let source = match state::load(run_dir) {
        Ok(processes) => return Ok(processes),
        Err(error) => error,
    };
    let (running, path) = (listening(run_dir), state::file(run_dir).display().to_string());
    if source.is_of_other_version() && !running.is_empty() {
        let names: Vec<_> = running.into_iter().map(|process| process.component).collect();
        let (running, reason) = (names.join(", "), source.to_string());
        return Err(StartError::OtherVersion { running, path, reason });
    }
    error!(
        event = "process.record-unusable",
        reason = %source,
        "{path} cannot be used: {source}; no process is adopted, and all components start anew"
    );
    Ok(state::Processes::new())
}

/// Returns the components with a process that listens, by their sockets, whose names begin with the process's number.
fn listening(run_dir: &Path) -> Vec<LeftBehind> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let described = |folder: DirEntry| {
        let mut sockets = entries(&folder.path()).filter(|socket| !is_refused(&socket.path()));
        let pid = sockets.find_map(|socket| socket.file_name().to_str()?.split_once('-')?.0.parse().ok())?;
        Some(LeftBehind { component: folder.file_name().into_string().ok()?, pid, is_alive: true })
    };
    let mut running: Vec<_> = entries(&state::sockets(run_dir)).filter_map(described).collect();
    running.sort_by(|a, b| a.component.cmp(&b.component));
    running
}

/// Returns the components recorded by the last manager, or those that run if the record is not usable; empty after an orderly end.
pub fn left_behind(run_dir: &Path) -> Vec<LeftBehind> {
    let Ok(recorded) = state::load(run_dir) else { return listening(run_dir) };
    let described = |(component, process): (String, state::Recorded)| LeftBehind {
        component,
        pid: process.pid,
        is_alive: process.is_alive(),
    };
    recorded.into_iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};

    #[test]
    fn a_record_of_a_later_version_is_kept_for_running_components() {
        let folder = tempfile::tempdir().expect("a folder");
        let run_dir = folder.path();
        let (record, sockets) = (state::file(run_dir), socket_folder(run_dir, "bgp"));
        std::fs::create_dir_all(&sockets).expect("a folder");
        assert!(recorded(run_dir).expect("no record").is_empty());
        let listener = UnixListener::bind(sockets.join("7-0.sock")).expect("a free path");
        std::fs::write(&record, "{\"version\":3}").expect("a file");
        let refused = recorded(run_dir).expect_err("a later version").to_string();
        for part in ["running components (bgp)", "version 3", "up to 2", "remove the file"] {
            assert!(refused.contains(part), "{refused}");
        }
        let shown: Vec<_> = left_behind(run_dir).into_iter().map(|left| (left.component, left.pid)).collect();
        assert_eq!(shown, [("bgp".to_owned(), 7)], "by the sockets");
        // A damaged record is of no use to any version.
        std::fs::write(&record, "{\"bgp\":").expect("a file");
        assert!(recorded(run_dir).expect("damage").is_empty());
        // Without a running component, nothing is lost by a start.
        drop(listener);
        std::fs::write(&record, "{\"version\":3}").expect("a file");
        assert!(recorded(run_dir).expect("nobody listens").is_empty());
    }

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
