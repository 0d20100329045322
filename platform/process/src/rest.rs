//! The rest of a process that has handed over its state.

use tokio::sync::watch;

/// The state of rest after a hand-over: what comes from outside has no effect, because the next process has the state from before.
#[derive(Debug, Default)]
pub struct Rest(watch::Sender<bool>);

impl Rest {
    /// Waits until inputs may have an effect.
    pub async fn over(&self) {
        // The sender is not dropped meanwhile.
        let _ = self.0.subscribe().wait_for(|is_resting| !*is_resting).await;
    }

    /// Begins or ends the rest.
    pub fn set(&self, is_resting: bool) {
        self.0.send_replace(is_resting);
    }
}
