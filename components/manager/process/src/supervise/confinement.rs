//! The confinement of components' processes: which layers the host offers, and the plan for each component.

use crate::supervise::{kept_files, state};
use nix::unistd::{Gid, Uid, chown, geteuid};
use serde::Serialize;
use sluice_base::class_of;
use sluice_process::rights::{Resources, Rights};
use sluice_process::{pins_folder, socket_folder};
use sluice_sandbox::cgroup::{Bounds, Groups, GroupsError};
use sluice_sandbox::files::{COMMON, SYSTEM};
use sluice_sandbox::users::{self, Users};
use sluice_sandbox::view::HIDDEN;
use sluice_sandbox::{CallList, Files, Host, Limits, Network, NetworkNamespace, Observed, Plan, View};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracing::warn;

/// The capabilities of the FEA: interfaces, routes and next hops; raw and packet sockets; ports below 1024; XDP programs
/// and their maps; programs with arithmetic on packet pointers.
const NETWORK_CAPABILITIES: [&str; 5] =
    ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE", "CAP_BPF", "CAP_PERFMON"];
/// The loader of dynamically linked programs (System V ABI, x86-64 supplement).
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The confinement of a router's processes.
pub struct Confinement {
    run_dir: PathBuf,
    state_dir: PathBuf,
    /// The launcher: this executable.
    launcher: PathBuf,
    host: Host,
    users: RefCell<Users>,
    groups: Result<Groups, GroupsError>,
    /// The folder of cores, if components write cores.
    cores: Option<PathBuf>,
}

/// The program of a component.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// True for the program of a package.
    pub is_packaged: bool,
}

/// The confinement of a process as intended, and as the kernel reports it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The component's plan.
    pub plan: Plan,
    /// The bounds of the component's control group, in words.
    pub bounds: Vec<String>,
    /// The differences between the plan and the kernel's report, in words; empty while the process is confined as planned.
    pub differences: Vec<String>,
}

impl Confinement {
    /// Finds the layers of the host, and names the missing layers in the log. `first_user` is the first of the users that
    /// component classes get.
    ///
    /// # Errors
    ///
    /// If the router's executable cannot be run as the launcher.
    pub fn prepare(
        run_dir: &Path,
        state_dir: &Path,
        first_user: u32,
        cores: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let launcher = sluice_process::own_executable()?;
        let mut host = probe(&launcher)?;
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let last = first_user.saturating_add(users::BLOCK - 1);
        if host.users
            && !(sluice_sandbox::host::has_user(&map, first_user)
                && sluice_sandbox::host::has_user(&map, last))
        {
            warn!(
                "the users {first_user} to {last} are not in the router's user namespace; name other users with --first-user"
            );
            host.users = false;
        }
        let groups = fs::metadata(run_dir).map_err(GroupsError::Refused).and_then(|folder| {
            // Unlike a path, the file's number is the folder's alone in every mount namespace of the host.
            Groups::prepare(&format!("sluice-{:x}-{:x}", folder.dev(), folder.ino()))
        });
        let users = RefCell::new(Users::open(state_dir, first_user));
        let (run_dir, state_dir) = (run_dir.into(), state_dir.into());
        let confinement = Confinement { run_dir, state_dir, launcher, host, users, groups, cores };
        for layer in confinement.missing() {
            warn!(event = "security.layer-missing", layer, "components run without {layer}");
        }
        Ok(confinement)
    }

