//! The cache of answers that the program `xip` reads: tags and answers in shared lines, whole rows here.
//!
//! Order of stores: an answer before its tag, and a cleared tag before the answer of another row. The program reads the
//! tag again after the answer, so that a packet has the answer of its own row or none.

mod hash;
mod sketch;

pub use crate::forest::CacheEntryId;
pub use hash::{HashKey, Hashes, KEY_WORDS};

use crate::answer::{NeighborId, PortSetId, TunnelId};
use crate::{Edge, Row};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddrV4;
use sketch::Sketch;
use sluice_base::InterfaceIndex;

/// The bit of a tag that the program sets at a hit.
pub const TAG_USED: u64 = 1;
/// Slots of a line.
pub const SLOTS_PER_LINE: usize = 4;
/// Words of a slot: the tag and the answer.
const SLOT_WORDS: usize = 2;

/// The memory that the program reads: the cache's 64-bit words, all of them 0 at the start, and the values that answers name by a
/// number. Readers see stores in the order in which they were made.
pub trait Lines {
    /// Reads a word.
    fn load(&self, word: usize) -> u64;
    /// Stores a word.
    fn store(&mut self, word: usize, value: u64);
    /// Returns the number of lines that the memory has room for.
    fn lines(&self) -> usize;

    /// Stores the far end of a tunnel, before an answer names its number. Returns false if the program has no such tunnels, or no
    /// room for the number: the tunnel's packets come to this process.
    fn set_tunnel(&mut self, _number: TunnelId, _end: SocketAddrV4) -> bool {
        false
    }

    /// Stores the neighbors of a set of ports, with their interfaces, before an answer names the set's number. Returns false if the
    /// program cannot send these copies: the packets come to this process.
    fn set_copies(&mut self, _number: PortSetId, _copies: &[(InterfaceIndex, NeighborId)]) -> bool {
        false
    }
}

impl Lines for Vec<u64> {
    fn load(&self, word: usize) -> u64 {
        self.get(word).copied().unwrap_or_default()
    }

    fn store(&mut self, word: usize, value: u64) {
        if let Some(place) = self.get_mut(word) {
            *place = value;
        }
    }

    fn lines(&self) -> usize {
        self.len() / SLOTS_PER_LINE / SLOT_WORDS
    }
}

/// An answer as the program reads it: the action in bits 0 to 7, the edge in bits 8 to 15, an index in bits 32 to 63.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AnswerWord(pub u64);

impl AnswerWord {
    /// Makes the word of an action, an edge (0 to 3) and an index.
    pub const fn new(action: u8, edge: u8, index: u32) -> Self {
        AnswerWord(action as u64 | (edge as u64) << 8 | (index as u64) << 32)
    }
}

/// The head start of a row that had a hit, less one for each sweep without a hit.
const PROVEN: u64 = 8;

/// The result of [`Cache::put`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The row is cached.
    Stored {
        /// The row's number.
        id: CacheEntryId,
        /// True if another row gave up the number; its dependencies are void.
        evicted: bool,
    },
    /// The rows of the line are asked for more often than this row.
    NotAdmitted,
    /// The row's tag is that of another row of the line, which lost its place. Draw another key.
    Collision {
        /// The number that the other row had.
        lost: CacheEntryId,
    },
}

/// Counts of what the cache did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheCounts {
    /// Rows that took a free slot or another row's.
    pub stored: u64,
    /// Rows that gave up their slot to another row.
    pub evicted: u64,
    /// Rows that found no slot.
    pub not_admitted: u64,
    /// Rows whose tag another row of the line had.
    pub collisions: u64,
    /// Answers overwritten in place.
    pub overwritten: u64,
    /// Rows taken out because their answers were void.
    pub taken_out: u64,
}

/// A cached row.
#[derive(Clone, Debug)]
struct Entry {
    edges: Box<[Edge]>,
    /// Sweeps since the last hit, or since the row was cached.
    idle: u8,
    /// True once a sweep found a hit.
    is_proven: bool,
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache<L> {
    lines: L,
    line_bits: u32,
    key: HashKey,
    entries: Vec<Option<Entry>>,
    filled: usize,
    sketch: Sketch,
    swept: usize,
    counts: CacheCounts,
    is_admission_on: bool,
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey")
    }
}

