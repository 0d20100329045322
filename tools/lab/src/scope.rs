//! The lab's namespaces, and the ways into the namespaces.
//!
//! Root needs nothing. Without root, a *holder* process sits in a user, mount and network namespace of its own, where
//! the caller is root; there `/run` is an empty file system of its own, so that `ip netns` works as usual. Every
//! command of the lab enters the holder's namespaces first. The kernel removes everything when the last process inside
//! ends.

use crate::error::at;
use crate::process::ProcessId;
use crate::{LabError, ffi};
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the holder's `/run` private, keeps the lab's folder there, reports readiness and waits for the end.
const HOLDER: &str = "set -e
mount --make-rprivate /
mount --bind \"$1\" /mnt
mount -t tmpfs tmpfs /run
mkdir -p \"$1\" /run/netns
mount --move /mnt \"$1\"
ip link set lo up
echo ready
exec sleep infinity";

/// The owner of the lab's namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In the host's own user namespace, by root.
    Host,
    /// In the holder's user and mount namespaces.
    Holder(ProcessId),
}

impl Scope {
    /// Starts a holder for the lab in the folder `dir`.
    pub(crate) fn hold(dir: &Path) -> Result<Self, LabError> {
        let no_rights = |why: String| LabError::NoRights(why);
        let mut child = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", HOLDER, "holder"])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| LabError::Start { program: "unshare".into(), source })?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            // The end of the stream means that it failed, the line that it is ready: nothing to time.
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let id = ProcessId::of(child.id());
        match id {
            Some(id) if line == "ready\n" => Ok(Scope::Holder(id)),
            _ => {
                let _ = child.kill();
                let output = child.wait_with_output();
                let why = output.map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
                Err(no_rights(why.unwrap_or_else(|e| e.to_string())))
            }
        }
    }

    /// Returns a command to run in the scope, outside of the nodes.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let mut command = Command::new(program);
        let namespaces = self.outer()?;
        if !namespaces.is_empty() {
            ffi::enter_namespaces(&mut command, namespaces);
        }
        Ok(command)
    }

    /// A command that runs in the namespace called `namespace`.
    pub(crate) fn command_in(
        &self,
        namespace: &str,
        program: impl AsRef<OsStr>,
    ) -> Result<Command, LabError> {
        let mut command = Command::new(program);
        let mut namespaces = self.outer()?;
        namespaces.push(open(&self.namespace_file(namespace))?);
        ffi::enter_namespaces(&mut command, namespaces);
        Ok(command)
    }

    /// Runs `work` to its end on a separate thread inside the namespace called `namespace`. A panic of `work` goes on in
    /// the caller.
    pub(crate) fn inside<T: Send>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, LabError> {
        let path = self.namespace_file(namespace);
        let file = open(&path)?;
        std::thread::scope(|threads| {
            let thread = threads.spawn(|| {
                setns(file, CloneFlags::CLONE_NEWNET).map_err(|error| at(&path)(error.into()))?;
                Ok(work())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The file that the namespace called `namespace` is mounted on, as seen from here.
    pub fn namespace_file(&self, namespace: &str) -> PathBuf {
        match self {
            Scope::Host => Path::new("/run/netns").join(namespace),
            Scope::Holder(holder) => {
                PathBuf::from(format!("/proc/{}/root/run/netns/{namespace}", holder.pid))
            }
        }
    }

    fn outer(&self) -> Result<Vec<OwnedFd>, LabError> {
        match self {
            Scope::Host => Ok(Vec::new()),
            Scope::Holder(holder) => ["user", "mnt", "net"]
                .iter()
                .map(|ns| open(Path::new(&format!("/proc/{}/ns/{ns}", holder.pid))))
                .collect(),
        }
    }

    /// Ends the holder, and with the holder the rest of the scope.
    pub(crate) fn release(&self) {
        if let Scope::Holder(holder) = self {
            holder.kill();
        }
    }
}

fn open(path: &Path) -> Result<OwnedFd, LabError> {
    File::open(path).map(OwnedFd::from).map_err(crate::error::at(path))
}
