//! Helpers: programs beside a component that its process may not execute itself, such as the server of a store. A component names
//! the arguments (`docs/security.md` lists the allowed ones); the manager starts the program, confined and as a user of its own, and
//! starts it again when it ends.
//!
//! A task keeps each helper ([`keep`]). `helpers.json` in the run-time folder records what runs, so that helpers go on while the manager is
//! away, and its next life adopts them.

use crate::ManagerProcess;
use crate::supervise::credentials::{self, CredentialError};
use crate::supervise::kept_files;
use crate::supervise::state::{self, RECORD};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sluice_manager::backoff::Backoff;
use sluice_process::rights::HelperRights;
use sluice_sandbox::{Observed, Plan};
use sluice_xrl::idl::manager::v1 as pb;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{fs, io};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tracing::{info, warn};

/// The time for an orderly end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two looks at a process that is no child.
const LOOK: Duration = Duration::from_millis(50);
/// The most arguments of a helper, and the most octets of one.
const MOST_ARGUMENTS: usize = 64;
const LONGEST_ARGUMENT: usize = 4096;
/// The most octets of a file for a helper.
const LONGEST_FILE: usize = 1 << 20;

/// The reason why a helper is not run.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The caller is no component, or its rights name no such helper.
    #[error("{0} may not have `{1}` run")]
    Right(String, String),
    /// The rights do not name the option.
    #[error("`{0}` is no permitted argument")]
    Argument(String),
    /// The rights do not name the file, or the file is too long.
    #[error("`{0}` is no permitted file, or longer than 1 MiB")]
    File(String),
    /// The name of the instance is no name of a folder.
    #[error("`{0}` is no name of an instance")]
    Instance(String),
}

/// The reason why a helper did not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("none of these programs is installed: {0}")]
    NoProgram(String),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A helper as its component wants it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Wanted {
    instance: String,
    arguments: Vec<String>,
}

/// A process by number and start time: a later process with the same number is another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Started {
    pid: u32,
    started: u64,
}

impl Started {
    fn is_alive(self) -> bool {
        state::start_time(self.pid) == Some(self.started)
    }

    fn signal(self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().filter(|pid| *pid > 0 && self.is_alive()) {
            // The process may end in between; then there is nothing to do.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// A helper as it is written down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Recorded {
    wanted: Wanted,
    process: Option<Started>,
}

/// A helper.
struct Helper {
    wanted: watch::Sender<Option<Wanted>>,
    /// The files that the component wants in the folder.
    files: Vec<pb::HelperFile>,
    process: Option<Started>,
    restarts: u32,
    last_end: String,
    /// The reason why the program does not run.
    problem: Option<String>,
}

/// The helpers of all components, by `COMPONENT.HELPER`.
#[derive(Default)]
pub struct Helpers(RefCell<BTreeMap<String, Helper>>);

/// A helper that runs, for `show processes`.
pub struct Running {
    /// `COMPONENT.HELPER`.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Restarts since it was wanted.
    pub restarts: u32,
    /// Its last end, in words.
    pub last_end: String,
}

fn full_name(component: &str, helper: &str) -> String {
    format!("{component}.{helper}")
}

/// Returns the component of a helper.
fn component_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(component, _)| component)
}

impl Helpers {
    /// Returns the helpers that run.
    pub fn running(&self) -> Vec<Running> {
        let helpers = self.0.borrow();
        let running = helpers.iter().filter_map(|(name, helper)| {
            let pid = helper.process?.pid;
            let (restarts, last_end) = (helper.restarts, helper.last_end.clone());
            Some(Running { name: name.clone(), pid, restarts, last_end })
        });
        running.collect()
    }

