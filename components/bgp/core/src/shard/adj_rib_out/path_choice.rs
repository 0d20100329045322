//! The paths of a prefix selected by an export view, and the comparison with the sent paths.

use super::branch::Branch;
use super::export_view::{ExportView, SentPaths};
use super::exporter::Exporter;
use super::item::{Item, OutcomeId, Source};
use super::paths_out::PathsOut;
use crate::policy::{DecidedBy, Memory};
use crate::shard::entry::{PathNumber, PeerIndex};
use crate::shard::{Accepted, Core};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use sluice_base::Provenance;
use smallvec::SmallVec;

/// The rules by which the paths of entries are selected and exported.
pub(crate) struct Export<'a, P: FamilyKey> {
    pub core: &'a Core<P>,
    pub view: &'a ExportView,
    pub exporter: &'a mut Exporter,
}

impl Branch {
    /// Takes up to about `limit` changes of paths: from the queue, then due entries, then entries of a walk. An entry is taken at
    /// most once.
    #[inline(never)]
    pub fn gather_paths<P: FamilyKey>(
        &mut self,
        export: &mut Export<'_, P>,
        limit: usize,
        items: &mut Vec<Item>,
    ) {
        let Some(mut paths_out) = self.paths_out.take() else { return };
        let core = export.core;
        paths_out.few.reach(core.adj_rib_in.entries.end());
        let mut cursor = self.cursor;
        core.loc_rib.queue.read(&core.adj_rib_in.entries, &mut cursor, limit, |entry, provenance| {
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
            let end = core.adj_rib_in.entries.end();
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

    /// Compares the sent paths of an entry with the selected paths. With `again`, every path is sent once more (RFC 2918).
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
            self.count(Source::of(core.adj_rib_in.lanes.peer(*path)), |n| n - 1);
            self.advertised_count -= 1;
            items.push(Item { entry, outcome: None, source: Source::NONE, before, provenance });
        }
        for (path, outcome) in &selected {
            let (source, is_sent) = (Source::of_path(*path), sent.contains(path));
            if !is_sent {
                self.count(Source::of(core.adj_rib_in.lanes.peer(*path)), |n| n + 1);
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
            self.gather(
                &core.loc_rib.queue,
                &core.adj_rib_in.entries,
                limit,
                |entry| exporter.best(core, view, entry),
                items,
            );
        }
    }
}

impl<P: FamilyKey> Core<P> {
    /// Returns the paths of an entry that come to the export policy of a view: the best path, or the several paths selected
    /// without a policy.
    pub(crate) fn paths_towards(&self, view: &ExportView, entry: u32) -> SmallVec<[Accepted; 2]> {
        if view.paths.is_none() {
            return view.best_path(&self.adj_rib_in, entry).into_iter().collect();
        }
        let mut paths = SmallVec::new();
        self.selected_paths(view, entry, |path| {
            paths.push(path);
            Some(OutcomeId::unchanged(path.set))
        });
        paths
    }

    /// Iterates over the usable paths of an entry beside the best path; empty without a best path.
    pub(crate) fn further_paths(&self, entry: u32) -> impl Iterator<Item = PathNumber> + '_ {
        let tables = self.loc_rib.tables(&self.adj_rib_in, &self.resolver, entry);
        let best = self.adj_rib_in.entries.best(entry).map(|path| path.number);
        let paths = self.adj_rib_in.entries.paths(entry).iter().filter(move |path| tables.is_usable(path));
        paths.map(|path| path.number).filter(move |number| best.is_some_and(|best| best != *number))
    }

    /// Returns the term that keeps a further path from peers with a view, with empty names if no term decides; `None` for a path
    /// that may be sent.
    pub(crate) fn not_chosen(&self, view: &ExportView, entry: u32, path: Accepted) -> Option<DecidedBy> {
        let policy = view.further.as_ref()?;
        let prefix = self.adj_rib_in.entries[entry].prefix;
        let mut route = self.context.route(&self.adj_rib_in, &self.resolver, prefix, path);
        let outcome = policy.decide(&mut route, &mut Memory::new(policy));
        (!outcome.is_accepted).then(|| policy.decided_by(&outcome).unwrap_or_default())
    }

    /// Returns the paths of an entry for peers with a view, with the outcome of `export`. Unusable, unchosen and unexported paths
    /// do not count among the best paths.
    pub(crate) fn selected_paths(
        &self,
        view: &ExportView,
        entry: u32,
        mut export: impl FnMut(Accepted) -> Option<OutcomeId>,
    ) -> SmallVec<[(PathNumber, OutcomeId); 8]> {
        let default = PathNumber::first_of(PeerIndex::DEFAULT);
        if view.default_route.is_some()
            && self.adj_rib_in.entries[entry].prefix.len() == 0
            && let Some(path) = self.adj_rib_in.path(entry, default)
        {
            return export(path).map(|outcome| (default, outcome)).into_iter().collect();
        }
        // An entry keeps its place until all groups know that its last best path went: without a best path nothing may be sent, though a new
        // answer about a next hop makes a path usable before the entry is decided.
        let Some(best) = self.adj_rib_in.entries.best(entry).map(|path| path.number) else {
            return SmallVec::new();
        };
        let mut selected = SmallVec::new();
        let mut take = |number: PathNumber| {
            let is_chosen = |path: &Accepted| number == best || self.not_chosen(view, entry, *path).is_none();
            let outcome = self.adj_rib_in.path(entry, number).filter(is_chosen).and_then(&mut export);
            selected.extend(outcome.map(|outcome| (number, outcome)));
            outcome.is_some()
        };
        let tables = self.loc_rib.tables(&self.adj_rib_in, &self.resolver, entry);
        let mut rest: SmallVec<[_; 12]> = self
            .adj_rib_in
            .entries
            .paths(entry)
            .iter()
            .filter(|path| tables.is_usable(path))
            .copied()
            .collect();
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
