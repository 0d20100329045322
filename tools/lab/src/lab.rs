//! A lab that is up.

use crate::error::at;
use crate::guardian::Guardian;
use crate::process::ProcessId;
use crate::scope::Scope;
use crate::state::{self, NodeState, State};
use crate::topology::Topology;
use crate::{LabError, daemon, neighbors, network};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Options for bringing up a lab.
#[derive(Clone, Debug, Default)]
pub struct LabOptions {
    /// The name; the topology's if `None`.
    pub name: Option<String>,
    /// The Sluice executable for nodes that run Sluice; the current executable if `None`.
    pub sluice: Option<PathBuf>,
    /// Use a user namespace even as root.
    pub rootless: bool,
    /// True if the lab stays when the current process ends. Otherwise a guardian takes the lab down at the end.
    pub stays: bool,
}

impl LabOptions {
    /// Options for a test: a name unique among the labs of every process.
    pub fn unique(prefix: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        LabOptions { name: Some(format!("{prefix}-{}-{number}", std::process::id())), ..Self::default() }
    }
}

/// Returns the reason why no lab can be made here, for tests that then skip by name.
pub fn available() -> Result<(), LabError> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "true"])
        .output()
        .map_err(|source| LabError::Start { program: "unshare".into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::NoRights(String::from_utf8_lossy(&output.stderr).trim().into()))
}

/// A running lab. Dropping a lab takes the lab down, unless made to stay or only attached to.
#[derive(Debug)]
pub struct Lab {
    state: State,
    children: BTreeMap<(String, String), Child>,
    guardian: Option<Guardian>,
    owned: bool,
}

impl Lab {
    /// Brings a lab up; returns when every daemon answers. After a failure nothing of the lab is left. Labs of dead
    /// owners are taken down first.
    pub fn up(topology: &Topology, options: LabOptions) -> Result<Lab, LabError> {
        topology.check()?;
        available()?;
        take_down_orphans();
        let name = options.name.clone().or_else(|| topology.name.clone()).unwrap_or_else(|| "lab".into());
        let owner = if options.stays { None } else { ProcessId::of(std::process::id()) };
        for warning in neighbors::warnings(topology) {
            sluice_print::errln!("lab {name}: {warning}");
        }
        let state = State::claim(&name, owner)?;
        let mut lab = Lab { state, children: BTreeMap::new(), guardian: None, owned: true };
        // From here on an error drops the lab, which takes it down.
        lab.build(topology, &options)?;
        for node in topology.nodes.keys() {
            lab.start(node)?;
        }
        lab.owned = !options.stays;
        Ok(lab)
    }

    /// Attaches to the lab `name` of a different owner; dropping the value leaves the lab up.
    pub fn attach(name: &str) -> Result<Lab, LabError> {
        let state = State::load(name)?;
        Ok(Lab { state, children: BTreeMap::new(), guardian: None, owned: false })
    }

