//! The RIB's branch: best routes for the routing information base, in batches as large as it can take.

use super::multipath::{Group, SentGroups};
use super::selection::LocRib;
use crate::attributes::private::Private;
use crate::shard::Accepted;
use crate::shard::adj_rib_out::{Branch, Item, OutcomeId, Source};
use crate::shard::entry::{AdjRibIn, PeerIndex, SetId};
use crate::shard::queue::Cursor;
use crate::shard::resolver::Resolver;
use crate::wire::FamilyKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::{
    Distance, Forwarding, Metric, NextHop, Provenance, RouteAction, RouteBatch, RouteKind, RouteSet,
    RouteUpdate, Tag,
};
use smallvec::SmallVec;

/// The kinds of BGP's routes at the RIB, in the order of their numbers: learned from neighbors of other autonomous systems, and of
/// the router's own.
pub const RIB_KINDS: [&str; 2] = ["external", "internal"];

const EXTERNAL: RouteKind = RouteKind(1);

const INTERNAL: RouteKind = RouteKind(2);

/// Entries visited by the walk over the backups, as a multiple of the batch's size.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct RibBranch {
    pub branch: Branch,
    items: Vec<Item>,
    sets: BTreeMap<SetKey, u32>,
    /// The sets of the batch whose packets several paths share.
    shared_sets: BTreeMap<(SetKey, Group), u32>,
    /// The groups of paths that the RIB was sent.
    sent_groups: SentGroups,
    /// The walk over the entries whose backups are due: the next one.
    walk: Option<u32>,
    /// True if the backups of every entry are to be sent: the RIB knows no backup.
    all_due: bool,
}

/// The properties of a path shared by the routes of a set at the RIB: next hop, MULTI_EXIT_DISC, true for internal peers and
/// aggregates, the backup's next hop, and the attribute set of a path with private properties.
type SetKey = (u32, u32, bool, Option<u32>, Option<SetId>);

/// Returns the best path of an entry if for the RIB. Paths of traces are not for the RIB, nor the router's own paths, which the
/// RIB has from the originating protocols. Aggregates are for the RIB: an aggregate drops packets without a contributor, so no
/// packet loops between the router and a neighbor with the aggregate.
#[inline]
fn best_for_rib<P: FamilyKey>(adj_rib_in: &AdjRibIn<P>, entry: u32) -> Option<Accepted> {
    let is_for_rib = |path: &Accepted| {
        let is_learned = !path.peer.is_own() || path.peer == PeerIndex::AGGREGATE;
        is_learned && adj_rib_in.peers[usize::from(path.peer.0)].info.source.forwards()
    };
    adj_rib_in.best(entry).filter(is_for_rib)
}

impl RibBranch {
    pub fn new(queue_end: Cursor) -> Self {
        RibBranch {
            branch: Branch::new(queue_end),
            items: Vec::new(),
            sets: BTreeMap::new(),
            shared_sets: BTreeMap::new(),
            sent_groups: SentGroups::default(),
            walk: None,
            all_due: true,
        }
    }

    /// Begins to send the backups of marked entries.
    pub fn begin_backups(&mut self) {
        self.walk = Some(0);
    }

    /// Returns true if every change was sent; the queue ends at `end`.
    pub fn is_idle(&self, end: Cursor) -> bool {
        self.branch.is_idle(end) && self.walk.is_none()
    }

    /// Returns the number of prefixes whose packets several paths share.
    pub fn group_count(&self) -> usize {
        self.sent_groups.len()
    }

