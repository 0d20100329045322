//! The run-time folder: the lock, and which processes run.

use crate::start_error::StartError;
use crate::start_error::cannot;
use anyhow::bail;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK: &str = "manager.lock";
const STATE: &str = "state.json";
/// The folder with a folder of sockets for each component.
const SOCKETS: &str = "xrl";
/// The folder with the operators' socket.
const OPERATORS: &str = "operators";

/// The file in the run-time folder with the helpers that run.
pub const RECORD: &str = "helpers.json";

/// A process as it is written down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number.
    pub pid: u32,
    /// The start time in ticks since the host's boot: distinguishes the process from a later process with the same
    /// number.
    started: u64,
    secret: String,
    /// The executable, if not the router manager's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// The executable before the upgrade, until the current executable is confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PathBuf>,
}

impl Recorded {
    /// A process that was just started.
    pub fn new(pid: u32, secret: &[u8; 16]) -> Self {
        let secret = secret.iter().map(|b| format!("{b:02x}")).collect();
        Recorded { pid, started: start_time(pid).unwrap_or(0), secret, binary: None, before: None }
    }

    /// Returns true if it still runs.
    pub fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Returns the secret; `None` unless the record has exactly 32 hexadecimal digits.
    pub fn secret(&self) -> Option<[u8; 16]> {
        // A sign before a digit is a number too, for `from_str_radix`.
        if self.secret.len() != 32 || !self.secret.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut secret = [0; 16];
        for (index, octet) in secret.iter_mut().enumerate() {
            *octet = u8::from_str_radix(self.secret.get(index * 2..index * 2 + 2)?, 16).ok()?;
        }
        Some(secret)
    }
}

/// Returns the start time of a process in ticks since the host's boot; `None` for a missing process or a zombie.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut after = stat.rsplit(')').next()?.split_whitespace();
    let state = after.next()?;
    (state != "Z" && state != "X").then(|| after.nth(18)?.parse().ok()).flatten()
}

/// Waits until a process that is not a child has ended.
pub async fn wait_for_end(recorded: &Recorded) {
    // A pidfd would wake at once, but opening one needs unsafe code; a dead component is noticed by its connection anyway,
    // this only clears up after it.
    while recorded.is_alive() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if let Ok(pid) = i32::try_from(recorded.pid) {
        // A child of this process after all, if its manager was another executable in this process: its remains are taken away.
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// Makes the run-time folder and locks the folder for the process.
pub fn lock(run_dir: &Path) -> anyhow::Result<Flock<File>> {
    let shown = run_dir.display();
    fs::create_dir_all(run_dir.join(SOCKETS)).map_err(cannot("make the run-time folder", run_dir))?;
    fs::set_permissions(run_dir, fs::Permissions::from_mode(0o755))
        .map_err(cannot("take over the run-time folder", run_dir))?;
    let path = run_dir.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o644)
        .open(&path)
        .map_err(cannot("write", &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(locked) => {
            // For those who ask whether a manager runs; no matter if the disk is full. Never empty on the way: a manager that replaces
            // itself has the number that is there already.
            let pid = std::process::id().to_string();
            let _ = locked.write_all_at(pid.as_bytes(), 0).and_then(|()| locked.set_len(pid.len() as u64));
            Ok(locked)
        }
        Err((mut file, _)) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid)?;
            bail!(
                "a router runs already in {shown} (process {}); stop it first, or name another folder with --run-dir",
                pid.trim()
            )
        }
    }
}

/// Returns the Finder's socket for the router's user and root: strangers cannot fill its queue.
pub fn operators_socket(run_dir: &Path) -> PathBuf {
    run_dir.join(OPERATORS).join("finder.sock")
}

/// Makes the folder of [`operators_socket`] for the router's user alone, and returns the socket's path.
pub(crate) fn make_operators_folder(run_dir: &Path) -> Result<PathBuf, StartError> {
    let folder = run_dir.join(OPERATORS);
    fs::create_dir_all(&folder).map_err(cannot("make the folder", &folder))?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))
        .map_err(cannot("take over the folder", &folder))?;
    Ok(operators_socket(run_dir))
}

