//! Components' processes: started, found again, ended.

use crate::supervise::confinement::{Confinement, Program, Report};
use crate::supervise::core_file::Cores;
use crate::supervise::output::Outputs;
use crate::supervise::state::{self, Recorded};
use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use sluice_base::{TableId, class_of, instance_of};
use sluice_manager::CrashBudget;
use sluice_process::events;
use sluice_process::rights::Rights;
use sluice_process::{PREDECESSOR, successor_class};
use sluice_sandbox::launch::FAILED;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tracing::{info, warn};

/// The pause before a failed write of the state is tried again.
const SAVE_AGAIN: Duration = Duration::from_secs(2);

/// The processes that run.
pub struct Processes {
    run_dir: PathBuf,
    /// The confinement of every process.
    pub confinement: Confinement,
    /// The pipes of the processes' output.
    pub outputs: Outputs,
    /// Further environment variables of every process.
    environment: Vec<(&'static str, PathBuf)>,
    running: RefCell<BTreeMap<String, Recorded>>,
    /// Notifies that the state could not be written.
    unwritten: Notify,
    watched: RefCell<BTreeSet<String>>,
    /// The executables of third parties' components, by class.
    packaged: RefCell<BTreeMap<String, PathBuf>>,
    /// The executables of components that were upgraded, by name.
    executables: RefCell<BTreeMap<String, Executable>>,
    /// The executable that the latest promotion replaced.
    replaced: RefCell<Option<Executable>>,
}

/// The executable of a component.
#[derive(Clone, Debug)]
struct Executable {
    path: PathBuf,
    /// The executable before the upgrade, until the current executable is confirmed.
    before: Option<PathBuf>,
}

/// The kernel's data about a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Its number.
    pub pid: u32,
    /// The user of the process.
    pub uid: u32,
    /// Resident octets now.
    pub memory_bytes: u64,
    /// Resident octets at most so far.
    pub peak_memory_bytes: u64,
    /// Processor time, user and system.
    pub cpu_ms: u64,
    /// Time since its start.
    pub uptime_ms: u64,
}

