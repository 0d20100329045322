//! The paths of an entry: added, replaced, and removed, with the decision that follows.

use crate::batch::{BatchSet, Change};
use crate::index::half;
use crate::shard::adj_rib_out::ExportView;
use crate::shard::entry::{Path, PathNumber, PathSet, PeerIndex, SetId, Sets};
use crate::shard::loc_rib::Tables;
use crate::shard::resolver::Interest;
use crate::shard::{Accepted, Core};
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use sluice_base::{Prefix, Provenance};
use sluice_machine::Outbox;

impl<P: FamilyKey> Core<P> {
    #[inline(always)]
    pub(crate) fn find(&self, prefix: P) -> Option<u32> {
        let hash = half(self.seed.prefix(&prefix));
        self.index.find(hash, |id| self.entries[id].prefix == prefix)
    }

    /// Looks up the prefixes of the next changes to load their entries into the cache: consecutive look-ups wait for memory together,
    /// look-ups with a decision between them one by one.
    #[inline(never)]
    pub(crate) fn prefetch(&self, changes: &[Change<P>]) {
        let found = changes.iter().filter_map(|change| self.find(change.prefix));
        core::hint::black_box(found.fold(0, |all, id| all ^ id));
    }

    /// Returns what a decision among the paths of an entry reads.
    pub(crate) fn tables(&self, id: u32) -> Tables<'_, P> {
        Tables {
            prefix: self.entries[id].prefix,
            sets: &self.sets,
            resolver: &self.resolver,
            peers: &self.peers,
            lanes: &self.lanes,
            rules: self.decision,
        }
    }

    /// Decides the entries again whose prefix holds a next hop.
    pub(crate) fn redecide_covering(&mut self, next_hop: NextHop, provenance: Provenance) {
        let addr = P::Addr::try_from(next_hop.address);
        let Some(host) = addr.ok().map(P::host) else { return };
        for len in 0..=host.len() {
            if let Some(id) = self.find(host.truncate(len)) {
                self.resolver.redecide(id, provenance);
            }
        }
    }

    /// Returns the best path of an entry.
    #[inline(always)]
    pub(crate) fn best(&self, id: u32) -> Option<Accepted> {
        let path = self.entries.best(id)?;
        Some(Accepted { peer: self.lanes.peer(path.number), set: self.sets.accepted(path.attributes)? })
    }

    /// Returns the path of an entry that peers with a view are sent: the best one, or the router's own default route.
    #[inline(always)]
    pub(crate) fn best_towards(&self, view: &ExportView, id: u32) -> Option<Accepted> {
        match &view.default_route {
            Some(_) if self.entries[id].prefix.len() == 0 => self.own_default(id).or_else(|| self.best(id)),
            _ => self.best(id),
        }
    }

    /// Returns the number of the path that peers with a view are sent: see [`Core::best_towards`].
    pub(crate) fn number_towards(&self, view: &ExportView, id: u32) -> Option<PathNumber> {
        let default = PathNumber::first_of(PeerIndex::DEFAULT);
        let best = || self.entries.best(id).map(|path| path.number);
        match self.best_towards(view, id)?.peer {
            PeerIndex::DEFAULT => Some(default),
            _ => best(),
        }
    }

    /// Returns the router's own default route among the paths of an entry.
    #[cold]
    fn own_default(&self, id: u32) -> Option<Accepted> {
        let path = self.entries.paths(id).get(self.lanes.position(
            &self.entries,
            id,
            PeerIndex::DEFAULT,
            None,
        )?)?;
        Some(Accepted { peer: PeerIndex::DEFAULT, set: self.sets.accepted(path.attributes)? })
    }

    /// Returns a next hop; the unspecified address for a number that is no next hop's.
    pub(crate) fn next_hop_of(&self, hop: u32) -> NextHop {
        let unspecified = || NextHop::at(P::Hop::default_route().addr().into());
        self.resolver.next_hop(hop).copied().unwrap_or_else(unspecified)
    }

    /// Decides an entry, and queues the entry if the best route changed from `old`. The backup may change without the best route.
    #[inline]
    pub(crate) fn decide(&mut self, id: u32, old: Option<Accepted>, provenance: Provenance) {
        let best = self.tables(id).decide(self.entries.paths(id), old.map(|old| old.peer), |_, _| {});
        self.entries.set_best(id, best);
        // The paths beside the best one may be others, or in another order.
        self.note_path(id, PathNumber::NONE);
        if self.best(id) != old {
            self.selected += u32::from(self.best(id).is_some());
            self.selected -= u32::from(old.is_some());
            self.queue.push(&mut self.entries, id, provenance);
            self.note_best(id);
        }
        if self.entries.paths(id).len() > 1 {
            self.mark_backup_due(id);
        }
        self.free_if_vacant(id);
    }

    #[inline]
    pub(crate) fn free_if_vacant(&mut self, id: u32) {
        if self.entries.is_vacant(id) {
            self.free(id);
        }
    }

    #[inline(never)]
    pub(crate) fn free(&mut self, id: u32) {
        let hash = half(self.seed.prefix(&self.entries[id].prefix));
        self.index.remove(hash, id);
        self.entries.remove(id);
    }

    pub(crate) fn release(&mut self, set: SetId, out: &mut Outbox<Interest<P::Hop>>) {
        if let Some(hop) = self.sets.release(set) {
            self.resolver.release(hop, out);
        }
    }

    #[inline(always)]
    pub(crate) fn release_path(&mut self, attributes: PathSet, out: &mut Outbox<Interest<P::Hop>>) {
        match attributes.plain() {
            Some(set) => self.release(set, out),
            None => self.release_pair(attributes, out),
        }
    }

    #[inline(never)]
    pub(crate) fn release_pair(&mut self, attributes: PathSet, out: &mut Outbox<Interest<P::Hop>>) {
        for hop in self.sets.release_pair(attributes) {
            self.resolver.release(hop, out);
        }
    }

    /// Notes at the resolver, and in the peer's counts, that a path of an entry has other attributes.
    pub(crate) fn note_replaced(&mut self, id: u32, peer: PeerIndex, before: PathSet, after: PathSet) {
        let hop = |sets: &Sets, attributes| sets.accepted(attributes).map(|set| sets[set].hop);
        let (hop_before, hop) = (hop(&self.sets, before), hop(&self.sets, after));
        if hop_before == hop {
            return;
        }
        let known = &mut self.peers[usize::from(peer.0)];
        match hop_before {
            Some(hop) => self.resolver.remove_path(hop),
            None => known.rejected -= 1,
        }
        match hop {
            Some(hop) => self.resolver.add_path(hop, id, peer),
            None => known.rejected += 1,
        }
    }

    pub(crate) fn remove_path(
        &mut self,
        id: u32,
        position: usize,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let old = self.best(id);
        self.note_removal(id, self.entries.paths(id)[position].number);
        let path = self.entries.swap_remove(id, position);
        self.lanes.forget(id, path.number);
        let peer = &mut self.peers[usize::from(self.lanes.peer(path.number).0)];
        peer.paths -= 1;
        peer.note_gone(path.generation);
        match self.sets.accepted(path.attributes) {
            Some(set) => self.resolver.remove_path(self.sets[set].hop),
            None => peer.rejected -= 1,
        }
        // It may have been the backup of the path that is left.
        if self.entries.paths(id).len() == 1 {
            self.mark_backup_due(id);
        }
        self.decide(id, old, provenance);
        self.release_path(path.attributes, out);
    }

    /// Returns true if a peer has a path of a prefix: the one with an identifier, or the only one.
    #[cold]
    pub(crate) fn has_path(&self, peer: PeerIndex, path_id: Option<u32>, prefix: P) -> bool {
        self.find(prefix).is_some_and(|id| self.lanes.position(&self.entries, id, peer, path_id).is_some())
    }

    /// Removes a peer's path of a prefix: the one with an identifier, or the only one. A path that the peer does not have is ignored.
    pub(crate) fn withdraw(
        &mut self,
        peer: PeerIndex,
        path_id: Option<u32>,
        prefix: P,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        if let Some(id) = self.find(prefix)
            && let Some(position) = self.lanes.position(&self.entries, id, peer, path_id)
        {
            self.remove_path(id, position, provenance, out);
        }
    }

    /// Puts a path with this number and these attributes at `prefix`. The caller keeps a separate reference to the attributes.
    #[inline(always)]
    pub(crate) fn announce(
        &mut self,
        number: PathNumber,
        prefix: P,
        attributes: PathSet,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let id = match self.find(prefix) {
            Some(id) => id,
            None => {
                let hash = half(self.seed.prefix(&prefix));
                let id = self.entries.insert(prefix);
                let (entries, seed) = (&self.entries, self.seed);
                self.index.insert(hash, id, |id| half(seed.prefix(&entries[id].prefix)));
                id
            }
        };
        let old = self.best(id);
        let peer = self.lanes.peer(number);
        let known = &mut self.peers[usize::from(peer.0)];
        let generation = known.generation;
        let before = match self.entries.position(id, number) {
            None => {
                self.entries.push(id, Path { attributes, number, generation });
                known.paths += 1;
                self.sets.retain_path(attributes);
                match self.sets.accepted(attributes) {
                    Some(set) => self.resolver.add_path(self.sets[set].hop, id, peer),
                    None => known.rejected += 1,
                }
                None
            }
            Some(position) => {
                let path = &mut self.entries.paths_mut(id)[position];
                let before = core::mem::replace(&mut path.attributes, attributes);
                let generation_before = core::mem::replace(&mut path.generation, generation);
                let was_stale = generation_before != generation;
                known.note_gone(generation_before);
                if before == attributes && !was_stale {
                    return;
                }
                self.sets.retain_path(attributes);
                self.note_replaced(id, peer, before, attributes);
                Some(before)
            }
        };
        self.note_path(id, number);
        self.note_adj_rib_in(id, number);
        // Among many paths most that come are not the best: two are compared then, not all.
        if self.best_unchanged(id, Path { attributes, number, generation }, before) {
            self.mark_backup_due(id);
        } else {
            self.decide(id, old, provenance);
        }
        if let Some(before) = before {
            self.release_path(before, out);
        }
    }

    /// Returns true if the best path of an entry stays the best beside a new path.
    #[inline]
    pub(crate) fn best_unchanged(&self, id: u32, new: Path, replaced: Option<PathSet>) -> bool {
        self.entries.paths(id).len() > 1
            && self.entries.best(id).is_some_and(|best| self.tables(id).best_unchanged(best, &new, replaced))
    }

    /// Returns the shard's set for a set of a batch, with a reference for the caller.
    pub(crate) fn intern(
        &mut self,
        set: &BatchSet,
        octets: &[u8],
        out: &mut Outbox<Interest<P::Hop>>,
    ) -> SetId {
        let resolver = &self.resolver;
        let is_hop = |hop| resolver.next_hop(hop) == Some(&set.next_hop);
        if let Some(id) = self.sets.find(set.hash, octets, is_hop) {
            return id;
        }
        let hop = self.resolver.acquire(set.next_hop, out);
        self.sets.insert(set.hash, octets, hop, set.view)
    }
}
