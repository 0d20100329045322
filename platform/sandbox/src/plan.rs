//! The description of a confinement, from the manager to the launcher.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The confinement of one process. The default confines nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The user of the process, and the group of the same number; `None` keeps the launcher's user and groups.
    pub user: Option<u32>,
    /// The capabilities that the process keeps, by the kernel's names (`CAP_NET_ADMIN`).
    pub capabilities: Vec<String>,
    /// The network namespace.
    pub network: Network,
    /// The view of the host's files; `None` keeps the launcher's.
    pub view: Option<View>,
    /// The working directory; `None` keeps the launcher's.
    pub folder: Option<PathBuf>,
    /// The accessible files; `None` leaves access to the files' permissions.
    pub files: Option<Files>,
    /// The system calls; `None` leaves all.
    pub calls: Option<CallList>,
    /// Control groups to enter: files named `cgroup.procs`.
    pub groups: Vec<PathBuf>,
    /// Limits that hold for the process itself.
    pub limits: Limits,
}

/// The network namespace of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Network {
    /// The launcher's.
    #[default]
    Kept,
    /// A new, empty namespace, made with the launcher's privileges.
    Empty,
    /// A new, empty namespace inside a new user namespace, for a launcher without privileges.
    EmptyInUserNamespace,
}

/// A view of the host's files in which folders are empty but for some paths.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The folders that are empty.
    pub hidden: Vec<PathBuf>,
    /// Files, folders and sockets that stay where they are.
    pub kept: Vec<PathBuf>,
}

/// The files that a process may access. Paths that do not exist are skipped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Files and folders to read.
    pub read: Vec<PathBuf>,
    /// Files and folders to read and to execute.
    pub execute: Vec<PathBuf>,
    /// Files and folders to read and to write.
    pub write: Vec<PathBuf>,
    /// Folders in which the process makes and removes sockets, and no other file.
    pub sockets: Vec<PathBuf>,
    /// True if the process sends signals, and connects to abstract Unix sockets, only within its confinement.
    pub is_scoped: bool,
}

impl Files {
    /// Returns all accessible paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        [&self.read, &self.execute, &self.write, &self.sockets].into_iter().flatten().cloned().collect()
    }
}

/// The system calls of a process ([`crate::calls`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CallList {
    /// A component of the router's executable: threads, files, Unix sockets.
    Component,
    /// The FEA: as a component, with sockets of all families, and bpf(2).
    Forwarding,
    /// A package's program in any language, with its interpreter.
    Package,
    /// A server that the router runs beside a component: as a package, with sockets of IP.
    Server,
}

/// Limits of one process (getrlimit(2)); `None` keeps the launcher's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Octets of address space; set where no control group bounds the memory.
    pub address_space: Option<u64>,
    /// Processes and threads of the user; set where no control group bounds them.
    pub processes: Option<u64>,
    /// Octets of a written file.
    pub file_size: Option<u64>,
    /// The nice value, 0 to 19.
    pub nice: Option<u8>,
}
