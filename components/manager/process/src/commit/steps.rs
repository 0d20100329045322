//! Commits step by step: whoever wants to see what becomes of a router that is hurt in the middle of one names a Unix socket in
//! `SLUICE_COMMIT_STEPS` when the router starts. The manager tells it each step before it takes it, a line each, and waits for a
//! line back.

use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Whom to ask before a step; nobody as a rule.
pub struct Stepping(Option<PathBuf>);

impl Stepping {
    /// As the environment says.
    pub fn from_environment() -> Self {
        Stepping(std::env::var_os("SLUICE_COMMIT_STEPS").map(PathBuf::from))
    }

    /// A step is next. Where nobody is there to answer it is taken at once.
    pub async fn reached(&self, step: &str) {
        let Some(path) = &self.0 else { return };
        let Ok(mut stream) = UnixStream::connect(path).await else { return };
        if stream.write_all(format!("{step}\n").as_bytes()).await.is_ok() {
            let _whatever_it_says = BufReader::new(stream).read_line(&mut String::new()).await;
        }
    }
}
