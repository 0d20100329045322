//! Aggregates of a shard: the contributors of each aggregate, and the routes suppressed by aggregates.
//!
//! A reader of the change queue visits each changed entry once, in slices of background work, and adds the best path to the sum
//! of each covering aggregate, or removes the path from the sum. Several changes of an entry while a table is busy become a
//! single change. A changed sum is reported at control's request, some time after the first change: a flapping contributor costs
//! at most an UPDATE in this time.
//!
//! A contributor of an aggregate with `summary-only` is not exported. The suppression depends on the present best path alone and
//! not on the sum, so no neighbor receives a contributor before the aggregate is originated.

use crate::aggregate::{Contribution, Contributors, Totals};
use crate::policy::{BoundPolicy, Memory};
use crate::shard::entry::{AdjRibIn, PeerIndex};
use crate::shard::policy_context::PolicyContext;
use crate::shard::queue::Cursor;
use crate::shard::resolver::Resolver;
use crate::shard::{Accepted, Shard};
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use alloc::vec::Vec;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use sluice_base::Provenance;

/// An aggregate, for the shards of one family.
#[derive(Clone, Debug)]
pub struct Aggregate<P> {
    /// The prefix.
    pub prefix: P,
    /// True if contributors are not announced.
    pub summary_only: bool,
    /// True if the AS_PATH has the ASes of the contributors.
    pub as_set: bool,
    /// The policy that selects contributors; `None` if every longer prefix contributes.
    pub policy: Option<Arc<BoundPolicy>>,
}

impl<P: FamilyKey> PartialEq for Aggregate<P> {
    fn eq(&self, other: &Self) -> bool {
        let flags = |a: &Self| (a.summary_only, a.as_set);
        self.prefix == other.prefix && flags(self) == flags(other) && self.policy == other.policy
    }
}

/// The contributors of an aggregate in a shard.
#[derive(Debug)]
struct Sum<P> {
    aggregate: Aggregate<P>,
    by_entry: HashMap<u32, Contribution, FixedState>,
    totals: Totals,
    /// True if the totals changed since the last report.
    is_due: bool,
}

/// The aggregates of a shard.
#[derive(Debug)]
pub(crate) struct Aggregates<P> {
    sums: Vec<Sum<P>>,
    /// True if an aggregate keeps contributors from neighbors.
    suppresses: bool,
    /// The place in the change queue; has no meaning without aggregates.
    cursor: Cursor,
    /// The next entry of a walk over all entries after a change of the aggregates.
    walk: Option<u32>,
    /// True if control knows that there is something to report.
    is_known: bool,
}

impl<P> Default for Aggregates<P> {
    fn default() -> Self {
        Aggregates {
            sums: Vec::new(),
            suppresses: false,
            cursor: Cursor::default(),
            walk: None,
            is_known: false,
        }
    }
}

impl<P: FamilyKey> Aggregates<P> {
    /// Returns the place in the change queue; `None` without aggregates.
    pub fn cursor(&mut self) -> Option<&mut Cursor> {
        (!self.sums.is_empty()).then_some(&mut self.cursor)
    }

    /// Returns true if changes wait to be read; the queue ends at `end`.
    #[inline]
    pub fn has_work(&self, end: Cursor) -> bool {
        !self.sums.is_empty() && (self.cursor != end || self.walk.is_some())
    }

    /// Returns the covering aggregates of a prefix to which a route of a peer may contribute.
    fn covering(&self, prefix: P, peer: PeerIndex) -> impl Iterator<Item = &Aggregate<P>> {
        let all = self.sums.iter().map(|sum| &sum.aggregate);
        all.filter(move |aggregate| aggregate.may_have(prefix) && peer != PeerIndex::AGGREGATE)
    }
}

impl<P: FamilyKey> Aggregate<P> {
    /// Returns true if a prefix is longer than the aggregate's and lies inside it.
    fn may_have(&self, prefix: P) -> bool {
        self.prefix.len() < prefix.len() && self.prefix.covers(prefix)
    }

