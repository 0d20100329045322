//! A router with packages of third parties, and the questions shared by the tests.

use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The executable under test.
pub(super) use crate::SLUICE;

/// Mounts the control groups of version 1, or of version 2, and executes the arguments. Runs in a mount namespace of its
/// own: the host keeps its mounts.
const MOUNT_CONTROL_GROUPS: &str = r#"
    mount -t tmpfs tmpfs /sys/fs/cgroup
    for controller in memory cpu pids; do
        mkdir "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || rmdir "/sys/fs/cgroup/$controller"
    done
    [ -d /sys/fs/cgroup/memory ] || mount -t cgroup2 cgroup2 /sys/fs/cgroup
    exec "$@"
"#;

/// A router with packages, alone in a network.
pub struct Router {
    pub lab: Lab,
    pub folder: PathBuf,
    starts: u32,
}

impl Router {
    /// Starts a router with the packages in `folder/packages` and the given configuration, and waits until the router
    /// is ready.
    pub fn start(folder: &Path, configuration: &str) -> Self {
        Self::start_by(folder, "", configuration, |lab| lab.command("host", SLUICE).unwrap())
    }

    /// Starts a router in the same way, which asks before each step of a change at a Unix socket.
    pub fn start_stepping(folder: &Path, configuration: &str, socket: &Path) -> Self {
        Self::start_by(folder, "", configuration, |lab| {
            let mut command = lab.command("host", SLUICE).unwrap();
            command.env("SLUICE_COMMIT_STEPS", socket);
            command
        })
    }

    /// Starts a router in the same way, with the host's control groups, which the lab's nodes do not see.
    pub fn start_with_control_groups(folder: &Path, configuration: &str) -> Self {
        Self::start_among(folder, "", configuration, &[])
    }

    /// Starts a router in the same way, with neighbors (further nodes and links of the topology) and with variables in its
    /// environment.
    pub fn start_among(
        folder: &Path,
        neighbors: &str,
        configuration: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        Self::start_by(folder, neighbors, configuration, |lab| {
            let mut shell = lab.command("host", "unshare").unwrap();
            shell.args(["--mount", "sh", "-c", MOUNT_CONTROL_GROUPS, SLUICE, SLUICE]);
            shell.envs(variables.iter().copied());
            shell
        })
    }

    fn start_by(
        folder: &Path,
        neighbors: &str,
        configuration: &str,
        command: impl FnOnce(&Lab) -> Command,
    ) -> Self {
        // Components run as another user.
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let file = folder.join("router.conf");
        std::fs::write(&file, configuration).unwrap();
        let topology: Topology = format!("[nodes.host]\n{neighbors}").parse().unwrap();
        let lab = Lab::up(&topology, LabOptions::unique("third-party")).unwrap();
        let mut router = Router { lab, folder: folder.into(), starts: 0 };
        let command = command(&router.lab);
        router.start_with(command);
        router
    }

    fn start_with(&mut self, mut start: Command) {
        let folder = &self.folder;
        start.arg("start").arg("--config").arg(folder.join("router.conf"));
        start.arg("--packages-dir").arg(folder.join("packages")).arg("--run-dir").arg(folder.join("run"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        start.stdout(log.try_clone().unwrap()).stderr(log);
        self.starts += 1;
        self.lab.spawn("host", &format!("router-{}", self.starts), start).unwrap();
        self.until("the router is ready", || self.run(&["status"]).status.success());
    }

    /// Starts the manager again, after [`Router::kill_manager`]. The manager asks before each step of a change.
    pub fn start_stepping_manager(&mut self, socket: &Path) {
        let mut command = self.lab.command("host", SLUICE).unwrap();
        command.env("SLUICE_COMMIT_STEPS", socket);
        self.start_with(command);
    }

    /// Kills the manager; its components run on.
    pub fn kill_manager(&self) {
        let pid = sluice_manager_process::manager_pid(&self.folder.join("run")).unwrap();
        let pid = nix::unistd::Pid::from_raw(pid.try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        let run = self.folder.join("run");
        self.until("the manager has ended", || sluice_manager_process::manager_pid(&run).is_none());
    }

    /// Types lines into the shell.
    pub fn type_in(&self, lines: &str) -> Output {
        let input = self.folder.join("lines");
        std::fs::write(&input, lines).unwrap();
        let mut command = self.lab.command("host", SLUICE).unwrap();
        command.arg("--run-dir").arg(self.folder.join("run"));
        command.stdin(std::fs::File::open(input).unwrap()).output().unwrap()
    }

    /// Runs a command that needs no router.
    pub fn run_alone(&self, words: &[&str]) -> Output {
        Command::new(SLUICE).args(words).output().unwrap()
    }

    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = self.lab.command("host", SLUICE).unwrap();
        command.args(words).arg("--run-dir").arg(self.folder.join("run")).output().unwrap()
    }

    pub fn ask(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub fn configure(&self, statements: &[&str]) -> Output {
        self.run(&[&["configure"], statements].concat())
    }

    /// Returns the log of the router and its components.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// A field of a component's process.
    pub fn process(&self, component: &str, field: &str) -> Value {
        let all = self.ask(&["show", "processes"]);
        let processes = all["processes"].as_array().into_iter().flatten();
        processes.filter(|p| p["component"] == component).map(|p| p[field].clone()).next().unwrap_or_default()
    }

    /// The routes in the kernel that Sluice wrote.
    pub fn kernel(&self) -> Vec<String> {
        let text = self.lab.exec("host", "ip", ["route", "show", "proto", "83"]).unwrap();
        text.lines().filter_map(|l| l.split(' ').find(|w| w.contains('/'))).map(Into::into).collect()
    }

    pub fn until(&self, what: &str, so: impl FnMut() -> bool) {
        assert!(until(Duration::from_secs(120), so), "never: {what}\n{}", self.log());
    }
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the folder of the Python client.
pub fn python() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python")
}

/// Copies a package of the test's folder into `packages`, under `name`.
pub fn install(packages: &Path, name: &str) {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages").join(name), &packages.join(name));
}

/// Returns true if `program` can be run; records a skipped test if not.
pub fn has(program: &str, argument: &str) -> bool {
    if let Err(reason) = sluice_lab::available() {
        sluice_testkit::skipped(reason);
        return false;
    }
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        sluice_testkit::skipped(format_args!("{program} is not installed"));
    }
    found
}
