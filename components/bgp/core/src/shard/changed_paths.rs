//! Changed paths of entries, on their way to the update groups whose members are sent several paths of a prefix.

use super::entry::PathNumber;
use alloc::vec::Vec;

/// The changed paths that no group has noted yet, by entry.
#[derive(Debug, Default)]
pub(crate) struct ChangedPaths {
    /// True if members of an update group are sent several paths of a prefix. Otherwise no path is noted.
    pub is_on: bool,
    pub paths: Vec<(u32, PathNumber)>,
}

impl ChangedPaths {
    /// Notes a changed path of an entry; [`PathNumber::NONE`] if any path may have changed.
    #[inline(always)]
    pub fn note(&mut self, entry: u32, path: PathNumber) {
        if self.is_on {
            self.paths.push((entry, path));
        }
    }
}
