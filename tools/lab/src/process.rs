//! Processes that outlive their starter: identified by number and start time, so that a reused number is never mistaken
//! for the lab's process.

use crate::ffi;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The longest wait between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// A process on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// The start of the process, in clock ticks since the host's start (field 22 of /proc/PID/stat).
    pub start: u64,
}

impl ProcessId {
    /// Returns the current process with the number `pid`; `None` if there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|(_, start)| ProcessId { pid, start })
    }

    /// Returns true if the process runs: neither gone nor a zombie.
    pub fn is_running(self) -> bool {
        stat(self.pid).is_some_and(|(state, start)| start == self.start && state != 'Z' && state != 'X')
    }

    /// Ends the process: SIGTERM, then SIGKILL after a timeout. Returns when the process has ended.
    pub fn stop(self) {
        self.end(&[(libc::SIGTERM, GRACE), (libc::SIGKILL, GRACE)]);
    }

    /// Ends it at once.
    pub fn kill(self) {
        self.end(&[(libc::SIGKILL, GRACE)]);
    }

    fn end(self, signals: &[(i32, Duration)]) {
        // The descriptor is opened before the check: from then on the number cannot change hands unnoticed.
        let Ok(pidfd) = ffi::pidfd_open(self.pid) else { return };
        if !self.is_running() {
            return;
        }
        for (signal, patience) in signals {
            if ffi::pidfd_send_signal(&pidfd, *signal).is_err() {
                return;
            }
            let timeout = PollTimeout::try_from(*patience).unwrap_or(PollTimeout::NONE);
            if poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|n| n > 0) {
                return;
            }
        }
    }
}

/// State and start time of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name is in brackets and may hold anything, brackets too.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// Returns the processes in the network namespace of the file `namespace`, and their descendants: components of a router
/// are in empty namespaces of their own.
pub fn inside(namespace: &Path) -> Vec<ProcessId> {
    let Ok(wanted) = fs::metadata(namespace).map(|m| (m.dev(), m.ino())) else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok()).collect();
    let is_inside =
        |pid: &u32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|m| (m.dev(), m.ino()) == wanted);
    let mut found: BTreeSet<u32> = pids.iter().copied().filter(is_inside).collect();
    let parents: Vec<(u32, u32)> = pids.iter().filter_map(|pid| Some((*pid, parent(*pid)?))).collect();
    loop {
        let known = found.len();
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == known {
            return found.into_iter().filter_map(ProcessId::of).collect();
        }
    }
}

/// Returns the processes with a word that begins with `beginning` on their command line: routers' components outlive
/// their manager, and have the router's folder there.
pub(crate) fn with_word(beginning: &Path) -> Vec<ProcessId> {
    let beginning = beginning.as_os_str().as_encoded_bytes();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let has_word = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|octet| *octet == 0).any(|word| word.starts_with(beginning))
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id()).filter(has_word).filter_map(ProcessId::of).collect()
}

/// The parent of a process.
fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_its_own() {
        let me = ProcessId::of(std::process::id()).unwrap();
        assert!(me.is_running());
        assert!(!ProcessId { start: me.start + 1, ..me }.is_running());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        ProcessId { start: id.start + 1, ..id }.kill();
        assert!(id.is_running(), "another start time is another process");
        id.stop();
        assert!(!id.is_running());
        child.wait().unwrap();
    }

    #[test]
    fn finds_descendants_and_words() {
        let word = std::env::temp_dir().join(format!("sluice-words-{}", std::process::id()));
        // The shell's child is in another network namespace, if the test may make one.
        let mut child = std::process::Command::new("sh");
        let mut child =
            child.args(["-c", "unshare --net sleep 100 || sleep 100"]).arg(&word).spawn().unwrap();
        let namespace = Path::new("/proc/self/ns/net");
        let descendant = || inside(namespace).into_iter().find(|p| parent(p.pid) == Some(child.id()));
        assert!(crate::until(std::time::Duration::from_secs(10), || descendant().is_some()));
        assert!(with_word(&word).iter().any(|p| p.pid == child.id()));
        let found = descendant();
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(process) = found {
            process.kill();
        }
    }
}
