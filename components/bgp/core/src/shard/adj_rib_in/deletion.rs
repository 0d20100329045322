//! The deletion of stale paths, in slices.

use crate::shard::Shard;
use crate::shard::entry::Path;
use crate::shard::resolver::Interest;
use crate::wire::FamilyKey;
use sluice_base::Provenance;
use sluice_machine::Outbox;

/// The deletion stage: a walk that repeats while any path is stale.
#[derive(Debug, Default)]
pub(in crate::shard) struct Deletion {
    pub(in crate::shard) next: u32,
    /// True if a path may be stale.
    pub(in crate::shard) is_on: bool,
}

impl<P: FamilyKey> Shard<P> {
    pub(crate) fn delete_slice(&mut self, limit: usize, out: &mut Outbox<Interest<P::Hop>>) {
        let core = &mut self.core;
        for _ in 0..limit.min(core.adj_rib_in.entries.end() as usize) {
            if self.deletion.next >= core.adj_rib_in.entries.end() {
                self.deletion.next = 0;
            }
            let id = self.deletion.next;
            loop {
                let (peers, lanes) = (&core.adj_rib_in.peers, &core.adj_rib_in.lanes);
                let is_overdue =
                    |p: &Path| peers[usize::from(lanes.peer(p.number).0)].is_overdue(p.generation);
                let Some(position) = core.adj_rib_in.entries.paths(id).iter().position(is_overdue) else {
                    break;
                };
                core.remove_path(id, position, Provenance::NONE, out);
            }
            self.deletion.next += 1;
        }
    }
}
