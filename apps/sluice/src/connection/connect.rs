//! The CLI's way into a running router.

use crate::Where;
use crate::connection::unmanaged::Unmanaged;
use crate::output::Failure;
use sluice_manager_process::{manager_pid, operators_socket};
use sluice_xrl::{EndpointOptions, XrlEndpoint, XrlError};
use std::path::Path;
use std::time::Duration;

/// The longest wait for an answer by default.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest wait for the Finder's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connects with the rights of the user.
pub async fn connect(run_dir: &Path, timeout: Duration) -> Result<XrlEndpoint, Failure> {
    if let Some(unmanaged) = Unmanaged::find(run_dir) {
        return Err(Failure::not_connected(unmanaged.text()));
    }
    // Only who may use the operators' socket sees it.
    let apart = operators_socket(run_dir);
    let finder = if apart.exists() { apart } else { run_dir.join("finder.sock") };
    let mut options = EndpointOptions::new(finder, None, std::env::temp_dir());
    options.patience = PATIENCE.min(timeout);
    XrlEndpoint::connect(options).await.map_err(|error| match error {
        XrlError::AccessDenied(_) => no_role(run_dir),
        error => match manager_pid(run_dir) {
            Some(manager) => not_answering(run_dir, manager, &error),
            None => no_answer(run_dir),
        },
    })
}

fn not_answering(run_dir: &Path, manager: u32, error: &XrlError) -> Failure {
    Failure::not_answering(format!(
        "the router in {} runs (its manager is process {manager}) and does not answer: {error}; it starts, is stopped or is busy. Look with \
         `top -p {manager}` and in its log, and try again",
        run_dir.display()
    ))
}

fn no_role(run_dir: &Path) -> Failure {
    let user = nix::unistd::geteuid();
    let text = format!(
        "you (user {user}) may not talk to the router in {}; root, the user who started it and members of the group sluice-admin \
         may, and members of the group sluice may look",
        run_dir.display()
    );
    Failure::new(Failure::PERMISSION, "not-allowed", text)
}

fn no_answer(run_dir: &Path) -> Failure {
    Failure::not_connected(format!(
        "no router runs in {}; start one with `sluice start`, or name its folder with --run-dir",
        run_dir.display()
    ))
}

/// Runs a future on the current thread, with tasks local to the thread.
pub fn block_on<T>(act: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::from(anyhow::Error::from(e)))?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, act))
}

/// Connects with the rights of the user and runs `act`.
pub fn with_router<F, Fut>(place: &Where, act: F) -> Result<(), Failure>
where
    F: FnOnce(XrlEndpoint) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    block_on(async { act(connect(&place.run_dir, DEADLINE).await?).await })?
}
