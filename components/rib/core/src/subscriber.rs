//! Redistribution: a branch off the selected_routes for each subscriber to routes of different origins. The subscriber
//! first receives the existing routes (in the background), then every change.

use crate::family::{RibRoute, RibTable, Shared};
use crate::origin::OriginId;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Distance, Provenance, RouteAction, RouteBatch, RouteUpdate};
use sluice_machine::{Budget, Progress};
use sluice_stage::{Batch, Branch, Change, DumpStage, Source, Stage, StageId, TableKey, Upstream};

use crate::set::SetId;

/// A subscription's number, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SubscriptionId(pub u64);

/// Changes for a subscriber: routes, and their origins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedBatch<P> {
    /// The origins of the batch's routes.
    pub origins: Vec<SubscribedOrigin>,
    /// The origin of each set of `routes`, as an index into `origins`.
    pub set_origins: Vec<u32>,
    /// The changes.
    pub routes: RouteBatch<P>,
}

/// An origin from its subscribers' view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedOrigin {
    /// The origin's name.
    pub name: String,
    /// The names of the kinds of the origin's routes: the first name is of kind 1.
    pub kinds: Vec<String>,
    /// The distance of routes without a distance of their own.
    pub distance: Distance,
}

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
    branch: Branch<RibTable<P>>,
    filter: StageId,
    pending: BTreeMap<P, (Option<RibRoute>, Provenance)>,
    dump: Dump,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dump {
    Running,
    /// Everything is in `pending`; the subscriber has not heard so.
    Ended,
    Told,
}

/// The number of waiting prefixes at which a subscriber's dump pauses.
const DUMP_PAUSE: usize = 65_536;

impl<P: TableKey> Subscriber<P> {
    /// A subscriber to routes of the named origins (none named: every origin).
    pub(crate) fn new(id: SubscriptionId, origins: Vec<String>, shared: &Shared) -> Self {
        let mut branch: Branch<RibTable<P>> = Branch::new();
        branch.plumb_last(Box::new(DumpStage::new()));
        let filter =
            branch.plumb_last(Box::new(OriginFilter { allowed: Vec::new(), all: origins.is_empty() }));
        let mut subscriber =
            Subscriber { id, origins, branch, filter, pending: BTreeMap::new(), dump: Dump::Running };
        subscriber.note_origins(shared);
        subscriber
    }

    /// Handles new origins: the named ones are let through. They have no routes yet.
    pub(crate) fn note_origins(&mut self, shared: &Shared) {
        let allowed = shared.origins.iter().enumerate().filter(|(_, o)| self.origins.contains(&o.name));
        let allowed = allowed.map(|(i, _)| OriginId(i as u16)).collect();
        if let Some(filter) = self.branch.stage_mut::<OriginFilter>(self.filter) {
            filter.allowed = allowed;
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
        for c in batch.as_slice() {
            mine.push(Change { key: c.key, action: c.action.clone(), provenance: c.provenance });
        }
        self.branch.push(source, &mut mine);
        self.queue(shared, &mut mine);
    }

    fn queue(&mut self, shared: &mut Shared, batch: &mut Batch<RibTable<P>>) {
        for change in batch.drain() {
            let route = change.action.after().copied();
            if let Some(route) = route {
                shared.sets.retain(route.set);
            }
            if let Some((Some(old), _)) = self.pending.insert(change.key, (route, change.provenance)) {
                shared.gone.extend(shared.sets.release(&mut shared.groups, old.set));
            }
        }
    }

    /// A slice of the first dump.
    pub(crate) fn run_slice(
        &mut self,
        source: &dyn Source<RibTable<P>>,
        shared: &mut Shared,
        budget: &mut Budget,
    ) -> Progress {
        if self.dump != Dump::Running || self.pending.len() >= DUMP_PAUSE {
            return Progress::Done;
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
                            let origin = shared.origin(route.origin);
                            origins.push(SubscribedOrigin {
                                name: origin.name.clone(),
                                kinds: origin.kinds.clone(),
                                distance: origin.distance,
                            });
                            (origins.len() - 1) as u32
                        });
                        set_origins.push(origin);
                        routes.sets.push(shared.sets.slot(route.set).set.clone());
                        (routes.sets.len() - 1) as u32
                    });
                    shared.gone.extend(shared.sets.release(&mut shared.groups, route.set));
                    RouteAction::Set(index)
                }
            };
            routes.updates.push(RouteUpdate { prefix, action, provenance });
        }
        let done = self.dump == Dump::Ended && self.pending.is_empty();
        if done {
            self.dump = Dump::Told;
        }
        (SubscribedBatch { origins, set_origins, routes }, done)
    }

    /// Drops the waiting changes.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        for (_, (route, _)) in core::mem::take(&mut self.pending) {
            if let Some(route) = route {
                shared.gone.extend(shared.sets.release(&mut shared.groups, route.set));
            }
        }
    }
}