/// Returns the process that last locked a run-time folder, if still running.
pub(crate) fn lock_holder(run_dir: &Path) -> Option<u32> {
    let holder = fs::read_to_string(run_dir.join(LOCK)).ok()?;
    holder.trim().parse().ok().filter(|pid| start_time(*pid).is_some())
}

/// Lets components of all users reach the Finder and the folders of sockets. Only the router's user makes a folder there
/// or sees the names.
pub(crate) fn open_to_components(run_dir: &Path, finder: &Path) -> io::Result<()> {
    fs::set_permissions(finder, fs::Permissions::from_mode(0o666))?;
    fs::set_permissions(run_dir.join(SOCKETS), fs::Permissions::from_mode(0o711))
}

/// Returns the folder of the Python client installed with the executable, for third parties' programs.
pub(crate) fn python_client() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let folder = executable.parent()?.parent()?.join("lib/sluice/python");
    folder.is_dir().then_some(folder)
}

/// Writes down the running processes: a whole new file in place of the old file, or nothing.
pub fn save(run_dir: &Path, running: &BTreeMap<String, Recorded>) -> io::Result<()> {
    write_whole(&run_dir.join(STATE), &serde_json::to_vec_pretty(running)?)
}

/// Writes a file that only its owner reads: a whole new file in place of the old file, or nothing.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new);
    let written = file.and_then(|mut file| file.write_all(text)).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // What there is of it takes space that is short.
        let _ = fs::remove_file(&new);
    }
    written
}

/// The file that [`save`] writes.
pub fn file(run_dir: &Path) -> PathBuf {
    run_dir.join(STATE)
}

/// Removes the sockets left behind by a process; their names begin with the process's number.
pub(crate) fn remove_sockets(run_dir: &Path, pid: u32) {
    remove_sockets_if(run_dir, |owner| owner == pid);
}

/// Removes the sockets of ended processes.
pub(crate) fn remove_orphaned_sockets(run_dir: &Path) {
    remove_sockets_if(run_dir, |owner| start_time(owner).is_none());
}

fn remove_sockets_if(run_dir: &Path, is_gone: impl Fn(u32) -> bool) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for entry in entries(&run_dir.join(SOCKETS)).flat_map(|component| entries(&component.path())) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|n| n.split_once('-')?.0.parse().ok());
        if owner.is_some_and(&is_gone) {
            // What cannot be removed does no harm: a socket of the same name is put in its place.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Reads the processes recorded by the last manager; empty without a record.
pub fn load(run_dir: &Path) -> BTreeMap<String, Recorded> {
    parse(&fs::read(run_dir.join(STATE)).unwrap_or_default())
}

/// Parses the content of `state.json`; a damaged file names no process.
pub fn parse(octets: &[u8]) -> BTreeMap<String, Recorded> {
    serde_json::from_slice(octets).unwrap_or_default()
}

/// An orderly end leaves nothing to take over.
pub fn clean(run_dir: &Path) {
    for name in [STATE, RECORD, "finder.sock"] {
        let _ = fs::remove_file(run_dir.join(name));
    }
    let _ = fs::remove_dir_all(run_dir.join(SOCKETS));
    let _ = fs::remove_dir_all(run_dir.join(OPERATORS));
    super::output::clean(run_dir);
    super::pins::unmount_if_empty(run_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_exactly_32_hexadecimal_digits() {
        let secret = |secret: &str| {
            let text = format!("{{\"bgp\":{{\"pid\":1,\"started\":2,\"secret\":\"{secret}\"}}}}");
            parse(text.as_bytes())["bgp"].secret()
        };
        assert_eq!(secret(&"0F".repeat(16)), Some([15; 16]));
        assert_eq!(secret(&"+f".repeat(16)), None);
        assert_eq!(secret(&"0f".repeat(17)), None);
        assert_eq!(secret(&"0f".repeat(15)), None);
    }

    #[test]
    fn a_damaged_file_names_no_process() {
        assert!(parse(b"").is_empty());
        assert!(parse(b"{\"bgp\":{\"pid\":-1}}").is_empty());
        assert!(parse(b"\xff").is_empty());
    }
}