impl Processes {
    /// Returns an empty set; `binaries`: the executables of third parties' components, by class; `environment`: further
    /// environment variables of every process.
    pub fn new(
        run_dir: &Path,
        confinement: Confinement,
        binaries: BTreeMap<String, PathBuf>,
        environment: Vec<(&'static str, PathBuf)>,
    ) -> Self {
        Processes {
            run_dir: run_dir.into(),
            confinement,
            outputs: Outputs::new(run_dir, events::relay),
            environment,
            running: RefCell::default(),
            unwritten: Notify::new(),
            watched: RefCell::default(),
            packaged: RefCell::new(binaries),
            executables: RefCell::default(),
            replaced: RefCell::default(),
        }
    }

    /// Returns true for a component of the router, and false for a component of a package.
    pub fn is_own(&self, name: &str) -> bool {
        !self.packaged.borrow().contains_key(class_of(name))
    }

    /// Replaces the executables of third parties' components, for processes that are started from now on.
    pub(crate) fn set_packaged(&self, binaries: BTreeMap<String, PathBuf>) {
        self.packaged.replace(binaries);
    }

    /// Returns true if a component is watched for the first time.
    pub(crate) fn first_watch(&self, class: &str) -> bool {
        self.watched.borrow_mut().insert(class.into())
    }

    /// Starts a component's process, confined.
    pub fn spawn(
        &self,
        class: &str,
        table: TableId,
        rights: &Rights,
        secret: &[u8; 16],
    ) -> io::Result<Child> {
        let executable = self.executable(class);
        let mut command =
            self.command((class, table), rights, executable.as_ref().map(|e| e.path.as_path()))?;
        self.start(class, &mut command, secret, executable)
    }

    /// Starts the process that is to take over from the component's, which has the number `old`: of the same executable, or of
    /// `binary`.
    pub(crate) fn spawn_successor(
        &self,
        (class, table): (&str, TableId),
        rights: &Rights,
        secret: &[u8; 16],
        binary: Option<&Path>,
        old: u32,
    ) -> io::Result<Child> {
        let executable = match binary {
            Some(binary) => Some(Executable { path: binary.into(), before: Some(self.path(class)?) }),
            None => self.executable(class),
        };
        let mut command =
            self.command((class, table), rights, executable.as_ref().map(|e| e.path.as_path()))?;
        command.env(PREDECESSOR, old.to_string());
        self.start(&next(class), &mut command, secret, executable)
    }

    /// Makes the replacement the component's process and keeps the old process as the last process; with `binary` also
    /// switches the executable.
    pub fn promote(&self, class: &str, binary: Option<PathBuf>) {
        self.exchange(class, &next(class), &last(class));
        if let Some(path) = binary {
            // The one of this process is always known.
            let before = self.path(class).ok();
            let replaced = self.executables.borrow_mut().insert(class.into(), Executable { path, before });
            self.replaced.replace(replaced);
        }
    }

    /// Undoes a promotion, and the change of executable if `another` is true.
    pub(crate) fn demote(&self, class: &str, another: bool) {
        self.exchange(class, &last(class), &next(class));
        if another {
            match self.replaced.take() {
                Some(executable) => self.executables.borrow_mut().insert(class.into(), executable),
                None => self.executables.borrow_mut().remove(class),
            };
        }
    }

    /// Falls back to the executable before the upgrade. Returns the abandoned executable.
    pub(crate) fn fall_back(&self, class: &str) -> Option<PathBuf> {
        let mut executables = self.executables.borrow_mut();
        let path = executables.get_mut(class)?.before.take()?;
        let own = sluice_process::own_executable().is_ok_and(|own| own == path);
        let given_up = match own {
            true => executables.remove(class),
            false => executables.insert(class.into(), Executable { path, before: None }),
        };
        given_up.map(|executable| executable.path)
    }

    /// A component's executable does: it is not gone back from.
    pub fn proven(&self, class: &str) {
        if let Some(executable) = self.executables.borrow_mut().get_mut(class) {
            executable.before = None;
        }
    }

    /// Returns true if a component was upgraded not long ago, maybe in an earlier life of the manager.
    pub(crate) fn is_on_trial(&self, class: &str) -> bool {
        let upgraded = self.executables.borrow().get(class).is_some_and(|e| e.before.is_some());
        upgraded && u128::from(self.usage(class).uptime_ms) < CrashBudget::SOUND_LIFE.as_millis()
    }

    /// Returns the executable of a component: its own since an upgrade, or its class's; `None` for the manager's own
    /// executable.
    fn executable(&self, name: &str) -> Option<Executable> {
        let upgraded = self.executables.borrow().get(name).cloned();
        let packaged = || self.packaged.borrow().get(class_of(name)).cloned();
        upgraded.or_else(|| packaged().map(|path| Executable { path, before: None }))
    }

    /// The path of a component's executable.
    fn path(&self, class: &str) -> io::Result<PathBuf> {
        match self.executable(class) {
            Some(executable) => Ok(executable.path),
            None => sluice_process::own_executable(),
        }
    }

    /// Returns the program of a component, for processes of its executable or of `binary`.
    fn program(&self, name: &str, binary: Option<&Path>) -> io::Result<Program> {
        let path = binary.map_or_else(|| self.path(name), |binary| Ok(binary.into()))?;
        Ok(Program { path, is_packaged: self.packaged.borrow().contains_key(class_of(name)) })
    }

    /// Compares the confinement of a component's process with the kernel's report.
    ///
    /// # Errors
    ///
    /// If the process has ended, or the component's class has no user.
    pub(crate) fn confinement_report(&self, name: &str, rights: &Rights) -> io::Result<Report> {
        self.confinement.report(name, rights, &self.program(name, None)?, self.pid(name))
    }

    fn exchange(&self, class: &str, comes: &str, goes: &str) {
        {
            let mut running = self.running.borrow_mut();
            let (new, old) = (running.remove(comes), running.remove(class));
            running.extend(new.map(|r| (class.to_string(), r)));
            running.extend(old.map(|r| (goes.to_string(), r)));
        }
        self.save();
    }

    fn command(
        &self,
        (name, table): (&str, TableId),
        rights: &Rights,
        binary: Option<&Path>,
    ) -> io::Result<Command> {
        let mut arguments: Vec<OsString> =
            vec!["run".into(), name.into(), "--run-dir".into(), self.run_dir.clone().into()];
        if instance_of(name).is_some() {
            arguments.extend(["--table".into(), table.0.to_string().into()]);
        }
        let program = self.program(name, binary)?;
        let mut command = Command::from(self.confinement.command(name, rights, &program, &arguments)?);
        command.stdin(Stdio::piped());
        self.outputs.lead(name, !program.is_packaged, &mut command);
        // Ctrl-C at the terminal of `sluice start` is for the manager, which ends components in their order.
        command.process_group(0);
        command.env_clear();
        for kept in ["PATH", "SLUICE_LOG", "SLUICE_LOG_JSON", "RUST_BACKTRACE"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        if events::leads_to_journal() {
            command.env(events::JOURNAL, "1");
        }
        if let Some(client) = state::python_client().filter(|_| binary.is_some()) {
            command.env("PYTHONPATH", client);
        }
        command.envs(self.environment.iter().cloned());
        Ok(command)
    }

    fn start(
        &self,
        key: &str,
        command: &mut Command,
        secret: &[u8; 16],
        executable: Option<Executable>,
    ) -> io::Result<Child> {
        let mut child = command.spawn()?;
        let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
        if let Some(mut stdin) = child.stdin.take() {
            // The pipe holds 32 octets at once; the write cannot block.
            tokio::task::spawn_local(async move {
                if let Err(error) = stdin.write_all(hex.as_bytes()).await {
                    warn!(%error, "a component ended before it took its secret");
                }
            });
        }
        if let Some(pid) = child.id() {
            let mut recorded = Recorded::new(pid, secret);
            recorded.before = executable.as_ref().and_then(|e| e.before.clone());
            recorded.binary = executable.map(|e| e.path);
            self.running.borrow_mut().insert(key.into(), recorded);
            self.save();
        }
        Ok(child)
    }

    /// Returns the still running processes of an earlier life of the manager, with their secrets. A replacement ends
    /// with its manager: processes of unfinished replacements are killed.
    pub(crate) fn adoptable(&self, recorded: state::Processes) -> Vec<(String, [u8; 16])> {
        let mut alive: state::Processes = recorded.into_iter().filter(|(_, r)| r.is_alive()).collect();
        for (_, halfway) in alive.extract_if(.., |class, _| class.contains(':')) {
            send(halfway.pid, Signal::SIGKILL);
        }
        let upgraded = alive.iter().filter_map(|(class, r)| {
            Some((class.clone(), Executable { path: r.binary.clone()?, before: r.before.clone() }))
        });
        self.executables.borrow_mut().extend(upgraded);
        let found = alive.iter().filter_map(|(class, r)| Some((class.clone(), r.secret()?))).collect();
        self.running.replace(alive);
        found
    }

    /// Waits up to 2 s for the end of a process that has closed its connection. The exit status, and what the process
    /// writes before its end, say more than a signal of the manager. Returns true if the process has ended.
    pub(crate) async fn ends_soon(&self, class: &str) -> bool {
        let pid = self.pid(class);
        for _ in 0..40 {
            if self.pid(class) != pid {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Waits for the end of an adopted process, which is not a child of the manager.
    pub(crate) async fn wait_for_adopted(&self, class: &str) {
        let Some(recorded) = self.running.borrow().get(class).cloned() else { return };
        state::wait_for_end(&recorded).await;
    }

    /// Removes an ended process. Returns its class.
    pub fn forget(&self, pid: u32) -> Option<String> {
        let class = {
            let mut running = self.running.borrow_mut();
            let class = running.iter().find(|(_, r)| r.pid == pid).map(|(class, _)| class.clone())?;
            running.remove(&class);
            class
        };
        self.confinement.remove_group(component_name(&class));
        state::remove_sockets(&self.run_dir, pid);
        self.save();
        Some(class)
    }

    /// Describes the end of a process by number, with the place of its core.
    pub fn end_in_words(&self, cores: &Cores, pid: u32, status: ExitStatus) -> String {
        let known = self.running.borrow().iter().find(|(_, r)| r.pid == pid).map(|(class, r)| {
            let own = || sluice_process::own_executable().unwrap_or_default();
            (class.clone(), r.binary.clone().unwrap_or_else(own))
        });
        let (class, executable) = known.unwrap_or_default();
        if status.signal() == Some(Signal::SIGKILL as i32)
            && self.confinement.killed_for_memory(component_name(&class)) > 0
        {
            return format!(
                "{status}; it used more memory than its rights.toml allows (`[resources]`, memory_mib)"
            );
        }
        if status.code() == Some(i32::from(FAILED)) {
            return format!("{status}; it was not started: the log has the launcher's reason");
        }
        if status.signal() == Some(Signal::SIGSYS as i32) {
            return format!("{status}; it made a system call that no component may make (docs/security.md)");
        }
        let user = self.confinement.user(&class).ok().flatten().unwrap_or(0);
        cores.end_in_words(status, &class, (pid, user), &executable)
    }

    /// The number of a component's process; 0 if there is none.
    pub fn pid(&self, class: &str) -> u32 {
        self.running.borrow().get(class).map_or(0, |r| r.pid)
    }

    fn signal(&self, class: &str, signal: Signal) {
        if let Some(recorded) = self.running.borrow().get(class)
            && recorded.is_alive()
        {
            send(recorded.pid, signal);
        }
    }

    /// Ends a process by number at once, if the process is the router's.
    pub(crate) fn kill_pid(&self, pid: u32) {
        if self.running.borrow().values().any(|r| r.pid == pid && r.is_alive()) {
            send(pid, Signal::SIGKILL);
        }
    }

    /// Ends a process at once.
    pub fn kill(&self, class: &str) {
        self.signal(class, Signal::SIGKILL);
    }

    /// Ends a process with a core, where those are written.
    pub fn abort(&self, class: &str) {
        self.signal(class, Signal::SIGABRT);
    }

    /// Asks a process to end.
    pub fn terminate(&self, class: &str) {
        self.signal(class, Signal::SIGTERM);
    }

    /// Returns the kernel's data about a component's process.
    pub fn usage(&self, class: &str) -> Usage {
        self.running.borrow().get(class).map(|r| usage_of(r.pid)).unwrap_or_default()
    }

    /// Returns the time spent by a component's process on a processor or waiting for a processor. Cheap: reads one
    /// file.
    pub(crate) fn effort(&self, class: &str) -> Duration {
        self.running.borrow().get(class).map_or(Duration::ZERO, |r| worked(r.pid) + waited(r.pid))
    }

    /// Writes down the running processes; [`Processes::keep_written`] tries again after a failure.
    fn save(&self) {
        if let Err(error) = state::save(&self.run_dir, &self.running.borrow()) {
            warn!(
                "cannot write {}: {error}; the router runs on, but if its manager is killed the next one cannot take it over; free \
                 some space there, this is tried again every {} s",
                state::file(&self.run_dir).display(),
                SAVE_AGAIN.as_secs()
            );
            self.unwritten.notify_one();
        }
    }

    /// Writes the running processes after a failed write, as soon as possible. Never ends.
    pub(crate) async fn keep_written(&self) {
        loop {
            self.unwritten.notified().await;
            loop {
                tokio::time::sleep(SAVE_AGAIN).await;
                if state::save(&self.run_dir, &self.running.borrow()).is_ok() {
                    break;
                }
            }
            info!("{} is written again", state::file(&self.run_dir).display());
        }
    }
}

fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid)
        && pid > 0
    {
        // It may end between the look and the signal; then there is nothing to do.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Returns the component of a recorded name, which may be a replacement's (`NAME:next`, `NAME:last`).
pub fn component_name(recorded: &str) -> &str {
    recorded.split(':').next().unwrap_or(recorded)
}

/// As what a successor's process is written down.
fn next(class: &str) -> String {
    successor_class(class)
}

/// Returns the recorded name of the process before the replacement.
fn last(class: &str) -> String {
    format!("{class}:last")
}

/// Returns the processor time of a process, by its clock.
fn worked(pid: u32) -> Duration {
    let clock = i32::try_from(pid).ok().and_then(|pid| clock_getcpuclockid(Pid::from_raw(pid)).ok());
    clock.and_then(|clock| clock_gettime(clock).ok()).map(Duration::from).unwrap_or_default()
}

/// Returns the time that the main thread of a process waited for a processor; 0 where the kernel does not count the
/// time.
fn waited(pid: u32) -> Duration {
    let counted = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanoseconds = counted.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Returns the kernel's data about a process.
pub(crate) fn usage_of(pid: u32) -> Usage {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The fields after the name, which may hold spaces and ends with a parenthesis.
    let after: Vec<u64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|w| w.parse().unwrap_or(0))
        .collect();
    let tick_ms = 10; // user-visible ticks are 1/100 s on Linux
    let cpu_ms = (after.get(11).unwrap_or(&0) + after.get(12).unwrap_or(&0)) * tick_ms;
    let uptime: f64 = std::fs::read_to_string("/proc/uptime")
        .ok()
        .and_then(|t| t.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0);
    let started_ms = after.get(19).unwrap_or(&0) * tick_ms;
    Usage {
        pid,
        uid: field("Uid:").and_then(|u| u32::try_from(u).ok()).unwrap_or(0),
        memory_bytes: field("VmRSS:").unwrap_or(0) * 1024,
        peak_memory_bytes: field("VmHWM:").unwrap_or(0) * 1024,
        cpu_ms,
        uptime_ms: ((uptime * 1000.0) as u64).saturating_sub(started_ms),
    }
}
