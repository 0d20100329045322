//! The CLI's way into a running router.

use crate::Where;
use crate::output::Failure;
use sluice_xrl::{Router, RouterOptions};
use std::time::Duration;

/// How long an answer may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Connects as the operator and lets `act` do its work.
pub fn with_router<F, Fut>(place: &Where, act: F) -> Result<(), Failure>
where
    F: FnOnce(Router) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let secret = sluice_manager_shell::operator_secret(&place.run_dir).map_err(Failure::not_connected)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::from(anyhow::Error::from(e)))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let sockets = std::env::temp_dir();
        let mut options = RouterOptions::new(place.run_dir.join("finder.sock"), secret, sockets);
        options.patience = Duration::from_secs(2);
        let router = Router::connect(options).await?;
        router.finder_connected().await.map_err(|e| {
            Failure::not_connected(anyhow::anyhow!(
                "the router in {} does not answer ({e}); start it with `sluice start`",
                place.run_dir.display()
            ))
        })?;
        act(router).await
    })
}
