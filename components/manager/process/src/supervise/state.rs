//! The run-time folder: the lock, and which processes run.

use crate::start_error::StartError;
use crate::start_error::cannot;
use crate::version::{LaterVersion, PROGRAM};
use anyhow::bail;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

const LOCK: &str = "manager.lock";
const STATE: &str = "state.json";
/// The version of `state.json` that is written. Version 1 has no number, and consists of the processes.
const VERSION: u64 = 2;
/// The fields of a process that the executable knows.
const FIELDS: [&str; 5] = ["pid", "started", "secret", "binary", "before"];
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
    fs::create_dir_all(sockets(run_dir)).map_err(cannot("make the run-time folder", run_dir))?;
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
    fs::set_permissions(sockets(run_dir), fs::Permissions::from_mode(0o711))
}

/// Returns the folder of the Python client installed with the executable, for third parties' programs.
pub(crate) fn python_client() -> Option<PathBuf> {
    let executable = sluice_process::own_executable().ok()?;
    let folder = executable.parent()?.parent()?.join("lib/sluice/python");
    folder.is_dir().then_some(folder)
}

/// The processes of a router, by component.
pub type Processes = BTreeMap<String, Recorded>;

/// The content of `state.json` from version 2 on. A reader skips unknown fields, except those in `required`.
#[derive(Serialize, Deserialize)]
struct Content<P> {
    /// The version of the format.
    version: u64,
    /// The version of the executable that wrote the file.
    #[serde(default)]
    written_by: String,
    /// The names of fields without which a reader would misunderstand a process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    required: Vec<String>,
    processes: P,
}

/// The reason why `state.json` is not used.
#[derive(Debug, Error)]
pub enum StateError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The file is no record of processes.
    #[error("it is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// A later version of Sluice wrote the file.
    #[error("it has {0}")]
    Version(#[from] LaterVersion),
    /// A process has a field that the executable does not know, and has to know.
    #[error("sluice {written_by} wrote it with the field `{field}`, which sluice {PROGRAM} does not know")]
    Required {
        /// The field.
        field: String,
        /// The version of the executable that wrote the file.
        written_by: String,
    },
}

impl StateError {
    /// Returns true if another executable can use the file.
    pub fn is_of_other_version(&self) -> bool {
        matches!(self, StateError::Version(_) | StateError::Required { .. })
    }
}

/// Returns the content of `state.json`.
pub fn text(running: &Processes) -> serde_json::Result<Vec<u8>> {
    let (written_by, required) = (PROGRAM.into(), Vec::new());
    serde_json::to_vec_pretty(&Content { version: VERSION, written_by, required, processes: running })
}

/// Writes down the running processes: a whole new file in place of the old file, or nothing.
pub fn save(run_dir: &Path, running: &Processes) -> io::Result<()> {
    write_whole(&file(run_dir), &text(running)?)
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

/// Returns the folder with a folder of sockets for each component.
pub(crate) fn sockets(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKETS)
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
    for entry in entries(&sockets(run_dir)).flat_map(|component| entries(&component.path())) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|n| n.split_once('-')?.0.parse().ok());
        if owner.is_some_and(&is_gone) {
            // What cannot be removed does no harm: a socket of the same name is put in its place.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Reads the processes recorded by the last manager; empty without a record.
///
/// # Errors
/// The file cannot be read, is damaged, or was written by a later version.
pub fn load(run_dir: &Path) -> Result<Processes, StateError> {
    match fs::read(file(run_dir)) {
        Ok(octets) => parse(&octets),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Processes::new()),
        Err(error) => Err(error.into()),
    }
}

/// Parses the content of `state.json`, of all versions up to the present one.
///
/// # Errors
/// The file is damaged, or was written by a later version.
pub fn parse(octets: &[u8]) -> Result<Processes, StateError> {
    let content: Value = serde_json::from_slice(octets)?;
    match content.get("version") {
        // In version 1, a component may have the name.
        None | Some(Value::Object(_)) => Ok(serde_json::from_value(content)?),
        Some(version) => match version.as_u64() {
            Some(VERSION) => {
                let Content { written_by, required, processes, .. } = serde_json::from_value(content)?;
                match required.into_iter().find(|field| !FIELDS.contains(&field.as_str())) {
                    Some(field) => Err(StateError::Required { field, written_by }),
                    None => Ok(processes),
                }
            }
            Some(found) if found > VERSION => Err(LaterVersion { found, newest: VERSION }.into()),
            _ => Err(serde_json::Error::custom(format!("no version has the number {version}")).into()),
        },
    }
}