    /// Returns true if the policy lets a path contribute.
    fn admits(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        context: &PolicyContext,
        prefix: P,
        best: Accepted,
    ) -> bool {
        let Some(policy) = &self.policy else { return true };
        let mut route = context.route(adj_rib_in, resolver, prefix, best);
        policy.decide(&mut route, &mut Memory::new(policy)).is_accepted
    }
}

impl<P: FamilyKey> Aggregates<P> {
    /// Returns true if the best path of an entry contributes to an aggregate announced in place of the contributors.
    #[inline]
    pub(crate) fn is_suppressed(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        context: &PolicyContext,
        entry: u32,
        best: Accepted,
    ) -> bool {
        self.suppresses && self.suppressed_by(adj_rib_in, resolver, context, entry, best).is_some()
    }

    /// Returns the aggregate that is announced in the place of the best path of an entry.
    #[inline(never)]
    pub(crate) fn suppressed_by(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        context: &PolicyContext,
        entry: u32,
        best: Accepted,
    ) -> Option<P> {
        let prefix = adj_rib_in.entries[entry].prefix;
        let mut covering = self.covering(prefix, best.peer);
        let by = covering.find(|a| a.summary_only && a.admits(adj_rib_in, resolver, context, prefix, best));
        by.map(|aggregate| aggregate.prefix)
    }