impl<L: Lines> Cache<L> {
    /// Makes an empty cache of `2^line_bits` lines, fewer if the memory has no room for so many. Clears the memory.
    pub fn new(lines: L, line_bits: u32, key: HashKey) -> Self {
        let room = lines.lines().max(1).ilog2();
        let line_bits = line_bits.min(room).clamp(1, 31);
        let slots = SLOTS_PER_LINE << line_bits;
        let mut cache = Cache {
            lines,
            line_bits,
            key,
            entries: vec![None; slots],
            filled: 0,
            sketch: Sketch::new(slots),
            swept: 0,
            counts: CacheCounts::default(),
            is_admission_on: true,
        };
        cache.clear();
        cache
    }

    /// Returns the number that the program shifts a line's hash by: 64 less the bits of a line's index.
    pub fn line_shift(&self) -> u32 {
        64 - self.line_bits
    }

    /// Returns the key.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    /// Returns the number of cached rows.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Returns true if no row is cached.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Returns the counts.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Switches admission by frequency: without it, each new row takes the slot of the row with the longest time without a hit.
    pub fn set_admission(&mut self, is_on: bool) {
        self.is_admission_on = is_on;
    }

    fn line_of(&self, hashes: Hashes) -> usize {
        (hashes.line >> self.line_shift()) as usize * SLOTS_PER_LINE
    }

    fn tag(&self, slot: usize) -> u64 {
        self.lines.load(slot * SLOT_WORDS)
    }

    fn set_tag(&mut self, slot: usize, tag: u64) {
        self.lines.store(slot * SLOT_WORDS, tag);
    }

    fn set_answer(&mut self, slot: usize, answer: AnswerWord) {
        self.lines.store(slot * SLOT_WORDS + 1, answer.0);
    }

    fn entry(&self, slot: usize) -> Option<&Entry> {
        self.entries.get(slot)?.as_ref()
    }

    /// Returns the row's number, if it is cached.
    pub fn find(&self, row: &Row) -> Option<CacheEntryId> {
        let first = self.line_of(self.key.hashes(row));
        let mut slots = first..first + SLOTS_PER_LINE;
        let slot = slots.find(|slot| self.entry(*slot).is_some_and(|entry| *entry.edges == *row.edges))?;
        Some(CacheEntryId(slot as u32))
    }

    /// Returns a cached row.
    pub fn row(&self, id: CacheEntryId) -> Option<Row> {
        let edges = self.entry(id.0 as usize)?.edges.iter().copied().collect();
        Some(Row { edges, is_input: true })
    }

    /// Returns a cached row's answer.
    pub fn answer(&self, id: CacheEntryId) -> Option<AnswerWord> {
        self.entry(id.0 as usize)?;
        Some(AnswerWord(self.lines.load(id.0 as usize * SLOT_WORDS + 1)))
    }

    /// Caches a row that is not cached.
    pub fn put(&mut self, row: &Row, answer: AnswerWord) -> Put {
        let hashes = self.key.hashes(row);
        self.sketch.increment(hashes.line);
        let line = self.line_of(hashes);
        let slots = line..line + SLOTS_PER_LINE;
        let same = slots.clone().find(|slot| self.tag(*slot) & !TAG_USED == hashes.tag);
        if let Some(slot) = same {
            // A tag of 0 is that of free slots too.
            self.counts.collisions += 1;
            let lost = CacheEntryId(slot as u32);
            if hashes.tag == 0 {
                return Put::NotAdmitted;
            }
            self.take_out(lost);
            return Put::Collision { lost };
        }
        let free = slots.clone().find(|slot| self.entry(*slot).is_none());
        let Some(slot) = free.or_else(|| self.victim(slots, hashes)) else {
            self.counts.not_admitted += 1;
            return Put::NotAdmitted;
        };
        let evicted = self.entry(slot).is_some();
        if evicted {
            self.set_tag(slot, 0);
            self.counts.evicted += 1;
        } else {
            self.filled += 1;
        }
        self.set_answer(slot, answer);
        self.set_tag(slot, hashes.tag);
        if let Some(place) = self.entries.get_mut(slot) {
            *place = Some(Entry { edges: row.edges.iter().copied().collect(), idle: 0, is_proven: false });
        }
        self.counts.stored += 1;
        Put::Stored { id: CacheEntryId(slot as u32), evicted }
    }

