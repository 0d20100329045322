//! A right that a thread takes and a second thread gives back: by a flag, and by a message only if a task waits for the right. So
//! no task is woken without need.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A right to send one chunk or batch more, with a value (space for the chunk).
///
/// The lock is held for the copy of a few words, once for a piece or a batch.
#[derive(Debug)]
pub struct Credit<T>(Mutex<Held<T>>);

#[derive(Debug)]
enum Held<T> {
    /// The value can be taken.
    Here(T),
    /// The value is taken.
    Away,
    /// The value is taken, and a task waits for it.
    Wanted,
}

impl<T> Credit<T> {
    /// Makes a right, not taken yet.
    pub const fn new(right: T) -> Self {
        Credit(Mutex::new(Held::Here(right)))
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the right. `None` if taken already; then a message is due when the right is given back.
    pub fn take(&self) -> Option<T> {
        let mut held = self.lock();
        let next = if matches!(*held, Held::Here(_)) { Held::Away } else { Held::Wanted };
        match std::mem::replace(&mut *held, next) {
            Held::Here(right) => Some(right),
            Held::Away | Held::Wanted => None,
        }
    }

    /// Returns true if the right can be taken. If not, a message is due when the right is given back.
    pub fn is_here(&self) -> bool {
        let mut held = self.lock();
        if matches!(*held, Held::Away) {
            *held = Held::Wanted;
        }
        matches!(*held, Held::Here(_))
    }

    /// Gives the right back; returns true if a task waits for the right, and a message is due.
    pub fn give(&self, right: T) -> bool {
        matches!(std::mem::replace(&mut *self.lock(), Held::Here(right)), Held::Wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_due_only_if_somebody_waits() {
        let credit = Credit::new(1);
        assert_eq!(credit.take(), Some(1));
        assert!(!credit.give(2));
        assert_eq!(credit.take(), Some(2));
        assert_eq!((credit.take(), credit.take()), (None, None));
        assert!(credit.give(3));
        assert_eq!(credit.take(), Some(3));
        assert!(!credit.give(4));
        assert!(credit.is_here() && credit.take() == Some(4) && !credit.is_here());
        assert!(credit.give(5) && credit.is_here());
    }
}