    /// Returns the reasons why helpers of a component do not run.
    pub fn problems(&self, component: &str) -> Vec<String> {
        let helpers = self.0.borrow();
        let of_component = helpers.iter().filter(|(name, _)| component_of(name) == component);
        let problem =
            |(name, helper): (&String, &Helper)| Some(format!("{name}: {}", helper.problem.as_ref()?));
        of_component.filter_map(problem).collect()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Helper)) {
        if let Some(helper) = self.0.borrow_mut().get_mut(name) {
            change(helper);
        }
    }

    /// Writes down what runs. Without a record, the next life of the manager starts helpers anew when their components ask.
    fn save(&self, run_dir: &Path) {
        let recorded: BTreeMap<String, Recorded> = {
            let helpers = self.0.borrow();
            let recorded = helpers.iter().filter_map(|(name, helper)| {
                let wanted = helper.wanted.borrow().clone()?;
                Some((name.clone(), Recorded { wanted, process: helper.process }))
            });
            recorded.collect()
        };
        let path = run_dir.join(RECORD);
        let text = serde_json::to_vec_pretty(&recorded).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| state::write_whole(&path, &text)) {
            warn!("cannot write {}: {error}", path.display());
        }
    }
}

/// A process of a helper: a child, or one that an earlier life of the manager started.
enum Process {
    Child(Child, Started),
    Adopted(Started),
}

impl Process {
    fn started(&self) -> Started {
        match self {
            Process::Child(_, started) | Process::Adopted(started) => *started,
        }
    }

    /// Waits for the end of the process, and returns it in words. May be called again after it was dropped.
    async fn wait(&mut self) -> String {
        match self {
            Process::Child(child, _) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Process::Adopted(started) => {
                while started.is_alive() {
                    tokio::time::sleep(LOOK).await;
                }
                if let Ok(pid) = i32::try_from(started.pid) {
                    // A child after all, if the manager before was another executable in this process.
                    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
                }
                "ended (adopted process)".into()
            }
        }
    }

    /// Ends the process.
    async fn end(&mut self) {
        let started = self.started();
        started.signal(Signal::SIGTERM);
        if tokio::time::timeout(PATIENCE, self.wait()).await.is_err() {
            started.signal(Signal::SIGKILL);
            self.wait().await;
        }
    }
}

impl ManagerProcess {
    /// Runs the helpers that a component names, and ends all others of the component.
    ///
    /// # Errors
    /// The component's rights do not permit one of them; nothing is changed then.
    pub(crate) fn run_helpers(
        self: &Rc<Self>,
        component: &str,
        helpers: Vec<pb::Helper>,
    ) -> Result<(), HelperError> {
        let model = self.model();
        let rights = model.rights(component);
        for helper in &helpers {
            let permitted = rights.helper.get(&helper.name);
            let permitted =
                permitted.ok_or_else(|| HelperError::Right(component.into(), helper.name.clone()))?;
            check(permitted, helper)?;
        }
        let named: Vec<String> = helpers.iter().map(|helper| full_name(component, &helper.name)).collect();
        self.end_helpers(|name| component_of(name) == component && !named.iter().any(|other| other == name));
        for (name, helper) in named.into_iter().zip(helpers) {
            let wanted = Wanted { instance: helper.instance, arguments: helper.arguments };
            // The certificates and files of a helper that runs already may be new.
            if let Some(permitted) = rights.helper.get(&helper.name)
                && let Err(error) = self.hand_files(&name, permitted, &wanted, &helper.files)
            {
                warn!(event = "helper.credentials", name, "{name}: {error}");
            }
            self.want_helper(name.clone(), wanted, None);
            self.helpers.change(&name, |known| known.files = helper.files);
        }
        Ok(())
    }

    /// Adopts the helpers of an earlier life of the manager.
    pub(crate) fn adopt_helpers(self: &Rc<Self>) {
        let text = fs::read(self.options.run_dir.join(RECORD)).unwrap_or_default();
        let recorded: BTreeMap<String, Recorded> = serde_json::from_slice(&text).unwrap_or_default();
        let model = self.model();
        for (name, Recorded { wanted, process }) in recorded {
            let process = process.filter(|process| process.is_alive());
            let (component, helper) = name.rsplit_once('.').unwrap_or_default();
            if model.rights(component).helper.contains_key(helper) {
                self.follow_output(&name, false);
                self.want_helper(name, wanted, process);
            } else if let Some(process) = process {
                process.signal(Signal::SIGTERM);
            }
        }
    }

