//! The fan-out: one queue of changes, many readers, no copies (XORP, section 5.1.1).
//!
//! The queue holds entry numbers in the order in which their best route changed, and the event behind each. A reader is a
//! [`Cursor`]. An entry remembers the latest place, so a reader skips an earlier place; stale places are removed when the queue
//! holds more than two references for each entry. A blocked reader therefore costs only a bounded number of queue places.
//!
//! Changes wait in two lanes, so that no event waits for background work (XORP, section 4): changes of events, and changes of
//! background work, possibly as many as entries. A reader takes the events' changes first, and always some of the background
//! work's.

use super::entry::{Entries, Entry};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sluice_base::Provenance;

/// The length below which the queue is never compacted: not worth the walk for small tables.
const SLACK: usize = 4096;
/// The share of background work: one of this number of changes taken at once. A neighbor that sends without end does not hold up
/// the withdrawals of a lost neighbor.
const BACKGROUND_SHARE: usize = 8;
/// The lane of changes that events made.
const EVENTS: usize = 0;
/// The lane of changes that background work made.
const BACKGROUND: usize = 1;

/// A change, packed to 12 octets.
#[derive(Clone, Copy, Debug)]
struct Change {
    entry: u32,
    provenance: [u32; 2],
}

/// A reader's next place in each lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cursor([u64; 2]);

impl Cursor {
    /// Returns the earlier place in each lane.
    pub fn min(self, other: Cursor) -> Cursor {
        Cursor([self.0[EVENTS].min(other.0[EVENTS]), self.0[BACKGROUND].min(other.0[BACKGROUND])])
    }

    /// Returns true if the cursor is not behind a second cursor in any lane, and ahead in one.
    pub const fn is_past(self, other: Cursor) -> bool {
        self.0[EVENTS] > other.0[EVENTS] || self.0[BACKGROUND] > other.0[BACKGROUND]
    }

    /// Returns the number of places up to a later cursor.
    pub const fn distance(self, later: Cursor) -> u64 {
        later.0[EVENTS] - self.0[EVENTS] + later.0[BACKGROUND] - self.0[BACKGROUND]
    }
}

/// Changes in order.
#[derive(Debug, Default)]
struct Lane {
    changes: VecDeque<Change>,
    /// The place of the first change that is still there.
    start: u64,
}

impl Lane {
    /// The place that the next change will have.
    fn end(&self) -> u64 {
        self.start + self.changes.len() as u64
    }
}

/// The stored part of an entry's latest place: the low bits, and the lane.
const fn mark(lane: usize, place: u64) -> u32 {
    (place as u32) << 1 | lane as u32
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: [Lane; 2],
    /// True while background work makes changes.
    is_background: bool,
    /// The ends of the events' lane at the beginnings of the last two slices of background work.
    slices: [u64; 2],
}

impl Queue {
    /// The place of the first changes that are still there.
    pub const fn start(&self) -> Cursor {
        Cursor([self.lanes[EVENTS].start, self.lanes[BACKGROUND].start])
    }

    /// The place that the next changes will have.
    pub fn end(&self) -> Cursor {
        Cursor([self.lanes[EVENTS].end(), self.lanes[BACKGROUND].end()])
    }

    /// Changes are those of background work from now on.
    pub fn begin_background(&mut self) {
        self.is_background = true;
        self.slices = [self.slices[1], self.lanes[EVENTS].end()];
    }

    /// Changes are those of events again.
    pub const fn end_background(&mut self) {
        self.is_background = false;
    }

    /// Adds a change of `id`; earlier changes of the same entry become stale. A recent change of an event keeps its turn when
    /// background work changes the entry again.
    pub fn push<P>(&mut self, entries: &mut Entries<P>, id: u32, provenance: Provenance) {
        let lane = if self.is_background && !self.is_recent(&entries[id]) { BACKGROUND } else { EVENTS };
        let entry = &mut entries[id];
        entry.queued = mark(lane, self.lanes[lane].end());
        entry.set_queued(true);
        let bits = provenance.bits();
        let change = Change { entry: id, provenance: [bits as u32, (bits >> 32) as u32] };
        self.lanes[lane].changes.push_back(change);
    }

