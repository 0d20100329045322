//! The Adj-RIB-Out of an update group whose members are sent several paths of a prefix (ADD-PATH, RFC 7911).
//!
//! The Adj-RIB-Out has, for every entry, the numbers of the sent paths: 8 octets for up to four paths, and a list beside the pages for
//! more. A visit of an entry compares the sent paths with those that the export view selects now: paths that the view no longer selects
//! are withdrawn, new ones are announced, and of the others those whose attributes changed ([`PathsOut::due`]). A policy of the view may choose
//! among the paths beside the best one ([`ExportView::further`]).
//!
//! The change queue has an entry whose best path changed. Changes of other paths are noted by [`Core::note_path`], and the shard passes
//! them on to all groups of this kind.

use super::branch::{Branch, Item, Source};
use super::entry::{PathNumber, PeerIndex};
use super::export_view::{ExportView, SentPaths};
use super::exporter::{Exporter, OutcomeId};
use super::pages::Pages;
use super::{Accepted, Core};
use crate::policy::{DecidedBy, Memory};
use crate::wire::FamilyKey;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use sluice_base::Provenance;
use smallvec::SmallVec;

/// Paths of one prefix.
pub(super) type Paths = SmallVec<[PathNumber; 8]>;

/// Sent paths of an entry that a page has room for.
const FEW: usize = 4;

/// The first value of a cell whose paths are in the list beside the pages. No path has this source.
const MANY: Source = Source::from_bits(u16::MAX);

/// The sent paths of each entry, and the changed paths.
#[derive(Clone, Debug, Default)]
pub(super) struct PathsOut {
    few: Pages<[Source; FEW]>,
    /// The sent paths of entries with more than [`FEW`].
    many: BTreeMap<u32, Paths>,
    /// Changed paths that are not sent yet, by entry. [`PathNumber::NONE`] stands for a change of the order of the entry's paths.
    due: BTreeSet<(u32, PathNumber)>,
}

impl PathsOut {
    /// Returns the paths of an entry that were sent.
    pub fn sent(&self, entry: u32) -> Paths {
        let few = self.few.get(entry);
        if few[0] == MANY {
            return self.many.get(&entry).cloned().unwrap_or_default();
        }
        few.iter().filter_map(|source| source.path()).collect()
    }

    /// Stores the sent paths of an entry in reach.
    fn set(&mut self, entry: u32, paths: Paths) {
        let mut few = [Source::NONE; FEW];
        if paths.len() <= FEW {
            few.iter_mut().zip(&paths).for_each(|(cell, path)| *cell = Source::of_path(*path));
        } else {
            few[0] = MANY;
        }
        if self.few.replace(entry, few)[0] == MANY {
            self.many.remove(&entry);
        }
        if paths.len() > FEW {
            self.many.insert(entry, paths);
        }
    }

    /// Notes a changed path of an entry.
    pub fn note(&mut self, entry: u32, path: PathNumber) {
        self.due.insert((entry, path));
    }

    /// Returns true if all changed paths were sent.
    pub fn is_idle(&self) -> bool {
        self.due.is_empty()
    }

    /// Takes the changed paths of an entry.
    fn take_due(&mut self, entry: u32) -> Paths {
        let all = self.due.range((entry, PathNumber(0))..=(entry, PathNumber::NONE));
        let paths: Paths = all.map(|(_, path)| *path).collect();
        for path in &paths {
            self.due.remove(&(entry, *path));
        }
        paths
    }
}

/// The rules by which the paths of entries are selected and exported.
pub(super) struct Export<'a, P: FamilyKey> {
    pub core: &'a Core<P>,
    pub view: &'a ExportView,
    pub exporter: &'a mut Exporter,
}

