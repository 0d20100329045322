//! The slices of a walk after a changed export view: outcomes under the old and the new view.

use super::branch::Branch;
use super::export::Exported;
use super::export_view::ExportView;
use super::exporter::Exporter;
use super::item::{OutcomeId, Source};
use crate::shard::Core;
use crate::wire::FamilyKey;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The outcomes under both views, for one slice.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
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

    /// Returns true if the outcome of an entry's best path under `old` differs from the outcome under `new`.
    fn differs<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        entry: u32,
        was_told: bool,
        old: &ExportView,
        new: &ExportView,
    ) -> bool {
        let after = self.new.best(core, new, entry);
        // A path that no longer fits was not sent either.
        let before = was_told.then(|| self.old.best(core, old, entry)).flatten();
        let ((source, before), (new_source, after)) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (before, after) => return was_told || before.is_some() != after.is_some(),
        };
        let best = new.best_path(&core.adj_rib_in, entry).filter(|_| source == new_source);
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
            for entry in range.start..to.min(core.adj_rib_in.entries.end()) {
                let is_other = walk.fresh.remove(&entry)
                    || core.adj_rib_in.entries.is_vacant(entry)
                    || core.loc_rib.queue.is_pending(&core.adj_rib_in.entries, entry, self.cursor);
                if !is_other {
                    let was_told = self.advertised(entry) != Source::NONE;
                    if comparison.differs(core, entry, was_told, &old, view) {
                        self.due.insert(entry);
                    }
                }
            }
            range.start = to;
            if !range.is_empty() && to < core.adj_rib_in.entries.end() {
                walk.parts.push_front((range, old));
            }
        }
        self.reexport = (!walk.is_done()).then_some(walk);
    }
}
