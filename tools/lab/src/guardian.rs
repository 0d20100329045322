//! The guardian: takes the lab down when the owning process dies, however the process dies.
//!
//! The guardian is a shell that reads from a pipe whose write end only the owner has. When the owner ends, even by
//! SIGKILL, the pipe closes, and the shell kills the processes in the lab's namespaces and removes the namespaces.

use crate::LabError;
use crate::scope::Scope;
use crate::state::State;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// As root: kills the processes in the lab's namespaces, then removes the namespaces. Without root: kills the processes
/// in the holder's user namespace.
const SCRIPT: &str = r#"cat >/dev/null
dir=$1; holder=$2; shift 2
for ns in "$@"; do
    for pid in $(ip netns pids "$ns" 2>/dev/null); do kill -9 "$pid"; done
    ip netns del "$ns" 2>/dev/null
done
# Components of a router are in namespaces of their own.
for pid in $(pgrep -f -- "--run-dir $dir/"); do kill -9 "$pid"; done
if [ "$holder" != none ]; then
    for p in /proc/[0-9]*; do
        if [ "$p/ns/user" -ef "/proc/$holder/ns/user" ]; then pids="$pids ${p#/proc/}"; fi
    done
    kill -9 $pids
fi
rm -rf "$dir""#;

/// The running guardian.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Sets a guardian over the lab.
    pub(crate) fn watch(state: &State) -> Result<Self, LabError> {
        let (holder, namespaces) = match state.scope {
            Scope::Host => ("none".to_owned(), state.nodes.values().map(|n| &n.namespace).collect()),
            Scope::Holder(holder) => (holder.pid.to_string(), Vec::new()),
        };
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "sluice-lab-guardian"])
            .arg(state.dir())
            .arg(holder)
            .args(namespaces)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| LabError::Start { program: "sh".into(), source })?;
        Ok(Guardian(child))
    }

    /// Sends it home before the owner takes the lab down by itself.
    pub(crate) fn dismiss(mut self) {
        // Killed before its pipe closes: it must not act on a later lab of the same name.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
