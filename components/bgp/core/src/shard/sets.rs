//! The shard's attribute sets: each set is stored once, with a count of the paths that use the set.

use crate::attributes::View;
use crate::index::{Index, half};
use crate::octets::{Octets, Stored};
use crate::slab::Slab;

/// The number of an attribute set in its shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SetId(pub u32);

#[derive(Debug)]
pub(super) struct Set {
    /// Canonical octets: see [`Sets::octets`].
    pub stored: Stored,
    /// The half of the hash that the index needs.
    hash: u32,
    references: u32,
    pub hop: u32,
    pub view: View,
}

#[derive(Debug, Default)]
pub(super) struct Sets {
    slots: Slab<Set>,
    octets: Octets,
    index: Index,
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
        let (hash, hop) = (set.hash, set.hop);
        self.octets.remove(set.stored);
        self.index.remove(hash, id.0);
        self.slots.remove(id.0);
        Some(hop)
    }

    /// Returns the canonical octets of a set.
    pub fn octets(&self, set: &Set) -> &[u8] {
        self.octets.get(set.stored)
    }

    pub fn len(&self) -> usize {
        self.slots.len()
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

    #[test]
    fn size() {
        assert_eq!(size_of::<Set>(), 48);
    }
}
