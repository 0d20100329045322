//! A prefix and its paths, side by side: a decision costs a single look-up, not a look-up for each peer.

use super::lists::{List, Lists};
use super::path::{NO_PATH, Path, PathNumber};
use super::sets::PathSet;
use crate::slab::Slab;

/// A prefix. 32 octets for IPv4 as long as it has no more than two paths.
#[derive(Debug)]
pub(crate) struct Entry<P> {
    pub prefix: P,
    /// The first paths, or the place of the list with every path ([`Entry::list`]).
    few: [Path; FEW],
    /// Low bits of the latest place in the change queue; means nothing unless the entry is queued.
    pub queued: u32,
    /// The best path; [`NO_BEST`] without a best path.
    best: u16,
    /// The number of paths, [`MANY`] if they are in a list.
    count: u8,
    /// [`QUEUED`] and [`BACKUP_DUE`].
    marks: u8,
}

/// Paths that an entry has room for.
const FEW: usize = 2;

/// The entry is in the change queue.
const QUEUED: u8 = 1;

/// The RIB is to be sent the entry's backup again.
const BACKUP_DUE: u8 = 2;

const NO_BEST: u16 = u16::MAX;

const MANY: u8 = u8::MAX;

impl<P> Entry<P> {
    /// Returns true if the entry is in the change queue.
    #[inline]
    pub const fn is_queued(&self) -> bool {
        self.marks & QUEUED != 0
    }

    /// Notes whether the entry is in the change queue.
    #[inline]
    pub const fn set_queued(&mut self, is_queued: bool) {
        self.marks = if is_queued { self.marks | QUEUED } else { self.marks & !QUEUED };
    }

    /// Marks the backup to be sent to the RIB again. Returns true if not marked before.
    #[inline]
    pub const fn mark_backup_due(&mut self) -> bool {
        let is_new = self.marks & BACKUP_DUE == 0;
        self.marks |= BACKUP_DUE;
        is_new
    }

    /// Returns true if the RIB is to be sent the backup again, and clears the mark.
    pub const fn take_backup_due(&mut self) -> bool {
        let is_due = self.marks & BACKUP_DUE != 0;
        self.marks &= !BACKUP_DUE;
        is_due
    }

    /// The list of an entry with [`MANY`] paths: its fields are in the place of sets and a generation.
    #[inline]
    fn list(&self) -> List {
        let [first, second] = &self.few;
        let (unit, len) = (first.attributes.bits(), second.attributes.bits());
        List { unit, order: first.generation as u8, len }
    }

    fn set_list(&mut self, list: List) {
        let [first, second] = &mut self.few;
        (first.attributes, first.generation) = (PathSet::from_bits(list.unit), list.order.into());
        second.attributes = PathSet::from_bits(list.len);
        self.count = MANY;
    }
}

/// The prefixes of a shard, by number.
#[derive(Debug)]
pub(crate) struct Entries<P> {
    entries: Slab<Entry<P>>,
    /// The paths of the entries that had more than [`FEW`].
    lists: Lists,
}

impl<P> Default for Entries<P> {
    fn default() -> Self {
        Entries { entries: Slab::default(), lists: Lists::default() }
    }
}

impl<P> Entries<P> {
    /// Puts a prefix without paths in a free place and returns its number.
    pub fn insert(&mut self, prefix: P) -> u32 {
        let entry = Entry { prefix, few: [NO_PATH; FEW], queued: 0, best: NO_BEST, count: 0, marks: 0 };
        self.entries.insert(entry)
    }

    /// Frees the place of an entry that is vacant.
    pub fn remove(&mut self, id: u32) {
        self.entries.remove(id);
    }

    /// Returns the number above the highest number ever used.
    pub const fn end(&self) -> u32 {
        self.entries.end()
    }

    /// The number of places in use.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// An entry's paths.
    #[inline]
    pub fn paths(&self, id: u32) -> &[Path] {
        let entry = &self.entries[id];
        match entry.count {
            MANY => self.lists.get(entry.list()),
            few => &entry.few[..few.into()],
        }
    }

