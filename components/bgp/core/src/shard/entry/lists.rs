//! Lists of paths, in memory of the shard's own: the buddy system (Knowlton, A fast storage allocator, CACM 1965). A list that
//! outgrows its block moves to a block of twice the size, and a freed block is merged with a free buddy. Lists of neighboring
//! prefixes lie side by side, on whichever thread the shard was at the time, and finding a list needs no look-up: its entry has a
//! mark. Pages by length, as attributes have them (`crate::octets`), would keep the outgrown room of lists.

use super::path::{NO_PATH, Path};
use super::sets::PathSet;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Paths in the smallest block.
const UNIT: usize = 4;

/// A chunk is a block of this order: 2^11 units, 64 KiB.
const TOP: u8 = 11;

/// No block.
const NONE: u32 = u32::MAX;

/// The mark of a unit at which no free block begins.
const NOT_FREE: u8 = u8::MAX;

/// The place of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List {
    /// The first unit of its block.
    pub unit: u32,
    /// The order of its block, which has 2^order units.
    pub order: u8,
    /// The number of paths.
    pub len: u32,
}

/// The lists of a shard.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Units are numbered across chunks. A list longer than a chunk has a chunk of its own, of the list's size.
    chunks: Vec<Chunk>,
    /// Chunks without memory.
    vacant: Vec<u32>,
    /// The first free block of each order. Free blocks are linked: the first path of a free block has the next block, the second
    /// path the previous block, in the places of sets.
    free: [u32; TOP as usize],
}

#[derive(Debug, Default)]
struct Chunk {
    paths: Box<[Path]>,
    /// For each unit, the order of the free block beginning with the unit, or [`NOT_FREE`].
    free: Box<[u8]>,
}

impl Default for Lists {
    fn default() -> Self {
        Lists { chunks: Vec::new(), vacant: Vec::new(), free: [NONE; TOP as usize] }
    }
}

/// The chunk of a unit, and the unit's number in it.
const fn split(unit: u32) -> (usize, usize) {
    ((unit >> TOP) as usize, (unit & ((1 << TOP) - 1)) as usize)
}

/// Returns the number of paths that a block has room for.
const fn room(order: u8) -> usize {
    UNIT << order
}

impl Lists {
    /// Makes a list, of no more paths than the smallest block has room for.
    pub fn make(&mut self, paths: &[Path]) -> List {
        let list = List { unit: self.take(0), order: 0, len: paths.len() as u32 };
        self.get_mut(list).copy_from_slice(paths);
        list
    }

    /// The paths of a list.
    #[inline]
    pub fn get(&self, list: List) -> &[Path] {
        let (chunk, unit) = split(list.unit);
        &self.chunks[chunk].paths[unit * UNIT..][..list.len as usize]
    }

    /// Returns the paths of a list, to change in place.
    pub fn get_mut(&mut self, list: List) -> &mut [Path] {
        let (chunk, unit) = split(list.unit);
        &mut self.chunks[chunk].paths[unit * UNIT..][..list.len as usize]
    }

    /// Returns the list with a path added. The old list is void.
    pub fn push(&mut self, mut list: List, path: Path) -> List {
        if list.len as usize == room(list.order) {
            list = self.change_order(list, list.order + 1);
        }
        list.len += 1;
        if let Some(last) = self.get_mut(list).last_mut() {
            *last = path;
        }
        list
    }

    /// Removes a path; the last path takes its place. The old list is void.
    ///
    /// # Panics
    /// Without a path there.
    pub fn swap_remove(&mut self, mut list: List, position: usize) -> (List, Path) {
        let paths = self.get_mut(list);
        let path = paths[position];
        paths[position] = paths[paths.len() - 1];
        list.len -= 1;
        // At a quarter: one that comes and goes does not move the list each time.
        if list.order > 0 && list.len as usize <= room(list.order) / 4 {
            list = self.change_order(list, list.order - 1);
        }
        (list, path)
    }

    /// Ends a list.
    pub fn remove(&mut self, list: List) {
        self.give(list.unit, list.order);
    }

    fn change_order(&mut self, from: List, order: u8) -> List {
        let to = List { unit: self.take(order), order, ..from };
        let len = from.len as usize;
        let ((chunk, unit), (new, start)) = (split(from.unit), split(to.unit));
        if let Ok([old, new]) = self.chunks.get_disjoint_mut([chunk, new]) {
            new.paths[start * UNIT..][..len].copy_from_slice(&old.paths[unit * UNIT..][..len]);
        } else {
            self.chunks[chunk].paths.copy_within(unit * UNIT..unit * UNIT + len, start * UNIT);
        }
        self.give(from.unit, from.order);
        to
    }

    /// Takes a block of an order.
    fn take(&mut self, order: u8) -> u32 {
        let Some(first) = self.free.get(usize::from(order)).copied() else { return self.add_chunk(order) };
        if first != NONE {
            self.unlink(first, order);
            return first;
        }
        let block = self.take(order + 1);
        self.link(block + (1 << order), order);
        block
    }

    /// Gives a block back.
    fn give(&mut self, mut unit: u32, mut order: u8) {
        while order < TOP {
            let buddy = unit ^ (1 << order);
            let (chunk, first) = split(buddy);
            if self.chunks[chunk].free[first] != order {
                return self.link(unit, order);
            }
            self.unlink(buddy, order);
            unit = unit.min(buddy);
            order += 1;
        }
        let (chunk, _) = split(unit);
        self.chunks[chunk] = Chunk::default();
        self.vacant.push(chunk as u32);
    }

