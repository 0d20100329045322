//! The storage of prefix tables: one kind for numbers that a processor computes with, one for longer keys.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use prefix_trie::PrefixMap;
use sluice_base::Prefix;

/// A place in a table that survives any change of the table: the last visited key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cursor<P> {
    /// Before the first key.
    #[default]
    Start,
    /// After the given key, even if the key no longer exists.
    After(P),
}

/// A map from prefix to value, in the order of addresses, shorter prefixes first.
pub trait Store<P: Prefix, V>: Default {
    /// Returns a copy.
    fn duplicate(&self) -> Self
    where
        V: Clone;
    /// Returns the number of prefixes.
    fn len(&self) -> usize;
    /// Returns true without prefixes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the value of exactly the given prefix.
    fn get(&self, prefix: P) -> Option<&V>;
    /// Returns the value of exactly the given prefix, for changing.
    fn get_mut(&mut self, prefix: P) -> Option<&mut V>;
    /// Returns the value of exactly the given prefix, made by `make` if absent.
    fn get_or_insert_with(&mut self, prefix: P, make: impl FnOnce() -> V) -> &mut V;
    /// Sets the value of a prefix; returns the old value.
    fn insert(&mut self, prefix: P, value: V) -> Option<V>;
    /// Removes a prefix; returns its value.
    fn remove(&mut self, prefix: P) -> Option<V>;
    /// Returns the longest prefix that covers `prefix` or is it.
    fn longest_match(&self, prefix: P) -> Option<(P, &V)>;
    /// Iterates over the prefixes inside `prefix`, itself included, in order.
    fn covered<'a>(&'a self, prefix: P) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a;
    /// Iterates over the prefixes after a cursor, in order.
    fn iter_after<'a>(&'a self, cursor: Cursor<P>) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a;
    /// Iterates over the prefixes in order, with mutable values.
    fn iter_mut<'a>(&'a mut self) -> impl Iterator<Item = (P, &'a mut V)>
    where
        P: 'a,
        V: 'a;
    /// Returns the octets on the heap, without the values' own heap; an estimate where the allocation is not known.
    fn memory_bytes(&self) -> usize;
}

/// A prefix that the trie stores as a number.
pub trait TrieKey: Prefix {
    /// The number, and the length.
    type Trie: prefix_trie::Prefix + Copy + Send;

    /// Returns the key for the trie.
    fn to_trie(self) -> Self::Trie;

    /// Returns the prefix of a trie's key.
    fn from_trie(key: Self::Trie) -> Self;
}

/// The crate `prefix-trie`: nodes of several bits, for keys that are primitive integers.
pub struct TrieStore<P: TrieKey, V>(PrefixMap<P::Trie, V>);

impl<P: TrieKey, V> Default for TrieStore<P, V> {
    fn default() -> Self {
        TrieStore(PrefixMap::new())
    }
}

impl<P: TrieKey, V> Store<P, V> for TrieStore<P, V> {
    fn duplicate(&self) -> Self
    where
        V: Clone,
    {
        TrieStore(self.0.clone())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, prefix: P) -> Option<&V> {
        self.0.get(&prefix.to_trie())
    }

    fn get_mut(&mut self, prefix: P) -> Option<&mut V> {
        self.0.get_mut(&prefix.to_trie())
    }

    fn get_or_insert_with(&mut self, prefix: P, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(prefix.to_trie()).or_insert_with(make)
    }

    fn insert(&mut self, prefix: P, value: V) -> Option<V> {
        self.0.insert(prefix.to_trie(), value)
    }

    fn remove(&mut self, prefix: P) -> Option<V> {
        self.0.remove(&prefix.to_trie())
    }

    fn longest_match(&self, prefix: P) -> Option<(P, &V)> {
        self.0.get_lpm(&prefix.to_trie()).map(|(k, v)| (P::from_trie(k), v))
    }

    fn covered<'a>(&'a self, prefix: P) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a,
    {
        self.0.children(&prefix.to_trie()).map(|(k, v)| (P::from_trie(k), v))
    }

    fn iter_after<'a>(&'a self, cursor: Cursor<P>) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a,
    {
        match cursor {
            Cursor::Start => self.0.iter(),
            Cursor::After(p) => self.0.iter_from(&p.to_trie(), false),
        }
        .map(|(k, v)| (P::from_trie(k), v))
    }

    fn iter_mut<'a>(&'a mut self) -> impl Iterator<Item = (P, &'a mut V)>
    where
        P: 'a,
        V: 'a,
    {
        self.0.iter_mut().map(|(k, v)| (P::from_trie(k), v))
    }

    fn memory_bytes(&self) -> usize {
        self.0.mem_size()
    }
}

