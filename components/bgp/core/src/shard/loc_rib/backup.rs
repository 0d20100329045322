//! Backups: the second best path of a prefix, told to the RIB when the table rests.
//!
//! A backup is the path that the decision would choose without those through the best path's next hop. The RIB hears of backups
//! late and apart from the best paths: while a table loads, each backup would make the engine write the prefix a second time, and most
//! would be out of date at once. So a change only marks its entry. When the table is at rest, one walk over the entries tells the RIB
//! the backups of those that are marked. Prefixes with one path cost nothing.

use crate::shard::Shard;
use crate::wire::FamilyKey;

/// So many new marks since the last call, and one more for each [`RESTLESS_SHARE`] entries, and the table is not at rest.
const RESTLESS: usize = 1000;

/// See [`RESTLESS`].
const RESTLESS_SHARE: usize = 100;

/// The marked entries of a shard, as numbers.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    /// Entries that were marked since the last look.
    fresh: usize,
    /// True if there may be marked entries.
    is_due: bool,
    /// True if that was reported.
    is_reported: bool,
}

impl Backups {
    /// There is a marked entry more.
    #[inline]
    pub fn marked(&mut self) {
        self.fresh += 1;
        self.is_due = true;
    }

    /// All entries with several paths are to be sent, and that is news even where the last news was of no use: there was no RIB.
    pub fn all_due(&mut self) {
        (self.is_due, self.is_reported) = (true, false);
    }

    /// Returns true if there are marked entries and nobody knows yet.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        let is_news = self.is_due && !self.is_reported;
        self.is_reported |= is_news;
        is_news
    }

    /// Returns true if it is time to tell the RIB: few entries were marked since the last call. The next marks, or the present ones if it is
    /// too early, are news again.
    pub fn begin(&mut self, entries: usize) -> bool {
        let is_at_rest = self.fresh < RESTLESS + entries / RESTLESS_SHARE;
        (self.fresh, self.is_reported) = (0, false);
        self.is_due &= !is_at_rest;
        is_at_rest
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Returns true if there are backups that the RIB has not been sent and nobody knows yet.
    #[inline]
    pub fn take_backup_news(&mut self) -> bool {
        self.core.loc_rib.backups.take_news()
    }

    /// Begins to tell the RIB backups, if the table is at rest: few changes came since the last call.
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
