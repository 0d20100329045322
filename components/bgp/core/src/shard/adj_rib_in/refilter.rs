//! Refilter: a changed import policy decides again on the received routes (XORP, section 8.3: without a request to the peer).
//!
//! For a peer whose rejected routes are not stored, the walk decides again on the stored routes, and drops newly rejected routes.
//! Newly accepted routes come by ROUTE-REFRESH (RFC 2918), requested by control.
//!
//! A single walk over the entries, in slices between fresh changes, serves every peer with a changed policy. Fresh routes use the
//! new policy at once. After a further change during the walk, a peer is done when the walk has come around to the place of the
//! last change: the entries ahead are visited once.

use super::import::Imports;
use super::stale::Received;
use crate::policy::BoundPolicy;
use crate::shard::entry::{PathNumber, PathSet, PeerIndex};
use crate::shard::resolver::Interest;
use crate::shard::{Accepted, Core, Shard};
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::Provenance;
use sluice_machine::Outbox;

/// A peer whose routes are decided on again.
#[derive(Debug)]
struct Refiltered {
    peer: PeerIndex,
    /// The walk's place at the change of the policy.
    from: u32,
    /// True once the walk has come to the end of the entries since.
    has_wrapped: bool,
}

/// The walk for peers with changed import policies.
#[derive(Debug, Default)]
pub(crate) struct Refilter {
    next: u32,
    peers: Vec<Refiltered>,
    visited: u64,
}

/// The progress of the walk after changed import policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefilterProgress {
    /// The peers whose routes are decided on again at present.
    pub peers: usize,
    /// The visits of entries by walks in the process so far.
    pub visited: u64,
}

impl Refilter {
    /// Returns true if the walk has entries to visit.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Adds a peer, whose walk begins here.
    pub fn begin(&mut self, peer: PeerIndex) {
        self.end(peer);
        self.peers.push(Refiltered { peer, from: self.next, has_wrapped: false });
    }

    /// Ends the walk of a peer with an ended session.
    pub fn end(&mut self, peer: PeerIndex) {
        self.peers.retain(|known| known.peer != peer);
    }

    /// Moves on from the present entry; `end` is the number of entries. Peers whose walk has come around leave.
    fn advance(&mut self, end: u32) {
        self.next += 1;
        if self.next >= end {
            self.next = 0;
            self.peers.retain_mut(|known| {
                let is_done = core::mem::replace(&mut known.has_wrapped, true) || known.from == 0;
                !is_done
            });
        }
        let next = self.next;
        self.peers.retain(|known| !known.has_wrapped || next < known.from);
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Sets the import policy of a peer, `None` to accept every route unchanged, and begins to decide on the stored routes again.
    /// Without `keeps_rejected`, rejected routes are not stored: after a change the caller asks the peer for its routes.
    pub fn set_import(&mut self, peer: PeerIndex, policy: Option<Arc<BoundPolicy>>, keeps_rejected: bool) {
        let Some(known) = self.core.adj_rib_in.peers.get_mut(usize::from(peer.0)) else { return };
        let has_changed = known.import != policy || (known.keeps_rejected && !keeps_rejected);
        known.import = policy;
        known.keeps_rejected = keeps_rejected;
        if has_changed && known.paths > 0 {
            self.refilter.begin(peer);
        }
    }

    /// Returns the progress of the walk.
    pub fn refilter_progress(&self) -> RefilterProgress {
        RefilterProgress { peers: self.refilter.peers.len(), visited: self.refilter.visited }
    }

    /// Decides on the routes of up to `limit` entries again.
    pub(crate) fn refilter_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let Shard { core, refilter, .. } = self;
        let mut policies = policies_of(core, refilter);
        for _ in 0..limit {
            let end = core.adj_rib_in.entries.end();
            if !refilter.is_on() || end == 0 {
                break;
            }
            let id = refilter.next.min(end - 1);
            for (known, (policy, imports)) in refilter.peers.iter().zip(&mut policies) {
                core.import_again(id, known.peer, policy.as_deref(), imports, out);
            }
            let before = refilter.peers.len();
            refilter.visited += 1;
            refilter.advance(end);
            if refilter.peers.len() != before {
                policies
                    .iter_mut()
                    .for_each(|(_, imports)| imports.clear(&mut core.adj_rib_in, &mut core.resolver, out));
                policies = policies_of(core, refilter);
            }
        }
        if core.adj_rib_in.entries.end() == 0 {
            refilter.peers.clear();
        }
        policies
            .iter_mut()
            .for_each(|(_, imports)| imports.clear(&mut core.adj_rib_in, &mut core.resolver, out));
    }
}

