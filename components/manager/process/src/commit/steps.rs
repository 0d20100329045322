//! Commits step by step: tests of a router killed in the middle of a commit name a Unix socket in `SLUICE_COMMIT_STEPS`
//! when the router starts. The manager announces each step before taking the step, a line each, and waits for a line in
//! reply.

use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The socket asked before a step; absent as a rule.
pub struct Stepping(Option<PathBuf>);

impl Stepping {
    /// As the environment says.
    pub fn from_environment() -> Self {
        Stepping(std::env::var_os("SLUICE_COMMIT_STEPS").map(PathBuf::from))
    }

    /// Announces the next step. Returns at once without a listener.
    pub async fn reached(&self, step: &str) {
        let Some(path) = &self.0 else { return };
        let Ok(mut stream) = UnixStream::connect(path).await else { return };
        if stream.write_all(format!("{step}\n").as_bytes()).await.is_ok() {
            let _whatever_it_says = BufReader::new(stream).read_line(&mut String::new()).await;
        }
    }
}
