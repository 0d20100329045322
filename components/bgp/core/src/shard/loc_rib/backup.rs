//! Backups: the second best path of a prefix, sent to the RIB when the table rests.
//!
//! A backup is the decision's choice without the paths through the best path's next hop. Backups are sent late and apart from the
//! best paths: while a table loads, each backup would make the engine write the prefix a second time, and most would be out of
//! date at once. So a change only marks the entry. When the table is at rest, a walk over the entries sends the backups of marked
//! entries. Prefixes with a single path are free of cost.

use crate::shard::Shard;
use crate::wire::FamilyKey;

/// The table is not at rest with this number of new marks since the last call, and a mark more for each [`RESTLESS_SHARE`]
/// entries.
const RESTLESS: usize = 1000;

/// See [`RESTLESS`].
const RESTLESS_SHARE: usize = 100;

/// The marked entries of a shard, as numbers.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    /// Entries marked since the last call of [`Backups::begin`].
    fresh: usize,
    /// True if entries may be marked.
    is_due: bool,
    /// True if marked entries were reported.
    is_reported: bool,
}

impl Backups {
    /// Notes a further marked entry.
    #[inline]
    pub fn marked(&mut self) {
        self.fresh += 1;
        self.is_due = true;
    }

    /// Notes that the backups of every entry are due, and to be reported again: the last report was useless without a RIB.
    pub fn all_due(&mut self) {
        (self.is_due, self.is_reported) = (true, false);
    }

    /// Returns true if entries are marked and not reported yet; marks the report as made.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        let is_news = self.is_due && !self.is_reported;
        self.is_reported |= is_news;
        is_news
    }

    /// Returns true if backups are to be sent now: few entries were marked since the last call. If not, the present marks are
    /// reported again.
    pub fn begin(&mut self, entries: usize) -> bool {
        let is_at_rest = self.fresh < RESTLESS + entries / RESTLESS_SHARE;
        (self.fresh, self.is_reported) = (0, false);
        self.is_due &= !is_at_rest;
        is_at_rest
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Returns true if unsent backups exist and were not reported yet.
    #[inline]
    pub fn take_backup_news(&mut self) -> bool {
        self.core.loc_rib.backups.take_news()
    }

    /// Begins to send the RIB backups, if the table is at rest: few changes came since the last call.
    pub fn announce_backups(&mut self) {
        if self.core.loc_rib.backups.begin(self.core.adj_rib_in.entries.len()) {
            self.rib.begin_backups();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_changes_a_lot_is_not_at_rest() {
        let mut backups = Backups::default();
        assert!(!backups.take_news());
        (0..RESTLESS + 10).for_each(|_| backups.marked());
        assert!(backups.take_news() && !backups.take_news());
        assert!(!backups.begin(100));
        assert!(backups.take_news());
        backups.marked();
        assert!(backups.begin(100));
        assert!(!backups.take_news());
        (0..RESTLESS + 10).for_each(|_| backups.marked());
        assert!(backups.take_news());
        // A RIB that comes later has not been sent.
        backups.all_due();
        assert!(backups.take_news());
        assert!(backups.begin(1_000_000));
    }
}
