//! Aggregates in tables, and the reports of contributors.

use super::{Table, TableEvent};
use alloc::vec::Vec;
use sluice_machine::Outbox;

impl Table {
    /// Reports a change of contributors, or the contributors themselves if control has requested a report and every change is
    /// added up.
    pub(super) fn report_aggregates(&mut self, out: &mut Outbox<TableEvent>) {
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
