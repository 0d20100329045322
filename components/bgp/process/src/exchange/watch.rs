//! A value of which a second thread reads the latest state, at any time or after a message of a change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The latest value. The owner changes the value at any time; at most one message of a change is in flight.
///
/// The lock is held for a copy, and taken once for many routes.
#[derive(Debug, Default)]
pub struct Watch<T> {
    value: Mutex<T>,
    /// A message is on its way.
    announced: AtomicBool,
}

impl<T> Watch<T> {
    /// Changes the value; returns true if the waiting receiver is to be sent a message.
    pub fn change(&self, change: impl FnOnce(&mut T)) -> bool {
        change(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner));
        !self.announced.swap(true, Ordering::AcqRel)
    }

    /// Reads the value after a message. Later changes are announced again.
    pub fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        self.announced.store(false, Ordering::Release);
        look(&mut self.value.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
