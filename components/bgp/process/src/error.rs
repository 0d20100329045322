//! Errors of the process's operations.

use sluice_bgp::speaker::SettingsError;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot::error::RecvError;

/// The reason why a configuration is refused, or cannot be applied.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The tree is not as `bgp.yang` has it.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// Two values contradict each other.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The configuration is another router's.
    #[error("local-as and router-id hold for the life of the process: restart bgp")]
    OtherRouter,
    /// The seed of the hash tables could not be drawn.
    #[error("no randomness: {0}")]
    Randomness(getrandom::Error),
    /// The threads could not be started, or their work could not be moved.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

/// The reason why tables and connections do not run on the configured threads.
#[derive(Debug, Error)]
pub enum ThreadsError {
    /// The system gives no threads.
    #[error("no threads: {0}")]
    Start(io::Error),
    /// The task of a table has ended.
    #[error("a table is lost: {0}")]
    LostTable(RecvError),
}

/// The reason why the process does not come to rest before a live upgrade.
#[derive(Debug, Error)]
pub enum RestError {
    /// The task of a table has ended.
    #[error("a table is lost: {0}")]
    LostTable(RecvError),
    /// Neighbors do not read within this time.
    #[error(
        "after {} s neighbors have not taken yet what there is to tell them; try again when they have",
        .0.as_secs()
    )]
    BusyNeighbors(Duration),
    /// The process ends.
    #[error("the process ends")]
    Ending,
}
