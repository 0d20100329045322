//! A prefix and all its paths, side by side: a decision costs one look-up, not one per peer.

use super::sets::SetId;
use smallvec::SmallVec;

/// A peer's number in the shards of a router. 0 is the router itself, as the originator of its own networks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerIndex(pub u16);

impl PeerIndex {
    /// The router itself.
    pub const LOCAL: PeerIndex = PeerIndex(0);
}

/// A peer's route of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub set: SetId,
    pub peer: PeerIndex,
    /// The peer's generation when it announced this; an older one than the peer's is stale. A session would have to
    /// come up 65,536 times during one round of the deletion stage to deceive it.
    pub generation: u16,
}

/// A prefix. 40 octets for IPv4 as long as it has no more than two paths.
#[derive(Debug)]
pub(super) struct Entry<P> {
    pub prefix: P,
    pub paths: SmallVec<[Path; 2]>,
    /// Low bits of the latest place in the change queue; means nothing unless `is_queued`.
    pub queued: u32,
    /// The path that won; [`Entry::NO_BEST`] if none did.
    pub best: u16,
    pub is_queued: bool,
}

impl<P> Entry<P> {
    pub const NO_BEST: u16 = u16::MAX;

    pub fn new(prefix: P) -> Self {
        Entry { prefix, paths: SmallVec::new(), queued: 0, best: Self::NO_BEST, is_queued: false }
    }

    pub fn best(&self) -> Option<&Path> {
        self.paths.get(usize::from(self.best))
    }

    pub fn position(&self, peer: PeerIndex) -> Option<usize> {
        self.paths.iter().position(|p| p.peer == peer)
    }

    /// Whether the place in the slab is free.
    pub fn is_vacant(&self) -> bool {
        self.paths.is_empty() && !self.is_queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Ipv4Prefix;

    #[test]
    fn sizes() {
        assert_eq!(size_of::<Path>(), 8);
        assert_eq!(size_of::<Entry<Ipv4Prefix>>(), 40);
    }
}
