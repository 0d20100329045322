//! The paths of an entry: added, replaced, and removed, with the decision that follows.

use crate::shard::entry::{Path, PathNumber, PathSet, PeerIndex};
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
            self.monitors.note_best(&self.adj_rib_in, id);
        }
        self.adj_rib_in.free_if_vacant(id);
    }

    pub(crate) fn remove_path(
        &mut self,
        id: u32,
        position: usize,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let old = self.adj_rib_in.best(id);
        let number = self.adj_rib_in.entries.paths(id)[position].number;
        self.monitors.note_removal(&self.adj_rib_in, id, number);
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
        self.adj_rib_in.release_path(&mut self.resolver, path.attributes, out);
    }

    /// Removes a peer's path of a prefix: the path with the identifier, or the only path. An unknown path is ignored.
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
                self.adj_rib_in.note_replaced(&mut self.resolver, id, peer, before, attributes);
                Some(before)
            }
        };
        self.changed_paths.note(id, number);
        self.monitors.note_adj_rib_in(&self.adj_rib_in, id, number);
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
            self.adj_rib_in.release_path(&mut self.resolver, before, out);
        }
    }
}
