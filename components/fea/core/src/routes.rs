//! The routes of one table and family: 16 octets each for IPv4, found by prefix, walked by number.

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
    index: HashTable<u32>,
    hasher: FixedState,
}

impl<P: Prefix> Routes<P> {
    /// An empty table; `seed` keeps who chooses prefixes from choosing collisions.
    pub(crate) fn new(seed: u64) -> Self {
        Routes { slab: Slab::default(), index: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find(&self, prefix: P) -> Option<u32> {
        let same = |n: &u32| self.slab.get(*n).is_some_and(|r| r.prefix == prefix);
        self.index.find(self.hasher.hash_one(prefix.to_parts()), same).copied()
    }

    /// Adds a route whose prefix has none.
    pub(crate) fn insert(&mut self, route: Route<P>) -> u32 {
        let hash = self.hasher.hash_one(route.prefix.to_parts());
        let n = self.slab.insert(route);
        let (slab, hasher) = (&self.slab, &self.hasher);
        let rehash = |n: &u32| {
            hasher.hash_one(slab.get(*n).expect("the index holds only routes that exist").prefix.to_parts())
        };
        self.index.insert_unique(hash, n, rehash);
        n
    }

    pub(crate) fn remove(&mut self, n: u32) -> Option<Route<P>> {
        let route = self.slab.remove(n)?;
        let hash = self.hasher.hash_one(route.prefix.to_parts());
        if let Ok(entry) = self.index.find_entry(hash, |m| *m == n) {
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