    /// Ends the helpers of components that do not run any more.
    pub(crate) fn end_helpers_without(&self, runs: impl Fn(&str) -> bool) {
        self.end_helpers(|name| !runs(component_of(name)));
    }

    fn end_helpers(&self, ends: impl Fn(&str) -> bool) {
        let helpers = self.helpers.0.borrow();
        helpers
            .iter()
            .filter(|(name, _)| ends(name))
            .for_each(|(_, helper)| drop(helper.wanted.send_replace(None)));
    }

    /// Ends all helpers, and waits for their end.
    pub(crate) async fn stop_helpers(&self) {
        self.end_helpers(|_| true);
        while !self.helpers.0.borrow().is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn want_helper(self: &Rc<Self>, name: String, wanted: Wanted, process: Option<Started>) {
        if let Some(helper) = self.helpers.0.borrow().get(&name) {
            let changed = |now: &mut Option<Wanted>| {
                let changes = now.as_ref() != Some(&wanted);
                *now = Some(wanted.clone());
                changes
            };
            helper.wanted.send_if_modified(changed);
            return;
        }
        let (sender, receiver) = watch::channel(Some(wanted));
        let helper = Helper {
            wanted: sender,
            files: Vec::new(),
            process,
            restarts: 0,
            last_end: String::new(),
            problem: None,
        };
        self.helpers.0.borrow_mut().insert(name.clone(), helper);
        self.helpers.save(&self.options.run_dir);
        tokio::task::spawn_local(keep(Rc::clone(self), name, receiver, process));
    }

    /// Returns the folder of a helper's instance. The folder above is root's: the helper's user puts no link in place of its own.
    fn helper_folder(&self, name: &str, wanted: &Wanted) -> PathBuf {
        kept_files::folder(self.processes.confinement.state_dir(), name).join(&wanted.instance)
    }

    /// Puts the component's credentials and files into the folder of a helper.
    fn hand_files(
        &self,
        name: &str,
        rights: &HelperRights,
        wanted: &Wanted,
        files: &[pb::HelperFile],
    ) -> Result<(), StartError> {
        let folder = self.helper_folder(name, wanted);
        let user = self.processes.confinement.user(name)?;
        make_alone(&folder)?;
        credentials::give(&folder, user)?;
        for file in files.iter().filter(|file| !file.if_absent || !folder.join(&file.name).exists()) {
            credentials::place(&folder, &file.name, &file.content, user)?;
        }
        let from = (self.processes.confinement.state_dir(), component_of(name));
        Ok(credentials::copy(from, &rights.credentials, &folder, user)?)
    }

    fn start_helper(&self, name: &str, wanted: &Wanted) -> Result<Process, StartError> {
        let model = self.model();
        let (component, helper) = name.rsplit_once('.').unwrap_or_default();
        let rights = model.rights(component);
        let none = || io::Error::other("the component has no such helper any more");
        let rights = rights.helper.get(helper).ok_or_else(none)?;
        let program = program(rights)?;
        let files = self.helpers.0.borrow().get(name).map(|known| known.files.clone()).unwrap_or_default();
        self.hand_files(name, rights, wanted, &files)?;
        let plan =
            self.processes.confinement.helper_plan(name, &program, &self.helper_folder(name, wanted))?;
        let arguments: Vec<OsString> = wanted.arguments.iter().map(Into::into).collect();
        let mut command = Command::from(self.processes.confinement.launch(&plan, &program, &arguments)?);
        command.stdin(Stdio::null()).process_group(0).env_clear();
        self.processes.outputs.lead(name, false, &mut command);
        let child = command.spawn()?;
        let pid = child.id().unwrap_or(0);
        let started = Started { pid, started: state::start_time(pid).unwrap_or(0) };
        Ok(Process::Child(child, started))
    }

    /// Returns the plan of a helper that runs, and the differences of its process from the plan.
    pub(crate) fn helper_report(&self, running: &Running) -> io::Result<(Plan, Vec<String>)> {
        let model = self.model();
        let (component, helper) = running.name.rsplit_once('.').unwrap_or_default();
        let rights = model.rights(component);
        let ended = || io::Error::other("the process has ended");
        let rights = rights.helper.get(helper).ok_or_else(ended)?;
        let program = program(rights).map_err(|_| ended())?;
        let plan = self.processes.confinement.helper_plan(&running.name, &program, Path::new(""))?;
        let differences = Observed::of(running.pid).ok_or_else(ended)?.differences(&plan);
        Ok((plan, differences))
    }

    fn note_process(&self, name: &str, process: Option<Started>) {
        self.helpers.change(name, |helper| helper.process = process);
        self.helpers.save(&self.options.run_dir);
    }

    fn note_problem(&self, name: &str, problem: Option<String>) {
        self.helpers.change(name, |helper| helper.problem = problem);
    }
}

/// Returns the program of a helper.
fn program(rights: &HelperRights) -> Result<PathBuf, StartError> {
    let found = rights.programs.iter().map(PathBuf::from).find(|path| path.is_file());
    found.ok_or_else(|| StartError::NoProgram(rights.programs.join(", ")))
}

fn check(rights: &HelperRights, helper: &pb::Helper) -> Result<(), HelperError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let instance = &helper.instance;
    if instance.is_empty() || instance.len() > 63 || !instance.chars().all(is_plain) {
        return Err(HelperError::Instance(instance.clone()));
    }
    let is_permitted =
        |file: &&pb::HelperFile| rights.files.contains(&file.name) && file.content.len() <= LONGEST_FILE;
    if let Some(file) = helper.files.iter().find(|file| !is_permitted(file)) {
        return Err(HelperError::File(file.name.chars().take(100).collect()));
    }
    let is_long = |argument: &&String| argument.len() > LONGEST_ARGUMENT || argument.contains('\0');
    let arguments = &helper.arguments;
    let beyond = arguments.get(MOST_ARGUMENTS).or_else(|| arguments.iter().find(is_long));
    match beyond.map(String::as_str).or_else(|| rights.refused(arguments)) {
        Some(wrong) => Err(HelperError::Argument(wrong.chars().take(100).collect())),
        None => Ok(()),
    }
}