    /// Adds an entry to the sums of the covering aggregates, or takes it out. Returns true if an aggregate with `summary-only` has or loses
    /// the entry.
    fn sum_up(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        context: &PolicyContext,
        entry: u32,
    ) -> bool {
        let prefix = adj_rib_in.entries[entry].prefix;
        let best = adj_rib_in.best(entry).filter(|best| best.peer != PeerIndex::AGGREGATE);
        let mut is_other = false;
        for sum in self.sums.iter_mut().filter(|sum| sum.aggregate.may_have(prefix)) {
            let admitted =
                best.filter(|best| sum.aggregate.admits(adj_rib_in, resolver, context, prefix, *best));
            let new = admitted.map(|best| {
                let set = &adj_rib_in.sets[best.set];
                Contribution::of(adj_rib_in.sets.octets(set), &set.view, sum.aggregate.as_set)
            });
            let before = match &new {
                Some(new) => sum.by_entry.insert(entry, new.clone()),
                None => sum.by_entry.remove(&entry),
            };
            if before == new {
                continue;
            }
            is_other |= sum.aggregate.summary_only && before.is_some() != new.is_some();
            before.iter().for_each(|before| sum.totals.remove(before));
            new.iter().for_each(|new| sum.totals.add(new));
            sum.is_due = true;
        }
        is_other
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Sets the aggregates. Entries that aggregates keep from neighbors, or no longer do, are exported again.
    pub fn set_aggregates(&mut self, aggregates: Vec<Aggregate<P>>) {
        let core = &mut self.core;
        if core.loc_rib.aggregates.sums.iter().map(|sum| &sum.aggregate).eq(&aggregates) {
            return;
        }
        for sum in core::mem::take(&mut core.loc_rib.aggregates.sums) {
            if sum.aggregate.summary_only {
                sum.by_entry.keys().for_each(|entry| {
                    core.loc_rib.queue.push(&mut core.adj_rib_in.entries, *entry, Provenance::NONE)
                });
            }
        }
        let sum = |aggregate| Sum {
            aggregate,
            by_entry: HashMap::default(),
            totals: Totals::default(),
            // What control knows of the aggregate may be out of date.
            is_due: true,
        };
        core.loc_rib.aggregates = Aggregates {
            suppresses: aggregates.iter().any(|aggregate| aggregate.summary_only),
            walk: (!aggregates.is_empty()).then_some(0),
            sums: aggregates.into_iter().map(sum).collect(),
            cursor: core.loc_rib.queue.end(),
            is_known: false,
        };
        self.trim();
    }

    /// Visits every entry again: contributors are selected by origin validation, and the payloads changed.
    pub(crate) fn validate_contributors(&mut self) {
        let aggregates = &mut self.core.loc_rib.aggregates;
        let asks = |sum: &Sum<P>| sum.aggregate.policy.as_ref().is_some_and(|p| p.asks_for_validation());
        if aggregates.sums.iter().any(asks) {
            aggregates.walk = Some(0);
        }
    }

    /// Reads up to `limit` changes, or looks at up to `limit` entries of a walk.
    pub(crate) fn sum_slice(&mut self, limit: usize) {
        let core = &mut self.core;
        let (mut cursor, mut changed) = (core.loc_rib.aggregates.cursor, Vec::new());
        core.loc_rib.queue.read(&core.adj_rib_in.entries, &mut cursor, limit, |entry, _| {
            changed.push(entry);
            true
        });
        core.loc_rib.aggregates.cursor = cursor;
        for entry in changed {
            core.loc_rib.aggregates.sum_up(&core.adj_rib_in, &core.resolver, &core.context, entry);
        }
        if let Some(from) = core.loc_rib.aggregates.walk {
            let end = core.adj_rib_in.entries.end();
            let to = end.min(from.saturating_add(limit as u32));
            for entry in from..to {
                if !core.adj_rib_in.entries.is_vacant(entry)
                    && core.loc_rib.aggregates.sum_up(&core.adj_rib_in, &core.resolver, &core.context, entry)
                {
                    core.loc_rib.queue.push(&mut core.adj_rib_in.entries, entry, Provenance::NONE);
                }
            }
            core.loc_rib.aggregates.walk = (to < end).then_some(to);
        }
        self.trim();
    }

    /// Returns true if sums changed and control does not know yet.
    pub fn take_aggregate_news(&mut self) -> bool {
        let aggregates = &mut self.core.loc_rib.aggregates;
        let is_news = !aggregates.is_known && aggregates.sums.iter().any(|sum| sum.is_due);
        aggregates.is_known |= is_news;
        is_news
    }

    /// Returns true if the sums are those of the present best paths.
    pub fn is_summed_up(&self) -> bool {
        !self.core.loc_rib.aggregates.has_work(self.core.loc_rib.queue.end())
    }

    /// Returns the contributors of each aggregate whose sum changed since the last call.
    pub fn take_contributors(&mut self) -> Vec<(P, Option<Contributors>)> {
        let aggregates = &mut self.core.loc_rib.aggregates;
        aggregates.is_known = false;
        let due = aggregates.sums.iter_mut().filter_map(|sum| {
            let is_due = core::mem::take(&mut sum.is_due);
            is_due.then(|| (sum.aggregate.prefix, sum.totals.contributors()))
        });
        due.collect()
    }

    /// Returns the number of prefixes contributing to an aggregate in the shard, and the first `most` in order.
    pub fn contributors(&self, aggregate: P, most: usize) -> (usize, Vec<P>) {
        let known = self.core.loc_rib.aggregates.sums.iter().find(|sum| sum.aggregate.prefix == aggregate);
        let Some(sum) = known else { return (0, Vec::new()) };
        let mut all: Vec<P> =
            sum.by_entry.keys().map(|entry| self.core.adj_rib_in.entries[*entry].prefix).collect();
        all.sort_unstable();
        all.truncate(most);
        (sum.by_entry.len(), all)
    }

    /// Returns the aggregates that cover a prefix, each with true if the present route of the prefix contributes.
    pub fn aggregates_over(&self, prefix: P) -> Vec<(Aggregate<P>, bool)> {
        let core = &self.core;
        let best = core.adj_rib_in.find(prefix).and_then(|id| core.adj_rib_in.best(id));
        let best = best.filter(|best| best.peer != PeerIndex::AGGREGATE);
        let all = core.loc_rib.aggregates.sums.iter().map(|sum| &sum.aggregate);
        all.filter(|aggregate| aggregate.may_have(prefix))
            .map(|aggregate| {
                let contributes = best.is_some_and(|best| {
                    aggregate.admits(&core.adj_rib_in, &core.resolver, &core.context, prefix, best)
                });
                (aggregate.clone(), contributes)
            })
            .collect()
    }
}
