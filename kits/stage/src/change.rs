//! The data that flows downstream: changes of single keys, in batches.

use alloc::vec::{Drain, Vec};
use core::fmt::Debug;
use core::hash::Hash;
use sluice_base::Provenance;

/// The contents of a network of stages: keys and their routes. Implemented by a marker type.
pub trait Table: Copy + Eq + Debug + Send + 'static {
    /// The key of a route.
    type Key: Copy + Eq + Ord + Hash + Debug + Send;
    /// A route of a key, small and cheap to clone: large parts are interned and referenced.
    type Route: Clone + Eq + Debug + Send;
}

/// A change of a key's route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<R> {
    /// The key had no route and has the given route.
    Add(R),
    /// The key had `old` and has `new`.
    Replace {
        /// The route last sent downstream.
        old: R,
        /// The present route.
        new: R,
    },
    /// The key had the given route and has none.
    Delete(R),
}

impl<R> Action<R> {
    /// Returns the action from an old state of a key to a new state; `None` for equal states.
    pub fn between(old: Option<R>, new: Option<R>) -> Option<Self>
    where
        R: PartialEq,
    {
        match (old, new) {
            (None, None) => None,
            (None, Some(new)) => Some(Action::Add(new)),
            (Some(old), None) => Some(Action::Delete(old)),
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(Action::Replace { old, new }),
        }
    }

    /// The route before.
    pub fn before(&self) -> Option<&R> {
        match self {
            Action::Add(_) => None,
            Action::Replace { old, .. } | Action::Delete(old) => Some(old),
        }
    }

    /// The route after.
    pub fn after(&self) -> Option<&R> {
        match self {
            Action::Add(new) | Action::Replace { new, .. } => Some(new),
            Action::Delete(_) => None,
        }
    }

    /// Both halves.
    pub fn into_halves(self) -> (Option<R>, Option<R>) {
        match self {
            Action::Add(new) => (None, Some(new)),
            Action::Replace { old, new } => (Some(old), Some(new)),
            Action::Delete(old) => (Some(old), None),
        }
    }
}

/// A change of a key, and the event that caused the change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change<T: Table> {
    /// The key.
    pub key: T::Key,
    /// The change.
    pub action: Action<T::Route>,
    /// The event.
    pub provenance: Provenance,
}

/// Changes on their way downstream.
///
/// A key occurs at most once in a batch. Therefore a look-up upstream, which sees the whole batch done, agrees with
/// every single change (rule 2).
pub struct Batch<T: Table>(Vec<Change<T>>);

impl<T: Table> Default for Batch<T> {
    fn default() -> Self {
        Batch(Vec::new())
    }
}

impl<T: Table> Debug for Batch<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl<T: Table> Batch<T> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a change; the caller ensures that the batch does not have the key yet.
    pub fn push(&mut self, change: Change<T>) {
        self.0.push(change);
    }

    /// Adds the change from `old` to `new`, if any.
    pub fn push_between(
        &mut self,
        key: T::Key,
        old: Option<T::Route>,
        new: Option<T::Route>,
        provenance: Provenance,
    ) {
        if let Some(action) = Action::between(old, new) {
            self.0.push(Change { key, action, provenance });
        }
    }

    /// Takes the changes in order; the space stays.
    pub fn drain(&mut self) -> Drain<'_, Change<T>> {
        self.0.drain(..)
    }

    /// Moves the changes of `other` to the end; no key may be in both.
    pub fn append(&mut self, other: &mut Batch<T>) {
        self.0.append(&mut other.0);
    }

    /// The changes.
    pub fn as_slice(&self) -> &[Change<T>] {
        &self.0
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the changes; the space stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