    /// Takes the lab down, also on behalf of a different owner.
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        self.take_down()
    }

    fn build(&mut self, topology: &Topology, options: &LabOptions) -> Result<(), LabError> {
        if options.rootless || !nix::unistd::geteuid().is_root() {
            self.state.scope = Scope::hold(&self.state.dir())?;
        }
        self.state.links = topology.links.clone();
        self.state.topology =
            topology.file.as_deref().map(|file| file.canonicalize().map_err(at(file))).transpose()?;
        let program = options.sluice.clone().or_else(|| std::env::current_exe().ok());
        for (name, spec) in &topology.nodes {
            let config = topology.config_text(spec)?;
            let frr = spec.daemons.clone().unwrap_or_else(|| vec!["bgpd".into(), "staticd".into()]);
            let node = NodeState {
                namespace: format!("{}-{name}", self.state.name),
                daemon: spec.daemon,
                frr_daemons: frr,
                configured: config.is_some(),
                program: program.clone(),
                processes: BTreeMap::new(),
            };
            self.state.nodes.insert(name.clone(), node);
            daemon::write_files(&self.state.node_dir(name), spec.daemon, config, &spec.files)?;
            daemon::prepare(&self.state, name, spec.daemon)?;
        }
        self.state.save()?;
        if !options.stays {
            self.guardian = Some(Guardian::watch(&self.state)?);
        }
        network::build(&self.state, topology)
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the lab's recorded state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the folder of `node`, with `config`, control sockets (`bird.ctl`, `*.vty`, `bgpd.sock`, `run/`), and
    /// logs.
    pub fn dir(&self, node: &str) -> PathBuf {
        self.state.node_dir(node)
    }

    /// A command that will run in the network namespace of `node`.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        self.state.scope.command_in(&self.state.node(node)?.namespace, program)
    }

    /// Runs `work` to its end on a separate thread inside the network namespace of `node`. Sockets opened by `work` stay in the
    /// namespace. A panic of `work` goes on in the caller.
    ///
    /// # Errors
    ///
    /// There is no such node, or this process may not enter the namespace.
    pub fn inside<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.state.scope.inside(&self.state.node(node)?.namespace, work)
    }

    /// Runs a program on `node` to its end. Returns the output, or an error if the program failed.
    pub fn exec<S: AsRef<OsStr>>(
        &self,
        node: &str,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, LabError> {
        let output = self.output(node, program, args)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(LabError::Failed {
            program: program.into(),
            message: String::from_utf8_lossy(&text).trim().into(),
        })
    }

    /// Runs a program on `node` to its end, successful or not.
    pub fn output<S: AsRef<OsStr>>(
        &self,
        node: &str,
        program: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Output, LabError> {
        let start = |source| LabError::Start { program: program.into(), source };
        self.command(node, program)?.args(args).output().map_err(start)
    }

    /// Asks the daemon of `node` through its own control program: `birdc`, `vtysh -c`, `bgpctl`, `gobgp`.
    pub fn control(&self, node: &str, question: &str) -> Result<String, LabError> {
        use crate::topology::Daemon;
        let dir = self.dir(node).display().to_string();
        let words = question.split_whitespace();
        match self.state.node(node)?.daemon {
            Daemon::Bird => {
                let socket = format!("{dir}/bird.ctl");
                self.exec(node, "birdc", ["-r", "-s", &socket].into_iter().chain(words))
            }
            Daemon::Frr => self.exec(node, "vtysh", ["--vty_socket", &dir, "-c", question]),
            Daemon::Openbgpd => {
                let socket = format!("{dir}/bgpd.sock");
                self.exec(node, "bgpctl", ["-s", &socket].into_iter().chain(words))
            }
            Daemon::Gobgp => self.exec(node, "gobgp", words),
            Daemon::Sluice | Daemon::Exabgp | Daemon::Host | Daemon::Switch => {
                Err(LabError::Topology(format!("{node} runs nothing with a control program")))
            }
        }
    }

    /// Starts `command`, made by [`Lab::command`], as a process of the lab called `name`: it ends when the lab does.
    pub fn spawn(&mut self, node: &str, name: &str, mut command: Command) -> Result<ProcessId, LabError> {
        self.state.node(node)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| LabError::Start { program, source })?;
        self.adopt(node, name, child)
    }

    /// Starts the daemon of `node` (again) and waits until it answers.
    pub fn start(&mut self, node: &str) -> Result<(), LabError> {
        let state = self.state.clone();
        daemon::start(&state, node, |part, child| self.adopt(node, part, child).map(drop))
    }

    /// Ends every process of `node` started by the lab: by SIGTERM, or by SIGKILL if `kill`.
    pub fn stop(&mut self, node: &str, kill: bool) -> Result<(), LabError> {
        let processes = self.state.node(node)?.processes.clone();
        for (part, process) in processes {
            if kill {
                process.kill()
            } else {
                process.stop()
            }
            if let Some(mut child) = self.children.remove(&(node.to_owned(), part)) {
                let _ = child.wait();
            }
        }
        if let Some(entry) = self.state.nodes.get_mut(node) {
            entry.processes.clear();
        }
        self.state.save()
    }

    /// The end of the log of a part (`bird`, `zebra`, `sluice`) of `node`.
    pub fn log(&self, node: &str, part: &str) -> String {
        daemon::log_tail(&self.dir(node), part)
    }

    /// Writes the child down before anything else can happen.
    fn adopt(&mut self, node: &str, name: &str, child: Child) -> Result<ProcessId, LabError> {
        let gone =
            || LabError::NotReady { node: node.into(), daemon: name.into(), message: "it ended".into() };
        let id = ProcessId::of(child.id()).ok_or_else(gone)?;
        self.children.insert((node.to_owned(), name.to_owned()), child);
        if let Some(entry) = self.state.nodes.get_mut(node) {
            entry.processes.insert(name.to_owned(), id);
        }
        self.state.save()?;
        Ok(id)
    }

    fn take_down(&mut self) -> Result<(), LabError> {
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
        let result = self.state.take_down();
        for child in self.children.values_mut() {
            let _ = child.wait();
        }
        result
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        if let Err(e) = self.take_down() {
            sluice_print::errln!("lab {}: {e}", self.state.name);
        }
    }
}

/// Takes down the labs whose owner has died; their names.
pub(crate) fn take_down_orphans() -> Vec<String> {
    let orphans = state::names().into_iter().filter_map(|n| State::load(&n).ok()).filter(State::is_orphan);
    orphans.filter(|s| s.take_down().is_ok()).map(|s| s.name).collect()
}
