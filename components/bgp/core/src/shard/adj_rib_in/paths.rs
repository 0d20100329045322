//! The paths of an entry: added, replaced, and removed, with the decision that follows.

use crate::batch::BatchSet;
use crate::shard::entry::{Path, PathNumber, PathSet, PeerIndex, SetId, Sets};
use crate::shard::resolver::Interest;
use crate::shard::{Accepted, Core};
use crate::wire::FamilyKey;
use crate::wire::multiprotocol::NextHop;
use sluice_base::Provenance;
use sluice_machine::Outbox;

impl<P: FamilyKey> Core<P> {
    /// Decides the entries again whose prefix holds a next hop.
    pub(crate) fn redecide_covering(&mut self, next_hop: NextHop, provenance: Provenance) {
        let addr = P::Addr::try_from(next_hop.address);
        let Some(host) = addr.ok().map(P::host) else { return };
        for len in 0..=host.len() {
            if let Some(id) = self.adj_rib_in.find(host.truncate(len)) {
                self.resolver.redecide(id, provenance);
            }
        }
    }

    /// Decides an entry, and queues the entry if the best route changed from `old`.
    #[inline]
    pub(crate) fn decide(&mut self, id: u32, old: Option<Accepted>, provenance: Provenance) {
        let has_changed = self.loc_rib.decide(&mut self.adj_rib_in, &self.resolver, id, old, provenance);
        // The paths beside the best one may be others, or in another order.
        self.changed_paths.note(id, PathNumber::NONE);
        if has_changed {
            self.note_best(id);
        }
        self.adj_rib_in.free_if_vacant(id);
    }

    pub(crate) fn release(&mut self, set: SetId, out: &mut Outbox<Interest<P::Hop>>) {
        if let Some(hop) = self.adj_rib_in.sets.release(set) {
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
        for hop in self.adj_rib_in.sets.release_pair(attributes) {
            self.resolver.release(hop, out);
        }
    }

    /// Notes at the resolver, and in the peer's counts, that a path of an entry has other attributes.
    pub(crate) fn note_replaced(&mut self, id: u32, peer: PeerIndex, before: PathSet, after: PathSet) {
        let hop = |sets: &Sets, attributes| sets.accepted(attributes).map(|set| sets[set].hop);
        let (hop_before, hop) = (hop(&self.adj_rib_in.sets, before), hop(&self.adj_rib_in.sets, after));
        if hop_before == hop {
            return;
        }
        let known = &mut self.adj_rib_in.peers[usize::from(peer.0)];
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
        let old = self.adj_rib_in.best(id);
        self.note_removal(id, self.adj_rib_in.entries.paths(id)[position].number);
        let path = self.adj_rib_in.entries.swap_remove(id, position);
        self.adj_rib_in.lanes.forget(id, path.number);
        let peer = &mut self.adj_rib_in.peers[usize::from(self.adj_rib_in.lanes.peer(path.number).0)];
        peer.paths -= 1;
        peer.note_gone(path.generation);
        match self.adj_rib_in.sets.accepted(path.attributes) {
            Some(set) => self.resolver.remove_path(self.adj_rib_in.sets[set].hop),
            None => peer.rejected -= 1,
        }
        // It may have been the backup of the path that is left.
        if self.adj_rib_in.entries.paths(id).len() == 1 {
            self.loc_rib.mark_backup_due(&mut self.adj_rib_in, id);
        }
        self.decide(id, old, provenance);
        self.release_path(path.attributes, out);
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
        if let Some(id) = self.adj_rib_in.find(prefix)
            && let Some(position) =
                self.adj_rib_in.lanes.position(&self.adj_rib_in.entries, id, peer, path_id)
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
        let id = self.adj_rib_in.find_or_insert(prefix);
        let old = self.adj_rib_in.best(id);
        let peer = self.adj_rib_in.lanes.peer(number);
        let known = &mut self.adj_rib_in.peers[usize::from(peer.0)];
        let generation = known.generation;
        let before = match self.adj_rib_in.entries.position(id, number) {
            None => {
                self.adj_rib_in.entries.push(id, Path { attributes, number, generation });
                known.paths += 1;
                self.adj_rib_in.sets.retain_path(attributes);
                match self.adj_rib_in.sets.accepted(attributes) {
                    Some(set) => self.resolver.add_path(self.adj_rib_in.sets[set].hop, id, peer),
                    None => known.rejected += 1,
                }
                None
            }
            Some(position) => {
                let path = &mut self.adj_rib_in.entries.paths_mut(id)[position];
                let before = core::mem::replace(&mut path.attributes, attributes);
                let generation_before = core::mem::replace(&mut path.generation, generation);
                let was_stale = generation_before != generation;
                known.note_gone(generation_before);
                if before == attributes && !was_stale {
                    return;
                }
                self.adj_rib_in.sets.retain_path(attributes);
                self.note_replaced(id, peer, before, attributes);
                Some(before)
            }
        };
        self.changed_paths.note(id, number);
        self.note_adj_rib_in(id, number);
        // Among many paths most that come are not the best: two are compared then, not all.
        if self.loc_rib.best_unchanged(
            &self.adj_rib_in,
            &self.resolver,
            id,
            Path { attributes, number, generation },
            before,
        ) {
            self.loc_rib.mark_backup_due(&mut self.adj_rib_in, id);
        } else {
            self.decide(id, old, provenance);
        }
        if let Some(before) = before {
            self.release_path(before, out);
        }
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
        if let Some(id) = self.adj_rib_in.sets.find(set.hash, octets, is_hop) {
            return id;
        }
        let hop = self.resolver.acquire(set.next_hop, out);
        self.adj_rib_in.sets.insert(set.hash, octets, hop, set.view)
    }
}
