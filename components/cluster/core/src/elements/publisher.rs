//! The control plane's table of neighbors, and its frames: changes at once, and the whole table in rounds.

use crate::elements::replica::MOST_NEIGHBORS;
use crate::frames::neighbors::{MOST_ENTRIES, NeighborKey, Part};
use crate::mac::Mac;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;
use core::time::Duration;
use sluice_base::Instant;

/// The time between two parts of a round.
const PART_TIME: Duration = Duration::from_millis(20);
/// The time between the end of a round and the next.
const REST: Duration = Duration::from_secs(2);

/// The part and the neighbors of a frame.
pub type FrameContent = (Part, Vec<(NeighborKey, Option<Mac>)>);

/// The table.
#[derive(Clone, Debug)]
pub struct Publisher {
    known: BTreeMap<NeighborKey, Mac>,
    changed: BTreeMap<NeighborKey, Option<Mac>>,
    /// The last neighbor of the last part, and the number of the next part.
    round: (Option<NeighborKey>, u16),
    due: Instant,
}

impl Publisher {
    /// Makes an empty table. The first round begins at `now`.
    pub fn new(now: Instant) -> Self {
        Publisher { known: BTreeMap::new(), changed: BTreeMap::new(), round: (None, 0), due: now }
    }

    /// Sets a neighbor's MAC address; `None` for a neighbor that is gone. Returns false if the table has no room.
    pub fn set(&mut self, key: NeighborKey, mac: Option<Mac>) -> bool {
        let before = match mac {
            Some(_) if self.known.len() >= MOST_NEIGHBORS && !self.known.contains_key(&key) => return false,
            Some(mac) => self.known.insert(key, mac),
            None => self.known.remove(&key),
        };
        if before != mac {
            self.changed.insert(key, mac);
        }
        true
    }

    /// Drops the neighbors for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&NeighborKey) -> bool) {
        let gone: Vec<NeighborKey> = self.known.keys().filter(|key| !keep(key)).copied().collect();
        for key in gone {
            self.set(key, None);
        }
    }

    /// Returns a neighbor's MAC address.
    pub fn get(&self, key: &NeighborKey) -> Option<Mac> {
        self.known.get(key).copied()
    }

    /// Iterates over the neighbors by port and address.
    pub fn iter(&self) -> impl Iterator<Item = (NeighborKey, Mac)> + '_ {
        self.known.iter().map(|(key, mac)| (*key, *mac))
    }

    /// Begins a new round at once, as for an element that has just started.
    pub fn restart(&mut self, now: Instant) {
        self.round = (None, 0);
        self.due = now;
    }

    /// Returns the contents of the frames with the changes since the last call.
    pub fn changes(&mut self) -> Vec<FrameContent> {
        let changed: Vec<_> = core::mem::take(&mut self.changed).into_iter().collect();
        changed.chunks(MOST_ENTRIES).map(|part| (Part::Change, part.to_vec())).collect()
    }

    /// Returns the time of the next part.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the content of the next part, if the part is due.
    pub fn next_part(&mut self, now: Instant) -> Option<FrameContent> {
        if now < self.due {
            return None;
        }
        let (after, number) = self.round;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.known.range((from, Bound::Unbounded)).map(|(key, mac)| (*key, Some(*mac)));
        let entries: Vec<_> = rest.by_ref().take(MOST_ENTRIES).collect();
        let is_last = rest.next().is_none();
        self.round = if is_last { (None, 0) } else { (entries.last().map(|(key, _)| *key), number + 1) };
        self.due = now + if is_last { REST } else { PART_TIME };
        Some((Part::Round { number, is_last }, entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::replica::Replica;
    use crate::inventory::PortNumber;

    #[test]
    fn rounds_bring_the_table_over() {
        let mut publisher = Publisher::new(Instant::ZERO);
        let key = |number: u16| {
            let [high, low] = number.to_be_bytes();
            NeighborKey { port: PortNumber::new(1).unwrap(), address: [10, 0, high, low].into() }
        };
        let mac = Some(Mac([2, 0, 0, 0, 0, 1]));
        for number in 0..150 {
            assert!(publisher.set(key(number), mac));
        }
        publisher.set(key(0), None);
        let (mut replica, mut now, mut frames) = (Replica::default(), Instant::ZERO, 0);
        while !replica.is_complete() {
            now = publisher.due();
            let (part, entries) = publisher.next_part(now).unwrap();
            replica.apply(part, entries);
            frames += 1;
        }
        assert_eq!((frames, replica.len()), (3, 149));
        assert_eq!(publisher.next_part(now), None);
        assert_eq!(publisher.due(), now + REST);
        let changes: usize = publisher.changes().iter().map(|(_, entries)| entries.len()).sum();
        assert_eq!((changes, publisher.changes().len()), (150, 0));
    }
}
