//! One family of a table: the entries, and the two decisions on them.
//!
//! An entry holds all alternatives of a prefix. Merge picks the best internal one by administrative distance; ext-int picks
//! the best of all whose next hops lead somewhere. What was picked last is kept in the entry, so that look-ups agree with
//! what was sent downstream (rule 2) even while a background pass has not come by yet.

use crate::group::Groups;
use crate::interest::{Interests, Scope, WatcherId};
use crate::origin::{Origin, OriginId};
use crate::set::{SetId, Sets};
use crate::subscriber::Subscriber;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::net::IpAddr;
use sluice_base::{Distance, GroupId, Metric, Provenance};
use sluice_machine::{Budget, Progress};
use sluice_stage::{
    Action, Batch, Branch, Change, Cursor, PrefixTable, Source, Table as StageTable, TableKey,
};
use smallvec::SmallVec;

/// What a stage of the RIB sees of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibRoute {
    /// Whose it is.
    pub origin: OriginId,
    /// What was announced.
    pub set: SetId,
}

/// The table that flows through the RIB's stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RibTable<P>(PhantomData<P>);

impl<P: TableKey> StageTable for RibTable<P> {
    type Key = P;
    type Route = RibRoute;
}

/// An alternative of a prefix: one origin's route.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The event that brought it.
    pub provenance: Provenance,
    /// What was announced.
    pub set: SetId,
    /// Whose it is.
    pub origin: OriginId,
    /// Of which life of the origin's process.
    pub generation: u8,
}

const NONE: u8 = u8::MAX;
/// An entry has at most this many alternatives: one an origin, and a router has few origins.
const MAX_PATHS: usize = NONE as usize - 1;

/// All that is known of a prefix.
#[derive(Clone, Debug)]
pub struct Entry {
    paths: SmallVec<[Path; 1]>,
    /// The group that the engine was told for this prefix.
    pub(crate) fib: Option<GroupId>,
    /// Index of the path that ext-int picked.
    selected: u8,
    /// Index of the path that merge picked among internal ones.
    internal: u8,
    /// Whether the prefix waits to be told to the engine.
    pub(crate) queued: bool,
    /// Whether the prefix is in the batch that is being made.
    in_batch: bool,
}

impl Entry {
    fn new() -> Self {
        Entry {
            paths: SmallVec::new(),
            fib: None,
            selected: NONE,
            internal: NONE,
            queued: false,
            in_batch: false,
        }
    }

    /// All alternatives.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// The one that is used for forwarding.
    pub fn selected(&self) -> Option<&Path> {
        self.paths.get(usize::from(self.selected))
    }

    /// The internal one that next hops are resolved by.
    pub fn internal(&self) -> Option<&Path> {
        self.paths.get(usize::from(self.internal))
    }
}

/// What both families of a table share.
pub struct Shared {
    /// Origins by number.
    pub origins: Vec<Origin>,
    /// Announced sets.
    pub sets: Sets,
    /// Next-hop groups.
    pub groups: Groups,
    /// Gateways that groups which are gone depended on, to be forgotten.
    pub gone: Vec<(GroupId, Vec<IpAddr>)>,
}

impl Shared {
    /// An origin by number.
    pub fn origin(&self, id: OriginId) -> &Origin {
        &self.origins[usize::from(id.0)]
    }

    /// How much a path is trusted: its set's own distance, or its origin's.
    pub fn distance(&self, path: &Path) -> Distance {
        self.sets.slot(path.set).set.distance.unwrap_or(self.origin(path.origin).distance)
    }

    /// The order of alternatives, best first.
    fn rank(&self, path: &Path) -> (Distance, Metric, OriginId) {
        (self.distance(path), self.sets.slot(path.set).set.metric, path.origin)
    }

    fn is_usable(&self, path: &Path) -> bool {
        self.distance(path) < Distance::UNUSABLE && self.groups.is_resolved(self.sets.slot(path.set).group)
    }

    fn release(&mut self, set: SetId) {
        self.gone.extend(self.sets.release(&mut self.groups, set));
    }

    /// Merge and ext-int: the best internal path, the best of all. One look over a few alternatives.
    fn decide(&self, paths: &[Path]) -> (u8, u8) {
        let (mut internal, mut selected) = (NONE, NONE);
        for (index, path) in paths.iter().enumerate().filter(|(_, p)| self.is_usable(p)) {
            let better = |than: u8| than == NONE || self.rank(path) < self.rank(&paths[usize::from(than)]);
            if better(selected) {
                selected = index as u8;
            }
            if !self.origin(path.origin).external && better(internal) {
                internal = index as u8;
            }
        }
        (internal, selected)
    }
}

