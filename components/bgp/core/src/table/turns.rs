//! The turns of neighbors at a table with UPDATEs for several neighbors, and the table's own writes to sockets.

use crate::shard::PeerIndex;
use crate::wire::MAX_MESSAGE_LEN;

/// The largest chunk whose write takes less time than waking a writer task.
pub const SMALL_WRITE: usize = MAX_MESSAGE_LEN;
/// A table's own small writes in a round. Further neighbors are left to their writers, which may write in parallel.
const OWN_WRITES: usize = 4;
/// A table's own writes of large chunks in a round, while no thread has time for writers.
const OWN_CHUNKS: usize = 64;

/// The order in which neighbors are served: each is the first in turn.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    first: PeerIndex,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { first: PeerIndex::LOCAL }
    }
}

impl Turns {
    /// Iterates over the sorted peers, beginning with the peer in turn.
    pub fn order<'a>(&self, all: &'a [PeerIndex]) -> impl Iterator<Item = &'a PeerIndex> + use<'a> {
        let (before, after) = all.split_at(all.partition_point(|peer| *peer < self.first));
        after.iter().chain(before)
    }

    /// Notes the first peer served in a round: the next round begins behind this peer.
    pub fn note(&mut self, served: PeerIndex) {
        self.first = PeerIndex(served.0.wrapping_add(1));
    }
}

/// The table's own writes left in a round.
#[derive(Clone, Copy, Debug)]
pub struct OwnWrites {
    writes: usize,
    chunks: usize,
}

impl Default for OwnWrites {
    fn default() -> Self {
        OwnWrites { writes: OWN_WRITES, chunks: OWN_CHUNKS }
    }
}

impl OwnWrites {
    /// Returns true if the table writes a chunk of `len` octets itself. Large chunks are left to writers if a thread has time:
    /// `others_wait` returns true if no thread has time.
    #[inline]
    pub fn allow(&self, len: usize, others_wait: impl FnOnce() -> bool) -> bool {
        if len > SMALL_WRITE { self.chunks > 0 && others_wait() } else { self.writes > 0 }
    }

    /// Notes a chunk, written by the table itself or not. After an arrival of messages the table writes no more large chunks in
    /// the round.
    #[inline]
    pub fn note(&mut self, is_own: bool, has_arrivals: bool) {
        self.writes = self.writes.saturating_sub(1);
        self.chunks = if has_arrivals { 0 } else { self.chunks.saturating_sub(usize::from(is_own)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn each_neighbor_is_the_first_in_turn() {
        let all = [2, 5, 9].map(PeerIndex);
        let order = |first| {
            let turns = Turns { first: PeerIndex(first) };
            turns.order(&all).map(|peer| peer.0).collect::<Vec<_>>()
        };
        assert_eq!(order(0), [2, 5, 9]);
        assert_eq!(order(3), [5, 9, 2]);
        assert_eq!(order(6), [9, 2, 5]);
        assert_eq!(order(10), [2, 5, 9]);
    }

    #[test]
    fn own_writes_end_with_the_budget_or_with_arrivals() {
        let mut writes = OwnWrites::default();
        for _ in 0..OWN_WRITES {
            assert!(writes.allow(SMALL_WRITE, || false));
            writes.note(true, false);
        }
        assert!(!writes.allow(1, || true), "small writes are used up");
        assert!(writes.allow(SMALL_WRITE + 1, || true) && !writes.allow(SMALL_WRITE + 1, || false));
        writes.note(false, true);
        assert!(!writes.allow(SMALL_WRITE + 1, || true), "messages have arrived");
    }
}
