//! Redistribution: a branch off the selected_routes for each subscriber to routes of different origins. The subscriber
//! first receives the existing routes (in the background), then every change. A policy may reject routes on their way, and change
//! them; after a change of the policy the background sends all routes once more.

use super::subscription::{DUMP_PAUSE, Dump};
pub use super::subscription::{SubscribedBatch, SubscribedOrigin, SubscriptionId};
use crate::entry::origin::OriginId;
use crate::entry::routes::{RibRoute, RibTable, Shared};
use crate::entry::set::SetId;
use crate::policy::{Outcome, RibPolicies, SubscriberPolicy};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{AnyPrefix, Provenance, RouteAction, RouteBatch, RouteUpdate};
use sluice_clients::EXTERNAL_TAG;
use sluice_machine::{Budget, Progress};
use sluice_stage::{Batch, Branch, Change, DumpStage, Source, Stage, StageId, TableKey, Upstream};

/// Lets only routes of some origins through.
struct OriginFilter {
    allowed: Vec<OriginId>,
    all: bool,
}

impl OriginFilter {
    fn pass(&self, route: RibRoute) -> Option<RibRoute> {
        (self.all || self.allowed.contains(&route.origin)).then_some(route)
    }
}

impl<P: TableKey> Stage<RibTable<P>> for OriginFilter {
    fn name(&self) -> &'static str {
        "origins"
    }

    fn process(
        &mut self,
        input: &mut Batch<RibTable<P>>,
        _up: Upstream<'_, RibTable<P>>,
        out: &mut Batch<RibTable<P>>,
    ) {
        for change in input.drain() {
            let (old, new) = change.action.into_halves();
            let (old, new) = (old.and_then(|r| self.pass(r)), new.and_then(|r| self.pass(r)));
            out.push_between(change.key, old, new, change.provenance);
        }
    }

    fn lookup(&self, key: P, up: Upstream<'_, RibTable<P>>) -> Option<RibRoute> {
        up.lookup(key).and_then(|r| self.pass(r))
    }
}

/// A subscriber: its branch, and its waiting changes. A prefix waits at most once, so that a slow subscriber costs at
/// most the size of a table.
pub struct Subscriber<P: TableKey> {
    /// The subscription's number.
    pub id: SubscriptionId,
    origins: Vec<String>,
    /// The numbers of `origins`.
    allowed: Vec<OriginId>,
    branch: Branch<RibTable<P>>,
    filter: StageId,
    pending: BTreeMap<P, (Option<RibRoute>, Provenance)>,
    dump: Dump,
    policy: Option<SubscriberPolicy>,
    /// The prefixes whose routes a policy let through.
    passed: BTreeSet<P>,
    /// The last key of the walk that sends all routes after a change of the policy; `Some(None)`: the walk begins.
    refilter: Option<Option<P>>,
}

impl<P: TableKey> Subscriber<P> {
    /// A subscriber to routes of the named origins (none named: every origin) that a policy lets through.
    pub(crate) fn new(
        id: SubscriptionId,
        origins: Vec<String>,
        policy: Option<SubscriberPolicy>,
        shared: &Shared,
    ) -> Self {
        let mut branch: Branch<RibTable<P>> = Branch::new();
        branch.plumb_last(Box::new(DumpStage::new()));
        let filter =
            branch.plumb_last(Box::new(OriginFilter { allowed: Vec::new(), all: origins.is_empty() }));
        let mut subscriber = Subscriber {
            id,
            origins,
            allowed: Vec::new(),
            branch,
            filter,
            pending: BTreeMap::new(),
            dump: Dump::Running,
            policy,
            passed: BTreeSet::new(),
            refilter: None,
        };
        subscriber.note_origins(shared);
        subscriber
    }

    /// Handles new origins: the named ones are let through. They have no routes yet.
    pub(crate) fn note_origins(&mut self, shared: &Shared) {
        let allowed = shared.origins.iter().enumerate().filter(|(_, o)| self.origins.contains(&o.name));
        self.allowed = allowed.map(|(i, _)| OriginId(i as u16)).collect();
        if let Some(filter) = self.branch.stage_mut::<OriginFilter>(self.filter) {
            filter.allowed.clone_from(&self.allowed);
        }
    }

    /// Takes changes from the selected_routes.
    pub(crate) fn offer(
        &mut self,
        source: &dyn Source<RibTable<P>>,
        shared: &mut Shared,
        batch: &Batch<RibTable<P>>,
    ) {
        let mut mine = Batch::new();
        // Most changes are of other origins where BGP has the Internet's table and somebody subscribes to static routes.
        let is_wanted = |route: Option<&RibRoute>| route.is_some_and(|route| self.wants(route.origin));
        for c in batch.as_slice() {
            if is_wanted(c.action.before()) || is_wanted(c.action.after()) {
                mine.push(Change { key: c.key, action: c.action.clone(), provenance: c.provenance });
            }
        }
        if !mine.is_empty() {
            self.branch.push(source, &mut mine);
            self.queue(shared, &mut mine);
        }
    }

    /// Returns true if the subscriber receives routes of an origin.
    pub(crate) fn wants(&self, origin: OriginId) -> bool {
        self.origins.is_empty() || self.allowed.contains(&origin)
    }

    fn queue(&mut self, shared: &mut Shared, batch: &mut Batch<RibTable<P>>) {
        for change in batch.drain() {
            let route = change.action.after().and_then(|route| self.pass(shared, change.key, *route));
            self.enqueue(shared, change.key, route, change.provenance);
        }
    }

