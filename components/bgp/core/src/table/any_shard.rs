//! A shard of any family, as a table drives it.
//!
//! The code of a shard is compiled for each family's keys. [`AnyShard`] is the interface of a shard without the type of the keys: a table
//! makes one call for a batch, a buffer or a slice, never one for a route.

use super::{AggregateRule, Marks, Origination, PeerExport, TableContributors, TableEvent, TablePart};
use crate::batch::Batches;
use crate::family::{ByFamily, FamilyCodes, FamilyVisitor, Sharded};
use crate::hash::HashSeed;
use crate::policy::{BoundPolicy, OriginData};
use crate::shard::{
    Aggregate, DampingCounts, DampingRules, ExportView, Filled, Fingerprint, Interest, MonitorChunk,
    MonitorId, MonitoredRibs, NextHopsFor, OwnRouter, PeerIndex, PeerInfo, Retention, Sent, Shard, ShardPart,
    ShardView,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::IpAddr;
use sluice_base::interest::InterestAnswer;
use sluice_base::{AnyPrefix, Instant, Provenance};
use sluice_machine::{Budget, Outbox, Progress};

/// The shard of a family in a table, and its questions to the RIB.
pub(super) struct Part<P: Sharded> {
    pub shard: Shard<P>,
    pub interests: Outbox<Interest<P::Hop>>,
}

/// A buffer that is filled with UPDATEs for a peer.
pub(super) struct Filling<'a> {
    /// The export of routes to the peer.
    pub export: &'a PeerExport,
    /// The length at which the buffer is full.
    pub end: usize,
    pub out: &'a mut Vec<u8>,
    pub sent: &'a mut Sent,
    /// Marks behind the octets.
    pub marks: &'a mut Marks,
}

