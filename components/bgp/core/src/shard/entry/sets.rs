//! The shard's attribute sets: each set is stored once, with a count of its users.
//!
//! A path without import policy has the received set. A path changed or rejected by policy has a *pair*: the received set, and
//! policy's result. Equal results are one set, of any origin: the decision, the packing of UPDATEs and comparisons see results
//! only.

use crate::attributes::{View, private};
use crate::index::{Index, half};
use crate::long_lived;
use crate::octets::{Octets, Stored};
use crate::slab::Slab;
use alloc::boxed::Box;
use core::hash::BuildHasher;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// The number of an attribute set in its shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SetId(pub u32);

/// The attributes of a path: a set, or a pair of the received set and the result of import policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PathSet(u32);

/// The bit of a [`PathSet`] that is a pair. There are fewer than 2^31 sets.
const PAIR: u32 = 1 << 31;

impl PathSet {
    /// Makes the attributes of a path unchanged by policy.
    pub const fn as_received(set: SetId) -> Self {
        PathSet(set.0)
    }

    /// Returns the value's bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Makes a value from its bits.
    pub const fn from_bits(bits: u32) -> Self {
        PathSet(bits)
    }

    /// Returns the set of a path unchanged by policy.
    #[inline(always)]
    pub const fn plain(self) -> Option<SetId> {
        if self.0 & PAIR == 0 { Some(SetId(self.0)) } else { None }
    }

    /// Returns the number of the pair; `None` for a set.
    #[inline(always)]
    const fn pair(self) -> Option<u32> {
        if self.0 & PAIR == 0 { None } else { Some(self.0 & !PAIR) }
    }
}

#[derive(Debug)]
pub(crate) struct Set {
    /// Canonical octets: see [`Sets::octets`].
    pub stored: Stored,
    /// The half of the hash that the index needs.
    hash: u32,
    references: u32,
    pub hop: u32,
    pub view: View,
}

/// A received set, and the result of import policy: `None` for a rejected path.
#[derive(Clone, Copy, Debug)]
struct Pair {
    received: SetId,
    accepted: Option<SetId>,
    references: u32,
}

/// The pairs of a shard. Each has a reference to both of its sets.
#[derive(Debug, Default)]
struct Pairs {
    slots: Slab<Pair>,
    index: HashTable<u32>,
}

/// The next hops of sets that are removed.
pub(crate) type FreedHops = SmallVec<[u32; 2]>;

#[derive(Debug, Default)]
pub(crate) struct Sets {
    slots: Slab<Set>,
    octets: Octets,
    index: Index,
    /// Made with the first pair: routers without policy have none.
    pairs: Option<Box<Pairs>>,
    /// Sets with private properties.
    private_count: usize,
    /// Sets of long-lived stale routes.
    long_lived_count: usize,
}

fn pair_hash(received: SetId, accepted: Option<SetId>) -> u64 {
    FixedState::with_seed(0).hash_one((received, accepted))
}

impl Sets {
    /// Returns the set with these octets and next hop, with one more reference; `None` for a new set.
    pub fn find(&mut self, hash: u64, octets: &[u8], is_hop: impl Fn(u32) -> bool) -> Option<SetId> {
        let (slots, strings) = (&self.slots, &self.octets);
        let hash = half(hash);
        let id = self.index.find(hash, |id| {
            let set = &slots[id];
            set.hash == hash && strings.get(set.stored) == octets && is_hop(set.hop)
        })?;
        self.slots[id].references += 1;
        Some(SetId(id))
    }

    /// Stores a new set, with one reference.
    pub fn insert(&mut self, hash: u64, octets: &[u8], hop: u32, view: View) -> SetId {
        let stored = self.octets.insert(octets);
        self.private_count += usize::from(private::is_in(octets));
        self.long_lived_count += usize::from(long_lived::is_stale(octets));
        let hash = half(hash);
        let id = self.slots.insert(Set { stored, hash, references: 1, hop, view });
        let slots = &self.slots;
        self.index.insert(hash, id, |id| slots[id].hash);
        SetId(id)
    }

    pub fn retain(&mut self, id: SetId) {
        self.slots[id.0].references += 1;
    }

    /// Releases a reference. Returns the next hop of a set without references, which is removed.
    pub fn release(&mut self, id: SetId) -> Option<u32> {
        let set = &mut self.slots[id.0];
        set.references -= 1;
        if set.references > 0 {
            return None;
        }
        let (hash, hop, stored) = (set.hash, set.hop, set.stored);
        if self.private_count > 0 {
            self.private_count -= usize::from(private::is_in(self.octets.get(stored)));
        }
        if self.long_lived_count > 0 {
            self.long_lived_count -= usize::from(long_lived::is_stale(self.octets.get(stored)));
        }
        self.octets.remove(stored);
        self.index.remove(hash, id.0);
        self.slots.remove(id.0);
        Some(hop)
    }

    fn pair(&self, number: u32) -> Option<&Pair> {
        self.pairs.as_ref().map(|pairs| &pairs.slots[number])
    }

    /// Returns the set that came with a path.
    #[inline]
    pub fn received(&self, attributes: PathSet) -> SetId {
        let pair = attributes.pair().and_then(|number| self.pair(number));
        pair.map_or(SetId(attributes.0), |pair| pair.received)
    }

