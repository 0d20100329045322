//! The Loc-RIB (RFC 4271, section 3.2): the selection among the paths of each prefix, and the changes that readers have yet to read.

use super::aggregates::Aggregates;
use super::backup::Backups;
use super::decision::{DecisionRules, Tables};
use crate::shard::Accepted;
use crate::shard::entry::{AdjRibIn, Path, PathSet};
use crate::shard::queue::Queue;
use crate::shard::resolver::Resolver;
use crate::wire::FamilyKey;
use alloc::collections::BTreeSet;
use sluice_base::Provenance;

/// The Loc-RIB. The selected path of a prefix is marked among the paths in its entry.
#[derive(Debug)]
pub(crate) struct LocRib<P> {
    pub rules: DecisionRules,
    /// The changes for update groups, the RIB, and aggregates.
    pub queue: Queue,
    /// The number of entries with a best path.
    pub selected: u32,
    pub aggregates: Aggregates<P>,
    pub backups: Backups,
    /// Entries with several paths whose used paths may have changed and that the RIB branch has yet to look at.
    pub changed_groups: BTreeSet<u32>,
}

impl<P: FamilyKey> LocRib<P> {
    /// Makes an empty Loc-RIB.
    pub fn new(rules: DecisionRules) -> Self {
        LocRib {
            rules,
            queue: Queue::default(),
            selected: 0,
            aggregates: Aggregates::default(),
            backups: Backups::default(),
            changed_groups: BTreeSet::new(),
        }
    }