    /// Adds up to about `limit` changes to `batch`: best paths and groups of paths, or, if there are none to send, backups.
    pub fn fill<P: FamilyKey>(
        &mut self,
        adj_rib_in: &mut AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        loc_rib: &mut LocRib<P>,
        limit: usize,
        batch: &mut RouteBatch<P>,
    ) {
        let mut items = core::mem::take(&mut self.items);
        let export = |entry| {
            let best = best_for_rib(adj_rib_in, entry)?;
            Some((best.peer, OutcomeId::unchanged(best.set)))
        };
        self.branch.gather(&loc_rib.queue, &adj_rib_in.entries, limit, export, &mut items);
        self.sets.clear();
        self.shared_sets.clear();
        let is_quiet = items.is_empty() && loc_rib.changed_groups.is_empty();
        for item in items.drain(..) {
            let action = match best_for_rib(adj_rib_in, item.entry).filter(|_| item.outcome.is_some()) {
                None => {
                    self.sent_groups.forget(item.entry);
                    RouteAction::Delete
                }
                Some(path) => RouteAction::Set(
                    self.set_of_entry(adj_rib_in, resolver, loc_rib, item.entry, path, batch),
                ),
            };
            batch.updates.push(RouteUpdate {
                prefix: adj_rib_in.entries[item.entry].prefix,
                action,
                provenance: item.provenance,
            });
        }
        self.items = items;
        if !loc_rib.changed_groups.is_empty() {
            self.announce_groups(adj_rib_in, resolver, loc_rib, limit, batch);
        }
        if is_quiet {
            self.announce_backups(adj_rib_in, resolver, loc_rib, limit, batch);
        }
    }

    /// Sends the RIB groups of paths that changed without the best path.
    #[inline(never)]
    fn announce_groups<P: FamilyKey>(
        &mut self,
        adj_rib_in: &mut AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        loc_rib: &mut LocRib<P>,
        limit: usize,
        batch: &mut RouteBatch<P>,
    ) {
        for _ in 0..limit {
            let Some(entry) = loc_rib.changed_groups.pop_first() else { break };
            // The present group goes with a change of the best path that is yet to be sent.
            if loc_rib.queue.is_pending(&adj_rib_in.entries, entry, self.branch.cursor)
                || self.branch.advertised(entry) == Source::NONE
            {
                continue;
            }
            let Some(best) = best_for_rib(adj_rib_in, entry) else { continue };
            let group = loc_rib.group(adj_rib_in, resolver, entry);
            if self.sent_groups.replace(resolver, adj_rib_in.seed, entry, &group) {
                let set = self.set_of_group(adj_rib_in, resolver, best, group, None, batch);
                batch.updates.push(RouteUpdate {
                    prefix: adj_rib_in.entries[entry].prefix,
                    action: RouteAction::Set(set),
                    provenance: Provenance::NONE,
                });
            }
        }
    }

    #[inline(never)]
    fn announce_backups<P: FamilyKey>(
        &mut self,
        adj_rib_in: &mut AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        loc_rib: &mut LocRib<P>,
        limit: usize,
        batch: &mut RouteBatch<P>,
    ) {
        let Some(next) = self.walk else { return };
        let end = adj_rib_in.entries.end();
        let to = end.min(next.saturating_add(u32::try_from(limit.saturating_mul(LOOKS)).unwrap_or(u32::MAX)));
        let full = batch.updates.len() + limit;
        let mut entry = next;
        while entry < to && batch.updates.len() < full {
            let is_due = adj_rib_in.entries[entry].take_backup_due();
            let is_due = is_due || self.all_due && adj_rib_in.entries.paths(entry).len() > 1;
            if is_due
                && self.branch.advertised(entry) != Source::NONE
                && let Some(best) = best_for_rib(adj_rib_in, entry)
            {
                let group = loc_rib.group(adj_rib_in, resolver, entry);
                let mut used: SmallVec<[u32; 4]> = group.hops().collect();
                used.push(adj_rib_in.sets[best.set].hop);
                let backup = loc_rib
                    .tables(adj_rib_in, resolver, entry)
                    .backup(adj_rib_in.entries.paths(entry), &used);
                let backup = backup.and_then(|path| adj_rib_in.sets.accepted(path.attributes));
                self.sent_groups.replace(resolver, adj_rib_in.seed, entry, &group);
                let set = self.set_of_group(adj_rib_in, resolver, best, group, backup, batch);
                batch.updates.push(RouteUpdate {
                    prefix: adj_rib_in.entries[entry].prefix,
                    action: RouteAction::Set(set),
                    provenance: Provenance::NONE,
                });
            }
            entry += 1;
        }
        self.walk = (entry < end).then_some(entry);
        self.all_due &= self.walk.is_some();
    }

