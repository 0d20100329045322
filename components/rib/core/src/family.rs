//! A family of a table: the entries, and the decision on them.
//!
//! An entry holds every alternative of a prefix ([`crate::entry`]). The decision selects the path with the lowest administrative distance
//! among those with reachable next hops. The entry stores the selected path, so that look-ups agree with the changes sent downstream
//! (rule 2) even before a background pass has reached the entry.

use crate::announced::AnnouncedSubscriber;
use crate::entry::{Entry, Path};
use crate::group::Groups;
use crate::interest::{Interests, WatcherId};
use crate::looked_up::LookedUp;
use crate::origin::{Origin, OriginId};
use crate::outcome::{Downstream, Open};
use crate::policy::{Chain, Outcome, Surroundings};
use crate::presence::Presences;
use crate::set::{SetId, Sets};
use crate::subscriber::Subscriber;
use crate::walk::{Refilter, Sweep};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::{
    DigestKey, Distance, FamilyId, GroupId, InterfaceIndex, IpPrefix, Metric, Prefix, Provenance, TableId,
};
use sluice_machine::{Budget, Progress};
use sluice_stage::{
    Batch, Branch, Cursor, LiveStage, PrefixTable, Source, StageId, Table as StageTable, TableKey,
};
use smallvec::SmallVec;

/// A route in the RIB's stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibRoute {
    /// The route's origin.
    pub origin: OriginId,
    /// The announced set.
    pub set: SetId,
}

impl RibRoute {
    pub(crate) fn of(path: &Path) -> Self {
        RibRoute { origin: path.origin, set: path.set }
    }
}

/// The table that flows through the RIB's stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibTable<P>(PhantomData<P>);

impl<P: TableKey> StageTable for RibTable<P> {
    type Key = P;
    type Route = RibRoute;
}

/// The parts of a table that its families share.
pub struct Shared {
    /// The table's number.
    pub table: TableId,
    /// The names of interfaces, for policies.
    pub interface_names: BTreeMap<InterfaceIndex, String>,
    /// Origins by number.
    pub origins: Vec<Origin>,
    /// Announced sets.
    pub sets: Sets,
    /// Next-hop groups.
    pub groups: Groups,
    /// Gateways of removed groups, to be forgotten.
    pub gone: Vec<(GroupId, Vec<LookedUp>)>,
    /// True while there is an engine that accepts routes.
    pub has_engine: bool,
    /// The families that the engine forwards.
    pub engine_families: Vec<FamilyId>,
    /// The key of the digests that are compared with the engine's.
    pub digest_key: DigestKey,
}

impl Shared {
    /// An origin by number.
    pub fn origin(&self, id: OriginId) -> &Origin {
        &self.origins[usize::from(id.0)]
    }

    /// Returns true if an engine accepts routes of a family.
    pub fn feeds_engine(&self, family: FamilyId) -> bool {
        self.has_engine && self.engine_families.contains(&family)
    }

    /// Returns a path's distance: its set's own, or its origin's.
    pub fn distance(&self, path: &Path) -> Distance {
        self.sets.slot(path.set).set.distance.unwrap_or(self.origin(path.origin).distance)
    }

    /// Applies policies to a route of an origin.
    pub(crate) fn decide_policy(
        &self,
        chain: &Chain,
        origin: OriginId,
        prefix: IpPrefix,
        set: SetId,
    ) -> Outcome {
        let owner = self.origin(origin);
        let surroundings = Surroundings {
            origin: &owner.name,
            kinds: &owner.kinds,
            distance: owner.distance,
            table: self.table,
            interface_names: &self.interface_names,
        };
        chain.decide(surroundings, prefix, &self.sets.slot(set).set)
    }

    /// The order of alternatives, best first.
    pub(crate) fn rank(&self, path: &Path) -> (Distance, Metric, OriginId) {
        (self.distance(path), self.sets.slot(path.set).set.metric, path.origin)
    }

    /// Returns true if policies and distance allow a path.
    pub(crate) fn is_allowed(&self, path: &Path) -> bool {
        self.distance(path) < Distance::UNUSABLE && self.sets.slot(path.set).rejection().is_none()
    }

