//! The Adj-RIB-Out of an update group with several paths of a prefix (ADD-PATH, RFC 7911).
//!
//! The Adj-RIB-Out has, for every entry, the numbers of the sent paths: 8 octets for up to four paths, and a list beside the pages for
//! more. A visit of an entry compares the sent paths with the paths selected by the export view now: paths no longer selected are
//! withdrawn, and new paths and paths with changed attributes ([`PathsOut::due`]) are announced. A policy of the view may choose
//! among the further paths ([`ExportView::further`]).
//!
//! The change queue has entries with a changed best path. Changes of further paths are noted by
//! [`ChangedPaths::note`](crate::shard::changed_paths::ChangedPaths::note), and the shard passes the changes on to every group of
//! this kind.

use super::item::Source;
use crate::shard::entry::{Pages, PathNumber};
use alloc::collections::{BTreeMap, BTreeSet};
use smallvec::SmallVec;

/// Paths of one prefix.
pub(crate) type Paths = SmallVec<[PathNumber; 8]>;

/// Sent paths of an entry that a page has room for.
const FEW: usize = 4;

/// The first value of a cell whose paths are in the list beside the pages. No path has this source.
const MANY: Source = Source::from_bits(u16::MAX);

/// The sent paths of each entry, and the changed paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathsOut {
    pub(super) few: Pages<[Source; FEW]>,
    /// The sent paths of entries with more than [`FEW`].
    many: BTreeMap<u32, Paths>,
    /// Changed paths not sent yet, by entry. [`PathNumber::NONE`] stands for a change of the order of the entry's paths.
    pub(super) due: BTreeSet<(u32, PathNumber)>,
}

impl PathsOut {
    /// Returns the paths of an entry that were sent.
    pub fn sent(&self, entry: u32) -> Paths {
        let few = self.few.get(entry);
        if few[0] == MANY {
            return self.many.get(&entry).cloned().unwrap_or_default();
        }
        few.iter().filter_map(|source| source.path()).collect()
    }

    /// Stores the sent paths of an entry in reach.
    pub(super) fn set(&mut self, entry: u32, paths: Paths) {
        let mut few = [Source::NONE; FEW];
        if paths.len() <= FEW {
            few.iter_mut().zip(&paths).for_each(|(cell, path)| *cell = Source::of_path(*path));
        } else {
            few[0] = MANY;
        }
        if self.few.replace(entry, few)[0] == MANY {
            self.many.remove(&entry);
        }
        if paths.len() > FEW {
            self.many.insert(entry, paths);
        }
    }

    /// Notes a changed path of an entry.
    pub fn note(&mut self, entry: u32, path: PathNumber) {
        self.due.insert((entry, path));
    }

    /// Returns true if every changed path was sent.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Takes the changed paths of an entry.
    pub(super) fn take_due(&mut self, entry: u32) -> Paths {
        let all = self.due.range((entry, PathNumber(0))..=(entry, PathNumber::NONE));
        let paths: Paths = all.map(|(_, path)| *path).collect();
        for path in &paths {
            self.due.remove(&(entry, *path));
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(numbers: impl IntoIterator<Item = u16>) -> Paths {
        numbers.into_iter().map(PathNumber).collect()
    }

    #[test]
    fn sent_paths_come_back_however_many() {
        let mut out = PathsOut::default();
        out.few.reach(1000);
        for count in [0, 1, 4, 5, 40, 5, 4, 0] {
            let numbers = paths((0..count).map(|n| 20 + n));
            out.set(7, numbers.clone());
            assert_eq!((out.sent(7), out.sent(8)), (numbers, paths([])));
            assert_eq!(out.many.len(), usize::from(count > 4));
        }
        assert_eq!(size_of::<[Source; FEW]>(), 8);
    }

    #[test]
    fn changed_paths_are_taken_by_entry() {
        let mut out = PathsOut::default();
        for (entry, path) in [(1, 20), (2, 21), (2, 20), (2, u16::MAX), (3, 20)] {
            out.note(entry, PathNumber(path));
        }
        assert_eq!(out.take_due(2), paths([20, 21, u16::MAX]));
        assert_eq!((out.take_due(2), out.due.len()), (paths([]), 2));
    }
}