    /// Returns the slot of a full line that a new row may take: that of the row that was asked for least, if the new row was asked for
    /// more often. Rows with a hit since the last sweep keep their slots, and rows with a hit lately have a head start: in a flood, rows that
    /// nobody asks for twice would otherwise win by the errors of the sketch.
    fn victim(&self, slots: core::ops::Range<usize>, newcomer: Hashes) -> Option<usize> {
        let unused = slots.filter(|slot| self.tag(*slot) & TAG_USED == 0);
        let frequency = |slot: usize| {
            let entry = self.entry(slot)?;
            let row = Row { edges: entry.edges.iter().copied().collect(), is_input: true };
            let head_start = if entry.is_proven { PROVEN.saturating_sub(entry.idle.into()) } else { 0 };
            let frequency = self.sketch.estimate(self.key.hashes(&row).line) + head_start;
            Some((frequency, u8::MAX - entry.idle, slot))
        };
        let (least, _, slot) = unused.filter_map(frequency).min()?;
        let is_admitted = !self.is_admission_on || self.sketch.estimate(newcomer.line) > least;
        is_admitted.then_some(slot)
    }

    /// Overwrites the answer of a cached row by one store.
    pub fn set(&mut self, id: CacheEntryId, answer: AnswerWord) {
        if self.entry(id.0 as usize).is_some() {
            self.set_answer(id.0 as usize, answer);
            self.counts.overwritten += 1;
        }
    }

    /// Takes a row out.
    pub fn take_out(&mut self, id: CacheEntryId) {
        let slot = id.0 as usize;
        if self.entries.get_mut(slot).and_then(Option::take).is_some() {
            self.set_tag(slot, 0);
            self.filled -= 1;
            self.counts.taken_out += 1;
        }
    }

    /// Returns true if the row had a hit in the last `sweeps` sweeps, or since.
    pub fn was_used(&self, id: CacheEntryId, sweeps: u8) -> bool {
        let slot = id.0 as usize;
        self.entry(slot).is_some_and(|entry| entry.idle < sweeps || self.tag(slot) & TAG_USED != 0)
    }

    /// Clears the marks of hits of the next `most` slots, and counts the rows that had one. Returns true at the end of the cache, from
    /// where the next sweep begins.
    pub fn sweep(&mut self, most: usize) -> bool {
        let end = (self.swept + most).min(self.entries.len());
        for slot in self.swept..end {
            let tag = self.tag(slot);
            let Some(entry) = self.entries.get_mut(slot).and_then(Option::as_mut) else { continue };
            if tag & TAG_USED == 0 {
                entry.idle = entry.idle.saturating_add(1);
                continue;
            }
            (entry.idle, entry.is_proven) = (0, true);
            let row = Row { edges: entry.edges.iter().copied().collect(), is_input: true };
            self.sketch.increment(self.key.hashes(&row).line);
            self.set_tag(slot, tag & !TAG_USED);
        }
        self.swept = if end == self.entries.len() { 0 } else { end };
        self.swept == 0
    }

    /// Takes all rows out.
    pub fn clear(&mut self) {
        for slot in 0..self.entries.len() {
            if self.tag(slot) != 0 {
                self.set_tag(slot, 0);
            }
        }
        self.entries.iter_mut().for_each(|entry| *entry = None);
        self.filled = 0;
    }

    /// Takes all rows out and hashes by another key from now on.
    pub fn rekey(&mut self, key: HashKey) {
        self.clear();
        self.key = key;
    }

    /// Returns the cached rows from a number on.
    pub fn ids_from(&self, from: u32) -> impl Iterator<Item = CacheEntryId> + '_ {
        let ids = from as usize..self.entries.len();
        ids.filter(|slot| self.entry(*slot).is_some()).map(|slot| CacheEntryId(slot as u32))
    }

    /// Returns the memory that the program reads.
    pub fn lines(&self) -> &L {
        &self.lines
    }

    /// Returns the memory that the program reads, for the values that answers name.
    pub(crate) fn lines_mut(&mut self) -> &mut L {
        &mut self.lines
    }
}