    /// Returns the layers of confinement that the host does not offer, each with the reason.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = self.host.missing();
        match &self.groups {
            Err(reason) => missing.push(format!("control groups: {reason}")),
            Ok(groups) => {
                missing.extend(
                    groups.missing().into_iter().map(|c| format!("the controller `{c}` of control groups")),
                );
            }
        }
        missing
    }

    /// Returns the user of a component; `None` if components run as the router's user.
    pub fn user(&self, name: &str) -> io::Result<Option<u32>> {
        if !self.host.users {
            return Ok(None);
        }
        let mut users = self.users.borrow_mut();
        let is_new = !users.classes().contains_key(class_of(name));
        let user = users.of_class(class_of(name), users::is_taken)?;
        if is_new && let Err(error) = users.write() {
            warn!(
                "the users of components cannot be written down ({error}): `{name}` may have another after the next start"
            );
        }
        Ok(Some(user))
    }

    /// Returns true if components have users of their own.
    pub(crate) fn has_users(&self) -> bool {
        self.host.users
    }

    /// Returns the command that starts a component's program confined: the launcher with the plan. Makes the folders of
    /// the component's sockets and files, and the component's control group.
    ///
    /// # Errors
    ///
    /// If the folder or the group cannot be made, or no user is free for the component's class.
    pub fn command(
        &self,
        name: &str,
        rights: &Rights,
        program: &Program,
        arguments: &[OsString],
    ) -> io::Result<Command> {
        let mut plan = self.plan(name, rights, program)?;
        self.make_socket_folder(name, plan.user)?;
        if let Some(folder) = &plan.folder {
            kept_files::make(folder, plan.user)?;
        }
        if rights.network_admin {
            kept_files::make(&pins_folder(&self.run_dir), plan.user)?;
        }
        // A component without bounds stays in the router's group: a group of its own would only cost time.
        if let (Ok(groups), Some(resources)) = (&self.groups, rights.resources(program.is_packaged)) {
            plan.groups = groups.make(name, &bounds(resources))?;
        }
        self.launch(&plan, &program.path, arguments)
    }

    /// Returns the plan for a component, without its control groups.
    ///
    /// # Errors
    ///
    /// If no user is free for the component's class.
    fn plan(&self, name: &str, rights: &Rights, program: &Program) -> io::Result<Plan> {
        let resources = rights.resources(program.is_packaged);
        let is_bounded = self.groups.is_ok();
        let network = match self.host.network {
            _ if rights.network_admin => Network::Kept,
            None => Network::Kept,
            Some(NetworkNamespace::Privileged) => Network::Empty,
            Some(NetworkNamespace::InUserNamespace) => Network::EmptyInUserNamespace,
        };
        let calls = match program.is_packaged {
            _ if rights.network_admin => CallList::Forwarding,
            true => CallList::Package,
            false => CallList::Component,
        };
        let capabilities = if rights.network_admin { NETWORK_CAPABILITIES.as_slice() } else { &[] };
        let limits = match resources {
            None => Limits::default(),
            Some(resources) => Limits {
                open_files: Some(resources.open_files.into()),
                address_space: (!is_bounded).then(|| resources.memory()),
                processes: (!is_bounded).then_some(resources.processes.into()),
                nice: (!is_bounded).then_some(10),
                ..Limits::default()
            },
        };
        let files = self.files(name, rights, program);
        let has_view = self.host.views && program.is_packaged && !rights.network_admin;
        let view = has_view.then(|| {
            let mut kept = files.paths();
            kept.push(self.run_dir.clone());
            kept.extend(rights.sockets.unix_connect.iter().map(|socket| socket.as_str().into()));
            View { hidden: HIDDEN.map(PathBuf::from).into(), kept }
        });
        Ok(Plan {
            user: self.user(name)?,
            capabilities: capabilities.iter().map(|name| (*name).to_owned()).collect(),
            network,
            view,
            folder: rights.files.map(|_| kept_files::folder(&self.state_dir, name)),
            files: (self.host.landlock > 0).then_some(files),
            calls: self.host.calls.then_some(calls),
            groups: Vec::new(),
            limits: Limits { file_size: rights.files.map(|files| files.quota()), ..limits },
        })
    }

    /// Returns the plan for a helper: a user of its own, the router's network, and no file but those of its folder.
    ///
    /// # Errors
    ///
    /// If no user is free for the helper.
    pub(crate) fn helper_plan(&self, name: &str, program: &Path, folder: &Path) -> io::Result<Plan> {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let files = Files {
            read: [paths(&COMMON), paths(&SYSTEM)].concat(),
            execute: vec![program.into(), LOADER.into()],
            write: vec!["/dev/null".into(), folder.into()],
            is_scoped: true,
            ..Files::default()
        };
        let view = View { hidden: HIDDEN.map(PathBuf::from).into(), kept: vec![folder.into()] };
        Ok(Plan {
            user: self.user(name)?,
            network: Network::Kept,
            view: self.host.views.then_some(view),
            folder: Some(folder.into()),
            files: (self.host.landlock > 0).then_some(files),
            calls: self.host.calls.then_some(CallList::Server),
            ..Plan::default()
        })
    }

    /// Returns the command that starts a program by a plan.
    ///
    /// # Errors
    ///
    /// If the plan cannot be written as text.
    pub fn launch(&self, plan: &Plan, program: &Path, arguments: &[OsString]) -> io::Result<Command> {
        let mut command = Command::new(&self.launcher);
        command.arg("confine").arg(serde_json::to_string(plan)?).arg("--").arg(program).args(arguments);
        Ok(command)
    }

    /// Returns the state folder of the router.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    fn files(&self, name: &str, rights: &Rights, program: &Program) -> Files {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let mut files = Files { read: paths(&COMMON), ..Files::default() };
        files.write.push("/dev/null".into());
        files.write.extend(self.cores.clone());
        files.sockets.push(socket_folder(&self.run_dir, name));
        files.write.extend(rights.files.map(|_| kept_files::folder(&self.state_dir, name)));
        files.execute.push(program.path.clone());
        if program.is_packaged {
            files.is_scoped = true;
            files.execute.extend(paths(&SYSTEM));
            files.execute.extend(interpreter_folder(&program.path));
            // The package's modules and data; a program that stands alone has none.
            let folder = program.path.parent().filter(|folder| folder.join("package.toml").is_file());
            files.read.extend(folder.map(Into::into));
            files.read.extend(state::python_client());
        } else {
            files.read.extend(paths(&SYSTEM));
            files.execute.push(LOADER.into());
            // Another executable may be a script around the router's.
            if program.path != self.launcher {
                files.execute.extend(paths(&SYSTEM));
                files.execute.push(self.launcher.clone());
            }
        }
        if rights.network_admin {
            files.read.extend(paths(&["/sys", "/proc"]));
            files.write.push("/proc/sys/net".into());
            files.write.push(pins_folder(&self.run_dir));
        }
        files
    }

    /// Makes the folder in which a component makes its sockets. Others reach the sockets, and see no names.
    fn make_socket_folder(&self, name: &str, user: Option<u32>) -> io::Result<()> {
        let folder = socket_folder(&self.run_dir, name);
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o711))?;
        let user = user.unwrap_or_else(|| geteuid().as_raw());
        Ok(chown(&folder, Some(Uid::from_raw(user)), user_group(user))?)
    }

    /// Removes the control group of a component whose processes have ended.
    pub fn remove_group(&self, name: &str) {
        if let Ok(groups) = &self.groups {
            groups.remove(name);
        }
    }

    /// Removes every control group of the router.
    pub(crate) fn remove_groups(&self) {
        if let Ok(groups) = &self.groups {
            groups.remove_all();
        }
    }

    /// Returns the processes of a component that the kernel ended because of the memory's bound.
    pub(crate) fn killed_for_memory(&self, name: &str) -> u64 {
        self.groups.as_ref().map_or(0, |groups| groups.observed(name).killed)
    }

    /// Compares the confinement of a process with the kernel's report.
    ///
    /// # Errors
    ///
    /// If the process has ended, or the component's class has no user.
    pub fn report(&self, name: &str, rights: &Rights, program: &Program, pid: u32) -> io::Result<Report> {
        let plan = self.plan(name, rights, program)?;
        let observed = Observed::of(pid).ok_or_else(|| io::Error::other("the process has ended"))?;
        let mut differences = observed.differences(&plan);
        let mut words = Vec::new();
        if let (Ok(groups), Some(resources)) = (&self.groups, rights.resources(program.is_packaged)) {
            let (intended, kernel) = (bounds(resources), groups.observed(name));
            let compared = [
                ("octets of memory", intended.memory, kernel.memory),
                ("percent of a processor", intended.processor.map(u64::from), kernel.processor),
                ("processes", intended.processes.map(u64::from), kernel.processes),
            ];
            for (what, intended, kernel) in compared {
                words.extend(kernel.map(|bound| format!("{bound} {what}")));
                if let Some(bound) = intended.filter(|bound| kernel.is_none_or(|kernel| kernel > *bound)) {
                    differences.push(format!("is not bounded to {bound} {what}"));
                }
            }
        }
        Ok(Report { plan, bounds: words, differences })
    }
}

