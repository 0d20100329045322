//! A right that goes to another thread and comes back: by a flag, and by a message only if it is waited for. So nobody is woken to learn
//! that he could do what he has no wish to do.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A right to send one thing more, with what comes along (space for it).
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
    /// A right that nobody has taken yet.
    pub const fn new(right: T) -> Self {
        Credit(Mutex::new(Held::Here(right)))
    }

    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes it. If it is not there, whoever gives it back sends a message.
    pub fn take(&self) -> Option<T> {
        let mut held = self.lock();
        let next = if matches!(*held, Held::Here(_)) { Held::Away } else { Held::Wanted };
        match std::mem::replace(&mut *held, next) {
            Held::Here(right) => Some(right),
            Held::Away | Held::Wanted => None,
        }
    }

    /// Returns true if it is there. If not, whoever gives it back sends a message.
    pub fn is_here(&self) -> bool {
        let mut held = self.lock();
        if matches!(*held, Held::Away) {
            *held = Held::Wanted;
        }
        matches!(*held, Held::Here(_))
    }

    /// Gives it back; returns whether it is waited for, and a message is due.
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
