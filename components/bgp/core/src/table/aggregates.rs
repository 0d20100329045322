//! Aggregates as tables get them, and what tables report of them.

use super::{Table, TableEvent};
use crate::aggregate::Contributors;
use crate::family::ByFamily;
use crate::policy::BoundPolicy;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::AnyPrefix;
use sluice_machine::Outbox;

/// An aggregate, for tables.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateRule {
    /// The prefix.
    pub prefix: AnyPrefix,
    /// True if contributors are not announced.
    pub summary_only: bool,
    /// True if the AS_PATH has the ASes of the contributors.
    pub as_set: bool,
    /// The policies that select contributors.
    pub policies: ByFamily<Option<Arc<BoundPolicy>>>,
}

/// The contributors of an aggregate in a table; `None` if no route contributes.
pub type TableContributors = (AnyPrefix, Option<Contributors>);

impl Table {
    /// Reports that contributors of aggregates changed, or the contributors if control waits for them and all changes are added up.
    pub(super) fn tell_of_aggregates(&mut self, out: &mut Outbox<TableEvent>) {
        if self.owes_contributors {
            if self.shards.all().into_values().all(|shard| shard.is_summed_up()) {
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