    /// Returns true if a path takes part in the decision.
    pub(crate) fn is_usable<P: Prefix>(&self, prefix: P, path: &Path) -> bool {
        let group = self.groups.group(self.sets.slot(path.set).group);
        self.is_allowed(path) && group.resolved.is_some() && !group.leads_to_itself(prefix)
    }

    /// Removes a user of a set.
    pub(crate) fn release(&mut self, set: SetId) {
        self.gone.extend(self.sets.release(&mut self.groups, set));
    }

    /// Returns the place of the best path; `None` without a usable path. A single pass over a few alternatives.
    pub(crate) fn decide<P: Prefix>(&self, prefix: P, paths: &[Path]) -> Option<usize> {
        let usable = paths.iter().enumerate().filter(|(_, path)| self.is_usable(prefix, path));
        usable.min_by_key(|(_, path)| self.rank(path)).map(|(place, _)| place)
    }
}

/// A family's part of a table.
pub struct FamilyRib<P: TableKey> {
    pub(crate) entries: PrefixTable<P, Entry>,
    /// Prefixes with internal paths, with their number of internal paths: they are few, and decided again at once.
    pub(crate) internal: PrefixTable<P, u16>,
    /// Routes by origin.
    route_counts: Vec<u64>,
    /// The receivers of decisions.
    pub(crate) downstream: Downstream<P>,
    /// The reasons why the engine, or a subscriber in place of one, refused routes.
    pub(crate) rejected: BTreeMap<P, String>,
    /// Stages that every selected route passes on its way to the engine, to subscribers and to interest.
    pub(crate) selected_routes: Branch<RibTable<P>>,
    /// Stages whose broken rule was reported.
    reported_stages: Vec<StageId>,
    pub(crate) subscribers: Vec<Subscriber<P>>,
    /// Subscribers to routes before the decision.
    pub(crate) announced: Vec<AnnouncedSubscriber<P>>,
    pub(crate) interests_next_hop: Interests<P>,
    pub(crate) interests_all: Interests<P>,
    /// The prefixes whose presence is watched.
    pub(crate) presences: Presences<P>,
    /// Invalidated answers, and their watchers.
    pub(crate) told: Vec<(WatcherId, P)>,
    /// A background pass that decides every entry again, and true if a second pass must follow.
    pass: Option<Cursor<P>>,
    pass_again: bool,
    pub(crate) sweeps: Vec<Sweep<P>>,
    pub(crate) refilters: Vec<Refilter<P>>,
}

/// The largest number of refusals kept with their reasons.
const MAX_REJECTED: usize = 10_000;

