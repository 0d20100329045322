//! What flows downstream: changes of single keys, in batches.

use alloc::vec::{Drain, Vec};
use core::fmt::Debug;
use core::hash::Hash;
use sluice_base::Provenance;

/// The contents of a network of stages: keys and their routes. Implemented by a marker type.
pub trait Table: Copy + Eq + Debug + Send + 'static {
    /// The key of a route.
    type Key: Copy + Eq + Ord + Hash + Debug + Send;
    /// A route of a key, small and cheap to clone: what is large is interned and pointed to.
    type Route: Clone + Eq + Debug + Send;
}

/// A change of a key's route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action<R> {
    /// The key had no route and has this one.
    Add(R),
    /// The key had `old` and has `new`.
    Replace {
        /// The route that was sent downstream before.
        old: R,
        /// The present route.
        new: R,
    },
    /// The key had this route and has none.
    Delete(R),
}

impl<R> Action<R> {
    /// The action that leads from one state of a key to another; `None` if nothing changes.
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

/// A change of one key, and the event that caused it.
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
/// A key occurs at most once in a batch. That is what lets a look-up upstream, which sees the whole batch done, agree with
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

    /// Adds a change; the caller sees to it that its key is not in the batch yet.
    pub fn push(&mut self, change: Change<T>) {
        self.0.push(change);
    }

    /// Adds the change from `old` to `new`, if there is one.
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

    /// Takes all changes in order; the space stays.
    pub fn drain(&mut self) -> Drain<'_, Change<T>> {
        self.0.drain(..)
    }

    /// Moves all changes of `other` behind these; no key may be in both.
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

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all changes; the space stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
