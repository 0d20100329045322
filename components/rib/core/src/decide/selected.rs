//! The selected routes of a family on their way through the stages to subscribers, interest and the engine.

use super::family::FamilyRib;
use crate::entry::Entry;
use crate::entry::origin::OriginId;
use crate::entry::routes::{RibRoute, RibTable, Shared};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_machine::{Budget, Progress};
use sluice_stage::{Batch, Branch, Cursor, LiveStage, PrefixTable, Source, TableKey};

/// The head of the selected_routes, for stages and subscribers: the selected routes.
pub(crate) struct Selected<'a, P: TableKey>(pub(crate) &'a PrefixTable<P, Entry>);

impl<P: TableKey> Source<RibTable<P>> for Selected<'_, P> {
    fn lookup(&self, key: P) -> Option<RibRoute> {
        self.0.get(key).and_then(Entry::selected).map(RibRoute::of)
    }

    fn next_after(&self, key: Option<P>) -> Option<(P, RibRoute)> {
        let cursor = key.map_or(Cursor::Start, Cursor::After);
        self.0.iter_after(cursor).find_map(|(k, e)| e.selected().map(|p| (k, RibRoute::of(p))))
    }
}

/// The end of the stages for selected routes: the routes for forwarding and for subscribers.
struct Forwarded<'a, P: TableKey>(Selected<'a, P>, &'a Branch<RibTable<P>>);

impl<P: TableKey> Source<RibTable<P>> for Forwarded<'_, P> {
    fn lookup(&self, key: P) -> Option<RibRoute> {
        self.1.lookup(&self.0, key)
    }

    fn next_after(&self, mut key: Option<P>) -> Option<(P, RibRoute)> {
        loop {
            let (next, route) = self.1.upstream(&self.0).next_after(key)?;
            if let Some(route) = route {
                return Some((next, route));
            }
            key = Some(next);
        }
    }
}

impl<P: TableKey> FamilyRib<P> {
    /// Background work of the stages that selected routes pass, and the first dumps of subscribers.
    pub(crate) fn dump_slice(&mut self, shared: &mut Shared, budget: &mut Budget) -> Progress {
        let mut changes = Batch::new();
        let mut progress = self.selected_routes.run_slice(&Selected(&self.entries), budget, &mut changes);
        self.queue_for_engine(shared, &changes);
        self.pass_on(shared, &mut changes);
        let source = Forwarded(Selected(&self.entries), &self.selected_routes);
        for subscriber in &mut self.subscribers {
            progress = progress.or(subscriber.run_slice(&source, shared, budget));
        }
        for subscriber in &mut self.announced {
            progress = progress.or(subscriber.run_slice(&self.entries, budget));
        }
        progress
    }

    /// Returns true if changes of every origin's selected routes have receivers besides the engine.
    pub(crate) fn listens_to_all(&self) -> bool {
        !(self.interests_all.is_empty() && self.selected_routes.is_empty())
    }

    /// Returns true if changes of an origin's routes have receivers: the engine, a subscriber, a client with interest in an address.
    pub(crate) fn has_consumers(&self, shared: &Shared, origin: OriginId) -> bool {
        // Next hops that only an external origin's routes reach follow these with the delay of a coalescing origin.
        let resolves = !shared.origin(origin).external && !self.interests_next_hop.is_empty();
        let is_subscribed = self.subscribers.iter().any(|subscriber| subscriber.wants(origin))
            || self.announced.iter().any(|subscriber| subscriber.wants(origin));
        self.downstream.has_engine || self.listens_to_all() || is_subscribed || resolves
    }

    /// Sends the selected routes through the selected_routes, to the subscribers and to interest.
    pub(crate) fn flush_selected(&mut self, shared: &mut Shared) {
        let batch = &mut self.downstream.selected_batch;
        if batch.is_empty() {
            return;
        }
        for change in batch.as_slice() {
            if let Some(entry) = self.entries.get_mut(change.key) {
                entry.set_in_batch(false);
                if entry.is_over() {
                    self.entries.remove(change.key);
                }
            }
        }
        self.selected_routes.push(&Selected(&self.entries), batch);
        let mut batch = core::mem::take(batch);
        if !self.selected_routes.is_empty() {
            self.queue_for_engine(shared, &batch);
        }
        self.pass_on(shared, &mut batch);
        // The batch's space is used again.
        self.downstream.selected_batch = batch;
    }

    /// Sends the stages' output to subscribers and interest; empties `batch`.
    fn pass_on(&mut self, shared: &mut Shared, batch: &mut Batch<RibTable<P>>) {
        let source = Forwarded(Selected(&self.entries), &self.selected_routes);
        for subscriber in &mut self.subscribers {
            subscriber.offer(&source, shared, batch);
        }
        if !self.interests_all.is_empty() {
            for change in batch.as_slice() {
                self.interests_all.invalidate(change.key, &mut self.invalidated);
            }
        }
        batch.clear();
    }

    /// Has the engine notified of prefixes whose routes stages changed.
    fn queue_for_engine(&mut self, shared: &Shared, changes: &Batch<RibTable<P>>) {
        if !self.downstream.has_engine {
            return;
        }
        for change in changes.as_slice() {
            let Some(entry) = self.entries.get_mut(change.key).filter(|entry| !entry.is_queued()) else {
                continue;
            };
            let sent = entry.take_sent(&shared.sets);
            entry.set_queued(true);
            self.downstream.fib_queue.push(change.key, sent);
        }
    }

    /// Returns the forwarding route of a prefix: the selected route after the stages.
    pub(crate) fn forwarded(&self, prefix: P) -> Option<RibRoute> {
        let selected = Selected(&self.entries);
        if self.selected_routes.is_empty() {
            return selected.lookup(prefix);
        }
        self.selected_routes.lookup(&selected, prefix)
    }

    /// Returns the names of stages that broke a rule, each once, with the rule.
    pub(crate) fn broken_stages(&mut self) -> Vec<(&'static str, String)> {
        let stages: Vec<_> = self.selected_routes.names().collect();
        self.reported_stages.retain(|reported| stages.iter().any(|(id, _)| id == reported));
        let mut broken = Vec::new();
        for (id, name) in stages {
            let stage = self.selected_routes.stage::<LiveStage<RibTable<P>>>(id);
            if let Some(violation) = stage.and_then(LiveStage::violation)
                && !self.reported_stages.contains(&id)
            {
                broken.push((name, format!("{violation:?}")));
                self.reported_stages.push(id);
            }
        }
        broken
    }
}