impl<P: TableKey> Default for FamilyRib<P> {
    fn default() -> Self {
        FamilyRib {
            entries: PrefixTable::new(),
            internal: PrefixTable::new(),
            route_counts: Vec::new(),
            downstream: Downstream::default(),
            rejected: BTreeMap::new(),
            selected_routes: Branch::new(),
            reported_stages: Vec::new(),
            subscribers: Vec::new(),
            announced: Vec::new(),
            interests_next_hop: Interests::default(),
            interests_all: Interests::default(),
            presences: Presences::default(),
            told: Vec::new(),
            pass: None,
            pass_again: false,
            sweeps: Vec::new(),
            refilters: Vec::new(),
        }
    }
}

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
    /// Makes the family's part of an empty table.
    pub(crate) fn new(shared: &Shared) -> Self {
        let mut family = FamilyRib::default();
        family.downstream.has_engine = shared.feeds_engine(P::ID);
        family
    }

    /// The entries, to look at.
    pub fn entries(&self) -> &PrefixTable<P, Entry> {
        &self.entries
    }

    /// Routes of an origin.
    pub fn route_count(&self, origin: OriginId) -> u64 {
        self.route_counts.get(usize::from(origin.0)).copied().unwrap_or(0)
    }

    /// Prefixes with a selected route.
    pub fn selected_count(&self) -> u64 {
        self.downstream.selected_count
    }

    /// Returns the reason why the engine refused the route of a prefix.
    pub fn rejection(&self, prefix: P) -> Option<&str> {
        self.rejected.get(&prefix).map(String::as_str)
    }

    /// The engine refused the route of a prefix.
    pub fn note_rejection(&mut self, prefix: P, reason: String) {
        if self.rejected.len() < MAX_REJECTED {
            self.rejected.insert(prefix, reason);
        }
    }

    /// Sets (`Some`) or removes an origin's route of a prefix. The set is retained as needed.
    pub(crate) fn change(
        &mut self,
        shared: &mut Shared,
        origin: OriginId,
        prefix: P,
        set: Option<SetId>,
        provenance: Provenance,
    ) {
        let generation = shared.origin(origin).generation;
        let new = set.map(|set| Path::new(origin, set, provenance, generation));
        self.change_path(shared, origin, prefix, new, provenance);
    }

    /// Drops the refusal of a route that a subscriber forwards: the next decision may select another one. Where there is an engine, the
    /// refusal ends when the engine gets another route.
    fn forget_refusal(&mut self, prefix: P) {
        if !self.downstream.has_engine && !self.rejected.is_empty() {
            self.rejected.remove(&prefix);
        }
    }

    /// Sets (`Some`) or removes an origin's path of a prefix. The path's set is retained as needed.
    pub(crate) fn change_path(
        &mut self,
        shared: &mut Shared,
        origin: OriginId,
        prefix: P,
        new: Option<Path>,
        provenance: Provenance,
    ) {
        self.presences.note(prefix);
        self.forget_refusal(prefix);
        let listens_to_all = self.listens_to_all();
        let mut is_first = false;
        let entry = match new {
            Some(path) => self.entries.get_or_insert_with(prefix, || {
                is_first = true;
                Entry::new(path)
            }),
            None => match self.entries.get_mut(prefix) {
                Some(entry) => entry,
                None => return,
            },
        };
        let place = entry.paths().iter().position(|p| p.origin == origin).filter(|_| !is_first);
        if place.is_none() && new.is_none() {
            return;
        }
        if entry.is_in_batch() {
            // A key occurs once in a batch: what is there goes down first.
            self.flush_selected(shared);
            return self.change_path(shared, origin, prefix, new, provenance);
        }
        let before_selected = if is_first { None } else { entry.selected().map(RibRoute::of) };
        let told = entry.take_told(&shared.sets);
        if let Some(path) = new {
            shared.sets.retain(path.set);
        }
        let before = match (place, new) {
            (Some(place), Some(path)) => entry.replace(place, path),
            (Some(place), None) => entry.remove(place),
            (None, Some(path)) if !is_first => {
                entry.add(path);
                None
            }
            (None, _) => None,
        };
        let open = Open { prefix, entry: &mut *entry, before: before_selected, told, provenance };
        let is_wanted = |origin| listens_to_all || self.subscribers.iter().any(|s| s.wants(origin));
        self.downstream.settle(shared, is_wanted, open);
        if entry.is_over() {
            self.entries.remove(prefix);
        }
        if before.map(|path| path.set) != new.map(|path| path.set) {
            self.downstream.changed.push(prefix);
        }
        self.count(shared, origin, prefix, before.as_ref(), new.as_ref());
        let announced = |path: &Path| shared.sets.source(path.set);
        if before.as_ref().map(announced) != new.as_ref().map(announced) {
            self.announced.iter_mut().for_each(|s| s.note(origin, prefix, provenance));
        }
        if let Some(path) = before {
            shared.release(path.set);
        }
    }

    /// Counts an added, removed or replaced path.
    fn count(
        &mut self,
        shared: &mut Shared,
        origin: OriginId,
        prefix: P,
        before: Option<&Path>,
        after: Option<&Path>,
    ) {
        let number = usize::from(origin.0);
        let owner = &mut shared.origins[number];
        if before.is_some_and(|p| p.generation != owner.generation) {
            owner.stale = owner.stale.saturating_sub(1);
        }
        if after.is_some_and(|p| p.generation != owner.generation) {
            owner.stale += 1;
        }
        match (before, after) {
            (None, Some(_)) => {
                owner.routes += 1;
                if self.route_counts.len() <= number {
                    self.route_counts.resize(number + 1, 0);
                }
                self.route_counts[number] += 1;
                if !owner.external {
                    *self.internal.get_or_insert_with(prefix, || 0) += 1;
                }
            }
            (Some(_), None) => {
                owner.routes -= 1;
                self.route_counts[number] -= 1;
                if !owner.external
                    && let Some(count) = self.internal.get_mut(prefix)
                {
                    *count -= 1;
                    if *count == 0 {
                        self.internal.remove(prefix);
                    }
                }
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Decides an entry anew because the resolution of a group changed.
    fn redecide(&mut self, shared: &mut Shared, prefix: P, provenance: Provenance) {
        // A route that is not selected may have become usable, or unusable.
        self.presences.note(prefix);
        let listens_to_all = self.listens_to_all();
        let Some(entry) = self.entries.get_mut(prefix) else { return };
        if entry.selected_place() == shared.decide(prefix, entry.paths()) {
            return;
        }
        if entry.is_in_batch() {
            self.flush_selected(shared);
            return self.redecide(shared, prefix, provenance);
        }
        self.forget_refusal(prefix);
        let Some(entry) = self.entries.get_mut(prefix) else { return };
        let before = entry.selected().map(RibRoute::of);
        let told = entry.take_told(&shared.sets);
        let is_wanted = |origin| listens_to_all || self.subscribers.iter().any(|s| s.wants(origin));
        self.downstream.settle(shared, is_wanted, Open { prefix, entry, before, told, provenance });
    }

    /// Decides every entry with internal paths again at once: these entries are few.
    pub(crate) fn redecide_internal(&mut self, shared: &mut Shared, provenance: Provenance) {
        let prefixes: Vec<P> = self.internal.iter().map(|(p, _)| p).collect();
        for prefix in prefixes {
            self.redecide(shared, prefix, provenance);
        }
    }

    /// Decides the entries again that cover an address: routes to an address of their own prefix.
    pub(crate) fn redecide_covering(&mut self, shared: &mut Shared, addr: P::Addr, provenance: Provenance) {
        let covering: SmallVec<[P; 8]> = self.entries.covering(P::host(addr)).map(|(p, _)| p).collect();
        for prefix in covering {
            self.redecide(shared, prefix, provenance);
        }
    }

    /// Starts a background pass that decides every entry anew.
    pub(crate) fn start_pass(&mut self) {
        match self.pass {
            Some(Cursor::Start) => {}
            Some(_) => self.pass_again = true,
            None => self.pass = Some(Cursor::Start),
        }
    }

    /// A slice of background work. The second value names an origin whose sweep ended, and the number of swept routes.
    pub(crate) fn run_slice(
        &mut self,
        shared: &mut Shared,
        budget: &mut Budget,
        provenance: Provenance,
    ) -> (Progress, Option<(OriginId, u64)>) {
        if let Some(mut sweep) = self.sweeps.pop() {
            let done = self.sweep_slice(shared, &mut sweep, budget);
            self.flush_selected(shared);
            return match done {
                true => (Progress::More, Some((sweep.origin, sweep.removed))),
                false => {
                    self.sweeps.push(sweep);
                    (Progress::More, None)
                }
            };
        }
        if self.refilter_slice(shared, budget) {
            return (Progress::More, None);
        }
        if let Some(cursor) = self.pass.take() {
            let chunk: SmallVec<[P; 64]> =
                self.entries.iter_after(cursor).take(budget.0 as usize).map(|(p, _)| p).collect();
            for prefix in &chunk {
                self.redecide(shared, *prefix, provenance);
            }
            self.flush_selected(shared);
            budget.spend(chunk.len() as u32);
            self.pass = match chunk.last() {
                Some(last) => Some(Cursor::After(*last)),
                None => core::mem::take(&mut self.pass_again).then_some(Cursor::Start),
            };
            return (Progress::More, None);
        }
        (self.dump_slice(shared, budget), None)
    }

    /// Background work of the stages that selected routes pass, and the first dumps of subscribers.
    fn dump_slice(&mut self, shared: &mut Shared, budget: &mut Budget) -> Progress {
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
    fn listens_to_all(&self) -> bool {
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
                self.interests_all.invalidate(change.key, &mut self.told);
            }
        }
        batch.clear();
    }

    /// Has the engine told of prefixes whose routes stages changed.
    fn queue_for_engine(&mut self, shared: &Shared, changes: &Batch<RibTable<P>>) {
        if !self.downstream.has_engine {
            return;
        }
        for change in changes.as_slice() {
            let Some(entry) = self.entries.get_mut(change.key).filter(|entry| !entry.is_queued()) else {
                continue;
            };
            let told = entry.take_told(&shared.sets);
            entry.set_queued(true);
            self.downstream.fib_queue.push(change.key, told);
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
