//! The fan-out: one queue of changes, many readers, no copies (XORP, section 5.1.1).
//!
//! The queue holds entry numbers in the order in which their best route changed, and the event behind each. A reader is a
//! cursor. An entry remembers its latest place, so that a reader which meets an earlier one skips it; what is stale is
//! squeezed out when the queue holds more than two references an entry. A blocked reader therefore costs a bounded
//! number of queue places and nothing else.

use super::entry::Entries;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sluice_base::Provenance;

/// Never squeezed below this length: for small tables it is not worth the walk.
const SLACK: usize = 4096;

/// A change, packed to 12 octets.
#[derive(Clone, Copy, Debug)]
struct Change {
    entry: u32,
    provenance: [u32; 2],
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    changes: VecDeque<Change>,
    /// The place of the first change that is still there.
    start: u64,
}

impl Queue {
    /// The place of the first change that is still there.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The place that the next change will have.
    pub fn end(&self) -> u64 {
        self.start + self.changes.len() as u64
    }

    /// Adds a change of `id`; earlier ones of the same entry are stale from now on.
    pub fn push<P>(&mut self, entries: &mut Entries<P>, id: u32, provenance: Provenance) {
        let entry = &mut entries[id];
        entry.queued = self.end() as u32;
        entry.set_queued(true);
        let bits = provenance.bits();
        self.changes.push_back(Change { entry: id, provenance: [bits as u32, (bits >> 32) as u32] });
    }

    /// The entry and event at `place`; `None` if a later change of the entry made it stale.
    pub fn get<P>(&self, entries: &Entries<P>, place: u64) -> Option<(u32, Provenance)> {
        let change = self.changes[(place - self.start) as usize];
        let [low, high] = change.provenance;
        let provenance = Provenance::from_bits(u64::from(low) | u64::from(high) << 32);
        (entries[change.entry].queued == place as u32).then_some((change.entry, provenance))
    }

    /// Returns true if a reader whose next place is `cursor` has yet to read the latest change of an entry.
    pub fn is_pending<P>(&self, entries: &Entries<P>, id: u32, cursor: u64) -> bool {
        let entry = &entries[id];
        // Places of the queue are at most 2^31 apart, so that their low bits tell their order.
        entry.is_queued() && entry.queued.wrapping_sub(cursor as u32) < 1 << 31
    }

    /// Drops what every reader has passed: all before `place`. `free` is told the entries that are in the queue no more.
    pub fn trim<P>(&mut self, entries: &mut Entries<P>, place: u64, mut free: impl FnMut(u32)) {
        while self.start < place {
            let Some(change) = self.changes.pop_front() else { break };
            let entry = &mut entries[change.entry];
            if entry.is_queued() && entry.queued == self.start as u32 {
                entry.set_queued(false);
                free(change.entry);
            }
            self.start += 1;
        }
        if self.changes.is_empty() {
            // A whole table went through; the next changes will be few.
            self.changes.shrink_to(SLACK);
        }
    }

    /// Returns true if it is time to compact, with so many entries.
    pub fn needs_compaction(&self, entries: usize) -> bool {
        self.changes.len() > 2 * entries + SLACK
    }

    /// Takes out what is stale. `cursors` are the readers' and are moved along.
    pub fn compact<P>(&mut self, entries: &mut Entries<P>, cursors: &mut [&mut u64]) {
        let mut kept_before: Vec<u64> = cursors.iter().map(|_| 0).collect();
        let mut kept = VecDeque::new();
        let begin = self.end();
        for (index, change) in self.changes.iter().enumerate() {
            let place = self.start + index as u64;
            let entry = &mut entries[change.entry];
            if entry.queued != place as u32 {
                continue;
            }
            entry.queued = (begin + kept.len() as u64) as u32;
            kept.push_back(*change);
            for (count, cursor) in kept_before.iter_mut().zip(cursors.iter()) {
                *count += u64::from(place < **cursor);
            }
        }
        for (count, cursor) in kept_before.iter().zip(cursors.iter_mut()) {
            **cursor = begin + count;
        }
        self.changes = kept;
        self.start = begin;
    }

    /// The number of references that the queue holds.
    pub fn len(&self) -> usize {
        self.changes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Ipv4Prefix;

    fn read(queue: &Queue, entries: &Entries<Ipv4Prefix>, from: u64) -> Vec<u32> {
        (from..queue.end()).filter_map(|p| queue.get(entries, p)).map(|(id, _)| id).collect()
    }

    #[test]
    fn readers_see_the_latest_change_once() {
        let mut entries = Entries::default();
        let ids: Vec<u32> =
            (0..4).map(|n| entries.insert(std::format!("10.{n}.0.0/16").parse().unwrap())).collect();
        let mut queue = Queue::default();
        let push = |queue: &mut Queue, entries: &mut _, list: &[usize]| {
            for n in list {
                queue.push(entries, ids[*n], Provenance::new(1, 1 << 40));
            }
        };
        push(&mut queue, &mut entries, &[0, 1, 0, 2, 1, 3]);
        assert_eq!(read(&queue, &entries, 0), [0, 2, 1, 3]);
        assert_eq!(queue.get(&entries, 5), Some((3, Provenance::new(1, 1 << 40))));
        let (mut slow, mut fast) = (1, 4);
        queue.compact(&mut entries, &mut [&mut slow, &mut fast]);
        assert_eq!((queue.len(), queue.end() - fast, queue.end() - slow), (4, 2, 4));
        assert_eq!(read(&queue, &entries, slow), [0, 2, 1, 3]);
        assert_eq!(read(&queue, &entries, fast), [1, 3]);
        push(&mut queue, &mut entries, &[3]);
        assert_eq!(read(&queue, &entries, fast), [1, 3]);
        let mut freed = Vec::new();
        let end = queue.end();
        queue.trim(&mut entries, end, |id| freed.push(id));
        assert_eq!((freed, queue.len()), (alloc::vec![0, 2, 1, 3], 0));
    }
}