    /// Returns true if an event made the latest change of an entry since the previous slice of background work. Unblocked readers
    /// have taken earlier changes.
    const fn is_recent<P>(&self, entry: &Entry<P>) -> bool {
        let is_of_events = entry.is_queued() && entry.queued & 1 == EVENTS as u32;
        is_of_events && entry.queued.wrapping_sub(mark(EVENTS, self.slices[0])) < 1 << 31
    }

    /// Has a reader take up to about `limit` changes: `visit` gets the current entries, with the events, and returns false to end
    /// the reading.
    #[inline(always)]
    pub fn read<P>(
        &self,
        entries: &Entries<P>,
        cursor: &mut Cursor,
        limit: usize,
        mut visit: impl FnMut(u32, Provenance) -> bool,
    ) {
        let mut left = limit;
        for (lane, queue) in self.lanes.iter().enumerate() {
            let place = &mut cursor.0[lane];
            let end = queue.end().min(*place + left as u64);
            left = (limit / BACKGROUND_SHARE).max(left - (end - *place) as usize).max(1);
            while *place < end {
                let change = queue.changes[(*place - queue.start) as usize];
                let is_latest = entries[change.entry].queued == mark(lane, *place);
                *place += 1;
                let [low, high] = change.provenance;
                let provenance = Provenance::from_bits(u64::from(low) | u64::from(high) << 32);
                if is_latest && !visit(change.entry, provenance) {
                    break;
                }
            }
        }
    }

    /// Returns true if a reader has yet to read the latest change of an entry.
    pub fn is_pending<P>(&self, entries: &Entries<P>, id: u32, cursor: Cursor) -> bool {
        let entry = &entries[id];
        let lane = (entry.queued & 1) as usize;
        // Places of a lane are at most 2^30 apart, so that their low bits show their order.
        entry.is_queued() && entry.queued.wrapping_sub(mark(lane, cursor.0[lane])) < 1 << 31
    }

