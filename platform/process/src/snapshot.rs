//! The first snapshot of interfaces, awaited by code that depends on interfaces.

use crate::clock;
use sluice_clients::FirstSnapshot;
use std::cell::RefCell;
use tokio::sync::Notify;

/// The wait for the FEA's first snapshot of interfaces; see [`FirstSnapshot`] for its rule.
pub struct InterfaceSnapshot {
    state: RefCell<FirstSnapshot>,
    changed: Notify,
}

impl Default for InterfaceSnapshot {
    fn default() -> Self {
        Self::new()
    }
}

impl InterfaceSnapshot {
    /// Begins the wait.
    pub fn new() -> Self {
        InterfaceSnapshot { state: RefCell::new(FirstSnapshot::new(clock::now())), changed: Notify::new() }
    }

    /// Ends the wait: the FEA has announced all interfaces.
    pub fn arrived(&self) {
        self.state.borrow_mut().complete();
        self.changed.notify_waiters();
    }

    /// Waits until the FEA has announced every interface, or until the timeout.
    pub async fn known(&self) {
        while !self.state.borrow().is_over(clock::now()) {
            let deadline = clock::to_tokio(self.state.borrow().deadline());
            if tokio::time::timeout_at(deadline, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }
}
