//! Unstored announcements, for questions of operators: the newest of a shard, each with the cause.
//!
//! AS loops, leaks, malformed routes, and routes beyond a bound count as withdrawn, and leave no path behind. Such announcements
//! are rare, or many alike, so a bounded number answers most questions.

use crate::batch::{Change, DropCause};
use crate::shard::entry::{PeerIn, PeerIndex};
use alloc::collections::{BTreeMap, VecDeque};

/// Announcements that a shard remembers.
const MOST: usize = 1024;

/// The newest announcements that were not stored.
#[derive(Debug)]
pub(crate) struct Dropped<P> {
    /// By prefix and peer: the cause, and the peer's generation.
    causes: BTreeMap<(P, PeerIndex), (DropCause, u16)>,
    /// The announcements, forgotten announcements too, oldest first.
    order: VecDeque<(P, PeerIndex)>,
}

impl<P> Default for Dropped<P> {
    fn default() -> Self {
        Dropped { causes: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<P: Ord + Copy> Dropped<P> {
    /// Notes the cause of a withdrawal, if the neighbor did not mean one.
    #[inline]
    pub fn note_withdrawal(&mut self, peers: &[PeerIn], peer: PeerIndex, change: &Change<P>) {
        match change.drop_cause() {
            Some(cause) => self.note_dropped(peers, peer, change.prefix, cause),
            None => self.forget(change.prefix, peer),
        }
    }

    /// Notes that an announcement is not stored.
    #[cold]
    pub fn note_dropped(&mut self, peers: &[PeerIn], peer: PeerIndex, prefix: P, cause: DropCause) {
        self.note(prefix, peer, peers[usize::from(peer.0)].generation, cause);
    }

    /// Notes the latest announcement of a prefix by a peer of this generation.
    #[cold]
    fn note(&mut self, prefix: P, peer: PeerIndex, generation: u16, cause: DropCause) {
        let key = (prefix, peer);
        if self.causes.insert(key, (cause, generation)).is_some() {
            return;
        }
        if self.order.len() >= MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.causes.remove(&oldest);
        }
        self.order.push_back(key);
        // One that was forgotten and came back is in the order twice: its older place may have taken it out.
        self.causes.insert(key, (cause, generation));
    }

    /// Forgets the announcement of a prefix by a peer, after a withdrawal, or after policy's decision on a later announcement.
    #[inline]
    pub fn forget(&mut self, prefix: P, peer: PeerIndex) {
        if !self.causes.is_empty() {
            self.causes.remove(&(prefix, peer));
        }
    }

    /// Iterates over the announcements of a prefix: peer, cause, and the peer's generation then.
    pub fn of(&self, prefix: P) -> impl Iterator<Item = (PeerIndex, DropCause, u16)> {
        let all = self.causes.range((prefix, PeerIndex(0))..=(prefix, PeerIndex(u16::MAX)));
        all.map(|((_, peer), (cause, generation))| (*peer, *cause, *generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_announcements_are_remembered() {
        let mut dropped = Dropped::default();
        let peer = PeerIndex(20);
        let count = |dropped: &Dropped<u32>| dropped.causes.len();
        for prefix in 0..MOST as u32 + 10 {
            dropped.note(prefix, peer, 1, DropCause::Loop);
        }
        assert_eq!((count(&dropped), dropped.of(9).count(), dropped.of(10).count()), (MOST, 0, 1));
        dropped.note(20, peer, 2, DropCause::Leak);
        assert_eq!(dropped.of(20).next(), Some((peer, DropCause::Leak, 2)));
        dropped.forget(20, peer);
        assert_eq!(dropped.of(20).count(), 0);
        // What comes and goes takes no more room.
        for step in 0..5000 {
            dropped.note(20, peer, step, DropCause::Leak);
            assert_eq!(dropped.of(20).count(), 1);
            dropped.forget(20, peer);
        }
        assert!(count(&dropped) <= MOST && dropped.order.len() <= MOST);
    }
}
