//! The manager's own replacement: the process executes its own or a new executable, in place. The process number stays,
//! so that no supervisor notices; `state.json` holds the manager's knowledge of components, which the next life adopts
//! from there. Components run on, and register again under the same names.

use super::error::ReplaceError;
use crate::ManagerProcess;
use sluice_xrl::idl::manager::v1 as pb;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::time::timeout;
use tracing::{error, info};

/// The longest wait for an executable to print its version: the check that the executable runs on the machine.
const CHECK: Duration = Duration::from_secs(5);
/// The time that the answer has to reach the caller, on a busy machine too.
const ANSWER: Duration = Duration::from_millis(250);

/// Executes the manager anew, from the same executable or from `binary`, as soon as the answer is on its way.
pub async fn succeed(
    process: &Rc<ManagerProcess>,
    binary: Option<PathBuf>,
) -> Result<pb::RestartReply, ReplaceError> {
    let began = Instant::now();
    if process.under_way.borrow().is_some() || !process.handovers.is_empty() {
        return Err(ReplaceError::Busy);
    }
    let executable = binary.map_or_else(sluice_process::own_executable, Ok)?;
    let version = version(&executable).await?;
    let pid = std::process::id();
    let process = Rc::clone(process);
    tokio::task::spawn_local(async move {
        // A commit that began meanwhile comes to its end first, and the file with it.
        let _turn = process.turn.lock().await;
        process.copies.settled().await;
        tokio::time::sleep(ANSWER).await;
        info!(event = "manager.succeeds", executable = %executable.display(), "the manager executes its successor");
        // It returns only if there is none.
        let failed = std::process::Command::new(executable).args(std::env::args_os().skip(1)).exec();
        error!(event = "manager.no-successor", error = %failed, "the manager could not execute its successor, and goes on");
    });
    let handed_over_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
    Ok(pb::RestartReply {
        old_pid: pid,
        new_pid: pid,
        version,
        handed_over_ms,
        ..pb::RestartReply::default()
    })
}

async fn version(executable: &PathBuf) -> Result<String, ReplaceError> {
    let mut command = Command::new(executable);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(CHECK, command.output()).await;
    let output = output.map_err(|_| ReplaceError::NoVersion(executable.clone()))?;
    let output =
        output.map_err(|error| ReplaceError::NotStarted { executable: executable.clone(), error })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.trim().strip_prefix("sluice ") {
        Some(version) if output.status.success() => Ok(version.into()),
        _ => Err(ReplaceError::OtherProgram(executable.clone())),
    }
}
