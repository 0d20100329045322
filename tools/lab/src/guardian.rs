//! The guardian: takes the lab down when the process that owns it dies, however it dies.
//!
//! It is a shell that reads from a pipe whose other end only the owner has. When the owner ends, even by SIGKILL, the pipe
//! ends, and the shell kills what is in the lab's namespaces and removes them.

use crate::LabError;
use crate::scope::Scope;
use crate::state::State;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

const SCRIPT: &str = r#"cat >/dev/null
dir=$1; holder=$2; shift 2
for ns in "$@"; do
    for pid in $(ip netns pids "$ns" 2>/dev/null); do kill -9 "$pid"; done
    ip netns del "$ns" 2>/dev/null
done
if [ "$holder" != none ]; then kill -9 "$holder"; fi
rm -rf "$dir""#;

/// The running guardian.
#[derive(Debug)]
pub(crate) struct Guardian(Child);

impl Guardian {
    /// Sets a guardian over the lab.
    pub(crate) fn watch(state: &State) -> Result<Self, LabError> {
        let holder = match state.scope {
            Scope::Host => "none".to_owned(),
            Scope::Holder(holder) => holder.pid.to_string(),
        };
        let child = state
            .scope
            .command("sh")?
            .args(["-c", SCRIPT, "sluice-lab-guardian"])
            .arg(state.dir())
            .arg(holder)
            .args(state.nodes.values().map(|n| &n.namespace))
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
