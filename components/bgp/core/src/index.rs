//! A hash index over numbered places, in many small tables, so growing never stalls the router.

use alloc::vec::Vec;
use hashbrown::HashTable;

/// Tables. With 1,000,000 keys each holds 4,000, which rehash in less than 0.1 ms.
const TABLES: usize = 256;

/// Numbers by the hash of the value at the place.
#[derive(Debug)]
pub struct Index {
    tables: Vec<HashTable<u32>>,
}

impl Default for Index {
    fn default() -> Self {
        Index { tables: (0..TABLES).map(|_| HashTable::new()).collect() }
    }
}

/// The significant half of a hash: a keeper of hashes can keep half of the octets.
pub const fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// Returns the table of half a hash. A table uses the low bits (place) and the top 7 bits (tag); further bits choose the
    /// table.
    const fn table(half: u32) -> (usize, u64) {
        ((half >> 16) as usize % TABLES, (half as u64) << 32 | half as u64)
    }

    /// Returns the number with a half of a hash for which `is` is true.
    #[inline]
    pub fn find(&self, half: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let (table, hash) = Self::table(half);
        self.tables[table].find(hash, |id| is(*id)).copied()
    }

    /// Adds an absent number; `half_of` returns the half of every number.
    pub fn insert(&mut self, half: u32, id: u32, half_of: impl Fn(u32) -> u32) {
        let (table, hash) = Self::table(half);
        let table = &mut self.tables[table];
        if table.len() == table.capacity() {
            Self::grow(table, &half_of);
        }
        table.insert_unique(hash, id, |id| Self::table(half_of(*id)).1);
    }

    /// Makes room for as many again.
    #[cold]
    fn grow(table: &mut HashTable<u32>, half_of: impl Fn(u32) -> u32) {
        // All hashes first: what is read for them lies anywhere in memory, and comes sooner where nothing else is done meanwhile.
        let all: Vec<(u32, u32)> = table.iter().map(|id| (half_of(*id), *id)).collect();
        *table = HashTable::with_capacity(2 * all.len());
        for (half, id) in all {
            table.insert_unique(Self::table(half).1, id, |id| Self::table(half_of(*id)).1);
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, half: u32, id: u32) {
        let (table, hash) = Self::table(half);
        if let Ok(entry) = self.tables[table].find_entry(hash, |other| *other == id) {
            entry.remove();
        }
    }
}