/// Makes the folder of an instance, and removes the folders of other instances.
fn make_alone(folder: &Path) -> io::Result<()> {
    let above = folder.parent().ok_or_else(|| io::Error::other("no folder of helpers"))?;
    fs::create_dir_all(above)?;
    fs::set_permissions(above, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    for other in fs::read_dir(above)?.flatten().filter(|other| other.path() != folder) {
        if other.file_type()?.is_dir() {
            fs::remove_dir_all(other.path())?;
        } else {
            fs::remove_file(other.path())?;
        }
    }
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a helper running until it is not wanted any more.
async fn keep(
    me: Rc<ManagerProcess>,
    name: String,
    mut changes: watch::Receiver<Option<Wanted>>,
    adopted: Option<Started>,
) {
    let mut adopted = adopted.map(Process::Adopted);
    let mut backoff = Backoff::default();
    loop {
        let Some(wanted) = changes.borrow_and_update().clone() else { break };
        let begun = Instant::now();
        let started = match adopted.take() {
            Some(process) => Ok(process),
            None => me.start_helper(&name, &wanted),
        };
        let problem = match started {
            Ok(mut process) => {
                let pid = process.started().pid;
                info!(event = "helper.started", name, pid, "{name} runs");
                me.note_process(&name, Some(process.started()));
                let settled = tokio::time::sleep(Backoff::SOUND_LIFE);
                tokio::pin!(settled);
                let ended = loop {
                    tokio::select! {
                        how = process.wait() => break Some(how),
                        _ = changes.changed() => break None,
                        () = &mut settled, if !settled.is_elapsed() => me.note_problem(&name, None),
                    }
                };
                let Some(how) = ended else {
                    process.end().await;
                    me.note_process(&name, None);
                    me.note_problem(&name, None);
                    backoff = Backoff::default();
                    continue;
                };
                me.note_process(&name, None);
                me.helpers.change(&name, |helper| {
                    helper.restarts = helper.restarts.saturating_add(1);
                    helper.last_end = how.clone();
                });
                how
            }
            Err(error) => error.to_string(),
        };
        let wait = backoff.after(begun.elapsed());
        let ms = wait.as_millis() as u64;
        warn!(
            event = "helper.ended",
            name,
            reason = problem,
            ms,
            "{name} does not run: {problem}; it is started again in {ms} ms"
        );
        me.note_problem(&name, Some(problem));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = changes.changed() => {}
        }
    }
    me.helpers.0.borrow_mut().remove(&name);
    me.helpers.save(&me.options.run_dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(instance: &str, arguments: &[&str]) -> pb::Helper {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        pb::Helper { name: "store".into(), instance: instance.into(), arguments, files: Vec::new() }
    }

    #[test]
    fn instances_and_arguments_are_checked() {
        let rights = HelperRights {
            programs: vec!["/nowhere/etcd".into(), "/proc/self/exe".into()],
            options: vec!["name".into()],
            credentials: Vec::new(),
            files: vec!["list".into()],
        };
        let with_file = |name: &str, length| pb::Helper {
            files: vec![pb::HelperFile { name: name.into(), content: vec![0; length], if_absent: false }],
            ..helper("a", &[])
        };
        assert!(check(&rights, &with_file("list", LONGEST_FILE)).is_ok());
        assert!(check(&rights, &with_file("list", LONGEST_FILE + 1)).is_err());
        assert!(check(&rights, &with_file("../list", 1)).is_err());
        assert!(check(&rights, &helper("0af3-1", &["--name=a"])).is_ok());
        for instance in ["", ".", "..", "a/b", "A", "a b"] {
            assert!(check(&rights, &helper(instance, &[])).is_err(), "{instance}");
        }
        assert!(check(&rights, &helper(&"a".repeat(64), &[])).is_err());
        for argument in ["--data-dir=/etc", "--name", "--name=a\0b"] {
            assert!(check(&rights, &helper("a", &[argument])).is_err(), "{argument}");
        }
        assert!(check(&rights, &helper("a", &["--name=a"; MOST_ARGUMENTS])).is_ok());
        assert!(check(&rights, &helper("a", &["--name=a"; MOST_ARGUMENTS + 1])).is_err());
        let long = format!("--name={}", "a".repeat(LONGEST_ARGUMENT));
        assert!(check(&rights, &helper("a", &[&long])).is_err());
        assert_eq!(program(&rights).expect("a program"), Path::new("/proc/self/exe"));
        let none = HelperRights { programs: vec!["/nowhere/etcd".into()], ..rights };
        assert!(program(&none).expect_err("none").to_string().contains("/nowhere/etcd"));
    }

    #[test]
    fn another_instance_begins_with_an_empty_folder() {
        let state = tempfile::tempdir().expect("a folder");
        let (first, second) = (state.path().join("x.store/one"), state.path().join("x.store/two"));
        make_alone(&first).expect("made");
        fs::write(first.join("data"), "1").expect("a file");
        make_alone(&first).expect("made again");
        assert!(first.join("data").exists());
        make_alone(&second).expect("made");
        assert!(!first.exists() && second.is_dir());
    }

    #[test]
    fn helpers_have_the_name_of_their_component_first() {
        assert_eq!(component_of(&full_name("cluster", "store")), "cluster");
        assert_eq!(component_of(&full_name("cluster@red", "store")), "cluster@red");
    }
}
