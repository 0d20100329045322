//! Commits and changes of packages step by step: tests of a router killed in the middle of a change name a Unix socket in `SLUICE_COMMIT_STEPS`
//! when the router starts. The manager announces each step before taking the step, a line each, and waits for a line in
//! reply.

use sluice_manager::commit::Output;
use sluice_process::Effect;
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The socket asked before a step; absent as a rule.
pub struct Stepping(Option<PathBuf>);

impl Stepping {
    /// As in the environment.
    pub(crate) fn from_environment() -> Self {
        Stepping(std::env::var_os("SLUICE_COMMIT_STEPS").map(PathBuf::from))
    }

    /// Announces the next step. Returns at once without a listener.
    pub async fn reached(&self, step: &str) {
        let Some(path) = &self.0 else { return };
        let Ok(mut stream) = UnixStream::connect(path).await else { return };
        if stream.write_all(format!("{step}\n").as_bytes()).await.is_ok() {
            let _answer = BufReader::new(stream).read_line(&mut String::new()).await;
        }
    }
}

/// Returns a step's name: the action and its target.
pub fn name(output: &Output<Effect>) -> String {
    match output {
        Output::Prepare(class) => format!("prepare {class}"),
        Output::Apply(class) => format!("apply {class}"),
        Output::Abandon(class) => format!("abandon {class}"),
        Output::Restart(class) => format!("restart {class}"),
        Output::Start(class) => format!("start {class}"),
        Output::Stop(class) => format!("stop {class}"),
        Output::Restore(class) => format!("restore {class}"),
        Output::Offer => "offer".into(),
        Output::Decide => "decide".into(),
        Output::Store => "store".into(),
        Output::Done(Ok(_)) => "done".into(),
        Output::Done(Err(_)) => "undone".into(),
    }
}
