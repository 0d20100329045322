//! A branch: a reader of the change queue with an Adj-RIB-Out, for an update group or for the RIB.
//!
//! The Adj-RIB-Out of a branch has, for every entry, the source of the advertised route: two octets. The export view is a
//! function of the best path, so the source is enough to keep rule 1 (only advertised routes are withdrawn) and rule 2 (the
//! advertised route is the present best path). Several changes of an entry become a single change while the branch waits.

use super::export_view::ExportView;
use super::item::{Item, OutcomeId, Source};
use super::paths_out::PathsOut;
use super::reexport::Reexport;
use crate::shard::entry::{Entries, Pages, PeerIndex};
use crate::shard::queue::{Cursor, Queue};
use crate::wire::FamilyKey;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::Provenance;

/// A walk over all entries, for a new branch or for a refresh.
#[derive(Clone, Debug)]
pub(crate) struct Dump {
    pub next: u32,
    /// True if advertised routes are advertised again (RFC 2918).
    pub again: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Branch {
    adj_rib_out: Pages<Source>,
    /// The sent paths of a group with several paths of a prefix, in place of `adj_rib_out`.
    pub paths_out: Option<Box<PathsOut>>,
    /// The number of advertised entries, or of their paths.
    pub(crate) advertised_count: u32,
    /// The number of advertised entries by source.
    advertised_by_source: Vec<u32>,
    /// The branch's place in the change queue.
    pub cursor: Cursor,
    pub dump: Option<Dump>,
    /// The walk over the entries after a change of the export view.
    pub reexport: Option<Box<Reexport>>,
    /// Entries whose outcome the change of the view changed, and that are not advertised yet.
    pub due: BTreeSet<u32>,
}

impl Branch {
    /// Makes a branch with an empty Adj-RIB-Out; the queue ends at `end`.
    pub fn new(end: Cursor) -> Self {
        Branch {
            adj_rib_out: Pages::default(),
            paths_out: None,
            advertised_count: 0,
            advertised_by_source: Vec::new(),
            cursor: end,
            dump: Some(Dump { next: 0, again: false }),
            reexport: None,
            due: BTreeSet::new(),
        }
    }

    /// Begins a walk for the entries with a changed outcome, after a change of the view. A walk for a refresh begins anew;
    /// several paths of a prefix are always advertised again.
    pub fn change_view(&mut self, old: Arc<ExportView>, entries: u32) {
        match &self.dump {
            _ if self.paths_out.is_some() => self.advertise_again(),
            Some(dump) if dump.again => self.advertise_again(),
            _ => self.reexport.get_or_insert_default().begin(old, entries),
        }
    }

    /// Returns true if a walk after a change of the view is on.
    pub const fn is_reexporting(&self) -> bool {
        self.reexport.is_some()
    }

    /// Advertises all present routes again.
    pub fn advertise_again(&mut self) {
        self.dump = Some(Dump { next: 0, again: true });
    }

    /// Returns the source of an entry's advertised route.
    pub fn advertised(&self, entry: u32) -> Source {
        self.adj_rib_out.get(entry)
    }

    pub const fn advertised_count(&self) -> u32 {
        self.advertised_count
    }

    /// Returns the number of a peer's advertised routes.
    pub fn advertised_by_source(&self, peer: PeerIndex) -> u32 {
        self.advertised_by_source.get(usize::from(Source::of(peer).bits())).copied().unwrap_or(0)
    }

    pub(crate) fn count(&mut self, source: Source, change: impl Fn(u32) -> u32) {
        let place = usize::from(source.bits());
        if source != Source::NONE {
            if self.advertised_by_source.len() <= place {
                self.advertised_by_source.resize(place + 1, 0);
            }
            self.advertised_by_source[place] = change(self.advertised_by_source[place]);
        }
    }

