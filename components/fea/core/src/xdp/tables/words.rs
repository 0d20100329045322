//! Word stores: the memory that the tables are written to, and entries within words.

use super::layout::Area;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The memory of the tables: eight areas of 64-bit words, all of them 0 at the start.
///
/// Readers on other processors see each store whole, and stores in the order in which they were made (release
/// ordering). Only one writer exists, so that a word may be read, changed and stored.
pub trait Words {
    /// Reads a word. `word` is below [`Area::words`].
    fn load(&self, area: Area, word: usize) -> u64;

    /// Stores a word. `word` is below [`Area::words`].
    fn store(&mut self, area: Area, word: usize, value: u64);
}

impl<W: Words + ?Sized> Words for Box<W> {
    fn load(&self, area: Area, word: usize) -> u64 {
        (**self).load(area, word)
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        (**self).store(area, word, value);
    }
}

/// Words on the heap, for simulators, tests and benchmarks. An allocator that maps zeros lazily uses memory for written
/// pages only.
pub struct Memory {
    areas: [Vec<u64>; Area::ALL.len()],
}

impl Default for Memory {
    fn default() -> Self {
        Memory { areas: Area::ALL.map(|area| vec![0; area.words()]) }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Words for Memory {
    fn load(&self, area: Area, word: usize) -> u64 {
        self.areas[area as usize][word]
    }

    fn store(&mut self, area: Area, word: usize, value: u64) {
        self.areas[area as usize][word] = value;
    }
}

/// The expected content of a part of an area.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The number of the first word in the area.
    first: usize,
    words: Vec<u64>,
}

impl Window {
    /// Makes the window one of these words, all of them 0.
    pub(super) fn reset(&mut self, range: Range<usize>) {
        self.first = range.start;
        self.words.clear();
        self.words.resize(range.len(), 0);
    }

    /// Returns the number of the first word in the area.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Returns the words.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
}

impl Words for Window {
    fn load(&self, _area: Area, word: usize) -> u64 {
        self.words[word - self.first]
    }

    fn store(&mut self, _area: Area, word: usize, value: u64) {
        self.words[word - self.first] = value;
    }
}

/// A width of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    /// 16 bits, four entries to a word.
    Bits16,
    /// 32 bits, two entries to a word.
    Bits32,
}

impl Width {
    /// Returns the entries of a word.
    pub(super) const fn per_word(self) -> usize {
        match self {
            Width::Bits16 => 4,
            Width::Bits32 => 2,
        }
    }

    const fn bits(self) -> usize {
        64 / self.per_word()
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Returns the word whose entries all are `entry`.
    const fn repeated(self, entry: u32) -> u64 {
        let entry = entry as u64;
        match self {
            Width::Bits16 => entry << 48 | entry << 32 | entry << 16 | entry,
            Width::Bits32 => entry << 32 | entry,
        }
    }

    /// Reads entry number `at` of an area.
    pub(super) fn load(self, words: &impl Words, area: Area, at: usize) -> u32 {
        let shift = at % self.per_word() * self.bits();
        (words.load(area, at / self.per_word()) >> shift & self.mask()) as u32
    }

    /// Stores entry number `at` of an area.
    pub(super) fn store(self, words: &mut impl Words, area: Area, at: usize, entry: u32) {
        self.fill(words, area, at..at + 1, entry);
    }

    /// Stores `entry` at the numbers `range` of an area. Entries of one word change in one store.
    pub(super) fn fill(self, words: &mut impl Words, area: Area, range: Range<usize>, entry: u32) {
        let value = self.repeated(entry);
        let mut at = range.start;
        while at < range.end {
            let word = at / self.per_word();
            let next = ((word + 1) * self.per_word()).min(range.end);
            if next - at == self.per_word() {
                words.store(area, word, value);
            } else {
                let mask =
                    (u64::MAX >> (64 - (next - at) * self.bits())) << (at % self.per_word() * self.bits());
                let old = words.load(area, word);
                words.store(area, word, old & !mask | value & mask);
            }
            at = next;
        }
    }
}
