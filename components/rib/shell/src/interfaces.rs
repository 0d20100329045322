//! Whether the RIB knows the subnets that it is connected to. Before that every next hop looks unreachable, and whoever asks would
//! withdraw routes only to announce them again.

use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long questions wait for the FEA to tell of interfaces, after the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of interfaces as a whole.
pub struct Interfaces {
    told: Cell<bool>,
    changed: Notify,
    patience_ends: Instant,
}

impl Interfaces {
    /// Nothing was told; patience begins.
    pub fn new() -> Self {
        Interfaces {
            told: Cell::new(false),
            changed: Notify::new(),
            patience_ends: Instant::now() + PATIENCE,
        }
    }

    /// The FEA has told of all there are.
    pub fn arrived(&self) {
        self.told.set(true);
        self.changed.notify_waiters();
    }

    /// Waits until the FEA has told of all there are, or has had its time.
    pub async fn known(&self) {
        while !self.told.get() {
            if tokio::time::timeout_at(self.patience_ends, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }
}
