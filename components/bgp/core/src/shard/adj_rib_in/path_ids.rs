//! Paths with a received path identifier (ADD-PATH, RFC 7911): the places among a neighbor's paths of a prefix.

use crate::batch::{DropCause, MOST_PATHS};
use crate::shard::Core;
use crate::shard::entry::{PathNumber, PathSet, PeerIndex, Restored};
use crate::shard::resolver::Interest;
use crate::wire::FamilyKey;
use sluice_base::Provenance;
use sluice_machine::Outbox;

impl<P: FamilyKey> Core<P> {
    /// Puts a path with an identifier at `prefix`: in the place of the path with the same identifier, or beside the neighbor's other
    /// paths. The caller keeps a separate reference to the attributes.
    #[inline(never)]
    pub(crate) fn announce_path(
        &mut self,
        (peer, path_id): (PeerIndex, u32),
        prefix: P,
        attributes: PathSet,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let Some(path) = self.place_path(peer, prefix, path_id) else {
            let peers = &self.adj_rib_in.peers;
            return self.dropped.note_dropped(peers, peer, prefix, DropCause::TooManyPaths);
        };
        self.announce(path, prefix, attributes, provenance, out);
        if let Some(entry) = self.adj_rib_in.find(prefix) {
            self.adj_rib_in.lanes.set_id(entry, path, path_id);
        }
    }

    /// Returns the number for an announced path; `None` if the neighbor has [`MOST_PATHS`] paths of the prefix in its present session.
    fn place_path(&mut self, peer: PeerIndex, prefix: P, path_id: u32) -> Option<PathNumber> {
        let Some(entry) = self.adj_rib_in.find(prefix) else { return Some(PathNumber::first_of(peer)) };
        if let Some(position) =
            self.adj_rib_in.lanes.position_of_id(&self.adj_rib_in.entries, entry, peer, path_id)
        {
            return Some(self.adj_rib_in.entries.paths(entry)[position].number);
        }
        let generation = self.adj_rib_in.peers[usize::from(peer.0)].generation;
        let (mut taken, mut stale) = (0_u64, None);
        for path in self
            .adj_rib_in
            .entries
            .paths(entry)
            .iter()
            .filter(|path| self.adj_rib_in.lanes.peer(path.number) == peer)
        {
            taken |= 1_u64.checked_shl(self.adj_rib_in.lanes.place(path.number).into()).unwrap_or(0);
            stale = stale.or((path.generation != generation).then_some(path.number));
        }
        let free = taken.trailing_ones() as u16;
        let free = if free < MOST_PATHS { self.adj_rib_in.lanes.number(peer, free) } else { None };
        // A neighbor that has restarted may announce its paths with other identifiers (RFC 7911, section 5).
        if let (None, Some(path)) = (free, stale) {
            self.monitors.note_removal(&self.adj_rib_in, entry, path);
        }
        free.or(stale)
    }

    /// Restores a path of the old process.
    pub(crate) fn restore_path(
        &mut self,
        (peer, restored): (PeerIndex, Restored),
        path_id: Option<u32>,
        prefix: P,
        attributes: PathSet,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let Some(path) = self.adj_rib_in.lanes.number(peer, restored.place) else { return };
        self.announce(path, prefix, attributes, Provenance::NONE, out);
        let Some(entry) = self.adj_rib_in.find(prefix) else { return };
        if let Some(id) = path_id {
            self.adj_rib_in.lanes.set_id(entry, path, id);
        }
        if restored.is_stale {
            self.adj_rib_in.make_stale(entry, path);
        }
    }
}
