//! The entries of a family: a root by the first 24 bits of an address, and nodes by the octets after them.
//!
//! An entry leads to a group or to a node. An entry has a node if, and only if, a prefix longer than the entry's own
//! lies below it and a node was free when the prefix came. Without a free node the entry *waits*: its packets go to the
//! kernel, because neither the longer prefix nor the prefix around it may answer for all of them.
//!
//! * A node is filled before the store that publishes it, and retired after the store that removes it. A single store
//!   publishes or removes a chain of nodes.
//! * A change of a prefix writes the entries of its range that no more specific prefix covers, each once.
//! * Waiting entries are tried again when nodes become free.
//! * Entries are written and never believed: the nodes' numbers are kept beside, so that a damaged word leads no writer
//!   astray, and so that [`Trie::expect_root`] and [`Trie::expect_node`] know each word from the prefixes alone.

use super::layout::{Area, KERNEL_GROUP, NODE_BITS, NODE_ENTRIES, ROOT_BITS};
use super::limits::{Full, Limits, first_number};
use super::numbers::{Numbers, Use};
use super::words::{Width, Window, Words};
use alloc::collections::{BTreeMap, BTreeSet};
use core::iter::Peekable;
use core::marker::PhantomData;
use core::ops::{Bound, Range};
use sluice_base::Prefix;
use sluice_stage::{Cursor, PrefixTable, TableKey};

/// The shape of a family's entries.
pub(super) trait Shape {
    /// The family's prefixes.
    type Key: TableKey;
    /// The area of the root.
    const ROOT: Area;
    /// The area of the nodes.
    const NODES: Area;
    /// The width of entries.
    const WIDTH: Width;
    /// The mark of entries that lead to nodes.
    const NODE: u32;

    /// Returns the prefix's first address, its first bit highest.
    fn bits(key: Self::Key) -> u128;
}

/// The entry for addresses that no prefix covers.
const NO_PREFIX: u32 = 0;

/// A table of entries: the root or a node.
struct Place<S> {
    area: Area,
    /// The number of the first entry in the area.
    first: usize,
    /// Bits of an address up to and including those that select an entry.
    end: u8,
    shape: PhantomData<S>,
}

impl<S> Clone for Place<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Place<S> {}

impl<S: Shape> Place<S> {
    fn root() -> Self {
        Place { area: S::ROOT, first: 0, end: ROOT_BITS, shape: PhantomData }
    }

    /// The node whose entries select bits up to `end`.
    fn node(number: u32, end: u8) -> Self {
        Place { area: S::NODES, first: number as usize * NODE_ENTRIES, end, shape: PhantomData }
    }

    /// Returns the numbers of the entries of `key`, which is inside the table's own prefix.
    fn range(self, key: S::Key) -> Range<usize> {
        let index = (S::bits(key) >> (128 - self.end)) as usize;
        let index = if self.end == ROOT_BITS { index } else { index % NODE_ENTRIES };
        let start = self.first + index;
        start..start + (1 << self.end.saturating_sub(key.len()))
    }

    /// Returns the first entry of `key`.
    fn entry(self, words: &impl Words, key: S::Key) -> u32 {
        S::WIDTH.load(words, self.area, self.range(key).start)
    }

    /// Stores the entry of the prefix `slot`, which has the length `end`.
    fn store(self, words: &mut impl Words, slot: S::Key, entry: u32) {
        S::WIDTH.store(words, self.area, self.range(slot).start, entry);
    }

    /// Returns the node to which the entry of `slot` leads, which has the length `end`.
    fn child(self, nodes: &Nodes<S::Key>, slot: S::Key) -> Option<Self> {
        nodes.held.get(&slot).map(|number| Self::node(*number, self.end + NODE_BITS))
    }

    /// Leads the addresses of `within` that no prefix of `more` covers to `group`. `more` are the prefixes inside
    /// `within`, in order.
    fn fill(
        self,
        words: &mut impl Words,
        nodes: &Nodes<S::Key>,
        within: S::Key,
        more: &mut Peekable<impl Iterator<Item = (S::Key, u32)>>,
        group: u32,
    ) {
        let Range { start: mut at, end } = self.range(within);
        while let Some((key, _)) = more.peek().copied().filter(|(key, _)| within.covers(*key)) {
            let covered = self.range(key);
            // An entry before `at` is inside a prefix that was passed already.
            let is_passed = covered.start < at;
            if !is_passed {
                S::WIDTH.fill(words, self.area, at..covered.start, group);
                at = covered.end;
            }
            let slot = key.truncate(self.end);
            let child = if is_passed || key.len() <= self.end { None } else { self.child(nodes, slot) };
            match child {
                Some(child) => child.fill(words, nodes, slot, more, group),
                // A prefix with entries of its own, or below an entry that waits.
                None => _ = more.next(),
            }
        }
        S::WIDTH.fill(words, self.area, at..end, group);
    }
}