    /// Returns the tables that a decision among the paths of an entry reads.
    #[inline]
    pub fn tables<'a>(
        &self,
        adj_rib_in: &'a AdjRibIn<P>,
        resolver: &'a Resolver<P::Hop>,
        id: u32,
    ) -> Tables<'a, P> {
        Tables {
            prefix: adj_rib_in.entries[id].prefix,
            sets: &adj_rib_in.sets,
            resolver,
            peers: &adj_rib_in.peers,
            lanes: &adj_rib_in.lanes,
            rules: self.rules,
        }
    }

    /// Decides an entry, and queues the entry if the best route changed from `old`. Returns true if it changed. The backup may change
    /// without the best route.
    #[inline]
    pub fn decide(
        &mut self,
        adj_rib_in: &mut AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        id: u32,
        old: Option<Accepted>,
        provenance: Provenance,
    ) -> bool {
        let tables = self.tables(adj_rib_in, resolver, id);
        let best = tables.decide(adj_rib_in.entries.paths(id), old.map(|old| old.peer), |_, _| {});
        adj_rib_in.entries.set_best(id, best);
        let best = adj_rib_in.best(id);
        let has_changed = best != old;
        if has_changed {
            self.selected += u32::from(best.is_some());
            self.selected -= u32::from(old.is_some());
            self.queue.push(&mut adj_rib_in.entries, id, provenance);
        }
        if adj_rib_in.entries.paths(id).len() > 1 {
            self.mark_backup_due(adj_rib_in, id);
        }
        has_changed
    }

    /// Returns true if the best path of an entry stays the best beside a new path.
    #[inline]
    pub fn best_unchanged(
        &self,
        adj_rib_in: &AdjRibIn<P>,
        resolver: &Resolver<P::Hop>,
        id: u32,
        new: Path,
        replaced: Option<PathSet>,
    ) -> bool {
        let entries = &adj_rib_in.entries;
        let stays = |best| self.tables(adj_rib_in, resolver, id).best_unchanged(best, &new, replaced);
        entries.paths(id).len() > 1 && entries.best(id).is_some_and(stays)
    }

    /// Marks an entry: the RIB is to be sent anew which path is the backup, and which paths are used side by side.
    #[inline]
    pub fn mark_backup_due(&mut self, adj_rib_in: &mut AdjRibIn<P>, id: u32) {
        if adj_rib_in.entries[id].mark_backup_due() {
            self.backups.marked();
        }
        if self.rules.multipath.is_on() {
            self.changed_groups.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::canonical;
    use crate::hash::HashSeed;
    use crate::shard::entry::{PathNumber, PeerIn, PeerIndex, PeerInfo, RouteSource};
    use crate::shard::queue::Cursor;
    use crate::wire::multiprotocol::NextHop;
    use alloc::vec;
    use alloc::vec::Vec;
    use sluice_base::interest::{InterestAnswer, ResolvingRoute};
    use sluice_base::{Asn, Distance, Forwarding, Ipv4Prefix, Metric, RouterId};
    use sluice_machine::Outbox;

    const NEAR: PeerIndex = PeerIndex(PeerIndex::OWN_SOURCES);
    const FAR: PeerIndex = PeerIndex(PeerIndex::OWN_SOURCES + 1);

    /// Adj-RIBs-In with a prefix and a path of each of two neighbors, whose next hop is reachable.
    fn two_paths() -> (AdjRibIn<Ipv4Prefix>, Resolver<Ipv4Prefix>, u32) {
        let (mut adj_rib_in, mut resolver, mut out) =
            (AdjRibIn::new(HashSeed(1)), Resolver::default(), Outbox::new());
        let info = |router_id| PeerInfo {
            router_id: RouterId(router_id),
            address: [10, 0, 0, 2].into(),
            internal: false,
            client: false,
            direct: false,
            path_check: None,
            source: RouteSource::Session,
        };
        adj_rib_in.peers = (0..=u32::from(FAR.0)).map(|number| PeerIn::new(info(number))).collect();
        let hop = resolver.acquire(NextHop::new([10, 0, 0, 2].into()), &mut out);
        let valid: Ipv4Prefix = "10.0.0.0/24".parse().unwrap();
        let route = ResolvingRoute {
            prefix: valid,
            metric: Metric(0),
            distance: Distance::CONNECTED,
            connected: true,
            forwarding: Forwarding::Discard,
        };
        resolver.answer(&InterestAnswer { valid, route: Some(route) }, Provenance::NONE, &mut out);
        let id = adj_rib_in.find_or_insert("192.0.2.0/24".parse().unwrap());
        for (peer, path_length) in [(FAR, 2), (NEAR, 1)] {
            let mut view = canonical::view(&[], Asn(65001));
            view.path_length = path_length;
            let set = adj_rib_in.sets.insert(path_length.into(), &[], hop, view);
            let (attributes, number) = (PathSet::as_received(set), PathNumber::first_of(peer));
            adj_rib_in.entries.push(id, Path { attributes, number, generation: 0 });
        }
        (adj_rib_in, resolver, id)
    }

    #[test]
    fn a_decision_needs_paths_and_resolved_next_hops() {
        let (mut adj_rib_in, resolver, id) = two_paths();
        let mut loc_rib = LocRib::new(DecisionRules::default());
        assert!(loc_rib.decide(&mut adj_rib_in, &resolver, id, None, Provenance::NONE));
        let best = adj_rib_in.best(id);
        assert_eq!((best.map(|best| best.peer), loc_rib.selected), (Some(NEAR), 1));
        assert!(!loc_rib.decide(&mut adj_rib_in, &resolver, id, best, Provenance::NONE));

        let position = adj_rib_in.entries.position(id, PathNumber::first_of(NEAR)).unwrap();
        adj_rib_in.entries.swap_remove(id, position);
        assert!(loc_rib.decide(&mut adj_rib_in, &resolver, id, best, Provenance::NONE));
        let next = adj_rib_in.best(id);
        assert_eq!((next.map(|best| best.peer), loc_rib.selected), (Some(FAR), 1));
        adj_rib_in.entries.swap_remove(id, 0);
        assert!(loc_rib.decide(&mut adj_rib_in, &resolver, id, next, Provenance::NONE));
        assert_eq!((adj_rib_in.best(id), loc_rib.selected), (None, 0));

        // A reader has one change to read, however often the entry was decided.
        let (mut cursor, mut changes) = (Cursor::default(), Vec::new());
        loc_rib.queue.read(&adj_rib_in.entries, &mut cursor, 9, |entry, _| {
            changes.push(entry);
            true
        });
        assert_eq!((changes, cursor), (vec![id], loc_rib.queue.end()));
    }
}
