//! Rings of AF_XDP (`Documentation/networking/af_xdp.rst` of Linux): one side produces entries, the other consumes them. Both sides
//! count entries from 0, and counters wrap around.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The place of this process in a ring, without the shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The entries that this process has passed.
    passed: u32,
    /// The entries of the ring, a power of two.
    size: u32,
}

impl Place {
    /// Begins with the first entry of a ring of `size` entries, a power of two.
    pub(super) fn new(size: u32) -> Self {
        Place { passed: 0, size }
    }

    /// Returns the number of entries between this process, which consumes, and a producer. A producer that claims more entries than the
    /// ring has is taken for one that has filled the ring.
    pub(super) fn filled(&self, produced: u32) -> u32 {
        produced.wrapping_sub(self.passed).min(self.size)
    }

    /// Returns the number of entries that this process, which produces, may fill.
    pub(super) fn free(&self, consumed: u32) -> u32 {
        self.size.saturating_sub(self.passed.wrapping_sub(consumed))
    }

    /// Passes an entry, and returns the entry's index.
    pub(super) fn pass(&mut self) -> usize {
        let index = self.passed & (self.size - 1);
        self.passed = self.passed.wrapping_add(1);
        index as usize
    }
}

/// The memory of a ring: both counters, and the entries as words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring<'a> {
    /// The entries that the producer has filled.
    pub(super) produced: &'a AtomicU32,
    /// The entries that the consumer has emptied.
    pub(super) consumed: &'a AtomicU32,
    /// The entries.
    pub(super) words: &'a [AtomicU64],
}

/// A frame of a ring for received frames (`struct xdp_desc`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Received {
    /// The offset of the first octet in the memory for frames.
    pub(super) offset: u64,
    /// The octets.
    pub(super) length: u32,
}

/// Takes up to `most` frames that were received, and hands each to `frame`. Returns the number of frames.
pub(super) fn take(ring: Ring<'_>, place: &mut Place, most: u32, mut frame: impl FnMut(Received)) -> u32 {
    let count = place.filled(ring.produced.load(Ordering::Acquire)).min(most);
    for _ in 0..count {
        let first = 2 * place.pass();
        let word = |at: usize| ring.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        // The length is the first half of the second word, in the order of the processor.
        let [a, b, c, d, _, _, _, _] = word(first + 1).to_ne_bytes();
        frame(Received { offset: word(first), length: u32::from_ne_bytes([a, b, c, d]) });
    }
    if count > 0 {
        ring.consumed.store(place.passed, Ordering::Release);
    }
    count
}

/// Gives frames to the kernel for reception, by the offsets of the frames. Returns the number of frames for which the ring had room.
pub(super) fn give(ring: Ring<'_>, place: &mut Place, offsets: impl Iterator<Item = u64>) -> u32 {
    let room = place.free(ring.consumed.load(Ordering::Acquire));
    let mut given = 0;
    for offset in offsets.take(room as usize) {
        if let Some(word) = ring.words.get(place.pass()) {
            word.store(offset, Ordering::Relaxed);
        }
        given += 1;
    }
    if given > 0 {
        ring.produced.store(place.passed, Ordering::Release);
    }
    given
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    struct Memory {
        produced: AtomicU32,
        consumed: AtomicU32,
        words: Vec<AtomicU64>,
    }

    impl Memory {
        fn new(words: usize, start: u32) -> Self {
            Memory {
                produced: AtomicU32::new(start),
                consumed: AtomicU32::new(start),
                words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            }
        }

        fn ring(&self) -> Ring<'_> {
            Ring { produced: &self.produced, consumed: &self.consumed, words: &self.words }
        }

        /// Fills the next entry as the kernel does.
        fn receive(&self, size: u32, offset: u64, length: u32) {
            let produced = self.produced.load(Ordering::Acquire);
            let first = 2 * (produced & (size - 1)) as usize;
            let [a, b, c, d] = length.to_ne_bytes();
            self.words[first].store(offset, Ordering::Relaxed);
            self.words[first + 1].store(u64::from_ne_bytes([a, b, c, d, 9, 9, 9, 9]), Ordering::Relaxed);
            self.produced.store(produced.wrapping_add(1), Ordering::Release);
        }
    }

    #[test]
    fn frames_are_taken_in_order_and_each_once() {
        // The counters wrap around on the way.
        let start = u32::MAX - 5;
        let memory = Memory::new(16, start);
        let mut place = Place { passed: start, size: 8 };
        let (mut expected, mut offset) = (VecDeque::new(), 0);
        for round in 0..40_u32 {
            for _ in 0..round % 5 {
                memory.receive(8, offset, round + 60);
                expected.push_back(Received { offset, length: round + 60 });
                offset += 2048;
            }
            let most = 1 + round % 4;
            let mut taken = Vec::new();
            let count = take(memory.ring(), &mut place, most, |frame| taken.push(frame));
            assert_eq!((count as usize, count <= most), (taken.len(), true));
            for frame in taken {
                assert_eq!(Some(frame), expected.pop_front());
            }
            let consumed = memory.consumed.load(Ordering::Acquire);
            let left = memory.produced.load(Ordering::Acquire).wrapping_sub(consumed);
            assert_eq!(left as usize, expected.len());
            while expected.len() > 4 {
                take(memory.ring(), &mut place, 1, |frame| assert_eq!(Some(frame), expected.pop_front()));
            }
        }
        assert!(offset > 8 * 2048 * 5);
    }

    #[test]
    fn a_producer_that_claims_too_much_costs_no_more_than_a_full_ring() {
        let memory = Memory::new(16, 0);
        memory.produced.store(u32::MAX, Ordering::Release);
        let mut place = Place::new(8);
        assert_eq!(take(memory.ring(), &mut place, u32::MAX, |_| {}), 8);
    }

    #[test]
    fn no_more_frames_are_given_than_the_ring_has_room_for() {
        let memory = Memory::new(8, 0);
        let mut place = Place::new(8);
        assert_eq!(give(memory.ring(), &mut place, (0..20).map(|n| n * 2048)), 8);
        assert_eq!(give(memory.ring(), &mut place, [7].into_iter()), 0);
        memory.consumed.store(3, Ordering::Release);
        assert_eq!(give(memory.ring(), &mut place, (20..30).map(|n| n * 2048)), 3);
        assert_eq!(memory.produced.load(Ordering::Acquire), 11);
        let words: Vec<u64> = memory.words.iter().map(|word| word.load(Ordering::Relaxed) / 2048).collect();
        assert_eq!(words, [20, 21, 22, 3, 4, 5, 6, 7]);
        // A consumer that claims entries which nobody has produced gets nothing more.
        memory.consumed.store(12, Ordering::Release);
        assert_eq!(give(memory.ring(), &mut place, [1].into_iter()), 0);
    }
}