/// The nodes of a family.
#[derive(Debug)]
struct Nodes<K> {
    numbers: Numbers,
    /// The nodes in use, by the prefixes of the entries that lead to them.
    held: BTreeMap<K, u32>,
    /// Prefixes of entries that lead to the kernel because no node was free.
    waiting: BTreeSet<K>,
}

impl<K: TableKey> Nodes<K> {
    /// Returns the entry for `slot`: a new node, filled but not published, or "to the kernel" without a free node.
    /// `cover` is the group of the prefix around `slot`; `more` are the prefixes inside and longer, in order.
    fn build<S: Shape<Key = K>>(
        &mut self,
        words: &mut impl Words,
        slot: K,
        cover: u32,
        more: &mut Peekable<impl Iterator<Item = (K, u32)>>,
    ) -> u32 {
        let Some(number) = self.numbers.take() else {
            self.waiting.insert(slot);
            while more.next_if(|(key, _)| slot.covers(*key)).is_some() {}
            return KERNEL_GROUP;
        };
        let place = Place::<S>::node(number, slot.len() + NODE_BITS);
        S::WIDTH.fill(words, S::NODES, place.range(slot), cover);
        while let Some((key, group)) = more.peek().copied().filter(|(key, _)| slot.covers(*key)) {
            if key.len() <= place.end {
                S::WIDTH.fill(words, S::NODES, place.range(key), group);
                more.next();
            } else {
                let below = key.truncate(place.end);
                let entry = self.build::<S>(words, below, place.entry(words, below), more);
                place.store(words, below, entry);
            }
        }
        self.held.insert(slot, number);
        number | S::NODE
    }

    /// Returns the entry of `slot`, below which longer prefixes lie.
    fn entry<S: Shape<Key = K>>(&self, slot: K) -> u32 {
        self.held.get(&slot).map_or(KERNEL_GROUP, |number| number | S::NODE)
    }
}

/// The prefixes of a family, the default route excepted, and their entries.
pub(super) struct Trie<S: Shape> {
    routes: PrefixTable<S::Key, u32>,
    nodes: Nodes<S::Key>,
}

impl<S: Shape> Trie<S> {
    pub(super) fn new(limits: &Limits) -> Self {
        let numbers = Numbers::new(first_number(S::NODES), limits.end(S::NODES));
        Trie {
            routes: PrefixTable::new(),
            nodes: Nodes { numbers, held: BTreeMap::new(), waiting: BTreeSet::new() },
        }
    }

    /// Leads a prefix to a group. The length is not 0. Returns the group that the prefix led to before, and an error if
    /// no node is free: an entry that holds the prefix leads to the kernel until one is.
    pub(super) fn set(
        &mut self,
        words: &mut impl Words,
        key: S::Key,
        group: u32,
    ) -> (Option<u32>, Result<(), Full>) {
        let old = self.routes.insert(key, group);
        if old != Some(group) {
            self.write(words, key, group);
        }
        (old, if self.is_waiting(key) { Err(Full(S::NODES)) } else { Ok(()) })
    }

    fn write(&mut self, words: &mut impl Words, key: S::Key, group: u32) {
        let mut place = Place::<S>::root();
        while key.len() > place.end {
            let slot = key.truncate(place.end);
            let Some(child) = place.child(&self.nodes, slot) else {
                if !self.nodes.waiting.contains(&slot) {
                    // The first longer prefix below the entry.
                    self.publish(words, place, slot);
                }
                return;
            };
            place = child;
        }
        let more = self.routes.covered(key).filter(|(inside, _)| *inside != key);
        let mut more = more.map(|(key, group)| (key, *group)).peekable();
        place.fill(words, &self.nodes, key, &mut more, group);
    }

    /// Builds the nodes below the entry of `slot` in `place`, and publishes them by a store of the entry.
    fn publish(&mut self, words: &mut impl Words, place: Place<S>, slot: S::Key) {
        let cover = self.cover(slot);
        let more = self.routes.covered(slot).filter(|(key, _)| key.len() > slot.len());
        let mut more = more.map(|(key, group)| (key, *group)).peekable();
        let entry = self.nodes.build::<S>(words, slot, cover, &mut more);
        place.store(words, slot, entry);
    }

    /// Removes a prefix: its addresses follow the prefix around it. Returns the group that the prefix led to.
    pub(super) fn remove(&mut self, words: &mut impl Words, key: S::Key) -> Option<u32> {
        let group = self.routes.remove(key)?;
        let mut place = Place::<S>::root();
        while key.len() > place.end {
            let slot = key.truncate(place.end);
            let has_longer = self.routes.covered(slot).any(|(key, _)| key.len() > slot.len());
            if !has_longer {
                place.store(words, slot, self.cover(slot));
                self.retire(key, slot);
                return Some(group);
            }
            // An entry without a node waits for the prefixes that are left.
            let Some(child) = place.child(&self.nodes, slot) else { return Some(group) };
            place = child;
        }
        let cover = self.cover(key);
        if cover != group {
            let more = self.routes.covered(key).map(|(key, group)| (key, *group));
            place.fill(words, &self.nodes, key, &mut more.peekable(), cover);
        }
        Some(group)
    }