/// An orderly end leaves nothing to take over.
pub fn clean(run_dir: &Path) {
    for name in [STATE, RECORD, "finder.sock"] {
        let _ = fs::remove_file(run_dir.join(name));
    }
    let _ = fs::remove_dir_all(sockets(run_dir));
    let _ = fs::remove_dir_all(run_dir.join(OPERATORS));
    super::output::clean(run_dir);
    super::pins::unmount_if_empty(run_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes() -> Processes {
        let mut static_routes = Recorded::new(7, &[3; 16]);
        static_routes.binary = Some("/usr/lib/sluice/static".into());
        static_routes.before = Some("/usr/bin/sluice".into());
        [("bgp", Recorded::new(std::process::id(), &[15; 16])), ("static:next", static_routes)]
            .map(|(name, process)| (name.to_owned(), process))
            .into()
    }

    /// Returns the message of the error of a content.
    fn refused(content: &str) -> String {
        parse(content.as_bytes()).expect_err(content).to_string()
    }

    #[test]
    fn a_secret_is_exactly_32_hexadecimal_digits() {
        let secret = |secret: &str| {
            let text = format!("{{\"bgp\":{{\"pid\":1,\"started\":2,\"secret\":\"{secret}\"}}}}");
            parse(text.as_bytes()).unwrap()["bgp"].secret()
        };
        assert_eq!(secret(&"0F".repeat(16)), Some([15; 16]));
        assert_eq!(secret(&"+f".repeat(16)), None);
        assert_eq!(secret(&"0f".repeat(17)), None);
        assert_eq!(secret(&"0f".repeat(15)), None);
    }

    #[test]
    fn processes_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        assert!(load(folder.path()).unwrap().is_empty());
        save(folder.path(), &processes()).unwrap();
        assert_eq!(load(folder.path()).unwrap(), processes());
        assert!(processes()["bgp"].is_alive());
        let content: Value = serde_json::from_slice(&fs::read(file(folder.path())).unwrap()).unwrap();
        assert_eq!((&content["version"], &content["written_by"]), (&VERSION.into(), &PROGRAM.into()));
        assert_eq!(content.as_object().unwrap().len(), 3, "nothing is required of readers");
        // The fields that a reader knows are those of a process.
        let fields = content["processes"]["static:next"].as_object().unwrap();
        assert!(fields.keys().all(|field| FIELDS.contains(&field.as_str())) && fields.len() == FIELDS.len());
    }

    #[test]
    fn a_torn_file_is_damaged_wherever_it_ends() {
        let new = text(&processes()).unwrap();
        let old = serde_json::to_vec(&processes()).unwrap();
        assert_eq!(parse(&old).unwrap(), processes(), "version 1");
        for whole in [new, old] {
            for length in 0..whole.len() {
                let error = parse(&whole[..length]).unwrap_err();
                assert!(matches!(error, StateError::Damaged(_)) && !error.is_of_other_version(), "{length}");
            }
        }
    }

    #[test]
    fn other_types_and_huge_numbers_are_damage() {
        let process = "\"started\":2,\"secret\":\"\"";
        for pid in ["-1", "4294967296", "1e300", "1.5", "null", "\"7\"", "[]", "{}", "true"] {
            for text in [
                format!("{{\"bgp\":{{\"pid\":{pid},{process}}}}}"),
                format!("{{\"version\":2,\"processes\":{{\"bgp\":{{\"pid\":{pid},{process}}}}}}}"),
            ] {
                assert!(refused(&text).starts_with("it is damaged: "), "{text}");
            }
        }
        for version in
            ["0", "1", "-2", "1e300", "2.5", "null", "\"2\"", "[2]", "true", "18446744073709551616"]
        {
            let text = format!("{{\"version\":{version},\"processes\":{{}}}}");
            assert!(refused(&text).starts_with("it is damaged: no version has the number"), "{text}");
        }
        let deep = "[".repeat(100_000);
        let inner = format!("{{\"version\":2,\"processes\":{{}},\"more\":{deep}");
        for text in ["", " ", "null", "7", "\"bgp\"", "[]", "[{}]", "\u{0}", &deep, &inner, "{\"version\":2}"]
        {
            assert!(refused(text).starts_with("it is damaged: "), "{text:.40}");
        }
        assert!(parse(b"\xff").is_err());
    }

    #[test]
    fn unknown_fields_are_skipped_unless_they_are_required() {
        let process = "\"pid\":1,\"started\":2,\"secret\":\"\",\"color\":{\"deep\":[1]}";
        let content =
            |more: &str| format!("{{\"version\":2,\"processes\":{{\"bgp\":{{{process}}}}},\"hue\":1{more}}}");
        assert_eq!(parse(content("").as_bytes()).unwrap()["bgp"].pid, 1);
        let known = content(",\"required\":[\"pid\",\"before\"]");
        assert_eq!(parse(known.as_bytes()).unwrap()["bgp"].pid, 1);
        let required = content(",\"written_by\":\"9.8.7\",\"required\":[\"pid\",\"color\"]");
        let error = parse(required.as_bytes()).unwrap_err();
        let expected =
            format!("sluice 9.8.7 wrote it with the field `color`, which sluice {PROGRAM} does not know");
        assert_eq!((error.is_of_other_version(), error.to_string()), (true, expected));
        // A component of version 1 may have the name of the number.
        let named = format!("{{\"version\":{{{process}}}}}");
        assert_eq!(parse(named.as_bytes()).unwrap()["version"].pid, 1);
    }

    #[test]
    fn later_versions_are_refused_whatever_they_hold() {
        for rest in ["", ",\"processes\":[]", ",\"processes\":{}", ",\"required\":7"] {
            let text = format!("{{\"version\":3{rest}}}");
            let error = parse(text.as_bytes()).unwrap_err();
            let expected =
                format!("it has version 3 of the format, but sluice {PROGRAM} reads versions up to 2");
            assert_eq!((error.is_of_other_version(), error.to_string()), (true, expected));
        }
    }
}
