//! The audit: a walk over all words, which compares each with what prefixes, groups and members say, and mends what differs.
//!
//! A cycle visits the areas one by one, each in the order of addresses or numbers, in slices between which anything may
//! change. A mended word is stored once, so that readers see the damaged or the right word. Words of numbers that are free or
//! retired are not compared: nothing leads to them, and they are written as a whole before something does.

use super::Tables;
use super::groups::bucket_word;
use super::layout::{Area, BLOCK_WORDS, MEMBER_WORDS, ROOT_BITS};
use super::trie::{Shape, Trie};
use super::words::{Window, Words};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::ControlFlow;
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix};

/// Bits of the prefixes by which the roots are visited: 4096 entries at a time.
const PART_BITS: u8 = ROOT_BITS - 12;

/// The parts of a root.
const PARTS: u32 = 1 << PART_BITS;

/// The largest number of mended words that are kept until they are taken. All are counted.
const KEPT: usize = 32;

/// The work of visiting a prefix, in words that are compared.
const PREFIX_WORK: usize = 8;

/// The work of looking for the next part, node or number, in words that are compared.
const STEP_WORK: usize = 64;

/// A word that was mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mend {
    /// The area.
    pub area: Area,
    /// The number of the word in the area.
    pub word: usize,
    /// The damaged word.
    pub found: u64,
    /// The right word, stored in its place.
    pub expected: u64,
}

impl fmt::Display for Mend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mend { area, word, found, expected } = self;
        write!(f, "word {word} of the {area} was {found:#x} instead of {expected:#x}")
    }
}

/// The place of the next slice.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    /// A part of the IPv4 root.
    Ipv4Root(u32),
    /// The IPv4 node after that of a prefix.
    Ipv4Nodes(Option<Ipv4Prefix>),
    /// A part of the IPv6 root.
    Ipv6Root(u32),
    /// The IPv6 node after that of a prefix.
    Ipv6Nodes(Option<Ipv6Prefix>),
    /// A group's word and block.
    Groups(u32),
    /// A member.
    Members(u32),
    /// The bits of own sources.
    Sources,
}

const START: Cursor = Cursor::Ipv4Root(0);

/// The state of an audit, and the damage that it found.
#[derive(Debug)]
pub struct Auditor {
    cursor: Cursor,
    window: Window,
    mends: Vec<Mend>,
    counts: [u64; Area::ALL.len()],
    cycles: u64,
}

impl Default for Auditor {
    fn default() -> Self {
        Auditor {
            cursor: START,
            window: Window::default(),
            mends: Vec::new(),
            counts: [0; Area::ALL.len()],
            cycles: 0,
        }
    }
}

impl Auditor {
    /// Returns the number of words that were mended in an area.
    pub fn mended(&self, area: Area) -> u64 {
        self.counts[area as usize]
    }

    /// Returns the number of whole cycles.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Takes the first mended words since the last call, at most 32.
    pub fn take_mends(&mut self) -> Vec<Mend> {
        core::mem::take(&mut self.mends)
    }

    /// Compares the words that begin at `first` with the expected ones.
    fn compare(&mut self, words: &mut impl Words, area: Area, first: usize, expected: &[u64]) {
        for (word, expected) in (first..).zip(expected.iter().copied()) {
            let found = words.load(area, word);
            if found != expected {
                words.store(area, word, expected);
                self.counts[area as usize] += 1;
                if self.mends.len() < KEPT {
                    self.mends.push(Mend { area, word, found, expected });
                }
            }
        }
    }

    /// Compares the root's entries of a prefix. Returns the work.
    fn root<S: Shape>(&mut self, words: &mut impl Words, trie: &Trie<S>, part: S::Key) -> usize {
        let mut window = core::mem::take(&mut self.window);
        let prefixes = trie.expect_root(&mut window, part);
        self.compare(words, S::ROOT, window.first(), window.words());
        let work = window.words().len() + prefixes * PREFIX_WORK;
        self.window = window;
        work
    }

    /// Compares the entries of the node after that of a prefix. Returns the node's prefix and the work.
    fn node<S: Shape>(
        &mut self,
        words: &mut impl Words,
        trie: &Trie<S>,
        after: Option<S::Key>,
    ) -> Option<(S::Key, usize)> {
        let mut window = core::mem::take(&mut self.window);
        let next = trie.expect_node(&mut window, after);
        let next = next.map(|(slot, prefixes)| {
            self.compare(words, S::NODES, window.first(), window.words());
            (slot, window.words().len() + prefixes * PREFIX_WORK)
        });
        self.window = window;
        next
    }
}