/// A sorted map, for keys of any width. Most keys are whole identifiers without structure, for which the trie takes
/// several hundred octets each (docs/decisions/0025-a-table-for-xids.md).
#[derive(Clone)]
pub struct OrderedStore<P, V> {
    map: BTreeMap<P, V>,
    /// The number of prefixes of each length, up to the longest one that occurred.
    lengths: Vec<u32>,
}

impl<P, V> Default for OrderedStore<P, V> {
    fn default() -> Self {
        OrderedStore { map: BTreeMap::new(), lengths: Vec::new() }
    }
}

impl<P: Prefix, V> OrderedStore<P, V> {
    /// Returns the largest length, at most `len`, that a prefix has.
    fn longest_length(&self, len: u8) -> Option<u8> {
        let end = self.lengths.len().min(usize::from(len) + 1);
        self.lengths.get(..end)?.iter().rposition(|count| *count > 0).map(|len| len as u8)
    }

    /// Counts a new prefix.
    fn count(lengths: &mut Vec<u32>, prefix: P) {
        let len = usize::from(prefix.len());
        if lengths.len() <= len {
            lengths.resize(len + 1, 0);
        }
        if let Some(count) = lengths.get_mut(len) {
            *count += 1;
        }
    }
}

/// Returns the number of leading bits that two addresses share, at most the length of `a`.
fn common_bits<P: Prefix>(a: P, b: P) -> u8 {
    let (mut shared, mut differs) = (0, a.len());
    while shared < differs {
        let middle = shared + (differs - shared).div_ceil(2);
        if a.truncate(middle).contains(b.addr()) {
            shared = middle;
        } else {
            differs = middle - 1;
        }
    }
    shared
}

impl<P: Prefix, V> Store<P, V> for OrderedStore<P, V> {
    fn duplicate(&self) -> Self
    where
        V: Clone,
    {
        self.clone()
    }

    fn len(&self) -> usize {
        self.map.len()
    }

    fn get(&self, prefix: P) -> Option<&V> {
        self.map.get(&prefix)
    }

    fn get_mut(&mut self, prefix: P) -> Option<&mut V> {
        self.map.get_mut(&prefix)
    }

    fn get_or_insert_with(&mut self, prefix: P, make: impl FnOnce() -> V) -> &mut V {
        let lengths = &mut self.lengths;
        self.map.entry(prefix).or_insert_with(|| {
            Self::count(lengths, prefix);
            make()
        })
    }

    fn insert(&mut self, prefix: P, value: V) -> Option<V> {
        let before = self.map.insert(prefix, value);
        if before.is_none() {
            Self::count(&mut self.lengths, prefix);
        }
        before
    }

    fn remove(&mut self, prefix: P) -> Option<V> {
        let value = self.map.remove(&prefix)?;
        if let Some(count) = self.lengths.get_mut(usize::from(prefix.len())) {
            *count -= 1;
        }
        Some(value)
    }

    /// The prefix before `prefix` in order either covers `prefix`, or shares with `prefix` every bit of those that do: the search goes
    /// on with the shared bits, cut to a length that occurs.
    fn longest_match(&self, prefix: P) -> Option<(P, &V)> {
        let mut wanted = prefix;
        loop {
            wanted = wanted.truncate(self.longest_length(wanted.len())?);
            let (before, value) = self.map.range(..=wanted).next_back()?;
            if before.covers(wanted) {
                return Some((*before, value));
            }
            wanted = wanted.truncate(common_bits(wanted, *before));
        }
    }

    fn covered<'a>(&'a self, prefix: P) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a,
    {
        let from = self.map.range(prefix..).map(|(k, v)| (*k, v));
        from.take_while(move |(k, _)| prefix.covers(*k))
    }

    fn iter_after<'a>(&'a self, cursor: Cursor<P>) -> impl Iterator<Item = (P, &'a V)>
    where
        V: 'a,
    {
        use core::ops::Bound;
        let from = match cursor {
            Cursor::Start => Bound::Unbounded,
            Cursor::After(prefix) => Bound::Excluded(prefix),
        };
        self.map.range((from, Bound::Unbounded)).map(|(k, v)| (*k, v))
    }

    fn iter_mut<'a>(&'a mut self) -> impl Iterator<Item = (P, &'a mut V)>
    where
        P: 'a,
        V: 'a,
    {
        self.map.iter_mut().map(|(k, v)| (*k, v))
    }

    /// Counts nodes that are two thirds full, as those of keys that came in random order are.
    fn memory_bytes(&self) -> usize {
        let row = size_of::<P>() + size_of::<V>() + size_of::<usize>() / 2;
        self.map.len() * row * 3 / 2 + self.lengths.capacity() * size_of::<u32>()
    }
}
