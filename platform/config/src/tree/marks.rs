//! Inactive statements and annotations, beside the statements in force.

use crate::tree::Block;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names and keys from the top; of a leaf-list also the value.
pub(crate) type Path = Vec<Arc<str>>;

/// The inactive statements and the annotations of a tree.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Marks {
    /// Each inactive statement as the root of a tree with no further statement.
    pub inactive: BTreeMap<Path, Arc<Block>>,
    /// Texts about statements.
    pub notes: BTreeMap<Path, Arc<str>>,
}

impl Marks {
    pub fn is_empty(&self) -> bool {
        self.inactive.is_empty() && self.notes.is_empty()
    }

    /// Returns true if a statement is in an inactive statement within the inactive statement at `path`.
    pub fn is_inner(&self, path: &[Arc<str>], statement: &[Arc<str>]) -> bool {
        let longer = self.inactive.keys().filter(|inner| inner.len() > path.len() && inner.starts_with(path));
        longer.into_iter().any(|inner| statement.starts_with(inner))
    }

    /// Removes the marks of a statement and of everything in it.
    pub fn forget(&mut self, path: &[Arc<str>]) {
        self.inactive.retain(|marked, _| !marked.starts_with(path));
        self.notes.retain(|marked, _| !marked.starts_with(path));
    }
}
