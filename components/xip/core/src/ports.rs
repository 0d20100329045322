//! Numbers of far ends and of sets of ports: answers are small, and larger values are stored once and counted.

use crate::answer::{Action, Answer, NeighborId, PortSetId, TunnelId};
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use sluice_base::Xid;
use smallvec::SmallVec;

/// A way out of this host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Port {
    /// A neighbor on a link.
    Neighbor(NeighborId),
    /// A tunnel to a far end.
    Tunnel(TunnelId),
}

/// A way out of this host, with a far end that may have no number yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WayOut {
    /// A neighbor on a link.
    Neighbor(NeighborId),
    /// A tunnel to the address and port in an XID.
    Tunnel(Xid),
}

/// Ports in order, without repetitions.
pub type PortSet = SmallVec<[Port; 4]>;

struct Slot<T> {
    value: T,
    users: u32,
}

/// Values stored once each, with a number and a count of users. Numbers of values without users are given out again.
struct Numbers<T> {
    hasher: FixedState,
    index: HashTable<u32>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T: Eq + Hash + Default> Numbers<T> {
    fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Numbers { hasher, index: HashTable::new(), slots: Vec::new(), free: Vec::new() }
    }

    fn acquire(&mut self, value: T) -> u32 {
        let Numbers { hasher, index, slots, free } = self;
        let hash = hasher.hash_one(&value);
        if let Some(number) = index.find(hash, |number| slots[*number as usize].value == value) {
            slots[*number as usize].users += 1;
            return *number;
        }
        let slot = Slot { value, users: 1 };
        let number = free.pop().unwrap_or(slots.len() as u32);
        match slots.get_mut(number as usize) {
            Some(place) => *place = slot,
            None => slots.push(slot),
        }
        index.insert_unique(hash, number, |number| hasher.hash_one(&slots[*number as usize].value));
        number
    }

    fn release(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize).filter(|slot| slot.users > 0) else { return };
        slot.users -= 1;
        if slot.users == 0 {
            let hash = self.hasher.hash_one(&slot.value);
            if let Ok(found) = self.index.find_entry(hash, |known| *known == number) {
                found.remove();
            }
            slot.value = T::default();
            self.free.push(number);
        }
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize).filter(|slot| slot.users > 0).map(|slot| &slot.value)
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// The far ends of tunnels and the sets of ports in answers. An answer is a user of its values until the answer is released.
pub struct Ports {
    far_ends: Numbers<Option<Xid>>,
    sets: Numbers<PortSet>,
}

impl Ports {
    /// Makes an empty table. Far ends come from packets: a secret `seed` keeps their authors from choosing values that collide.
    pub fn new(seed: u64) -> Self {
        Ports { far_ends: Numbers::new(seed), sets: Numbers::new(seed) }
    }

    /// Returns the number of a far end, with one more user.
    pub(crate) fn acquire_tunnel(&mut self, far_end: Xid) -> TunnelId {
        TunnelId(self.far_ends.acquire(Some(far_end)))
    }

    /// Returns the number of a set, with one more user. The order and repetitions of `ways` do not matter.
    pub(crate) fn acquire_set(&mut self, ways: &mut [WayOut]) -> PortSetId {
        ways.sort_unstable();
        let mut set = PortSet::new();
        for (place, way) in ways.iter().enumerate() {
            if place > 0 && ways[place - 1] == *way {
                continue;
            }
            set.push(match way {
                WayOut::Neighbor(neighbor) => Port::Neighbor(*neighbor),
                WayOut::Tunnel(far_end) => Port::Tunnel(self.acquire_tunnel(*far_end)),
            });
        }
        set.sort_unstable();
        PortSetId(self.sets.acquire(set))
    }

    /// Returns the address and port of a far end as an XID; `None` if no answer names the number.
    pub fn far_end(&self, tunnel: TunnelId) -> Option<Xid> {
        *self.far_ends.get(tunnel.0)?
    }

    /// Returns the ports of a set; `None` if no answer names the number.
    pub fn set(&self, set: PortSetId) -> Option<&[Port]> {
        self.sets.get(set.0).map(|set| set.as_slice())
    }

    /// Takes a dropped answer out of the users of its values. To be called once an answer.
    pub fn release(&mut self, answer: &Answer) {
        match answer {
            Answer::Chosen { action: Action::Tunnel(tunnel), .. } => self.far_ends.release(tunnel.0),
            Answer::Chosen { action: Action::Replicate { ports, .. }, .. } => {
                for port in self.sets.get(ports.0).into_iter().flatten() {
                    if let Port::Tunnel(tunnel) = port {
                        self.far_ends.release(tunnel.0);
                    }
                }
                self.sets.release(ports.0);
            }
            Answer::Chosen { .. } | Answer::Unreachable => {}
        }
    }

    /// Returns the number of far ends and of sets in use.
    pub fn counts(&self) -> (usize, usize) {
        (self.far_ends.len(), self.sets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::XidType;

    #[test]
    fn numbers_are_given_out_again_when_the_last_answer_is_released() {
        let mut ports = Ports::new(1);
        let far = |octet| Xid { kind: XidType::U4ID, id: [octet; 20] };
        let neighbor = WayOut::Neighbor(NeighborId(4));
        let first = ports.acquire_set(&mut [WayOut::Tunnel(far(1)), neighbor, neighbor]);
        let again = ports.acquire_set(&mut [neighbor, WayOut::Tunnel(far(1))]);
        let tunnel = ports.acquire_tunnel(far(1));
        assert_eq!((first, ports.counts()), (again, (1, 1)));
        assert_eq!(ports.set(first), Some([Port::Neighbor(NeighborId(4)), Port::Tunnel(tunnel)].as_slice()));
        let copies = Answer::Chosen { edge: 0, action: Action::Replicate { ports: first, local: false } };
        let direct = Answer::Chosen { edge: 0, action: Action::Tunnel(tunnel) };
        ports.release(&copies);
        ports.release(&direct);
        assert_eq!((ports.far_end(tunnel), ports.counts()), (Some(far(1)), (1, 1)));
        ports.release(&copies);
        assert_eq!((ports.far_end(tunnel), ports.set(first), ports.counts()), (None, None, (0, 0)));
        assert_eq!(ports.acquire_tunnel(far(2)), tunnel);
    }
}
