//! A table of routes by ID and number of bits, for a million entries: 52 octets an entry, at most 7 of spare room, and 6 to 12 of
//! index.

use crate::anchor::hash_id;
use crate::route::{Entry, Route};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use sluice_base::{XidPrefix, XidType};

/// Bits of an ID.
pub(super) const ID_BITS: u8 = 160;

#[derive(Clone, Copy)]
struct Stored {
    id: [u8; 20],
    bits: u8,
    route: Route,
}

const _: () = assert!(size_of::<Stored>() <= 64);

/// Routes by ID and number of bits. IDs of the same number of bits have no bits behind them.
#[derive(Clone)]
pub(super) struct Entries {
    hasher: FixedState,
    index: HashTable<u32>,
    stored: Vec<Stored>,
}

impl Entries {
    /// Makes an empty table. IDs come from neighbors: a secret `seed` keeps their authors from choosing IDs that collide.
    pub(super) fn new(seed: u64) -> Self {
        Entries { hasher: FixedState::with_seed(seed), index: HashTable::new(), stored: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.stored.len()
    }

    fn hash(hasher: &FixedState, id: &[u8; 20], bits: u8) -> u64 {
        let mut state = hasher.build_hasher();
        hash_id(id, u32::from(bits), &mut state);
        state.finish()
    }

    /// Returns the route of an ID.
    pub(super) fn get(&self, id: &[u8; 20], bits: u8) -> Option<Route> {
        let hash = Self::hash(&self.hasher, id, bits);
        let is_it = |place: &u32| {
            let stored = &self.stored[*place as usize];
            stored.id == *id && stored.bits == bits
        };
        let place = self.index.find(hash, is_it)?;
        Some(self.stored[*place as usize].route)
    }

    /// Adds, replaces or removes a route, and returns the route before.
    pub(super) fn set(&mut self, id: &[u8; 20], bits: u8, route: Option<Route>) -> Option<Route> {
        let Entries { hasher, index, stored } = self;
        let hash = Self::hash(hasher, id, bits);
        let found = index.find_entry(hash, |place| {
            let stored = &stored[*place as usize];
            stored.id == *id && stored.bits == bits
        });
        match (found, route) {
            (Ok(found), Some(route)) => {
                let place = &mut stored[*found.get() as usize];
                Some(core::mem::replace(&mut place.route, route))
            }
            (Ok(found), None) => {
                let (place, _) = found.remove();
                let removed = stored.swap_remove(place as usize);
                if let Some(moved) = stored.get(place as usize) {
                    let last = stored.len() as u32;
                    let hash = Self::hash(hasher, &moved.id, moved.bits);
                    if let Some(index) = index.find_mut(hash, |index| *index == last) {
                        *index = place;
                    }
                }
                Some(removed.route)
            }
            (Err(_), Some(route)) => {
                if stored.len() == stored.capacity() {
                    stored.reserve_exact(16 + stored.len() / 8); // doubling would leave half of a large table unused
                }
                let place = stored.len() as u32;
                stored.push(Stored { id: *id, bits, route });
                index.insert_unique(hash, place, |place| {
                    let stored = &stored[*place as usize];
                    Self::hash(hasher, &stored.id, stored.bits)
                });
                None
            }
            (Err(_), None) => None,
        }
    }

    /// Returns up to `most` entries in the order of their keys, beginning after `after`. Reads the whole table.
    pub(super) fn page(&self, kind: XidType, after: Option<XidPrefix>, most: usize) -> Vec<Entry> {
        let mut page = BinaryHeap::new();
        for (place, stored) in self.stored.iter().enumerate() {
            let Some(prefix) = XidPrefix::of_type(kind, stored.id, stored.bits) else { continue };
            if after.is_some_and(|after| prefix <= after) {
                continue;
            }
            page.push((prefix, place));
            if page.len() > most {
                page.pop();
            }
        }
        let entry = |(prefix, place): (XidPrefix, usize)| Entry { prefix, route: self.stored[place].route };
        page.into_sorted_vec().into_iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::NeighborId;
    use alloc::collections::BTreeMap;
    use sluice_base::Rng;

    #[test]
    fn a_table_that_shrinks_and_grows_holds_the_same_as_a_map() {
        let (mut entries, mut model, mut rng) = (Entries::new(7), BTreeMap::new(), Rng::from_seed(1));
        for step in 0..20_000_u32 {
            let mut id = [0; 20];
            id[0] = rng.below(200) as u8;
            let bits = [8, 32, ID_BITS][rng.below(3) as usize];
            let route = (rng.below(2) == 0).then_some(Route::Neighbor(NeighborId(step)));
            let before = entries.set(&id, bits, route);
            let expected = match route {
                Some(route) => model.insert((id, bits), route),
                None => model.remove(&(id, bits)),
            };
            assert_eq!((before, entries.len()), (expected, model.len()));
            assert_eq!(entries.get(&id, bits), route);
        }
        for ((id, bits), route) in &model {
            assert_eq!(entries.get(id, *bits), Some(*route));
        }
        let (mut seen, mut after) = (0, None);
        loop {
            let page = entries.page(XidType::AD, after, 7);
            let Some(last) = page.last() else { break };
            assert!(page.is_sorted_by_key(|entry| entry.prefix));
            (seen, after) = (seen + page.len(), Some(last.prefix));
        }
        assert_eq!(seen, model.len());
    }
}
