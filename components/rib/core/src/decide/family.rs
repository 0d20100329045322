//! A family of a table: the entries, and the decision on them.
//!
//! An entry holds every alternative of a prefix ([`crate::entry`]). The decision selects the path with the lowest administrative distance
//! among those with reachable next hops. The entry stores the selected path, so that look-ups agree with the changes sent downstream
//! (rule 2) even before a background pass has reached the entry.

use super::outcome::{Downstream, Open};
use super::walk::{Refilter, Sweep};
use crate::clients::announced::AnnouncedSubscriber;
use crate::clients::interest::{Interests, WatcherId};
use crate::clients::presence::Presences;
use crate::clients::subscriber::Subscriber;
use crate::entry::origin::OriginId;
pub use crate::entry::routes::{RibRoute, RibTable, Shared};
use crate::entry::set::SetId;
use crate::entry::{Entry, Path};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::Provenance;
use sluice_machine::{Budget, Progress};
use sluice_stage::{Branch, Cursor, PrefixTable, StageId, TableKey};
use smallvec::SmallVec;

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
    pub(crate) reported_stages: Vec<StageId>,
    pub(crate) subscribers: Vec<Subscriber<P>>,
    /// Subscribers to routes before the decision.
    pub(crate) announced: Vec<AnnouncedSubscriber<P>>,
    pub(crate) interests_next_hop: Interests<P>,
    pub(crate) interests_all: Interests<P>,
    /// The prefixes whose presence is watched.
    pub(crate) presences: Presences<P>,
    /// Invalidated answers, and their watchers.
    pub(crate) invalidated: Vec<(WatcherId, P)>,
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
            invalidated: Vec::new(),
            pass: None,
            pass_again: false,
            sweeps: Vec::new(),
            refilters: Vec::new(),
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
    pub(crate) fn route_count(&self, origin: OriginId) -> u64 {
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
    pub(crate) fn note_rejection(&mut self, prefix: P, reason: String) {
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
        let sent = entry.take_sent(&shared.sets);
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
        let open = Open { prefix, entry: &mut *entry, before: before_selected, sent, provenance };
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
        let sent = entry.take_sent(&shared.sets);
        let is_wanted = |origin| listens_to_all || self.subscribers.iter().any(|s| s.wants(origin));
        self.downstream.settle(shared, is_wanted, Open { prefix, entry, before, sent, provenance });
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
}
