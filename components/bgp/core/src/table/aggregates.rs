//! Aggregates as tables get them, and what tables report of them.

use super::{Table, TableEvent};
use alloc::vec::Vec;
use sluice_machine::Outbox;

impl Table {
    /// Reports that contributors of aggregates changed, or the contributors if control waits for them and all changes are added up.
    pub(super) fn tell_of_aggregates(&mut self, out: &mut Outbox<TableEvent>) {
        if self.owes_contributors {
            if self.shards.values().all(|shard| shard.is_summed_up()) {
                let mut all = Vec::new();
                self.each(|_, shard| shard.take_contributors(&mut all));
                self.owes_contributors = false;
                out.push(TableEvent::Contributors(all));
            }
            return;
        }
        let mut is_due = false;
        self.each(|_, shard| is_due |= shard.take_aggregate_news());
        if is_due {
            out.push(TableEvent::AggregatesDue);
        }
    }
}