/// A family's shard, whatever its keys are. The methods are those of [`Shard`].
pub(super) trait AnyShard: Any + Send + Sync {
    fn peer_up(&mut self, peer: PeerIndex, info: PeerInfo);
    fn peer_down(&mut self, peer: PeerIndex, retention: Retention) -> Option<IpAddr>;
    fn mark_long_lived(&mut self, peer: PeerIndex);
    fn drop_stale(&mut self, peer: PeerIndex);
    fn set_full(&mut self, peer: PeerIndex, is_full: bool);
    fn set_source(&mut self, source: PeerIndex, name: Arc<str>);
    fn set_import(&mut self, peer: PeerIndex, policy: Option<Arc<BoundPolicy>>, keeps_rejected: bool);
    fn set_damped(&mut self, peer: PeerIndex, is_damped: bool);
    fn set_damping(&mut self, rules: DampingRules, tables: usize);
    fn set_now(&mut self, now: Instant);
    fn next_turn(&self) -> Option<Instant>;
    /// Forgets the history of a prefix, if the prefix is of the family, or all histories.
    fn clear_damping(&mut self, prefix: Option<AnyPrefix>);
    fn damping_counts(&self) -> DampingCounts;
    /// Returns some histories as a part of the table, from a place on, and where to go on; no part without histories.
    fn export_histories(&self, from: u32, limit: usize) -> Option<(TablePart, Option<u32>)>;
    fn join(&mut self, peer: PeerIndex, view: Arc<ExportView>);
    fn refresh(&mut self, peer: PeerIndex, view: Option<Arc<ExportView>>, number: u32);
    fn mark_stale(&mut self, peer: PeerIndex);
    fn set_views(&mut self, views: &[(PeerIndex, Arc<ExportView>)]);
    /// Takes the family's part of what was read.
    fn apply(&mut self, peer: PeerIndex, batches: &Batches);
    /// Begins or ends an origination; without effect if the prefix is of another family.
    fn originate(&mut self, origination: &Origination);
    /// Takes the RIB's answer: an [`InterestAnswer`] about next hops; without effect if the family's next hops are of another family.
    fn answer(&mut self, answer: &dyn Any, provenance: Provenance);
    /// Notes a void answer of the RIB for a prefix of next hops; without effect for next hops of a different family.
    fn invalid(&mut self, prefix: AnyPrefix);
    fn rib_restarted(&mut self);
    fn take_backup_news(&mut self) -> bool;
    fn announce_backups(&mut self);
    /// Sets the aggregates of the family.
    fn set_aggregates(&mut self, rules: &[AggregateRule]);
    fn take_aggregate_news(&mut self) -> bool;
    fn is_summed_up(&self) -> bool;
    /// Adds the contributors of the family's aggregates that changed.
    fn take_contributors(&mut self, all: &mut Vec<TableContributors>);
    fn set_origins(&mut self, data: &OriginData);
    fn check(&mut self, peer: Option<PeerIndex>, on: bool);
    fn has_work(&self) -> bool;
    fn run_slice(&mut self, budget: Budget) -> Progress;
    fn with_output(&self, out: &mut Vec<PeerIndex>);
    fn has_output(&self, peer: PeerIndex) -> bool;
    /// Returns true if the buffer is full: there may be more.
    fn fill(&mut self, peer: PeerIndex, filling: &mut Filling<'_>) -> bool;
    fn has_rib_changes(&self) -> bool;
    fn has_questions(&self) -> bool;
    /// Passes the questions on, having seen the answers up to this number.
    fn ask(&mut self, seen: u64, out: &mut Outbox<TableEvent>);
    fn is_clean(&self, peer: PeerIndex) -> bool;
    fn is_resolved(&self) -> bool;
    fn assume_advertised(&mut self);
    fn export_part(&self, from: u32, limit: u32) -> (TablePart, Option<u32>);
    fn fingerprint(&self) -> Fingerprint;
    fn view(&self) -> ShardView;
    fn received(&self, peer: PeerIndex) -> u32;
    fn rejected(&self, peer: PeerIndex) -> u32;
    fn advertised(&self, peer: PeerIndex) -> u32;
    fn begin_monitor(&mut self, id: MonitorId, ribs: MonitoredRibs);
    fn end_monitor(&mut self, id: MonitorId);
    fn is_void(&self, id: MonitorId) -> bool;
    fn take_monitor_news(&mut self) -> bool;
    /// Appends routes for a monitor. `export` returns the export of routes to a peer.
    fn monitored<'e>(
        &mut self,
        id: MonitorId,
        limit: usize,
        export: &dyn Fn(PeerIndex) -> Option<&'e PeerExport>,
        chunk: &mut MonitorChunk,
    );
}

