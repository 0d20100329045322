//! A changed export view: the walk that finds the routes whose outcome is another.
//!
//! The walk runs in slices between fresh changes. An entry is due if peers were told a route under the old view and are to be told
//! another one, or none, under the new view, or were told none and are to be told one. Changes that come meanwhile are exported under
//! the new view at once, and the walk leaves them out. A view that changes again while the walk is on adds the entries behind the walk
//! to the walk; the entries ahead are compared once.

use super::Core;
use super::branch::{Branch, Source};
use super::export::Exported;
use super::export_view::ExportView;
use super::exporter::{Exporter, OutcomeId};
use crate::wire::FamilyKey;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

/// The parts of a walk, each with the view under which its entries were told.
#[derive(Clone, Debug, Default)]
pub(super) struct Reexport {
    parts: VecDeque<(Range<u32>, Arc<ExportView>)>,
    /// Entries that were told under the new view since it changed, and are ahead of the walk.
    fresh: HashSet<u32, FixedState>,
}

/// The outcomes under both views, for one slice.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    old: Exporter,
    new: Exporter,
    exported: [Exported; 2],
    /// True if two outcomes of a source are announced alike.
    alike: HashMap<(OutcomeId, OutcomeId, Source), bool, FixedState>,
}

impl Comparison {
    /// Forgets all outcomes.
    pub fn clear(&mut self) {
        self.old.clear();
        self.new.clear();
        self.alike.clear();
    }

    /// Returns true if the peers were told another outcome of an entry's best path under `old` than they are under `new`.
    fn differs<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        entry: u32,
        was_told: bool,
        old: &ExportView,
        new: &ExportView,
    ) -> bool {
        let after = self.new.best(core, new, entry);
        // A path that no longer fits was not told either.
        let before = was_told.then(|| self.old.best(core, old, entry)).flatten();
        let ((source, before), (new_source, after)) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (before, after) => return was_told || before.is_some() != after.is_some(),
        };
        let best = core.best_towards(new, entry).filter(|_| source == new_source);
        let Some(best) = best else { return true };
        let Comparison { old: olds, new: news, exported: [one, other], alike } = self;
        let is_alike = *alike.entry((before, after, Source::of(best.peer))).or_insert_with(|| {
            one.make(core, &olds.subject(core, before, best), old);
            other.make(core, &news.subject(core, after, best), new);
            one.is_like(other)
        });
        !is_alike
    }
}

impl Reexport {
    /// Begins or extends a walk: entries were told under `old` so far. `end` is the number of entries.
    pub fn begin(&mut self, old: Arc<ExportView>, end: u32) {
        let mut next = 0;
        let mut behind = VecDeque::new();
        // What is left of the walk was told under still older views; all else under `old`.
        let mut left: Vec<Range<u32>> = self.parts.iter().map(|(range, _)| range.clone()).collect();
        left.sort_unstable_by_key(|range| range.start);
        for range in left {
            behind.push_back((next..range.start, old.clone()));
            next = range.end;
        }
        behind.push_back((next..end, old.clone()));
        behind.retain(|(range, _)| !range.is_empty());
        // Entries ahead that were told since the last change were told under `old`.
        for entry in core::mem::take(&mut self.fresh) {
            self.split_off(entry, &old);
        }
        self.parts.append(&mut behind);
    }

    /// Notes that an entry ahead was told under another view than its neighbors.
    fn split_off(&mut self, entry: u32, view: &Arc<ExportView>) {
        let Some(place) = self.parts.iter().position(|(range, _)| range.contains(&entry)) else { return };
        let Some((range, old)) = self.parts.remove(place) else { return };
        let pieces = [(range.start..entry, &old), (entry..entry + 1, view), (entry + 1..range.end, &old)];
        for (range, view) in pieces.into_iter().rev().filter(|(range, _)| !range.is_empty()) {
            self.parts.insert(place, (range, view.clone()));
        }
    }

    /// Returns true if all entries were compared.
    pub fn is_done(&self) -> bool {
        self.parts.is_empty()
    }

    /// Notes that peers are told the present outcome of an entry.
    pub fn told(&mut self, entry: u32) {
        self.fresh.insert(entry);
    }
}

impl Branch {
    /// Compares up to `limit` entries of the walk under `view`; entries that differ are due.
    pub fn compare_slice<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        limit: usize,
        comparison: &mut Comparison,
    ) {
        let Some(mut walk) = self.reexport.take() else { return };
        comparison.clear();
        if let Some((mut range, old)) = walk.parts.pop_front() {
            let to = range.end.min(range.start.saturating_add(limit as u32));
            for entry in range.start..to.min(core.entries.end()) {
                let is_other = walk.fresh.remove(&entry)
                    || core.entries.is_vacant(entry)
                    || core.queue.is_pending(&core.entries, entry, self.cursor);
                if !is_other {
                    let was_told = self.advertised(entry) != Source::NONE;
                    if comparison.differs(core, entry, was_told, &old, view) {
                        self.due.insert(entry);
                    }
                }
            }
            range.start = to;
            if !range.is_empty() && to < core.entries.end() {
                walk.parts.push_front((range, old));
            }
        }
        self.reexport = (!walk.is_done()).then_some(walk);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::shard::export_view::SentCommunities;

    /// Returns the view of an internal peer.
    pub fn view(next_hop_self: bool) -> Arc<ExportView> {
        Arc::new(ExportView {
            internal: true,
            four_octet_as: true,
            extended_messages: false,
            paced: None,
            wanted: None,
            link_local: false,
            next_hop_self,
            reflection: None,
            transparent: false,
            overridden_as: None,
            other_as: None,
            relationship: None,
            graceful_shutdown: false,
            long_lived_stale: false,
            communities: SentCommunities::default(),
            paths: None,
            further: None,
            default_route: None,
            policy: None,
        })
    }

    #[test]
    fn a_second_change_adds_what_is_behind_and_what_was_told_since() {
        let mut walk = Reexport::default();
        let (first, second) = (view(false), view(true));
        walk.begin(first.clone(), 100);
        // The walk is at 40, and 70 was told under the second view.
        walk.parts[0].0.start = 40;
        walk.told(70);
        walk.begin(second.clone(), 110);
        let parts: Vec<_> =
            walk.parts.iter().map(|(range, view)| (range.clone(), view.next_hop_self)).collect();
        let expected = [(40..70, false), (70..71, true), (71..100, false), (0..40, true), (100..110, true)];
        assert_eq!(parts, expected);
        assert!(walk.fresh.is_empty() && !walk.is_done());
    }
}
