//! Numbered places in chunks: a number stays valid until its place is freed, and growing never moves what is there.

use alloc::vec::Vec;

/// Places per chunk. A power of two, so that a number splits by shift and mask.
const CHUNK: usize = 1024;

/// A slab of `T`. Freed places keep their last value until they are used again: the owner knows which are free.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
    /// Places ever used.
    end: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new(), end: 0 }
    }
}

impl<T> Slab<T> {
    /// Puts `value` in a free place and returns its number.
    ///
    /// # Panics
    /// With 2^32 - 1 places in use, which no memory holds.
    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self[id] = value;
            return id;
        }
        let id = self.end;
        assert!(id < u32::MAX, "slab of 2^32 places");
        if (id as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[id as usize / CHUNK].push(value);
        self.end += 1;
        id
    }

    /// Frees a place.
    pub fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Returns the number above the highest number ever used.
    pub const fn end(&self) -> u32 {
        self.end
    }

    /// The number of places in use.
    pub fn len(&self) -> usize {
        self.end as usize - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.chunks[id as usize / CHUNK][id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::default();
        let ids: Vec<u32> = (0..3000).map(|n| slab.insert(n)).collect();
        assert!(ids.iter().all(|id| slab[*id] == *id));
        slab.remove(7);
        assert_eq!((slab.len(), slab.end()), (2999, 3000));
        assert_eq!((slab.insert(9), slab[7]), (7, 9));
    }
}