impl<P: Sharded> AnyShard for Part<P> {
    fn peer_up(&mut self, peer: PeerIndex, info: PeerInfo) {
        self.shard.peer_up(peer, info);
    }
    fn peer_down(&mut self, peer: PeerIndex, retention: Retention) -> Option<IpAddr> {
        self.shard.peer_down(peer, retention)
    }
    fn mark_long_lived(&mut self, peer: PeerIndex) {
        self.shard.mark_long_lived(peer);
    }
    fn drop_stale(&mut self, peer: PeerIndex) {
        self.shard.drop_stale(peer);
    }
    fn set_full(&mut self, peer: PeerIndex, is_full: bool) {
        self.shard.set_full(peer, is_full);
    }
    fn set_source(&mut self, source: PeerIndex, name: Arc<str>) {
        self.shard.set_source(source, name);
    }
    fn set_import(&mut self, peer: PeerIndex, policy: Option<Arc<BoundPolicy>>, keeps_rejected: bool) {
        self.shard.set_import(peer, policy, keeps_rejected);
    }
    fn set_damped(&mut self, peer: PeerIndex, is_damped: bool) {
        self.shard.set_damped(peer, is_damped);
    }
    fn set_damping(&mut self, rules: DampingRules, tables: usize) {
        self.shard.set_damping(rules, tables);
    }
    fn set_now(&mut self, now: Instant) {
        self.shard.set_now(now);
    }
    fn next_turn(&self) -> Option<Instant> {
        self.shard.next_turn()
    }
    fn clear_damping(&mut self, prefix: Option<AnyPrefix>) {
        match prefix.map(|prefix| prefix.to::<P>()) {
            None => self.shard.clear_damping(None),
            Some(Some(prefix)) => self.shard.clear_damping(Some(prefix)),
            Some(None) => {}
        }
    }
    fn damping_counts(&self) -> DampingCounts {
        self.shard.damping_counts()
    }
    fn export_histories(&self, from: u32, limit: usize) -> Option<(TablePart, Option<u32>)> {
        let (histories, next) = self.shard.export_histories(from, limit);
        let part = ShardPart { sets: Vec::new(), paths: Vec::new(), hops: Vec::new(), histories };
        (!part.histories.is_empty()).then(|| (TablePart::new(part), next))
    }
    fn join(&mut self, peer: PeerIndex, view: Arc<ExportView>) {
        self.shard.join(peer, view);
    }
    fn refresh(&mut self, peer: PeerIndex, view: Option<Arc<ExportView>>, number: u32) {
        self.shard.refresh(peer, view, number);
    }
    fn mark_stale(&mut self, peer: PeerIndex) {
        self.shard.mark_stale(peer);
    }
    fn set_views(&mut self, views: &[(PeerIndex, Arc<ExportView>)]) {
        self.shard.set_views(views);
    }
    fn apply(&mut self, peer: PeerIndex, batches: &Batches) {
        let batch = batches.of::<P>();
        if !batch.is_empty() {
            self.shard.apply(peer, batch, &mut self.interests);
        }
    }
    fn originate(&mut self, origination: &Origination) {
        let Origination { source, prefix, route, provenance } = origination;
        if let Some(prefix) = prefix.to::<P>() {
            self.shard.originate(*source, prefix, route.as_ref(), *provenance, &mut self.interests);
        }
    }
    fn answer(&mut self, answer: &dyn Any, provenance: Provenance) {
        if let Some(answer) = answer.downcast_ref::<InterestAnswer<P::Hop>>() {
            self.shard.answer(answer, provenance, &mut self.interests);
        }
    }
    fn invalid(&mut self, prefix: AnyPrefix) {
        if let Some(prefix) = prefix.to::<P::Hop>() {
            self.shard.invalid(prefix, &mut self.interests);
        }
    }
    fn rib_restarted(&mut self) {
        self.shard.rib_restarted(&mut self.interests);
    }
    #[inline]
    fn take_backup_news(&mut self) -> bool {
        self.shard.take_backup_news()
    }
    fn announce_backups(&mut self) {
        self.shard.announce_backups();
    }
    fn set_aggregates(&mut self, rules: &[AggregateRule]) {
        let aggregate = |rule: &AggregateRule| {
            Some(Aggregate {
                prefix: rule.prefix.to::<P>()?,
                summary_only: rule.summary_only,
                as_set: rule.as_set,
                policy: rule.policies[P::INDEX].clone(),
            })
        };
        self.shard.set_aggregates(rules.iter().filter_map(aggregate).collect());
    }
    #[inline]
    fn take_aggregate_news(&mut self) -> bool {
        self.shard.take_aggregate_news()
    }
    fn is_summed_up(&self) -> bool {
        self.shard.is_summed_up()
    }
    fn take_contributors(&mut self, all: &mut Vec<TableContributors>) {
        let own = self.shard.take_contributors().into_iter();
        all.extend(own.map(|(prefix, contributors)| (AnyPrefix::of(prefix), contributors)));
    }
    fn set_origins(&mut self, data: &OriginData) {
        self.shard.set_origins(data);
    }
    fn check(&mut self, peer: Option<PeerIndex>, on: bool) {
        self.shard.check(peer, on);
    }
    fn has_work(&self) -> bool {
        self.shard.has_work()
    }
    fn run_slice(&mut self, budget: Budget) -> Progress {
        self.shard.run_slice(budget, &mut self.interests)
    }
    fn with_output(&self, out: &mut Vec<PeerIndex>) {
        self.shard.with_output(out);
    }
    fn has_output(&self, peer: PeerIndex) -> bool {
        self.shard.has_output(peer)
    }
    fn fill(&mut self, peer: PeerIndex, filling: &mut Filling<'_>) -> bool {
        let hop: NextHopsFor<'_, P::Hop> = filling.export.next_hops::<P>();
        loop {
            match self.shard.fill(peer, &hop, filling.end, filling.out, filling.sent) {
                Filled::Full => return true,
                Filled::Dry => return false,
                Filled::EndOfRib => filling.marks.ended.insert(P::INDEX),
                // The mark comes before what follows.
                Filled::BeginOfRefresh(number) => {
                    filling.marks.begun[P::INDEX] = number;
                    return true;
                }
                Filled::EndOfRefresh(number) => filling.marks.refreshed[P::INDEX] = number,
            }
        }
    }
    fn has_rib_changes(&self) -> bool {
        self.shard.has_rib_changes()
    }
    fn has_questions(&self) -> bool {
        !self.interests.is_empty()
    }
    fn ask(&mut self, seen: u64, out: &mut Outbox<TableEvent>) {
        for interest in self.interests.drain() {
            TableEvent::interest(P::INDEX, interest, seen).into_iter().for_each(|event| out.push(event));
        }
    }
    fn is_clean(&self, peer: PeerIndex) -> bool {
        self.shard.is_clean(peer)
    }
    fn is_resolved(&self) -> bool {
        self.shard.is_resolved()
    }
    fn assume_advertised(&mut self) {
        self.shard.assume_advertised();
    }
    fn export_part(&self, from: u32, limit: u32) -> (TablePart, Option<u32>) {
        let (part, next) = self.shard.export_part(from, limit);
        (TablePart::new(part), next)
    }
    fn fingerprint(&self) -> Fingerprint {
        self.shard.fingerprint()
    }
    fn view(&self) -> ShardView {
        self.shard.view()
    }
    fn received(&self, peer: PeerIndex) -> u32 {
        self.shard.received(peer)
    }
    fn rejected(&self, peer: PeerIndex) -> u32 {
        self.shard.rejected(peer)
    }
    fn advertised(&self, peer: PeerIndex) -> u32 {
        self.shard.advertised(peer)
    }
    fn begin_monitor(&mut self, id: MonitorId, ribs: MonitoredRibs) {
        self.shard.begin_monitor(id, ribs);
    }
    fn end_monitor(&mut self, id: MonitorId) {
        self.shard.end_monitor(id);
    }
    fn is_void(&self, id: MonitorId) -> bool {
        self.shard.is_void(id)
    }
    #[inline]
    fn take_monitor_news(&mut self) -> bool {
        self.shard.take_monitor_news()
    }
    fn monitored<'e>(
        &mut self,
        id: MonitorId,
        limit: usize,
        export: &dyn Fn(PeerIndex) -> Option<&'e PeerExport>,
        chunk: &mut MonitorChunk,
    ) {
        self.shard.monitored(id, limit, |peer| Some(export(peer)?.next_hops::<P>()), chunk);
    }
}

/// Makes the empty shard of a family.
struct NewShard(OwnRouter, HashSeed, FamilyCodes);

impl FamilyVisitor for NewShard {
    type Output = Box<dyn AnyShard>;

    fn visit<P: Sharded>(self) -> Self::Output {
        let NewShard(router, seed, codes) = self;
        let shard = Shard::<P>::new(router, seed, codes.of(P::INDEX));
        Box::new(Part { shard, interests: Outbox::new() })
    }
}

/// Makes the empty shards of a table of a router.
pub(super) fn new_shards(
    router: OwnRouter,
    seed: HashSeed,
    codes: FamilyCodes,
) -> ByFamily<Box<dyn AnyShard>> {
    ByFamily::from_fn(|family| family.visit(NewShard(router, seed, codes)))
}
