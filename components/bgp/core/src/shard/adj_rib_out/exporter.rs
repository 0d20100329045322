//! Export policy: the outcomes of best paths under an export view (RFC 4271, section 9.1.3), for a block or slice.
//!
//! Without a policy the outcome of a path is the attribute set. With a policy the outcome is the changed attributes, equal
//! results once: routes of several sets with equal results are packed into the same UPDATEs, routes of one set with several
//! outcomes into several.
//!
//! A route too large for a message loses dispensable attributes ([`REMOVABLE`]; RFC 8654, section 4), as few as possible. A route
//! that is still too large is not exported.

use super::export::{Exported, Subject, announcement_overhead};
use super::export_view::ExportView;
use super::item::{CHANGED, Item, OutcomeId, Source};
use crate::attributes::{REMOVABLE, canonical};
use crate::policy::{BoundPolicy, DecidedBy, Edited, Memory, Trace};
use crate::shard::entry::{PeerIndex, SetId};
use crate::shard::{Accepted, Core};
use crate::wire::FamilyKey;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use smallvec::SmallVec;

/// Octets of a message reserved for a prefix and for additions of the export rules to stored attributes (RFC 4271, section 9.2).
const ADDED: usize = 200;

/// Outcomes of the routes of a set and a source.
#[derive(Debug, Default)]
struct Row {
    memory: Memory,
    /// By policy's changes.
    outcomes: SmallVec<[(Trace, OutcomeId); 1]>,
    is_rejected: bool,
}

/// The outcomes of best paths under a view.
#[derive(Debug, Default)]
pub(crate) struct Exporter {
    rows: Vec<Row>,
    by_set: HashMap<(SetId, PeerIndex), usize, FixedState>,
    last: Option<((SetId, PeerIndex), usize)>,
    changed: Vec<Edited>,
    by_content: HashTable<u32>,
    /// The sources of routes that do not fit in a message.
    pub too_large: Vec<Source>,
    /// The outcomes with attributes removed to fit in a message, with the codes of the removed attributes.
    reduced: HashMap<OutcomeId, Removed, FixedState>,
}

/// The codes of removed attributes.
pub(crate) type Removed = SmallVec<[u8; REMOVABLE.len()]>;

impl Exporter {
    /// Forgets the outcomes, for a different view, or because numbers of sets may be reused.
    pub fn clear(&mut self) {
        self.too_large.clear();
        if self.rows.is_empty() && self.changed.is_empty() {
            return;
        }
        self.rows.clear();
        self.by_set.clear();
        self.last = None;
        self.changed.clear();
        self.by_content.clear();
        self.reduced.clear();
    }