impl Branch {
    /// Takes up to about `limit` changes of paths: from the queue, then those due, then those of a walk over all entries. An entry is taken
    /// at most once.
    #[inline(never)]
    pub fn gather_paths<P: FamilyKey>(
        &mut self,
        export: &mut Export<'_, P>,
        limit: usize,
        items: &mut Vec<Item>,
    ) {
        let Some(mut paths_out) = self.paths_out.take() else { return };
        let core = export.core;
        paths_out.few.reach(core.entries.end());
        let mut cursor = self.cursor;
        core.queue.read(&core.entries, &mut cursor, limit, |entry, provenance| {
            self.visit_paths(&mut paths_out, export, (entry, false), provenance, items);
            items.len() < limit
        });
        self.cursor = cursor;
        // A visit takes what is due of its entry, so that no entry that the queue had is taken twice.
        while items.len() < limit
            && let Some((entry, _)) = paths_out.due.first().copied()
        {
            self.visit_paths(&mut paths_out, export, (entry, false), Provenance::NONE, items);
        }
        if let Some(mut dump) = self.dump.take_if(|dump| items.is_empty() || !dump.again) {
            let end = core.entries.end();
            let to = end.min(dump.next.saturating_add(limit as u32));
            while dump.next < to && items.len() < limit {
                let entry = dump.next;
                if dump.again || paths_out.few.get(entry)[0] == Source::NONE {
                    self.visit_paths(&mut paths_out, export, (entry, dump.again), Provenance::NONE, items);
                }
                dump.next += 1;
            }
            self.dump = (dump.next < end).then_some(dump);
        }
        self.paths_out = Some(paths_out);
    }

    /// Compares the sent paths of an entry with the selected ones. With `again`, all are sent once more (RFC 2918).
    fn visit_paths<P: FamilyKey>(
        &mut self,
        paths_out: &mut PathsOut,
        Export { core, view, exporter }: &mut Export<'_, P>,
        (entry, again): (u32, bool),
        provenance: Provenance,
        items: &mut Vec<Item>,
    ) {
        let due = paths_out.take_due(entry);
        let selected = core.selected_paths(view, entry, |path| exporter.export(core, view, entry, path));
        let sent = paths_out.sent(entry);
        let is_selected = |path: &PathNumber| selected.iter().any(|(number, _)| number == path);
        for path in sent.iter().filter(|path| !is_selected(path)) {
            let before = Source::of_path(*path);
            self.count(Source::of(core.lanes.peer(*path)), |n| n - 1);
            self.advertised_count -= 1;
            items.push(Item { entry, outcome: None, source: Source::NONE, before, provenance });
        }
        for (path, outcome) in &selected {
            let (source, is_sent) = (Source::of_path(*path), sent.contains(path));
            if !is_sent {
                self.count(Source::of(core.lanes.peer(*path)), |n| n + 1);
                self.advertised_count += 1;
            }
            if again || !is_sent || due.contains(path) {
                let before = if is_sent { source } else { Source::NONE };
                items.push(Item { entry, outcome: Some(*outcome), source, before, provenance });
            }
        }
        paths_out.set(entry, selected.iter().map(|(path, _)| *path).collect());
    }
}

impl Branch {
    /// Takes up to about `limit` changes for the members of a group with a view.
    #[inline(always)]
    pub fn gather_for<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        limit: usize,
        exporter: &mut Exporter,
        items: &mut Vec<Item>,
    ) {
        if self.paths_out.is_some() {
            self.gather_paths(&mut Export { core, view, exporter }, limit, items);
        } else {
            self.gather(core, limit, |entry| exporter.best(core, view, entry), items);
        }
    }
}

impl<P: FamilyKey> Core<P> {
    /// Notes a changed path of an entry for groups whose members are sent several paths.
    #[inline(always)]
    pub(super) fn note_path(&mut self, entry: u32, path: PathNumber) {
        if self.notes_paths {
            self.changed_paths.push((entry, path));
        }
    }

    /// Returns a path of an entry that import policy accepted.
    pub(super) fn path(&self, entry: u32, number: PathNumber) -> Option<Accepted> {
        let path = self.entries.paths(entry).get(self.entries.position(entry, number)?)?;
        Some(Accepted { peer: self.peer_of(path), set: self.sets.accepted(path.attributes)? })
    }

    /// Returns the paths of an entry that come to the export policy of a view: the best one, or those of several that are selected without
    /// a policy.
    pub(super) fn paths_towards(&self, view: &ExportView, entry: u32) -> SmallVec<[Accepted; 2]> {
        if view.paths.is_none() {
            return self.best_towards(view, entry).into_iter().collect();
        }
        let mut paths = SmallVec::new();
        self.selected_paths(view, entry, |path| {
            paths.push(path);
            Some(OutcomeId::unchanged(path.set))
        });
        paths
    }