    /// An entry's paths, to change in place.
    pub fn paths_mut(&mut self, id: u32) -> &mut [Path] {
        let entry = &mut self.entries[id];
        match entry.count {
            MANY => self.lists.get_mut(entry.list()),
            few => &mut entry.few[..few.into()],
        }
    }

    /// Returns the position of a path among an entry's paths.
    pub fn position(&self, id: u32, number: PathNumber) -> Option<usize> {
        self.paths(id).iter().position(|p| p.number == number)
    }

    /// The path that won.
    #[inline]
    pub fn best(&self, id: u32) -> Option<&Path> {
        let best = self.entries[id].best;
        if best == NO_BEST { None } else { self.paths(id).get(usize::from(best)) }
    }

    /// Sets the best path. It holds until paths are added or removed.
    pub fn set_best(&mut self, id: u32, position: Option<usize>) {
        self.entries[id].best = position.map_or(NO_BEST, |position| position as u16);
    }

    /// Adds a path.
    pub fn push(&mut self, id: u32, path: Path) {
        let entry = &mut self.entries[id];
        match entry.count {
            MANY => entry.set_list(self.lists.push(entry.list(), path)),
            count if usize::from(count) < FEW => {
                entry.few[usize::from(count)] = path;
                entry.count += 1;
            }
            _ => {
                let [first, second] = entry.few;
                entry.set_list(self.lists.make(&[first, second, path]));
            }
        }
    }

    /// Removes a path; the last path takes the free place.
    pub fn swap_remove(&mut self, id: u32, position: usize) -> Path {
        let entry = &mut self.entries[id];
        if entry.count != MANY {
            entry.count -= 1;
            entry.few.swap(position, entry.count.into());
            return entry.few[usize::from(entry.count)];
        }
        let (list, path) = self.lists.swap_remove(entry.list(), position);
        // Not as soon as there is room: one that comes and goes would make and drop a list each time.
        if let [last] = self.lists.get(list)[..] {
            self.lists.remove(list);
            (entry.few[0], entry.count) = (last, 1);
        } else {
            entry.set_list(list);
        }
        path
    }

    /// Returns true if the place is free.
    pub fn is_vacant(&self, id: u32) -> bool {
        self.entries[id].count == 0 && !self.entries[id].is_queued()
    }
}

impl<P> core::ops::Index<u32> for Entries<P> {
    type Output = Entry<P>;

    #[inline]
    fn index(&self, id: u32) -> &Entry<P> {
        &self.entries[id]
    }
}

impl<P> core::ops::IndexMut<u32> for Entries<P> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Entry<P> {
        &mut self.entries[id]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use sluice_base::{Ipv4Prefix, Ipv6Prefix};

    #[test]
    fn sizes() {
        assert_eq!(size_of::<Path>(), 8);
        assert_eq!(size_of::<Entry<Ipv4Prefix>>(), 32);
        assert_eq!(size_of::<Entry<Ipv6Prefix>>(), 44);
    }

    proptest! {
        #[test]
        fn paths_are_as_in_a_list(steps in prop::collection::vec((0..3_u32, 0..6_u16, any::<bool>()), 0..100)) {
            let mut entries = Entries::default();
            let mut known: [Vec<Path>; 3] = Default::default();
            (0..3).for_each(|id| assert_eq!(entries.insert(id), id));
            for (id, position, adds) in steps {
                let list = &mut known[id as usize];
                let place = usize::from(position);
                if adds {
                    let path = Path { attributes: PathSet::from_bits(7), number: PathNumber(position), generation: 1 };
                    list.push(path);
                    entries.push(id, path);
                } else if place < list.len() {
                    prop_assert_eq!(entries.swap_remove(id, place), list.swap_remove(place));
                }
                entries.set_best(id, Some(place));
                prop_assert_eq!(entries.paths(id), &list[..]);
                prop_assert_eq!(entries.best(id), list.get(place));
                prop_assert_eq!(entries.is_vacant(id), list.is_empty());
            }
        }
    }
}
