//! The RIB's branch: best routes for the routing information base, in batches as large as it can take.

use super::branch::{Branch, Item, Source};
use super::exporter::OutcomeId;
use super::sets::SetId;
use super::{Accepted, Core};
use crate::attributes::private::Private;
use crate::wire::FamilyKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{
    Distance, Forwarding, Metric, NextHop, Provenance, RouteAction, RouteBatch, RouteKind, RouteSet,
    RouteUpdate, Tag,
};

/// The kinds of BGP's routes at the RIB, in the order of their numbers: learned from neighbors of other autonomous systems, and of
/// the router's own.
pub const RIB_KINDS: [&str; 2] = ["external", "internal"];
const EXTERNAL: RouteKind = RouteKind(1);
const INTERNAL: RouteKind = RouteKind(2);

/// Entries that a walk over the backups looks at for one batch of so many routes, a multiple of them.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(super) struct RibBranch {
    pub branch: Branch,
    items: Vec<Item>,
    sets: BTreeMap<SetKey, u32>,
    /// The walk over the entries whose backups are due: the next one.
    walk: Option<u32>,
    /// True if a walk has yet to tell the backups of all entries: the RIB knows none.
    all_due: bool,
}

/// The properties of a path that routes of one set at the RIB share: next hop, MULTI_EXIT_DISC, true for internal peers, the backup's
/// next hop, and the attribute set of a path with private properties.
type SetKey = (u32, u32, bool, Option<u32>, Option<SetId>);

/// Returns true for a path that the RIB gets: every best path but the router's own, which the RIB has from their protocols.
fn is_for_rib(path: &Accepted) -> bool {
    !path.peer.is_own()
}

impl RibBranch {
    pub fn new(queue_end: u64) -> Self {
        RibBranch {
            branch: Branch::new(queue_end),
            items: Vec::new(),
            sets: BTreeMap::new(),
            walk: None,
            all_due: true,
        }
    }

    /// Begins to tell the backups of the entries that are marked.
    pub fn begin_backups(&mut self) {
        self.walk = Some(0);
    }

    /// Returns true if all that happened was told; the queue ends at `end`.
    pub fn is_idle(&self, end: u64) -> bool {
        self.branch.is_idle(end) && self.walk.is_none()
    }

    /// Adds up to about `limit` changes to `batch`: best paths, or, if there are none to tell, backups.
    pub fn fill<P: FamilyKey>(&mut self, core: &mut Core<P>, limit: usize, batch: &mut RouteBatch<P>) {
        let mut items = core::mem::take(&mut self.items);
        let export = |entry| {
            let best = core.best(entry).filter(is_for_rib)?;
            Some((best.peer, OutcomeId::unchanged(best.set)))
        };
        self.branch.gather(core, limit, export, &mut items);
        self.sets.clear();
        if items.is_empty() {
            self.tell_backups(core, limit, batch);
        }
        for item in items.drain(..) {
            let action = match core.best(item.entry).filter(|_| item.outcome.is_some()) {
                None => RouteAction::Delete,
                Some(path) => RouteAction::Set(self.set(core, path, None, batch)),
            };
            batch.updates.push(RouteUpdate {
                prefix: core.entries[item.entry].prefix,
                action,
                provenance: item.provenance,
            });
        }
        self.items = items;
    }

    #[inline(never)]
    fn tell_backups<P: FamilyKey>(&mut self, core: &mut Core<P>, limit: usize, batch: &mut RouteBatch<P>) {
        let Some(next) = self.walk else { return };
        let end = core.entries.end();
        let to = end.min(next.saturating_add(u32::try_from(limit.saturating_mul(LOOKS)).unwrap_or(u32::MAX)));
        let full = batch.updates.len() + limit;
        let mut entry = next;
        while entry < to && batch.updates.len() < full {
            let is_due = core.entries[entry].take_backup_due();
            let is_due = is_due || self.all_due && core.entries.paths(entry).len() > 1;
            if is_due
                && self.branch.advertised(entry) != Source::NONE
                && let Some(best) = core.best(entry).filter(is_for_rib)
                && let Some(path) = core.entries.best(entry)
            {
                let backup = core.tables().backup(core.entries.paths(entry), path);
                let backup = backup.and_then(|path| core.sets.accepted(path.attributes));
                let set = self.set(core, best, backup, batch);
                batch.updates.push(RouteUpdate {
                    prefix: core.entries[entry].prefix,
                    action: RouteAction::Set(set),
                    provenance: Provenance::NONE,
                });
            }
            entry += 1;
        }
        self.walk = (entry < end).then_some(entry);
        self.all_due &= self.walk.is_some();
    }

    fn set<P: FamilyKey>(
        &mut self,
        core: &Core<P>,
        path: Accepted,
        backup: Option<SetId>,
        batch: &mut RouteBatch<P>,
    ) -> u32 {
        let set = &core.sets[path.set];
        let internal = core.peers[usize::from(path.peer.0)].info.internal;
        let med = set.view.med.unwrap_or(0);
        let spare = backup.map(|set| core.sets[set].hop);
        let private = core.sets.has_private(path.set).then_some(path.set);
        *self.sets.entry((set.hop, med, internal, spare, private)).or_insert_with(|| {
            let hop = |id: u32| {
                let hop = core.resolver.next_hop(id)?;
                Some(NextHop { interface: hop.interface, ..NextHop::via(hop.address) })
            };
            let spare = spare.and_then(hop).map(NextHop::as_backup);
            let forwarding = match hop(set.hop) {
                Some(hop) => Forwarding::many([hop].into_iter().chain(spare)).unwrap_or(Forwarding::Reject),
                None => Forwarding::Reject,
            };
            let (distance, kind) =
                if internal { (Distance::IBGP, INTERNAL) } else { (Distance::EBGP, EXTERNAL) };
            let private = private.map(|_| Private::of(core.sets.octets(set))).unwrap_or_default();
            let Private { tags, rib_distance, is_blackhole, .. } = private;
            let forwarding = if is_blackhole { Forwarding::Discard } else { forwarding };
            let (metric, distance) = (Metric(med), Some(rib_distance.map_or(distance, Distance)));
            let tags = tags.into_iter().map(Tag).collect();
            batch.sets.push(RouteSet { forwarding, metric, distance, kind, tags });
            (batch.sets.len() - 1) as u32
        })
    }
}