/// Returns the policies of the peers on the walk, each with room for its results.
fn policies_of<P: FamilyKey>(
    core: &Core<P>,
    refilter: &Refilter,
) -> Vec<(Option<Arc<BoundPolicy>>, Imports)> {
    let policy = |known: &Refiltered| core.adj_rib_in.peers[usize::from(known.peer.0)].import.clone();
    refilter.peers.iter().map(|known| (policy(known), Imports::default())).collect()
}

impl<P: FamilyKey> Core<P> {
    /// Decides again on a peer's routes of an entry, and on the entry if the outcome is another.
    pub(crate) fn import_again(
        &mut self,
        id: u32,
        peer: PeerIndex,
        policy: Option<&BoundPolicy>,
        imports: &mut Imports,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        for path in self.adj_rib_in.lanes.paths_of(&self.adj_rib_in.entries, id, peer) {
            self.import_path_again(id, (peer, path), policy, imports, out);
        }
    }

    fn import_path_again(
        &mut self,
        id: u32,
        (peer, path): (PeerIndex, PathNumber),
        policy: Option<&BoundPolicy>,
        imports: &mut Imports,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let Some(position) = self.adj_rib_in.entries.position(id, path) else { return };
        let old: Option<Accepted> = self.adj_rib_in.best(id);
        let path_before = self.adj_rib_in.entries.paths(id)[position];
        let before = path_before.attributes;
        let (resolver, local_as) = (&mut self.resolver, self.context.local_as);
        let again = self.adj_rib_in.received_again(resolver, local_as, (peer, &path_before), out);
        let (received, is_marked) = match again {
            Received::Set(set, is_marked) => (set, is_marked),
            Received::Refused => return self.remove_path(id, position, Provenance::NONE, out),
        };
        let attributes = match policy {
            None => PathSet::as_received(received),
            Some(policy) => {
                let prefix = self.adj_rib_in.entries[id].prefix;
                self.import_parts().import(policy, peer, prefix, received, imports, out)
            }
        };
        let is_kept = self.adj_rib_in.peers[usize::from(peer.0)].keeps_rejected;
        let is_removed = !is_kept && self.adj_rib_in.sets.accepted(attributes).is_none();
        // The path's reference.
        let prefix = self.adj_rib_in.entries[id].prefix;
        let is_damped = self.damping.is_still_damped(&self.adj_rib_in, (peer, path), prefix, attributes);
        let attributes = if is_damped {
            self.adj_rib_in.sets.imported(received, None)
        } else {
            self.adj_rib_in.sets.retain_path(attributes);
            attributes
        };
        if is_marked {
            self.adj_rib_in.release(&mut self.resolver, received, out);
        }
        if is_removed || attributes == before {
            self.adj_rib_in.release_path(&mut self.resolver, attributes, out);
            if is_removed {
                self.remove_path(id, position, Provenance::NONE, out);
            }
            return;
        }
        self.adj_rib_in.entries.paths_mut(id)[position].attributes = attributes;
        self.adj_rib_in.note_replaced(&mut self.resolver, id, peer, before, attributes);
        let has_changed = self.adj_rib_in.sets.accepted(attributes) != self.adj_rib_in.sets.accepted(before);
        if has_changed || is_marked {
            self.monitors.note_adj_rib_in(&self.adj_rib_in, id, path);
        }
        if has_changed {
            self.changed_paths.note(id, path);
            self.decide(id, old, Provenance::NONE);
            if self.adj_rib_in.entries.paths(id).len() > 1 {
                self.loc_rib.mark_backup_due(&mut self.adj_rib_in, id);
            }
        }
        self.adj_rib_in.release_path(&mut self.resolver, before, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits entries until the walk ends; returns the visited entries of each peer.
    fn walk(refilter: &mut Refilter, end: u32, mut steps: usize) -> Vec<(u16, u32)> {
        let mut visited = Vec::new();
        while refilter.is_on() && steps > 0 {
            visited.extend(refilter.peers.iter().map(|known| (known.peer.0, refilter.next)));
            refilter.advance(end);
            steps -= 1;
        }
        visited
    }

    #[test]
    fn each_entry_is_visited_once_and_again_only_behind_a_later_change() {
        let mut refilter = Refilter::default();
        refilter.begin(PeerIndex(20));
        assert_eq!(walk(&mut refilter, 4, 100), [(20, 0), (20, 1), (20, 2), (20, 3)]);
        refilter.begin(PeerIndex(20));
        assert_eq!(walk(&mut refilter, 4, 2), [(20, 0), (20, 1)]);
        refilter.begin(PeerIndex(21));
        refilter.begin(PeerIndex(20));
        let visited = walk(&mut refilter, 4, 100);
        let of = |peer| visited.iter().filter(|(p, _)| *p == peer).map(|(_, e)| *e).collect::<Vec<u32>>();
        assert_eq!((of(20), of(21)), (alloc::vec![2, 3, 0, 1], alloc::vec![2, 3, 0, 1]));
        assert!(!refilter.is_on());
    }
}