    /// Returns the set of a path after import policy; `None` for a rejected path.
    #[inline(always)]
    pub fn accepted(&self, attributes: PathSet) -> Option<SetId> {
        match attributes.pair() {
            None => Some(SetId(attributes.0)),
            Some(number) => self.result(number),
        }
    }

    #[inline(never)]
    fn result(&self, number: u32) -> Option<SetId> {
        self.pair(number).and_then(|pair| pair.accepted)
    }

    /// Returns the attributes of a path with these two sets, with a reference for the caller.
    pub fn imported(&mut self, received: SetId, accepted: Option<SetId>) -> PathSet {
        if accepted == Some(received) {
            self.retain(received);
            return PathSet::as_received(received);
        }
        let hash = pair_hash(received, accepted);
        let pairs = self.pairs.get_or_insert_default();
        let slots = &mut pairs.slots;
        let is_same = |id: &u32| (slots[*id].received, slots[*id].accepted) == (received, accepted);
        if let Some(&known) = pairs.index.find(hash, is_same) {
            slots[known].references += 1;
            return PathSet(known | PAIR);
        }
        let id = slots.insert(Pair { received, accepted, references: 1 });
        let hash_of = |id: &u32| pair_hash(slots[*id].received, slots[*id].accepted);
        pairs.index.insert_unique(hash, id, hash_of);
        self.retain(received);
        accepted.into_iter().for_each(|set| self.retain(set));
        PathSet(id | PAIR)
    }

    /// Adds a reference to the attributes of a path.
    #[inline]
    pub fn retain_path(&mut self, attributes: PathSet) {
        match (attributes.pair(), &mut self.pairs) {
            (Some(number), Some(pairs)) => pairs.slots[number].references += 1,
            _ => self.retain(SetId(attributes.0)),
        }
    }

    /// Releases a reference to a pair. Returns the next hops of removed sets.
    #[inline(never)]
    pub fn release_pair(&mut self, attributes: PathSet) -> FreedHops {
        let (Some(number), Some(pairs)) = (attributes.pair(), &mut self.pairs) else {
            return self.release(SetId(attributes.0)).into_iter().collect();
        };
        let pair = &mut pairs.slots[number];
        pair.references -= 1;
        let Pair { received, accepted, references } = *pair;
        if references > 0 {
            return FreedHops::new();
        }
        if let Ok(entry) = pairs.index.find_entry(pair_hash(received, accepted), |id| *id == number) {
            entry.remove();
        }
        pairs.slots.remove(number);
        [Some(received), accepted].into_iter().flatten().filter_map(|set| self.release(set)).collect()
    }

    /// Returns the canonical octets of a set.
    pub fn octets(&self, set: &Set) -> &[u8] {
        self.octets.get(set.stored)
    }

    /// Returns true if a set has private properties. Costs nothing as long as no set has any.
    #[inline]
    pub fn has_private(&self, id: SetId) -> bool {
        self.private_count > 0 && private::is_in(self.octets(&self[id]))
    }

    /// Returns true for a set of long-lived stale routes (RFC 9494). Free of cost without such sets.
    #[inline]
    pub fn is_long_lived(&self, id: SetId) -> bool {
        self.long_lived_count > 0 && long_lived::is_stale(self.octets(&self[id]))
    }

    /// Returns true if any set is one of long-lived stale routes.
    #[inline]
    pub const fn has_long_lived(&self) -> bool {
        self.long_lived_count > 0
    }

    /// Returns the number of sets.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of pairs.
    pub fn pair_count(&self) -> usize {
        self.pairs.as_ref().map_or(0, |pairs| pairs.slots.len())
    }
}

impl core::ops::Index<SetId> for Sets {
    type Output = Set;

    #[inline]
    fn index(&self, id: SetId) -> &Set {
        &self.slots[id.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::canonical;
    use sluice_base::Asn;

    #[test]
    fn size() {
        assert_eq!(size_of::<Set>(), 48);
        assert_eq!(size_of::<Pair>(), 16);
    }

    #[test]
    fn a_pair_keeps_its_sets() {
        let (octets, view) = canonical::local(Asn(1));
        let mut sets = Sets::default();
        let came = sets.insert(1 << 40, &octets, 7, view);
        let made = sets.insert(2 << 40, &octets, 8, view);
        let unchanged = sets.imported(came, Some(came));
        assert_eq!((unchanged, sets.pair_count()), (PathSet::as_received(came), 0));
        let pair = sets.imported(came, Some(made));
        assert_eq!(sets.imported(came, Some(made)), pair);
        let rejected = sets.imported(came, None);
        assert_eq!((sets.received(pair), sets.accepted(pair)), (came, Some(made)));
        assert_eq!((sets.received(rejected), sets.accepted(rejected)), (came, None));
        // The caller's references.
        assert!(sets.release(came).is_none() && sets.release(made).is_none());
        assert!(sets.release_pair(pair).is_empty() && sets.release_pair(unchanged).is_empty());
        assert_eq!(sets.release_pair(pair)[..], [8]);
        assert_eq!((sets.pair_count(), sets.len()), (1, 1));
        sets.retain_path(rejected);
        assert!(sets.release_pair(rejected).is_empty());
        assert_eq!(sets.release_pair(rejected)[..], [7]);
        assert_eq!((sets.pair_count(), sets.len()), (0, 0));
    }
}
