//! The Adj-RIBs-In of the peers (RFC 4271, section 3.2): the paths of each prefix in an entry, with attributes as received and
//! after import policy.

use super::entries::Entries;
use super::lanes::Lanes;
use super::path::{PathNumber, PeerIndex};
use super::peer_in::PeerIn;
use super::sets::Sets;
use crate::batch::Change;
use crate::hash::HashSeed;
use crate::index::{Index, half};
use crate::shard::Accepted;
use crate::wire::FamilyKey;
use alloc::vec::Vec;

/// The Adj-RIBs-In. A peer's own Adj-RIB-In is a slice of the entries.
#[derive(Debug)]
pub(crate) struct AdjRibIn<P> {
    pub seed: HashSeed,
    pub entries: Entries<P>,
    /// The entries by the hashes of their prefixes.
    index: Index,
    pub sets: Sets,
    pub peers: Vec<PeerIn>,
    /// The neighbors of further paths, and the identifiers of paths.
    pub lanes: Lanes,
}

impl<P: FamilyKey> AdjRibIn<P> {
    /// Makes empty Adj-RIBs-In; `seed` is the readers' seed.
    pub fn new(seed: HashSeed) -> Self {
        AdjRibIn {
            seed,
            entries: Entries::default(),
            index: Index::default(),
            sets: Sets::default(),
            peers: Vec::new(),
            lanes: Lanes::default(),
        }
    }

    /// Returns the entry of a prefix.
    #[inline(always)]
    pub(crate) fn find(&self, prefix: P) -> Option<u32> {
        let hash = half(self.seed.prefix(&prefix));
        self.index.find(hash, |id| self.entries[id].prefix == prefix)
    }

    /// Looks up the prefixes of the next changes to load their entries into the cache: consecutive look-ups wait for memory in
    /// parallel, look-ups with a decision in between wait one after the next.
    #[inline(never)]
    pub(crate) fn prefetch(&self, changes: &[Change<P>]) {
        let found = changes.iter().filter_map(|change| self.find(change.prefix));
        core::hint::black_box(found.fold(0, |all, id| all ^ id));
    }

    /// Returns the entry of a prefix, which may be a new one.
    #[inline(always)]
    pub(crate) fn find_or_insert(&mut self, prefix: P) -> u32 {
        match self.find(prefix) {
            Some(id) => id,
            None => {
                let hash = half(self.seed.prefix(&prefix));
                let id = self.entries.insert(prefix);
                let (entries, seed) = (&self.entries, self.seed);
                self.index.insert(hash, id, |id| half(seed.prefix(&entries[id].prefix)));
                id
            }
        }
    }

    /// Returns the best path of an entry.
    #[inline(always)]
    pub(crate) fn best(&self, id: u32) -> Option<Accepted> {
        let path = self.entries.best(id)?;
        Some(Accepted { peer: self.lanes.peer(path.number), set: self.sets.accepted(path.attributes)? })
    }

    /// Returns a path of an entry that import policy accepted.
    pub(crate) fn path(&self, entry: u32, number: PathNumber) -> Option<Accepted> {
        let path = self.entries.paths(entry).get(self.entries.position(entry, number)?)?;
        Some(Accepted { peer: self.lanes.peer(path.number), set: self.sets.accepted(path.attributes)? })
    }

    /// Returns the router's own default route among the paths of an entry.
    #[cold]
    pub(crate) fn own_default(&self, id: u32) -> Option<Accepted> {
        let path = self.entries.paths(id).get(self.lanes.position(
            &self.entries,
            id,
            PeerIndex::DEFAULT,
            None,
        )?)?;
        Some(Accepted { peer: PeerIndex::DEFAULT, set: self.sets.accepted(path.attributes)? })
    }

    /// Returns true if a peer has a path of a prefix: the path with the identifier, or the only path.
    #[cold]
    pub(crate) fn has_path(&self, peer: PeerIndex, path_id: Option<u32>, prefix: P) -> bool {
        self.find(prefix).is_some_and(|id| self.lanes.position(&self.entries, id, peer, path_id).is_some())
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
}