/// Returns the bounds of a component's control group.
fn bounds(resources: Resources) -> Bounds {
    Bounds {
        memory: Some(resources.memory()),
        processor: Some(resources.processor_percent),
        processes: Some(resources.processes),
    }
}

/// Returns the group of the same number as a user of the router's block; `None` for the router's own user.
fn user_group(user: u32) -> Option<Gid> {
    (user != geteuid().as_raw()).then(|| Gid::from_raw(user))
}

/// Returns the folder of a script's interpreter, for interpreters outside the system's folders: of `/opt/x/bin/python3`
/// the folder `/opt/x`.
fn interpreter_folder(program: &Path) -> Option<PathBuf> {
    use std::io::Read;
    let mut beginning = [0; 256];
    let length = fs::File::open(program).ok()?.read(&mut beginning).ok()?;
    let line = beginning[..length].split(|octet| *octet == b'\n').next()?.strip_prefix(b"#!")?;
    let interpreter = str::from_utf8(line).ok()?.split_whitespace().next()?;
    let interpreter = fs::canonicalize(interpreter).ok()?;
    let folder = interpreter.parent()?;
    Some(if folder.ends_with("bin") { folder.parent()?.into() } else { folder.into() })
}

/// Asks the launcher for the layers of the host; a process of its own, because finding them changes the process.
fn probe(launcher: &Path) -> anyhow::Result<Host> {
    let asked = Command::new(launcher)
        .args(["confine", "--probe"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    Ok(serde_json::from_slice(&asked.stdout)?)
}