/// One family of a table.
pub struct FamilyRib<P: TableKey> {
    pub(crate) entries: PrefixTable<P, Entry>,
    /// Prefixes that have internal paths, and how many: what resolution and its re-decisions walk.
    internal: PrefixTable<P, u16>,
    selected_count: u64,
    /// Routes by origin.
    route_counts: Vec<u64>,
    /// Prefixes that the engine must be told of, each once.
    pub(crate) fib_queue: VecDeque<P>,
    /// Why the engine refused a route.
    pub(crate) rejected: BTreeMap<P, String>,
    /// Prefixes whose best internal route changed: what resolution must look at.
    pub(crate) internal_changed: Vec<P>,
    trunk_batch: Batch<RibTable<P>>,
    /// Stages that every selected route passes.
    pub(crate) trunk: Branch<RibTable<P>>,
    pub(crate) subscribers: Vec<Subscriber<P>>,
    pub(crate) interests_internal: Interests<P>,
    pub(crate) interests_all: Interests<P>,
    /// Answers that no longer hold, and who must hear it.
    pub(crate) told: Vec<(WatcherId, P)>,
    /// A background pass that re-decides everything, and whether another must follow.
    pass: Option<Cursor<P>>,
    pass_again: bool,
    sweeps: Vec<Sweep<P>>,
}

/// A background walk that removes an origin's stale routes.
struct Sweep<P> {
    origin: OriginId,
    cursor: Cursor<P>,
    removed: u64,
    provenance: Provenance,
}

/// The most refusals that are remembered with their reasons.
const MAX_REJECTED: usize = 10_000;

impl<P: TableKey> Default for FamilyRib<P> {
    fn default() -> Self {
        FamilyRib {
            entries: PrefixTable::new(),
            internal: PrefixTable::new(),
            selected_count: 0,
            route_counts: Vec::new(),
            fib_queue: VecDeque::new(),
            rejected: BTreeMap::new(),
            internal_changed: Vec::new(),
            trunk_batch: Batch::new(),
            trunk: Branch::new(),
            subscribers: Vec::new(),
            interests_internal: Interests::default(),
            interests_all: Interests::default(),
            told: Vec::new(),
            pass: None,
            pass_again: false,
            sweeps: Vec::new(),
        }
    }
}

/// The head of the trunk, for stages and subscribers: what was selected.
pub(crate) struct Selected<'a, P: TableKey>(pub(crate) &'a PrefixTable<P, Entry>);

impl<P: TableKey> Source<RibTable<P>> for Selected<'_, P> {
    fn lookup(&self, key: P) -> Option<RibRoute> {
        self.0.get(key).and_then(Entry::selected).map(|p| RibRoute { origin: p.origin, set: p.set })
    }

    fn next_after(&self, key: Option<P>) -> Option<(P, RibRoute)> {
        let cursor = key.map_or(Cursor::Start, Cursor::After);
        self.0
            .iter_after(cursor)
            .find_map(|(k, e)| e.selected().map(|p| (k, RibRoute { origin: p.origin, set: p.set })))
    }
}

