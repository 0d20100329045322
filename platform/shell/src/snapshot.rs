//! Whether the FEA has told of all interfaces that there are. Before that every next hop looks unreachable and no session knows its
//! subnet, and whoever decided by that would have to take it back.

use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long questions wait for the FEA to tell of interfaces, after the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first snapshot of the interfaces, which questions wait for.
pub struct InterfaceSnapshot {
    told: Cell<bool>,
    changed: Notify,
    patience_ends: Instant,
}

impl Default for InterfaceSnapshot {
    fn default() -> Self {
        Self::new()
    }
}

impl InterfaceSnapshot {
    /// Nothing has arrived; the wait begins.
    pub fn new() -> Self {
        InterfaceSnapshot {
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
