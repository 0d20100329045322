//! The routes of one table and family: 16 octets each for IPv4 and 8 in the index, found by prefix, walked by number.

use crate::slab::Slab;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use sluice_base::Prefix;

/// What is known of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<P> {
    pub(crate) prefix: P,
    /// The group that it uses.
    pub(crate) group: u32,
    /// Whether it was announced since the last resync began.
    pub(crate) announced: bool,
    /// Whether it was seen or written since the last snapshot began.
    pub(crate) seen: bool,
    /// How it stands in the engine.
    pub(crate) standing: Standing,
}

/// How a route stands in the engine, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It is there as it should be.
    Installed,
    /// It must be written; a route of ours may stand in its place.
    Due,
    /// The engine refused it, and its owner knows.
    Refused,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Routes<P> {
    slab: Slab<Route<P>>,
    index: HashTable<Place>,
    hasher: FixedState,
}

/// Where a route is. Its hash lies beside it, so that a growing index does not look at routes all over the memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    n: u32,
}

impl Place {
    /// The hash as the index wants it: its upper bits tell entries of a bucket apart.
    const fn spread(hash: u32) -> u64 {
        (hash as u64) << 32 | hash as u64
    }
}

impl<P: Prefix> Routes<P> {
    /// An empty table; `seed` keeps who chooses prefixes from choosing collisions.
    pub(crate) fn new(seed: u64) -> Self {
        Routes { slab: Slab::default(), index: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find(&self, prefix: P) -> Option<u32> {
        let hash = self.hash(prefix);
        let same = |p: &Place| p.hash == hash && self.slab.get(p.n).is_some_and(|r| r.prefix == prefix);
        self.index.find(Place::spread(hash), same).map(|p| p.n)
    }

    fn hash(&self, prefix: P) -> u32 {
        (self.hasher.hash_one(prefix.to_parts()) >> 32) as u32
    }

    /// Adds a route whose prefix has none.
    pub(crate) fn insert(&mut self, route: Route<P>) -> u32 {
        let hash = self.hash(route.prefix);
        let n = self.slab.insert(route);
        self.index.insert_unique(Place::spread(hash), Place { hash, n }, |p| Place::spread(p.hash));
        n
    }

    pub(crate) fn remove(&mut self, n: u32) -> Option<Route<P>> {
        let route = self.slab.remove(n)?;
        let hash = self.hash(route.prefix);
        if let Ok(entry) = self.index.find_entry(Place::spread(hash), |p| p.n == n) {
            entry.remove();
        }
        Some(route)
    }

    pub(crate) fn get(&self, n: u32) -> Option<&Route<P>> {
        self.slab.get(n)
    }

    pub(crate) fn get_mut(&mut self, n: u32) -> Option<&mut Route<P>> {
        self.slab.get_mut(n)
    }

    pub(crate) fn end(&self) -> u32 {
        self.slab.end()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Every route, to change.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&mut Route<P>)) {
        for n in 0..self.slab.end() {
            if let Some(route) = self.slab.get_mut(n) {
                change(route);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Route<P>)> {
        self.slab.iter()
    }
}
