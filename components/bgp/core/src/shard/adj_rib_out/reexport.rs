//! A changed export view: the walk that finds routes with a changed outcome.
//!
//! The walk runs in slices between fresh changes. An entry is due if the outcome under the new view differs from the outcome
//! under the old view: a different route, a new route, or a withdrawal. Changes during the walk are exported under the new view
//! at once, and the walk skips their entries. A further change of the view during the walk adds the entries behind the walk to
//! the walk; the entries ahead are compared once.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use foldhash::fast::FixedState;
use hashbrown::HashSet;

use super::export_view::ExportView;

/// The parts of a walk, each with the view of the entries' latest export.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reexport {
    pub(super) parts: VecDeque<(Range<u32>, Arc<ExportView>)>,
    /// Entries ahead of the walk, sent under the new view since the change.
    pub(super) fresh: HashSet<u32, FixedState>,
}

impl Reexport {
    /// Begins or extends a walk: entries were exported under `old` so far. `end` is the number of entries.
    pub fn begin(&mut self, old: Arc<ExportView>, end: u32) {
        let mut next = 0;
        let mut behind = VecDeque::new();
        // What is left of the walk was sent under still older views; all else under `old`.
        let mut left: Vec<Range<u32>> = self.parts.iter().map(|(range, _)| range.clone()).collect();
        left.sort_unstable_by_key(|range| range.start);
        for range in left {
            behind.push_back((next..range.start, old.clone()));
            next = range.end;
        }
        behind.push_back((next..end, old.clone()));
        behind.retain(|(range, _)| !range.is_empty());
        // Entries ahead that were advertised since the last change were sent under `old`.
        for entry in core::mem::take(&mut self.fresh) {
            self.split_off(entry, &old);
        }
        self.parts.append(&mut behind);
    }

    /// Records that an entry ahead was sent under a view different from its neighbors'.
    fn split_off(&mut self, entry: u32, view: &Arc<ExportView>) {
        let Some(place) = self.parts.iter().position(|(range, _)| range.contains(&entry)) else { return };
        let Some((range, old)) = self.parts.remove(place) else { return };
        let pieces = [(range.start..entry, &old), (entry..entry + 1, view), (entry + 1..range.end, &old)];
        for (range, view) in pieces.into_iter().rev().filter(|(range, _)| !range.is_empty()) {
            self.parts.insert(place, (range, view.clone()));
        }
    }

    /// Returns true if every entry was compared.
    pub fn is_done(&self) -> bool {
        self.parts.is_empty()
    }

    /// Notes an entry whose present outcome is sent.
    pub fn note_advertised(&mut self, entry: u32) {
        self.fresh.insert(entry);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::shard::SentCommunities;

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
        // The walk is at 40, and 70 was sent under the second view.
        walk.parts[0].0.start = 40;
        walk.note_advertised(70);
        walk.begin(second.clone(), 110);
        let parts: Vec<_> =
            walk.parts.iter().map(|(range, view)| (range.clone(), view.next_hop_self)).collect();
        let expected = [(40..70, false), (70..71, true), (71..100, false), (0..40, true), (100..110, true)];
        assert_eq!(parts, expected);
        assert!(walk.fresh.is_empty() && !walk.is_done());
    }
}