impl<P: TableKey> FamilyRib<P> {
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
        self.selected_count
    }

    /// Why the engine refused the route of a prefix.
    pub fn rejection(&self, prefix: P) -> Option<&str> {
        self.rejected.get(&prefix).map(String::as_str)
    }

    /// The engine refused the route of a prefix.
    pub fn note_rejection(&mut self, prefix: P, reason: String) {
        if self.rejected.len() < MAX_REJECTED {
            self.rejected.insert(prefix, reason);
        }
    }

    /// The internal routes that cover an address, the most specific first.
    pub(crate) fn internal_covering(&self, addr: P::Addr) -> SmallVec<[(P, Path); 4]> {
        let mut found: SmallVec<[(P, Path); 4]> = self
            .internal
            .covering(P::host(addr))
            .filter_map(|(p, _)| Some((p, *self.entries.get(p)?.internal()?)))
            .collect();
        found.reverse();
        found
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
        let external = shared.origin(origin).external;
        let entry = match set {
            Some(_) => self.entries.get_or_insert_with(prefix, Entry::new),
            None => match self.entries.get_mut(prefix) {
                Some(entry) => entry,
                None => return,
            },
        };
        let index = entry.paths.iter().position(|p| p.origin == origin);
        if index.is_none() && (set.is_none() || entry.paths.len() >= MAX_PATHS) {
            return;
        }
        if entry.in_batch {
            // A key occurs once in a batch: what is there goes down first.
            self.flush_trunk(shared);
            return self.change(shared, origin, prefix, set, provenance);
        }
        let selected_before = entry.selected().map(|p| RibRoute { origin: p.origin, set: p.set });
        let internal_before = entry.internal().map(|p| RibRoute { origin: p.origin, set: p.set });
        let mut released = None;
        let owner = &mut shared.origins[usize::from(origin.0)];
        match (index, set) {
            (Some(index), Some(set)) => {
                let path = &mut entry.paths[index];
                if path.generation != generation {
                    owner.stale = owner.stale.saturating_sub(1);
                }
                shared.sets.retain(set);
                released = Some(path.set);
                *path = Path { provenance, set, origin, generation };
            }
            (None, Some(set)) => {
                owner.routes += 1;
                let number = usize::from(origin.0);
                if self.route_counts.len() <= number {
                    self.route_counts.resize(number + 1, 0);
                }
                self.route_counts[number] += 1;
                shared.sets.retain(set);
                entry.paths.push(Path { provenance, set, origin, generation });
                if !external {
                    *self.internal.get_or_insert_with(prefix, || 0) += 1;
                }
            }
            (Some(index), None) => {
                let path = entry.paths.remove(index);
                if path.generation != generation {
                    owner.stale = owner.stale.saturating_sub(1);
                }
                owner.routes -= 1;
                self.route_counts[usize::from(origin.0)] -= 1;
                released = Some(path.set);
                if !external && let Some(count) = self.internal.get_mut(prefix) {
                    *count -= 1;
                    if *count == 0 {
                        self.internal.remove(prefix);
                    }
                }
            }
            (None, None) => {}
        }
        self.settle_entry(shared, prefix, internal_before, selected_before, provenance);
        if let Some(set) = released {
            shared.release(set);
        }
    }

    /// Decides an entry anew and sends downstream what differs from `*_before`.
    fn settle_entry(
        &mut self,
        shared: &Shared,
        prefix: P,
        internal_before: Option<RibRoute>,
        selected_before: Option<RibRoute>,
        provenance: Provenance,
    ) {
        let Some(entry) = self.entries.get_mut(prefix) else { return };
        (entry.internal, entry.selected) = shared.decide(&entry.paths);
        let internal = entry.internal().map(|p| RibRoute { origin: p.origin, set: p.set });
        let selected = entry.selected().map(|p| RibRoute { origin: p.origin, set: p.set });
        if internal != internal_before {
            self.internal_changed.push(prefix);
        }
        if let Some(action) = Action::between(selected_before, selected) {
            match action {
                Action::Add(_) => self.selected_count += 1,
                Action::Delete(_) => self.selected_count -= 1,
                Action::Replace { .. } => {}
            }
            self.trunk_batch.push(Change { key: prefix, action, provenance });
            entry.in_batch = true;
            if !entry.queued {
                entry.queued = true;
                self.fib_queue.push_back(prefix);
            }
        } else if entry.paths.is_empty() && entry.fib.is_none() && !entry.queued {
            self.entries.remove(prefix);
        }
    }

    /// Decides an entry anew because the resolution of a group changed.
    fn redecide(&mut self, shared: &mut Shared, prefix: P, provenance: Provenance) {
        let Some(entry) = self.entries.get(prefix) else { return };
        let (internal, selected) = shared.decide(&entry.paths);
        if (internal, selected) == (entry.internal, entry.selected) {
            return;
        }
        if entry.in_batch {
            self.flush_trunk(shared);
        }
        let Some(entry) = self.entries.get(prefix) else { return };
        let route = |p: &Path| RibRoute { origin: p.origin, set: p.set };
        let (internal, selected) = (entry.internal().map(route), entry.selected().map(route));
        self.settle_entry(shared, prefix, internal, selected, provenance);
    }

    /// Decides all entries with internal paths anew, now: they are few, and others depend on them.
    pub(crate) fn redecide_internal(&mut self, shared: &mut Shared, provenance: Provenance) {
        let prefixes: Vec<P> = self.internal.iter().map(|(p, _)| p).collect();
        for prefix in prefixes {
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

    /// Starts to remove an origin's stale routes in the background.
    pub(crate) fn start_sweep(&mut self, origin: OriginId, provenance: Provenance) {
        if !self.sweeps.iter().any(|s| s.origin == origin && s.cursor == Cursor::Start) {
            self.sweeps.push(Sweep { origin, cursor: Cursor::Start, removed: 0, provenance });
        }
    }

    /// Whether a sweep of an origin is going on.
    pub(crate) fn is_sweeping(&self, origin: OriginId) -> bool {
        self.sweeps.iter().any(|s| s.origin == origin)
    }

    /// A slice of background work. The second value names an origin whose sweep ended, and what it removed.
    pub(crate) fn run_slice(
        &mut self,
        shared: &mut Shared,
        budget: &mut Budget,
        provenance: Provenance,
    ) -> (Progress, Option<(OriginId, u64)>) {
        if let Some(mut sweep) = self.sweeps.pop() {
            let done = self.sweep_slice(shared, &mut sweep, budget);
            self.flush_trunk(shared);
            return match done {
                true => (Progress::More, Some((sweep.origin, sweep.removed))),
                false => {
                    self.sweeps.push(sweep);
                    (Progress::More, None)
                }
            };
        }
        if let Some(cursor) = self.pass.take() {
            let chunk: SmallVec<[P; 64]> =
                self.entries.iter_after(cursor).take(budget.0 as usize).map(|(p, _)| p).collect();
            for prefix in &chunk {
                self.redecide(shared, *prefix, provenance);
            }
            self.flush_trunk(shared);
            budget.spend(chunk.len() as u32);
            self.pass = match chunk.last() {
                Some(last) => Some(Cursor::After(*last)),
                None => core::mem::take(&mut self.pass_again).then_some(Cursor::Start),
            };
            return (Progress::More, None);
        }
        (self.dump_slice(shared, budget), None)
    }

    fn sweep_slice(&mut self, shared: &mut Shared, sweep: &mut Sweep<P>, budget: &mut Budget) -> bool {
        let generation = shared.origin(sweep.origin).generation;
        let mut last = None;
        let mut stale: SmallVec<[P; 64]> = SmallVec::new();
        for (prefix, entry) in self.entries.iter_after(sweep.cursor).take(budget.0 as usize) {
            last = Some(prefix);
            if entry.paths.iter().any(|p| p.origin == sweep.origin && p.generation != generation) {
                stale.push(prefix);
            }
            budget.spend(1);
        }
        for prefix in &stale {
            self.change(shared, sweep.origin, *prefix, None, sweep.provenance);
        }
        sweep.removed += stale.len() as u64;
        match last {
            Some(last) => {
                sweep.cursor = Cursor::After(last);
                false
            }
            None => true,
        }
    }

    fn dump_slice(&mut self, shared: &mut Shared, budget: &mut Budget) -> Progress {
        let mut progress = Progress::Done;
        for subscriber in &mut self.subscribers {
            progress = progress.or(subscriber.run_slice(&Selected(&self.entries), shared, budget));
        }
        progress
    }

    /// Sends what has been selected through the trunk, to the subscribers and to interest.
    pub(crate) fn flush_trunk(&mut self, shared: &mut Shared) {
        for change in self.trunk_batch.as_slice() {
            if let Some(entry) = self.entries.get_mut(change.key) {
                entry.in_batch = false;
            }
        }
        let source = Selected(&self.entries);
        self.trunk.push(&source, &mut self.trunk_batch);
        for subscriber in &mut self.subscribers {
            subscriber.offer(&source, shared, &self.trunk_batch);
        }
        if !self.interests_all.is_empty() {
            for change in self.trunk_batch.as_slice() {
                self.interests_all.invalidate(change.key, &mut self.told);
            }
        }
        self.trunk_batch.clear();
    }
}

impl<P: TableKey> FamilyRib<P> {
    /// Drops every answer that shows where a group leads.
    pub(crate) fn forget_group_answers(&mut self, group: GroupId) {
        self.interests_internal.invalidate_group(group, &mut self.told);
        self.interests_all.invalidate_group(group, &mut self.told);
    }
}

impl<P: TableKey> FamilyRib<P> {
    /// The answers that hold in a scope.
    pub(crate) fn interests(&mut self, scope: Scope) -> &mut Interests<P> {
        match scope {
            Scope::Internal => &mut self.interests_internal,
            Scope::All => &mut self.interests_all,
        }
    }

    /// The answers that hold in a scope, to look at.
    pub(crate) fn interests_in(&self, scope: Scope) -> &Interests<P> {
        match scope {
            Scope::Internal => &self.interests_internal,
            Scope::All => &self.interests_all,
        }
    }

    /// The largest prefix around `addr` inside `within` that no other route of the scope overlays. A prefix whose route is not
    /// used at present counts too: it costs a narrower answer, never a wrong one.
    pub(crate) fn largest_enclosing(&self, within: P, addr: P::Addr, scope: Scope) -> P {
        match scope {
            Scope::Internal => self.internal.largest_enclosing(within, addr),
            Scope::All => self.entries.largest_enclosing(within, addr),
        }
    }
}