    /// Returns the set for the best path of an entry, with the paths used beside the best path.
    #[inline(always)]
    fn set_of_entry<P: FamilyKey>(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        loc_rib: &LocRib<P>,
        entry: u32,
        path: Accepted,
        batch: &mut RouteBatch<P>,
    ) -> u32 {
        if !loc_rib.rules.multipath.is_on() {
            return self.set(adj_rib_in, resolver, path, None, batch);
        }
        let group = loc_rib.group(adj_rib_in, resolver, entry);
        self.sent_groups.replace(resolver, adj_rib_in.seed, entry, &group);
        self.set_of_group(adj_rib_in, resolver, path, group, None, batch)
    }

    /// Returns the set for a best path whose packets a group of paths shares.
    fn set_of_group<P: FamilyKey>(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        path: Accepted,
        group: Group,
        backup: Option<SetId>,
        batch: &mut RouteBatch<P>,
    ) -> u32 {
        if group.is_alone() {
            return self.set(adj_rib_in, resolver, path, backup, batch);
        }
        let key = key(adj_rib_in, path, backup);
        let hops = group.clone();
        *self
            .shared_sets
            .entry((key, group))
            .or_insert_with(|| push_set(adj_rib_in, resolver, path, key, hops, batch))
    }

    fn set<P: FamilyKey>(
        &mut self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        path: Accepted,
        backup: Option<SetId>,
        batch: &mut RouteBatch<P>,
    ) -> u32 {
        let key = key(adj_rib_in, path, backup);
        *self
            .sets
            .entry(key)
            .or_insert_with(|| push_set(adj_rib_in, resolver, path, key, Group::default(), batch))
    }
}

#[inline(always)]
fn key<P: FamilyKey>(adj_rib_in: &AdjRibIn<P>, path: Accepted, backup: Option<SetId>) -> SetKey {
    let set = &adj_rib_in.sets[path.set];
    let internal = adj_rib_in.peers[usize::from(path.peer.0)].info.internal || path.peer.is_own();
    let med = set.view.med.unwrap_or(0);
    let spare = backup.map(|set| adj_rib_in.sets[set].hop);
    let private = adj_rib_in.sets.has_private(path.set).then_some(path.set);
    (set.hop, med, internal, spare, private)
}

/// Appends a set to the batch and returns the set's number. The next hops are the group's, or the path's without a group.
fn push_set<P: FamilyKey>(
    adj_rib_in: &AdjRibIn<P>,
    resolver: &Resolver<P::Hop>,
    path: Accepted,
    (hop, med, internal, spare, private): SetKey,
    group: Group,
    batch: &mut RouteBatch<P>,
) -> u32 {
    let next_hop = |id: u32| {
        let hop = resolver.next_hop(id)?;
        Some(NextHop { interface: hop.interface, ..NextHop::via(hop.address) })
    };
    let spare = spare.and_then(next_hop).map(NextHop::as_backup);
    let forwarding = if group.is_alone() {
        Forwarding::many(next_hop(hop).into_iter().chain(spare)).filter(|_| next_hop(hop).is_some())
    } else {
        let weighted = |(hop, weight)| next_hop(hop).map(|hop| NextHop { weight, ..hop });
        Forwarding::many(group.members().filter_map(weighted).chain(spare))
    };
    let forwarding = forwarding.unwrap_or(Forwarding::Reject);
    let (distance, kind) = if internal { (Distance::IBGP, INTERNAL) } else { (Distance::EBGP, EXTERNAL) };
    let private =
        private.map(|_| Private::of(adj_rib_in.sets.octets(&adj_rib_in.sets[path.set]))).unwrap_or_default();
    let Private { tags, rib_distance, is_blackhole, .. } = private;
    let forwarding = if is_blackhole { Forwarding::Discard } else { forwarding };
    let (metric, distance) = (Metric(med), Some(rib_distance.map_or(distance, Distance)));
    let tags = tags.into_iter().map(Tag).collect();
    batch.sets.push(RouteSet { forwarding, metric, distance, kind, tags });
    (batch.sets.len() - 1) as u32
}
