//! Batches of a peer's changes on their way into the Adj-RIB-In: import policy, bounds, flap damping.

use crate::batch::{Batch, DropCause};
use crate::shard::Shard;
use crate::shard::entry::{PathNumber, PathSet, PeerIndex, Restored};
use crate::shard::resolver::Interest;
use crate::wire::FamilyKey;
use sluice_base::Provenance;
use sluice_machine::Outbox;

/// The number of changes that are looked up ahead: the touched memory stays in the first-level cache.
const AHEAD: usize = 32;

impl<P: FamilyKey> Shard<P> {
    /// Takes a batch of `peer`'s changes.
    pub fn apply(&mut self, peer: PeerIndex, batch: &Batch<P>, out: &mut Outbox<Interest<P::Hop>>) {
        self.take(peer, None, batch, out);
    }

    /// Restores paths of `peer` from the old process.
    pub(crate) fn restore(
        &mut self,
        peer: PeerIndex,
        restored: Restored,
        batch: &Batch<P>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        self.take(peer, Some(restored), batch, out);
    }

    fn take(
        &mut self,
        peer: PeerIndex,
        restored: Option<Restored>,
        batch: &Batch<P>,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let core = &mut self.core;
        let Some(known) = core.adj_rib_in.peers.get(usize::from(peer.0)) else { return };
        let (policy, is_full, keeps_rejected) = (known.import.clone(), known.is_full, known.keeps_rejected);
        let is_damped = known.is_damped;
        self.interned.clear();
        self.interned.resize(batch.sets().len(), None);
        let mut events = batch.events().iter().copied();
        let (mut end, mut provenance) = events.next().unwrap_or((u32::MAX, Provenance::NONE));
        let changes = batch.changes();
        for (position, change) in changes.iter().enumerate() {
            if position as u32 >= end {
                (end, provenance) = events.next().unwrap_or((u32::MAX, Provenance::NONE));
            }
            if position.is_multiple_of(AHEAD) && changes.len() > position + 1 {
                core.adj_rib_in.prefetch(&changes[position..changes.len().min(position + AHEAD)]);
            }
            let path_id = batch.path_id(position);
            if change.is_withdrawal() {
                if is_damped && path_id.is_none() {
                    core.damping.count_withdrawal(&core.adj_rib_in, peer, change.prefix);
                }
                core.withdraw(peer, path_id, change.prefix, provenance, out);
                core.dropped.note_withdrawal(&core.adj_rib_in.peers, peer, change);
                continue;
            }
            if is_full && !core.adj_rib_in.has_path(peer, path_id, change.prefix) {
                core.dropped.note_dropped(
                    &core.adj_rib_in.peers,
                    peer,
                    change.prefix,
                    DropCause::MaximumPrefixes,
                );
                continue;
            }
            let index = change.set as usize;
            let (set, is_unchanged) = *self.interned[index].get_or_insert_with(|| {
                let set = &batch.sets()[index];
                let octets = batch.octets(set);
                let is_unchanged = policy.as_ref().is_none_or(|policy| policy.leaves_unchanged(octets));
                (core.adj_rib_in.intern(&mut core.resolver, set, octets, out), is_unchanged)
            });
            let attributes = match &policy {
                Some(policy) if !is_unchanged => {
                    core.import_parts().import(policy, peer, change.prefix, set, &mut self.imports, out)
                }
                _ => PathSet::as_received(set),
            };
            if !keeps_rejected && core.adj_rib_in.sets.accepted(attributes).is_none() {
                core.withdraw(peer, path_id, change.prefix, provenance, out);
                core.dropped.forget(change.prefix, peer);
                continue;
            }
            let is_suppressed = is_damped
                && path_id.is_none()
                && core.damping.count_announcement(&core.adj_rib_in, peer, change.prefix, set, attributes);
            let suppressed = is_suppressed.then(|| core.adj_rib_in.sets.imported(set, None));
            let attributes = suppressed.unwrap_or(attributes);
            match (path_id, restored) {
                (_, Some(restored)) => {
                    core.restore_path((peer, restored), path_id, change.prefix, attributes, out)
                }
                (None, None) => {
                    core.announce(PathNumber::first_of(peer), change.prefix, attributes, provenance, out);
                }
                (Some(id), None) => {
                    core.announce_path((peer, id), change.prefix, attributes, provenance, out)
                }
            }
            if let Some(pair) = suppressed {
                core.adj_rib_in.release_path(&mut core.resolver, pair, out);
            }
        }
        self.imports.clear(&mut core.adj_rib_in, &mut core.resolver, out);
        for (set, _) in self.interned.drain(..).flatten() {
            core.adj_rib_in.release(&mut core.resolver, set, out);
        }
        self.pass_on_paths();
        self.compact();
    }
}