    /// Applies the policy. The returned route's set has an additional user.
    fn pass(&self, shared: &mut Shared, prefix: P, route: RibRoute) -> Option<RibRoute> {
        let Some(policy) = &self.policy else {
            shared.sets.retain(route.set);
            return Some(route);
        };
        let outcome = match AnyPrefix::of(prefix).ip() {
            Some(prefix) => shared.decide_policy(policy.chain.as_deref()?, route.origin, prefix, route.set),
            None => Outcome::Unchanged,
        };
        if matches!(outcome, Outcome::Rejected(_)) {
            return None;
        }
        Some(RibRoute { set: shared.sets.derive(&mut shared.groups, route.set, outcome), ..route })
    }

    fn enqueue(&mut self, shared: &mut Shared, prefix: P, route: Option<RibRoute>, provenance: Provenance) {
        if self.policy.is_some() {
            let is_change = if route.is_some() {
                self.passed.insert(prefix);
                true
            } else {
                self.passed.remove(&prefix)
            };
            if !is_change {
                return; // the policy never let it through
            }
        }
        if let Some((Some(old), _)) = self.pending.insert(prefix, (route, provenance)) {
            shared.release(old.set);
        }
    }

    /// Sets the policy from changed policies. A policy that is not there any more lets nothing through.
    pub(crate) fn set_policies(&mut self, policies: &RibPolicies) {
        let Some(policy) = &mut self.policy else { return };
        let name = core::mem::take(&mut policy.name);
        let chain = policies.for_subscriber(&name).ok().and_then(|found| found.chain);
        let is_changed = policy.chain != chain;
        *policy = SubscriberPolicy { name, chain };
        if is_changed {
            self.refilter();
        }
    }

    /// Starts to send all routes once more, through the policy.
    pub(crate) fn refilter(&mut self) {
        if self.policy.is_some() {
            self.refilter = Some(None);
        }
    }

    /// A slice of the walk after a change of the policy.
    fn refilter_slice(
        &mut self,
        source: &dyn Source<RibTable<P>>,
        shared: &mut Shared,
        budget: &mut Budget,
    ) -> Progress {
        while let Some(last) = self.refilter {
            if self.pending.len() >= DUMP_PAUSE {
                return Progress::Done;
            }
            let Some((prefix, _)) = source.next_after(last) else {
                self.refilter = None;
                break;
            };
            self.refilter = Some(Some(prefix));
            if let Some(route) = self.branch.lookup(source, prefix) {
                let route = self.pass(shared, prefix, route);
                self.enqueue(shared, prefix, route, Provenance::NONE);
            }
            if !budget.spend(1) {
                return Progress::More;
            }
        }
        Progress::Done
    }

    /// A slice of the first dump, or of the walk after a change of the policy.
    pub(crate) fn run_slice(
        &mut self,
        source: &dyn Source<RibTable<P>>,
        shared: &mut Shared,
        budget: &mut Budget,
    ) -> Progress {
        if self.dump != Dump::Running || self.pending.len() >= DUMP_PAUSE {
            return self.refilter_slice(source, shared, budget);
        }
        let mut out = Batch::new();
        let progress = self.branch.run_slice(source, budget, &mut out);
        self.queue(shared, &mut out);
        if progress == Progress::Done {
            self.dump = Dump::Ended;
        }
        progress
    }

    /// Returns true if there are changes to take.
    pub fn is_ready(&self) -> bool {
        !self.pending.is_empty() || self.dump == Dump::Ended
    }

    /// Takes at most `limit` changes. The second value is true once: when everything that existed at the subscription has been
    /// taken.
    pub(crate) fn take(&mut self, shared: &mut Shared, limit: usize) -> (SubscribedBatch<P>, bool) {
        let (mut origins, mut set_origins) = (Vec::new(), Vec::new());
        let mut routes = RouteBatch::default();
        let mut sets: BTreeMap<(OriginId, SetId), u32> = BTreeMap::new();
        let mut origin_indices: BTreeMap<OriginId, u32> = BTreeMap::new();
        while routes.updates.len() < limit
            && let Some((prefix, (route, provenance))) = self.pending.pop_first()
        {
            let action = match route {
                None => RouteAction::Delete,
                Some(route) => {
                    let index = *sets.entry((route.origin, route.set)).or_insert_with(|| {
                        let origin = *origin_indices.entry(route.origin).or_insert_with(|| {
                            origins.push(SubscribedOrigin::of(shared.origin(route.origin)));
                            (origins.len() - 1) as u32
                        });
                        set_origins.push(origin);
                        let mut set = shared.sets.slot(route.set).set.clone();
                        if !self.origins.is_empty() && shared.origin(route.origin).external {
                            set.tags = set.tags.as_slice().iter().copied().chain([EXTERNAL_TAG]).collect();
                        }
                        routes.sets.push(set);
                        (routes.sets.len() - 1) as u32
                    });
                    shared.release(route.set);
                    RouteAction::Set(index)
                }
            };
            routes.updates.push(RouteUpdate { prefix, action, provenance });
        }
        let done = self.dump == Dump::Ended && self.pending.is_empty();
        if done {
            self.dump = Dump::Sent;
        }
        (SubscribedBatch { origins, set_origins, routes }, done)
    }

    /// Drops the waiting changes.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        for (_, (route, _)) in core::mem::take(&mut self.pending) {
            if let Some(route) = route {
                shared.release(route.set);
            }
        }
    }
}