impl<W: Words> Tables<W> {
    /// Carries on an audit: compares about `budget` words, and mends those that are damaged. Returns true at the end of a
    /// cycle; the next call begins another.
    ///
    /// The smallest step is 4096 entries of a root with the prefixes inside, or a node with the prefixes inside.
    pub fn audit(&mut self, auditor: &mut Auditor, budget: usize) -> bool {
        let mut left = budget.max(1);
        while left > 0 {
            match self.audit_step(auditor) {
                ControlFlow::Continue(work) => left = left.saturating_sub(work + STEP_WORK),
                ControlFlow::Break(()) => {
                    auditor.cycles += 1;
                    auditor.cursor = START;
                    return true;
                }
            }
        }
        false
    }

    /// Visits the place of the cursor, and moves the cursor. Returns the work; breaks at the end of the cycle.
    fn audit_step(&mut self, auditor: &mut Auditor) -> ControlFlow<(), usize> {
        let words = &mut self.words;
        let (next, work) = match auditor.cursor {
            Cursor::Ipv4Root(part) => {
                let first = IpAddr::V4(Ipv4Addr::from_bits(part.unbounded_shl(u32::from(32 - PART_BITS))));
                match IpPrefix::new(first, PART_BITS).filter(|_| part < PARTS) {
                    Some(IpPrefix::V4(key)) => {
                        (Cursor::Ipv4Root(part + 1), auditor.root(words, &self.ipv4, key))
                    }
                    _ => (Cursor::Ipv4Nodes(None), 0),
                }
            }
            Cursor::Ipv4Nodes(after) => match auditor.node(words, &self.ipv4, after) {
                Some((slot, work)) => (Cursor::Ipv4Nodes(Some(slot)), work),
                None => (Cursor::Ipv6Root(0), 0),
            },
            Cursor::Ipv6Root(part) => {
                let first = IpAddr::V6(Ipv6Addr::from_bits(u128::from(part) << (128 - PART_BITS)));
                match IpPrefix::new(first, PART_BITS).filter(|_| part < PARTS) {
                    Some(IpPrefix::V6(key)) => {
                        (Cursor::Ipv6Root(part + 1), auditor.root(words, &self.ipv6, key))
                    }
                    _ => (Cursor::Ipv6Nodes(None), 0),
                }
            }
            Cursor::Ipv6Nodes(after) => match auditor.node(words, &self.ipv6, after) {
                Some((slot, work)) => (Cursor::Ipv6Nodes(Some(slot)), work),
                None => (Cursor::Groups(0), 0),
            },
            Cursor::Groups(number) if number < self.groups.end() => {
                if let Some(word) = self.groups.expected(number) {
                    auditor.compare(words, Area::Groups, number as usize, &[word]);
                }
                let mut work = 1;
                if let Some((block, buckets)) = self.groups.expected_block(number) {
                    let mut expected = [0; BLOCK_WORDS];
                    for (word, pair) in expected.iter_mut().zip(buckets.as_chunks::<2>().0) {
                        *word = bucket_word(*pair);
                    }
                    auditor.compare(words, Area::Buckets, block as usize * BLOCK_WORDS, &expected);
                    work += BLOCK_WORDS;
                }
                (Cursor::Groups(number + 1), work)
            }
            Cursor::Groups(_) => (Cursor::Members(0), 0),
            Cursor::Members(number) if number < self.members.end() => {
                if let Some(expected) = self.members.expected(number) {
                    auditor.compare(words, Area::Members, number as usize * MEMBER_WORDS, &expected);
                }
                (Cursor::Members(number + 1), MEMBER_WORDS)
            }
            Cursor::Members(_) => (Cursor::Sources, 0),
            Cursor::Sources => {
                for word in 0..Area::Sources.words() {
                    auditor.compare(words, Area::Sources, word, &[self.sources.expected(word)]);
                }
                return ControlFlow::Break(());
            }
        };
        auditor.cursor = next;
        ControlFlow::Continue(work)
    }
}