    /// Returns the source and the outcome of an entry's path for peers with the view; `None` if no path is exported.
    #[inline(always)]
    pub fn best<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        entry: u32,
    ) -> Option<(PeerIndex, OutcomeId)> {
        let best = view.best_path(&core.adj_rib_in, entry)?;
        Some((best.peer, self.export(core, view, entry, best)?))
    }

    /// Returns the outcome of the best path of an entry; `None` if not exported under the view.
    #[inline(always)]
    pub fn export<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        entry: u32,
        best: Accepted,
    ) -> Option<OutcomeId> {
        let is_kept = core.loc_rib.aggregates.is_suppressed(
            &core.adj_rib_in,
            &core.resolver,
            &core.context,
            entry,
            best,
        ) || !view.wants(core.adj_rib_in.entries[entry].prefix);
        if is_kept || !view.may_export(&core.adj_rib_in, best) {
            return None;
        }
        let (outcome, len) = match view.policy_for(best.peer) {
            None => (OutcomeId::unchanged(best.set), core.adj_rib_in.sets[best.set].stored.len()),
            Some(policy) => {
                let outcome = self.decide(core, policy, entry, best)?;
                (outcome, self.subject(core, outcome, best).octets.len())
            }
        };
        // At most, all of it is AS_PATH, and goes to a speaker of 2-octet numbers as AS_PATH and AS4_PATH.
        let most = if view.four_octet_as { len } else { len * 3 / 2 };
        if most <= view.longest_message() - ADDED || fits(core, view, &self.subject(core, outcome, best)) {
            return Some(outcome);
        }
        self.reduce(core, view, outcome, best)
    }

    /// Removes attributes one by one until the route fits in a message (RFC 8654, section 4); `None` for a route still too large.
    #[cold]
    fn reduce<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        view: &ExportView,
        outcome: OutcomeId,
        best: Accepted,
    ) -> Option<OutcomeId> {
        let next_hop = core.resolver.next_hop_of(core.adj_rib_in.sets[best.set].hop);
        let mut edited = self.subject(core, outcome, best).to_edited(next_hop);
        let mut removed = Removed::new();
        for code in REMOVABLE {
            if canonical::find(&edited.octets, code).is_none() {
                continue;
            }
            let mut octets = Vec::with_capacity(edited.octets.len());
            canonical::put_with(&edited.octets, 0, code, None, &mut octets);
            edited.octets = octets;
            removed.push(code);
            if fits(core, view, &Subject::changed(&edited, best.peer)) {
                let outcome = self.intern(edited);
                self.reduced.insert(outcome, removed);
                return Some(outcome);
            }
        }
        self.too_large.push(Source::of(best.peer));
        None
    }

    /// Returns the codes of the attributes removed from an outcome to fit in a message.
    pub fn removed(&self, outcome: OutcomeId) -> &[u8] {
        self.reduced.get(&outcome).map_or(&[], |removed| removed)
    }

    /// Returns the sources of routes announced without some attributes.
    #[inline]
    pub fn reduced_among<P: FamilyKey>(&self, core: &Core<P>, items: &[Item]) -> Vec<Source> {
        if self.reduced.is_empty() {
            return Vec::new();
        }
        let is_reduced = |item: &&Item| item.outcome.is_some_and(|outcome| !self.removed(outcome).is_empty());
        let paths = items.iter().filter(is_reduced).filter_map(|item| item.source.path());
        paths.map(|path| Source::of(core.adj_rib_in.lanes.peer(path))).collect()
    }

    /// Returns the attributes of an outcome for a path.
    #[inline(always)]
    pub fn subject<'s, P: FamilyKey>(
        &'s self,
        core: &'s Core<P>,
        outcome: OutcomeId,
        path: Accepted,
    ) -> Subject<'s> {
        match self.changed.get((outcome.0 ^ CHANGED) as usize) {
            Some(changed) if outcome.0 & CHANGED != 0 => Subject::changed(changed, path.peer),
            _ => Subject::of(core, path),
        }
    }

    #[inline(never)]
    fn decide<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        policy: &BoundPolicy,
        entry: u32,
        best: Accepted,
    ) -> Option<OutcomeId> {
        let key = (best.set, best.peer);
        let place = match self.last {
            Some((last, place)) if last == key => place,
            _ => self.find(policy, key),
        };
        self.last = Some((key, place));
        let row = &mut self.rows[place];
        if !policy.reads_prefix() {
            if row.is_rejected {
                return None;
            }
            if let Some((_, outcome)) = row.outcomes.first() {
                return Some(*outcome);
            }
        }
        let prefix = core.adj_rib_in.entries[entry].prefix;
        let mut route = core.context.route(&core.adj_rib_in, &core.resolver, prefix, best);
        if !policy.decide(&mut route, &mut row.memory).is_accepted {
            row.is_rejected = true;
            return None;
        }
        let trace = row.memory.trace();
        if let Some((_, known)) = row.outcomes.iter().find(|(made, _)| *made == trace) {
            return Some(*known);
        }
        let outcome = if trace.is_empty() {
            OutcomeId::unchanged(best.set)
        } else {
            policy.make(&mut route, &mut row.memory);
            self.intern(route.edited())
        };
        self.rows[place].outcomes.push((trace, outcome));
        Some(outcome)
    }

    /// Returns the term that rejects the best path of an entry; `None` if no term decides.
    pub fn rejected_by<P: FamilyKey>(
        &self,
        core: &Core<P>,
        view: &ExportView,
        entry: u32,
        best: Accepted,
    ) -> Option<DecidedBy> {
        let policy = view.policy_for(best.peer)?;
        let prefix = core.adj_rib_in.entries[entry].prefix;
        let mut route = core.context.route(&core.adj_rib_in, &core.resolver, prefix, best);
        let outcome = policy.decide(&mut route, &mut Memory::new(policy));
        policy.decided_by(&outcome).filter(|_| !outcome.is_accepted)
    }

    fn find(&mut self, policy: &BoundPolicy, key: (SetId, PeerIndex)) -> usize {
        let next = self.rows.len();
        let place = *self.by_set.entry(key).or_insert(next);
        if place == next {
            self.rows.push(Row { memory: Memory::new(policy), ..Row::default() });
        }
        place
    }

    /// Returns the outcome with changed attributes: equal outcomes have the same number.
    fn intern(&mut self, edited: Edited) -> OutcomeId {
        let hasher = FixedState::with_seed(0);
        let hash_of = |edited: &Edited| hasher.hash_one((&edited.octets, &edited.next_hop, edited.rule));
        let (hash, changed) = (hash_of(&edited), &self.changed);
        if let Some(known) = self.by_content.find(hash, |id| changed[*id as usize] == edited) {
            return OutcomeId(*known | CHANGED);
        }
        let id = self.changed.len() as u32;
        self.changed.push(edited);
        let changed = &self.changed;
        self.by_content.insert_unique(hash, id, |id| hash_of(&changed[*id as usize]));
        OutcomeId(id | CHANGED)
    }
}

/// Returns true if a route fits in a message, with the longest prefix of the family.
#[cold]
fn fits<P: FamilyKey>(core: &Core<P>, view: &ExportView, route: &Subject<'_>) -> bool {
    let mut exported = Exported::default();
    exported.make(core, route, view);
    let most = announcement_overhead::<P>(&exported) + exported.attributes.len() + view.longest_nlri::<P>();
    most <= view.longest_message()
}
