//! The neighbors at an element: the control plane's table as its frames say.

use crate::frames::neighbors::{NeighborKey, Part};
use crate::mac::Mac;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The neighbors that are kept. The control plane has at most as many.
pub const MOST_NEIGHBORS: usize = 16_384;

/// A changed neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborChange {
    /// The neighbor.
    pub key: NeighborKey,
    /// The MAC address before; `None` for a new neighbor.
    pub before: Option<Mac>,
    /// The MAC address now; `None` for a neighbor that is gone.
    pub now: Option<Mac>,
}

/// The neighbors.
#[derive(Clone, Default, Debug)]
pub struct Replica {
    /// The MAC addresses, and the number of the round that named the neighbor last.
    entries: BTreeMap<NeighborKey, (Mac, u64)>,
    round: u64,
    /// The next part of the round; `None` if a part was lost.
    next_part: Option<u16>,
    is_complete: bool,
}

impl Replica {
    /// Takes in a frame's neighbors. Returns the neighbors that changed.
    pub fn apply(
        &mut self,
        part: Part,
        entries: impl IntoIterator<Item = (NeighborKey, Option<Mac>)>,
    ) -> Vec<NeighborChange> {
        if let Part::Round { number, .. } = part {
            if number == 0 {
                self.round += 1;
                self.next_part = Some(0);
            }
            self.next_part = self.next_part.filter(|next| *next == number).map(|next| next.wrapping_add(1));
        }
        let mut changes = Vec::new();
        for (key, now) in entries {
            let before = self.get(&key);
            match now {
                Some(mac) if before.is_some() || self.entries.len() < MOST_NEIGHBORS => {
                    self.entries.insert(key, (mac, self.round));
                }
                Some(_) => continue,
                None => {
                    self.entries.remove(&key);
                }
            }
            changes.extend((before != now).then_some(NeighborChange { key, before, now }));
        }
        if matches!(part, Part::Round { is_last: true, .. }) && self.next_part.take().is_some() {
            self.is_complete = true;
            let round = self.round;
            let unnamed = self.entries.extract_if(.., |_, (_, named)| *named != round);
            changes.extend(unnamed.map(|(key, (mac, _))| NeighborChange {
                key,
                before: Some(mac),
                now: None,
            }));
        }
        changes
    }

    /// Returns true once a whole round was received.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns a neighbor's MAC address.
    pub fn get(&self, key: &NeighborKey) -> Option<Mac> {
        self.entries.get(key).map(|(mac, _)| *mac)
    }

    /// Iterates over the neighbors by port and address.
    pub fn iter(&self) -> impl Iterator<Item = (NeighborKey, Mac)> + '_ {
        self.entries.iter().map(|(key, (mac, _))| (*key, *mac))
    }

    /// Returns the number of neighbors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true without neighbors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::PortNumber;
    use alloc::vec;

    fn neighbor(last: u8) -> NeighborKey {
        NeighborKey { port: PortNumber::new(1).unwrap(), address: [10, 0, 1, last].into() }
    }

    fn round(number: u16, is_last: bool) -> Part {
        Part::Round { number, is_last }
    }

    const A: Option<Mac> = Some(Mac([2, 0, 0, 0, 0, 1]));
    const B: Option<Mac> = Some(Mac([2, 0, 0, 0, 0, 2]));

    fn change(replica: &mut Replica, part: Part, entries: &[(u8, Option<Mac>)]) -> Vec<(u8, Option<Mac>)> {
        let entries = entries.iter().map(|(last, mac)| (neighbor(*last), *mac));
        let changes = replica.apply(part, entries).into_iter();
        let last = |key: NeighborKey| match key.address {
            core::net::IpAddr::V4(address) => address.octets()[3],
            core::net::IpAddr::V6(_) => 0,
        };
        changes.map(|change| (last(change.key), change.now)).collect()
    }

    #[test]
    fn a_whole_round_drops_the_neighbors_that_it_does_not_name() {
        let mut replica = Replica::default();
        assert_eq!(change(&mut replica, Part::Change, &[(1, A)]), vec![(1, A)]);
        assert_eq!(change(&mut replica, Part::Change, &[(1, A)]), vec![]);
        change(&mut replica, Part::Change, &[(2, A), (3, A)]);
        assert_eq!(change(&mut replica, round(0, false), &[(1, B)]), vec![(1, B)]);
        // A change inside a round counts as named.
        assert_eq!(change(&mut replica, Part::Change, &[(4, A)]), vec![(4, A)]);
        assert_eq!(change(&mut replica, round(1, true), &[(2, A)]), vec![(3, None)]);
        assert!(replica.is_complete() && replica.len() == 3);
        assert_eq!(change(&mut replica, Part::Change, &[(4, None)]), vec![(4, None)]);
    }

    #[test]
    fn a_round_with_a_lost_part_drops_nothing() {
        let mut replica = Replica::default();
        change(&mut replica, Part::Change, &[(1, A)]);
        change(&mut replica, round(0, false), &[]);
        assert_eq!(change(&mut replica, round(2, true), &[]), vec![]);
        assert_eq!(change(&mut replica, round(1, true), &[]), vec![]);
        assert!(!replica.is_complete() && replica.get(&neighbor(1)) == A);
        assert_eq!(change(&mut replica, round(0, true), &[]), vec![(1, None)]);
    }
}