    /// Returns true if all changes were advertised.
    pub fn is_idle(&self, end: Cursor) -> bool {
        let is_sent = |paths_out: &PathsOut| paths_out.is_idle();
        self.cursor == end
            && self.dump.is_none()
            && self.due.is_empty()
            && self.paths_out.as_deref().is_none_or(is_sent)
    }

    /// Takes up to `limit` changes from the queue, then up to `limit` entries of the dump and of the due entries. `export`
    /// returns the source and the outcome of an entry's path for the peers; `None` if no path is exported. An entry is taken at
    /// most once.
    #[inline(always)]
    pub(in crate::shard) fn gather<P: FamilyKey>(
        &mut self,
        queue: &Queue,
        entries: &Entries<P>,
        limit: usize,
        mut export: impl FnMut(u32) -> Option<(PeerIndex, OutcomeId)>,
        items: &mut Vec<Item>,
    ) {
        self.adj_rib_out.reach(entries.end());
        let mut cursor = self.cursor;
        queue.read(entries, &mut cursor, limit, |entry, provenance| {
            self.visit(entry, provenance, &mut export, items);
            true
        });
        self.cursor = cursor;
        if !self.due.is_empty() {
            self.gather_due(queue, entries, limit, &mut export, items);
        }
        if self.dump.is_some() {
            self.gather_dump(entries, limit, export, items);
        }
    }

    /// Takes entries whose outcome changed with the view. An entry with a later change in the queue is advertised with that change.
    #[inline(never)]
    fn gather_due<P: FamilyKey>(
        &mut self,
        queue: &Queue,
        entries: &Entries<P>,
        limit: usize,
        export: &mut impl FnMut(u32) -> Option<(PeerIndex, OutcomeId)>,
        items: &mut Vec<Item>,
    ) {
        // An entry that was taken from the queue just now must not be taken twice.
        if !items.is_empty() {
            return;
        }
        for _ in 0..limit {
            let Some(entry) = self.due.pop_first() else { break };
            if !queue.is_pending(entries, entry, self.cursor) {
                self.visit(entry, Provenance::NONE, export, items);
            }
        }
    }

    /// Changes go first; a refresh must not advertise a changed entry twice in one round.
    #[inline(never)]
    fn gather_dump<P: FamilyKey>(
        &mut self,
        entries: &Entries<P>,
        limit: usize,
        mut export: impl FnMut(u32) -> Option<(PeerIndex, OutcomeId)>,
        items: &mut Vec<Item>,
    ) {
        let Some(mut dump) = self.dump.take() else { return };
        if dump.again && !items.is_empty() {
            self.dump = Some(dump);
            return;
        }
        let to = entries.end().min(dump.next + limit as u32);
        for entry in dump.next..to {
            let known = self.advertised(entry) != Source::NONE;
            let vacant = entries.is_vacant(entry);
            if !vacant && (dump.again || !known) {
                self.visit(entry, Provenance::NONE, &mut export, items);
            }
        }
        dump.next = to;
        self.dump = (to < entries.end()).then_some(dump);
    }

    #[inline(always)]
    fn visit(
        &mut self,
        entry: u32,
        provenance: Provenance,
        export: &mut impl FnMut(u32) -> Option<(PeerIndex, OutcomeId)>,
        items: &mut Vec<Item>,
    ) {
        if let Some(walk) = &mut self.reexport {
            walk.note_advertised(entry);
        }
        let best = export(entry);
        let source = best.map_or(Source::NONE, |(peer, _)| Source::of(peer));
        let before = self.adj_rib_out.replace(entry, source);
        if (source, before) == (Source::NONE, Source::NONE) {
            return;
        }
        if source != before {
            self.count(before, |n| n - 1);
            self.count(source, |n| n + 1);
        }
        self.advertised_count += u32::from(before == Source::NONE);
        self.advertised_count -= u32::from(source == Source::NONE);
        items.push(Item { entry, outcome: best.map(|(_, outcome)| outcome), source, before, provenance });
    }
}