    /// A chunk more, or one for a longer list.
    #[inline(never)]
    fn add_chunk(&mut self, order: u8) -> u32 {
        let chunk = Chunk { paths: vec![NO_PATH; room(order)].into(), free: vec![NOT_FREE; 1 << TOP].into() };
        let number = self.vacant.pop().unwrap_or(self.chunks.len() as u32);
        match self.chunks.get_mut(number as usize) {
            Some(place) => *place = chunk,
            None => self.chunks.push(chunk),
        }
        number << TOP
    }

    /// The places of the next and the previous block of a free block.
    fn links(&mut self, block: u32) -> &mut [Path] {
        self.get_mut(List { unit: block, order: 0, len: 2 })
    }

    /// A block is free.
    fn link(&mut self, block: u32, order: u8) {
        let next = core::mem::replace(&mut self.free[usize::from(order)], block);
        let links = self.links(block);
        (links[0].attributes, links[1].attributes) = (PathSet::from_bits(next), PathSet::from_bits(NONE));
        if next != NONE {
            self.links(next)[1].attributes = PathSet::from_bits(block);
        }
        let (chunk, first) = split(block);
        self.chunks[chunk].free[first] = order;
    }

    /// A block is not free any more.
    fn unlink(&mut self, block: u32, order: u8) {
        let links = self.links(block);
        let (next, before) = (links[0].attributes, links[1].attributes);
        match before.bits() {
            NONE => self.free[usize::from(order)] = next.bits(),
            before => self.links(before)[0].attributes = next,
        }
        if next.bits() != NONE {
            self.links(next.bits())[1].attributes = before;
        }
        let (chunk, first) = split(block);
        self.chunks[chunk].free[first] = NOT_FREE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::entry::path::PathNumber;
    use proptest::prelude::*;

    fn path(n: u32) -> Path {
        Path { attributes: PathSet::from_bits(n), number: PathNumber(n as u16), generation: 7 }
    }

    impl Lists {
        /// Returns the free blocks with orders. Checks the links between blocks, the recorded orders, and that no two free blocks
        /// could be merged.
        fn checked(&self) -> Vec<(u32, u8)> {
            let recorded =
                self.chunks.iter().flat_map(|c| &c.free).filter(|order| **order != NOT_FREE).count();
            let mut blocks = Vec::new();
            for (order, first) in (0..).zip(self.free) {
                let (mut block, mut before) = (first, NONE);
                while block != NONE {
                    let links = self.get(List { unit: block, order: 0, len: 2 });
                    assert_eq!(links[1].attributes.bits(), before);
                    assert!(!blocks.contains(&(block ^ (1 << order), order)));
                    blocks.push((block, order));
                    (before, block) = (block, links[0].attributes.bits());
                }
            }
            assert_eq!(blocks.len(), recorded);
            blocks
        }
    }

    proptest! {
        #[test]
        fn lists_keep_their_paths(steps in prop::collection::vec((0..6_usize, 0..400_usize, any::<bool>()), 0..100)) {
            let mut lists = Lists::default();
            let mut known: [Option<(List, Vec<Path>)>; 6] = Default::default();
            for (step, (number, count, adds)) in (0..).zip(steps) {
                let mut list = known[number].take();
                for n in 0..count {
                    list = match list {
                        None if adds => Some((lists.make(&[path(step)]), vec![path(step)])),
                        None => break,
                        Some((list, mut model)) if adds => {
                            model.push(path(step + n as u32));
                            Some((lists.push(list, path(step + n as u32)), model))
                        }
                        Some((list, model)) if model.len() == 1 => {
                            lists.remove(list);
                            None
                        }
                        Some((list, mut model)) => {
                            let (list, path) = lists.swap_remove(list, n % model.len());
                            prop_assert_eq!(path, model.swap_remove(n % model.len()));
                            Some((list, model))
                        }
                    };
                }
                known[number] = list;
                for (list, model) in known.iter().flatten() {
                    prop_assert_eq!(lists.get(*list), &model[..]);
                }
                let used: usize = known.iter().flatten().map(|(list, _)| room(list.order)).sum();
                let free: usize = lists.checked().iter().map(|(_, order)| room(*order)).sum();
                prop_assert_eq!(used + free, lists.chunks.iter().map(|c| c.paths.len()).sum::<usize>());
            }
            known.into_iter().flatten().for_each(|(list, _)| lists.remove(list));
            prop_assert!(lists.chunks.iter().all(|c| c.paths.is_empty()));
        }
    }

    #[test]
    fn a_list_longer_than_a_chunk() {
        let mut lists = Lists::default();
        let (short, mut list) = (lists.make(&[path(9)]), lists.make(&[path(0)]));
        (1..40_000).for_each(|n| list = lists.push(list, path(n)));
        assert!(lists.get(list).iter().zip(0..).all(|(found, n)| *found == path(n)));
        assert_eq!((list.order, lists.chunks[split(list.unit).0].paths.len()), (14, 65_536));
        while list.len > 1 {
            list = lists.swap_remove(list, 0).0;
        }
        assert_eq!((lists.get(list), lists.get(short)), (&[path(1)][..], &[path(9)][..]));
        assert_eq!(lists.chunks.iter().map(|c| c.paths.len()).sum::<usize>(), room(TOP));
    }
}
