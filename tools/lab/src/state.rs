//! The recorded state of a running lab: everything needed to take the lab down, written ahead.
//!
//! The record is `lab.json` in the lab's folder, which is `/run/sluice-lab/NAME` for root and
//! `$XDG_RUNTIME_DIR/sluice-lab/NAME` (or `/tmp/sluice-lab-UID/NAME`) without root. An existing folder reserves the
//! lab's name.

use crate::LabError;
use crate::error::at;
use crate::process::ProcessId;
use crate::scope::Scope;
use crate::topology::{Daemon, LinkSpec, is_name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The version of the file's format; further versions are refused.
const VERSION: u32 = 1;

/// A lab that is up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct State {
    /// The shape's version.
    version: u32,
    /// The lab's name.
    pub name: String,
    /// The owning process, whose end takes the lab down; `None` for a lab that stays until taken down.
    pub owner: Option<ProcessId>,
    /// The owner of its namespaces.
    pub scope: Scope,
    /// Its nodes by name.
    pub nodes: BTreeMap<String, NodeState>,
    /// Its links.
    pub links: Vec<LinkSpec>,
    /// The topology file, with every link followed; `None` for a lab made by a program without a file.
    #[serde(default)]
    pub topology: Option<PathBuf>,
}

/// A node of a lab that is up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeState {
    /// The name of its network namespace.
    pub namespace: String,
    /// The daemon of the node.
    pub daemon: Daemon,
    /// FRR's daemons beside zebra.
    pub frr_daemons: Vec<String>,
    /// True if the node has a configuration file.
    pub configured: bool,
    /// The Sluice executable, where the daemon is Sluice.
    pub program: Option<PathBuf>,
    /// The processes that the lab started there, by name.
    pub processes: BTreeMap<String, ProcessId>,
}

/// Returns the folder of the user's labs.
pub fn labs_dir() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return "/run/sluice-lab".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => Path::new(&dir).join("sluice-lab"),
        _ => format!("/tmp/sluice-lab-{}", nix::unistd::geteuid()).into(),
    }
}

/// Returns the names of the running labs, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(labs_dir()).into_iter().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.retain(|n| is_name(n));
    names.sort();
    names
}

impl State {
    /// Takes the name: makes the lab's folder, which must not exist.
    pub(crate) fn claim(name: &str, owner: Option<ProcessId>) -> Result<Self, LabError> {
        if !is_name(name) {
            return Err(LabError::Topology(format!("{name:?} cannot be a lab's name")));
        }
        let parent = labs_dir();
        fs::create_dir_all(&parent).map_err(at(&parent))?;
        let dir = parent.join(name);
        match fs::create_dir(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(LabError::Exists(name.into())),
            Err(e) => return Err(at(&dir)(e)),
        }
        let state = State {
            version: VERSION,
            name: name.into(),
            owner,
            scope: Scope::Host,
            nodes: BTreeMap::new(),
            links: Vec::new(),
            topology: None,
        };
        state.save()?;
        Ok(state)
    }

    /// Reads the recorded state of the lab `name`.
    pub fn load(name: &str) -> Result<Self, LabError> {
        let path = labs_dir().join(name).join("lab.json");
        let none = || LabError::NoLab(name.into());
        if !is_name(name) {
            return Err(none());
        }
        let bytes = fs::read(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound { none() } else { at(&path)(error) }
        })?;
        let state: State = serde_json::from_slice(&bytes).map_err(|e| at(&path)(e.into()))?;
        if state.version != VERSION {
            return Err(at(&path)(io::Error::other(format!("version {} is not {VERSION}", state.version))));
        }
        Ok(state)
    }

    /// Writes the state, atomically.
    pub(crate) fn save(&self) -> Result<(), LabError> {
        let path = self.dir().join("lab.json");
        let new = self.dir().join("lab.json.new");
        let text = serde_json::to_vec_pretty(self).map_err(|e| at(&path)(e.into()))?;
        fs::write(&new, text).map_err(at(&new))?;
        fs::rename(&new, &path).map_err(at(&path))
    }

    /// The lab's folder.
    pub fn dir(&self) -> PathBuf {
        labs_dir().join(&self.name)
    }

    /// The folder of the node `node`: configuration, sockets, logs.
    pub fn node_dir(&self, node: &str) -> PathBuf {
        self.dir().join(node)
    }

    /// The node `node`.
    pub fn node(&self, node: &str) -> Result<&NodeState, LabError> {
        let missing = || LabError::NoNode { lab: self.name.clone(), node: node.into() };
        self.nodes.get(node).ok_or_else(missing)
    }

    /// Returns true if the lab was made from a topology file in this folder.
    pub fn is_made_in(&self, folder: &Path) -> bool {
        self.topology.as_deref().and_then(Path::parent).is_some_and(|made_in| {
            // A folder that cannot be looked at is compared as it is written.
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            made_in == folder
        })
    }

    /// Returns true if its owner died and left the lab behind.
    pub fn is_orphan(&self) -> bool {
        self.owner.is_some_and(|o| !o.is_running())
    }

    /// Takes the lab down: its processes, further processes in its namespaces, the namespaces, the folder. Continues
    /// after a failure, and returns the first failure.
    pub(crate) fn take_down(&self) -> Result<(), LabError> {
        let processes: Vec<ProcessId> =
            self.nodes.values().flat_map(|n| n.processes.values()).copied().collect();
        std::thread::scope(|threads| {
            for process in processes {
                threads.spawn(move || process.stop());
            }
        });
        let mut result = Ok(());
        for node in self.nodes.values() {
            let file = self.scope.namespace_file(&node.namespace);
            for process in crate::process::inside(&file) {
                process.kill();
            }
            if file.exists() {
                result = result.and(crate::network::delete_namespace(&self.scope, &node.namespace));
            }
        }
        // Components of a router whose manager was killed.
        for process in crate::process::with_word(&self.dir().join("")) {
            process.kill();
        }
        self.scope.release();
        if result.is_ok() {
            crate::mounts::unmount_below(&self.dir());
            fs::remove_dir_all(self.dir()).map_err(at(&self.dir()))?;
        }
        result
    }
}