    /// Iterates over the usable paths of an entry beside the best one; none without a best path.
    pub(super) fn further_paths(&self, entry: u32) -> impl Iterator<Item = PathNumber> + '_ {
        let tables = self.tables(entry);
        let best = self.entries.best(entry).map(|path| path.number);
        let paths = self.entries.paths(entry).iter().filter(move |path| tables.is_usable(path));
        paths.map(|path| path.number).filter(move |number| best.is_some_and(|best| best != *number))
    }

    /// Returns the term that keeps a path beside the best one from peers with a view, with empty names if no term does; `None` for a path
    /// that may be sent.
    pub(super) fn not_chosen(&self, view: &ExportView, entry: u32, path: Accepted) -> Option<DecidedBy> {
        let policy = view.further.as_ref()?;
        let mut route = self.policy_route(entry, path.peer, path.set);
        let outcome = policy.decide(&mut route, &mut Memory::new(policy));
        (!outcome.is_accepted).then(|| policy.decided_by(&outcome).unwrap_or_default())
    }

    /// Returns the paths of an entry that peers with a view are sent, with what `export` makes of each. Paths that cannot be used, paths
    /// that the view's policy does not choose and paths that are not exported do not count among the best ones.
    pub(super) fn selected_paths(
        &self,
        view: &ExportView,
        entry: u32,
        mut export: impl FnMut(Accepted) -> Option<OutcomeId>,
    ) -> SmallVec<[(PathNumber, OutcomeId); 8]> {
        let default = PathNumber::first_of(PeerIndex::DEFAULT);
        if view.default_route.is_some()
            && self.entries[entry].prefix.len() == 0
            && let Some(path) = self.path(entry, default)
        {
            return export(path).map(|outcome| (default, outcome)).into_iter().collect();
        }
        // An entry keeps its place until all groups know that its last best path went: without a best path nothing may be sent, though a new
        // answer about a next hop makes a path usable before the entry is decided.
        let Some(best) = self.entries.best(entry).map(|path| path.number) else {
            return SmallVec::new();
        };
        let mut selected = SmallVec::new();
        let mut take = |number: PathNumber| {
            let is_chosen = |path: &Accepted| number == best || self.not_chosen(view, entry, *path).is_none();
            let outcome = self.path(entry, number).filter(is_chosen).and_then(&mut export);
            selected.extend(outcome.map(|outcome| (number, outcome)));
            outcome.is_some()
        };
        let tables = self.tables(entry);
        let mut rest: SmallVec<[_; 12]> =
            self.entries.paths(entry).iter().filter(|path| tables.is_usable(path)).copied().collect();
        match view.paths {
            None => {}
            Some(SentPaths::All) => {
                rest.sort_unstable_by_key(|path| path.number);
                for path in &rest {
                    take(path.number);
                }
            }
            Some(SentPaths::Best(most)) => {
                let mut count = 0;
                let mut first = rest.iter().position(|path| path.number == best);
                while count < most {
                    let position = first.take().or_else(|| tables.decide(&rest, None, |_, _| {}));
                    let Some(position) = position else { break };
                    let number = rest.swap_remove(position).number;
                    count += u8::from(take(number));
                }
            }
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(numbers: impl IntoIterator<Item = u16>) -> Paths {
        numbers.into_iter().map(PathNumber).collect()
    }

    #[test]
    fn sent_paths_come_back_however_many() {
        let mut out = PathsOut::default();
        out.few.reach(1000);
        for count in [0, 1, 4, 5, 40, 5, 4, 0] {
            let numbers = paths((0..count).map(|n| 20 + n));
            out.set(7, numbers.clone());
            assert_eq!((out.sent(7), out.sent(8)), (numbers, paths([])));
            assert_eq!(out.many.len(), usize::from(count > 4));
        }
        assert_eq!(size_of::<[Source; FEW]>(), 8);
    }

    #[test]
    fn changed_paths_are_taken_by_entry() {
        let mut out = PathsOut::default();
        for (entry, path) in [(1, 20), (2, 21), (2, 20), (2, u16::MAX), (3, 20)] {
            out.note(entry, PathNumber(path));
        }
        assert_eq!(out.take_due(2), paths([20, 21, u16::MAX]));
        assert_eq!((out.take_due(2), out.due.len()), (paths([]), 2));
    }
}