    /// Retires a chain of nodes that no entry leads to: the node of `slot`, and those below on the way to `key`.
    fn retire(&mut self, key: S::Key, mut slot: S::Key) {
        while key.len() > slot.len() {
            self.nodes.waiting.remove(&slot);
            let Some(number) = self.nodes.held.remove(&slot) else { return };
            self.nodes.numbers.retire(number);
            slot = key.truncate(slot.len() + NODE_BITS);
        }
    }

    /// Returns the group of the longest prefix that covers `key`.
    fn cover(&self, key: S::Key) -> u32 {
        self.routes.longest_match(key).map_or(NO_PREFIX, |(_, group)| *group)
    }

    /// Returns the group of exactly the given prefix.
    pub(super) fn get(&self, key: S::Key) -> Option<u32> {
        self.routes.get(key).copied()
    }

    /// Iterates over the prefixes in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (S::Key, u32)> {
        self.routes.iter().map(|(key, group)| (key, *group))
    }

    /// Iterates over the prefixes behind a place, in order.
    pub(super) fn iter_after(&self, cursor: Cursor<S::Key>) -> impl Iterator<Item = (S::Key, u32)> {
        self.routes.iter_after(cursor).map(|(key, group)| (key, *group))
    }

    /// Returns true if all packets to a prefix go to the kernel because no node was free.
    pub(super) fn is_waiting(&self, key: S::Key) -> bool {
        let slots = (ROOT_BITS..=key.len()).step_by(usize::from(NODE_BITS));
        !self.nodes.waiting.is_empty()
            && slots.map(|len| key.truncate(len)).any(|slot| self.nodes.waiting.contains(&slot))
    }

    /// Returns the number of prefixes whose packets all go to the kernel because no node was free. Visits each.
    pub(super) fn waiting(&self) -> usize {
        self.nodes.waiting.iter().map(|slot| self.routes.covered(*slot).count()).sum()
    }

    /// Builds nodes for the entries that wait, for as long as nodes are free.
    pub(super) fn retry(&mut self, words: &mut impl Words) {
        while self.nodes.numbers.has_free()
            && let Some(slot) = self.nodes.waiting.pop_first()
        {
            let mut place = Place::<S>::root();
            while slot.len() > place.end
                && let Some(child) = place.child(&self.nodes, slot.truncate(place.end))
            {
                place = child;
            }
            self.publish(words, place, slot);
        }
    }

    /// Fills `window` with the expected words of the root entries of `within`. Returns the number of prefixes inside.
    pub(super) fn expect_root(&self, window: &mut Window, within: S::Key) -> usize {
        self.expect(window, Place::root(), within)
    }

    /// Fills `window` with the expected words of the first node whose prefix follows `after`, in the order of addresses.
    /// Returns the node's prefix and the number of prefixes inside; `None` after the last node.
    pub(super) fn expect_node(&self, window: &mut Window, after: Option<S::Key>) -> Option<(S::Key, usize)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (slot, number) = self.nodes.held.range((from, Bound::Unbounded)).next()?;
        let place = Place::node(*number, slot.len() + NODE_BITS);
        Some((*slot, self.expect(window, place, *slot)))
    }

    fn expect(&self, window: &mut Window, place: Place<S>, within: S::Key) -> usize {
        let range = place.range(within);
        window.reset(range.start / S::WIDTH.per_word()..range.end / S::WIDTH.per_word());
        S::WIDTH.fill(window, place.area, range, self.cover(within));
        let mut prefixes = 0;
        let mut last = None;
        for (key, group) in self.routes.covered(within).filter(|(key, _)| key.len() > within.len()) {
            prefixes += 1;
            if key.len() <= place.end {
                S::WIDTH.fill(window, place.area, place.range(key), *group);
                continue;
            }
            let slot = key.truncate(place.end);
            // Prefixes of one entry come one after the other.
            if last.replace(slot) != Some(slot) {
                place.store(window, slot, self.nodes.entry::<S>(slot));
            }
        }
        prefixes
    }

    /// Returns the numbers of nodes.
    pub(super) fn numbers(&mut self) -> &mut Numbers {
        &mut self.nodes.numbers
    }

    /// Returns the amounts of nodes.
    pub(super) fn usage(&self) -> Use {
        self.nodes.numbers.usage()
    }

    /// Returns octets of the prefixes on the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        self.routes.memory_bytes()
    }
}
