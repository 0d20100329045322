//! The CLI's way into a running router.

use crate::Where;
use crate::connection::unmanaged::Unmanaged;
use crate::output::Failure;
use sluice_xrl::{EndpointOptions, XrlEndpoint};
use std::path::Path;
use std::time::Duration;

/// The longest wait for an answer by default.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// The longest wait for the Finder's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connects as the operator.
pub async fn connect(run_dir: &Path, timeout: Duration) -> Result<XrlEndpoint, Failure> {
    if let Some(unmanaged) = Unmanaged::find(run_dir) {
        return Err(Failure::not_connected(unmanaged.text()));
    }
    let secret = match sluice_manager_process::operator_secret(run_dir) {
        Ok(secret) => secret,
        Err(error) => return Err(no_secret(run_dir, &error)),
    };
    let mut options = EndpointOptions::new(run_dir.join("finder.sock"), secret, std::env::temp_dir());
    options.patience = PATIENCE.min(timeout);
    let router = XrlEndpoint::connect(options).await?;
    router.finder_connected().await.map_err(|e| {
        Failure::not_connected(format!(
            "the router in {} does not answer ({e}); start it with `sluice start`",
            run_dir.display()
        ))
    })?;
    Ok(router)
}

fn no_secret(run_dir: &Path, error: &anyhow::Error) -> Failure {
    // Whether the file is missing or may not be read are two things to do something about.
    match std::fs::File::open(run_dir.join("operator.secret")) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Failure::new(Failure::PERMISSION, "not-allowed", format!("{error:#}"))
        }
        _ => Failure::not_connected(error),
    }
}

/// Runs a future on the current thread, with tasks local to the thread.
pub fn block_on<T>(act: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::from(anyhow::Error::from(e)))?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, act))
}

/// Connects as the operator and runs `act`.
pub fn with_router<F, Fut>(place: &Where, act: F) -> Result<(), Failure>
where
    F: FnOnce(XrlEndpoint) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    block_on(async { act(connect(&place.run_dir, DEADLINE).await?).await })?
}