    /// Drops the places before `place`, passed by every reader. `free` gets the entries that left the queue.
    pub fn trim<P>(&mut self, entries: &mut Entries<P>, place: Cursor, mut free: impl FnMut(u32)) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            while lane.start < place.0[number] {
                let Some(change) = lane.changes.pop_front() else { break };
                let entry = &mut entries[change.entry];
                if entry.is_queued() && entry.queued == mark(number, lane.start) {
                    entry.set_queued(false);
                    free(change.entry);
                }
                lane.start += 1;
            }
            if lane.changes.is_empty() {
                // A whole table went through; the next changes will be few.
                lane.changes.shrink_to(SLACK);
            }
        }
    }

    /// Returns true if it is time to compact, with so many entries.
    pub fn needs_compaction(&self, entries: usize) -> bool {
        self.len() > 2 * entries + SLACK
    }

    /// Takes out what is stale. `cursors` are the readers' and are moved along.
    pub fn compact<P>(&mut self, entries: &mut Entries<P>, cursors: &mut [&mut Cursor]) {
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let mut kept_before: Vec<u64> = cursors.iter().map(|_| 0).collect();
            let mut kept = VecDeque::new();
            let begin = lane.end();
            for (index, change) in lane.changes.iter().enumerate() {
                let place = lane.start + index as u64;
                let entry = &mut entries[change.entry];
                if entry.queued != mark(number, place) {
                    continue;
                }
                entry.queued = mark(number, begin + kept.len() as u64);
                kept.push_back(*change);
                for (count, cursor) in kept_before.iter_mut().zip(cursors.iter()) {
                    *count += u64::from(place < cursor.0[number]);
                }
            }
            for (count, cursor) in kept_before.iter().zip(cursors.iter_mut()) {
                cursor.0[number] = begin + count;
            }
            lane.changes = kept;
            lane.start = begin;
        }
    }

    /// The number of references that the queue holds.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.changes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Ipv4Prefix;

    type Table = Entries<Ipv4Prefix>;

    fn table<const N: usize>() -> (Table, [u32; N]) {
        let mut entries = Entries::default();
        let ids = core::array::from_fn(|n| entries.insert(std::format!("10.{n}.0.0/16").parse().unwrap()));
        (entries, ids)
    }

    fn at(events: u64, background: u64) -> Cursor {
        Cursor([events, background])
    }

    fn read_some(queue: &Queue, entries: &Table, cursor: &mut Cursor, limit: usize) -> Vec<u32> {
        let mut read = Vec::new();
        queue.read(entries, cursor, limit, |id, _| {
            read.push(id);
            true
        });
        read
    }

    fn read(queue: &Queue, entries: &Table, mut from: Cursor) -> Vec<u32> {
        let all = read_some(queue, entries, &mut from, 1000);
        assert_eq!(from, queue.end());
        all
    }

    #[test]
    fn readers_see_the_latest_change_once() {
        let (mut entries, ids) = table::<4>();
        let mut queue = Queue::default();
        let event = Provenance::new(1, 1 << 40);
        for n in [0, 1, 0, 2, 1, 3] {
            queue.push(&mut entries, ids[n], event);
        }
        assert_eq!(read(&queue, &entries, at(0, 0)), [0, 2, 1, 3]);
        queue.read(&entries, &mut at(0, 0), 9, |_, provenance| {
            provenance == event || panic!("{provenance:?}")
        });
        let (mut slow, mut fast) = (at(1, 0), at(4, 0));
        queue.compact(&mut entries, &mut [&mut slow, &mut fast]);
        assert_eq!((queue.len(), fast.distance(queue.end()), slow.distance(queue.end())), (4, 2, 4));
        assert_eq!(read(&queue, &entries, slow), [0, 2, 1, 3]);
        assert_eq!(read(&queue, &entries, fast), [1, 3]);
        queue.push(&mut entries, 3, Provenance::NONE);
        assert_eq!(read(&queue, &entries, fast), [1, 3]);
        let mut freed = Vec::new();
        let end = queue.end();
        queue.trim(&mut entries, end, |id| freed.push(id));
        assert_eq!((freed, queue.len()), (alloc::vec![0, 2, 1, 3], 0));
    }

    #[test]
    fn events_overtake_background_work_and_leave_it_a_share() {
        let (mut entries, ids) = table::<120>();
        let mut queue = Queue::default();
        queue.begin_background();
        for id in &ids[..100] {
            queue.push(&mut entries, *id, Provenance::NONE);
        }
        queue.end_background();
        for id in &ids[100..] {
            queue.push(&mut entries, *id, Provenance::NONE);
        }
        // An event changes an entry of the background work: it is read with the events, and once.
        queue.push(&mut entries, ids[50], Provenance::NONE);
        let mut cursor = at(0, 0);
        let first = read_some(&queue, &entries, &mut cursor, 16);
        assert_eq!(first, [&ids[100..116], &ids[..2]].concat());
        assert!(queue.is_pending(&entries, ids[50], cursor) && queue.is_pending(&entries, ids[2], cursor));
        assert!(!queue.is_pending(&entries, ids[100], cursor) && !queue.is_pending(&entries, ids[1], cursor));
        let rest = read(&queue, &entries, cursor);
        assert_eq!(rest[..7], [&ids[116..], &ids[50..51], &ids[2..4]].concat());
        assert_eq!(rest.iter().filter(|id| **id == ids[50]).count(), 1);
        assert_eq!(first.len() + rest.len(), ids.len());
    }

    #[test]
    fn a_recent_event_keeps_its_turn_when_background_work_changes_the_entry_again() {
        let (mut entries, ids) = table::<3>();
        let mut queue = Queue::default();
        let slice = |queue: &mut Queue, entries: &mut Table, id| {
            queue.begin_background();
            queue.push(entries, id, Provenance::NONE);
            queue.end_background();
        };
        slice(&mut queue, &mut entries, ids[0]);
        queue.push(&mut entries, ids[1], Provenance::NONE);
        slice(&mut queue, &mut entries, ids[1]);
        assert_eq!(read(&queue, &entries, at(0, 0)), [ids[1], ids[0]]);
        // A blocked reader does not make all later background work urgent.
        slice(&mut queue, &mut entries, ids[2]);
        slice(&mut queue, &mut entries, ids[1]);
        assert_eq!(read(&queue, &entries, at(0, 0)), [ids[0], ids[2], ids[1]]);
        let (mut blocked, mut ahead) = (at(0, 0), queue.end());
        queue.compact(&mut entries, &mut [&mut blocked, &mut ahead]);
        assert_eq!((queue.len(), read(&queue, &entries, ahead)), (3, Vec::new()));
        assert_eq!(read(&queue, &entries, blocked), [ids[0], ids[2], ids[1]]);
    }
}
