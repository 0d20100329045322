//! One seeded hash for prefixes and attribute sets.
//!
//! Peers choose both, so the seed is the driver's secret. Two runs with one seed are equal, because no code walks a
//! hash table.

use crate::wire::multiprotocol::NextHop;
use core::hash::{BuildHasher, Hash, Hasher};
use foldhash::fast::FixedState;

/// The seed of a router's hash tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashSeed(pub u64);

impl HashSeed {
    /// The hash of a prefix.
    #[inline]
    pub fn prefix<P: Hash>(self, prefix: &P) -> u64 {
        FixedState::with_seed(self.0).hash_one(prefix)
    }

    /// The hash of an attribute set and next hop.
    pub fn attributes(self, canonical: &[u8], next_hop: &NextHop) -> u64 {
        let mut hasher = FixedState::with_seed(self.0).build_hasher();
        hasher.write(canonical);
        next_hop.hash(&mut hasher);
        hasher.finish()
    }
}
