//! Prefix tables: exact and longest match, covering and covered walks, and iterators that stay valid while routes come
//! and go.
//!
//! The storage of IP prefixes is the crate `prefix-trie`: 12 octets an IPv4 prefix and 26 an IPv6 prefix on the Internet's
//! routes, including values of four octets (`make bench-tables`); that of longer keys is a sorted map. A safe iterator
//! ([`Cursor`]) is the last visited key: its successor can be found after any insertion or removal. XORP kept a reference
//! count in each node for safe iterators (section 5.3); a key needs none, costs one descent per slice, and cannot leak.

use crate::store::{Cursor, OrderedStore, Store, TrieKey, TrieStore};
use sluice_base::{Ipv4Prefix, Ipv6Prefix, Prefix, XidPrefix};
use smallvec::SmallVec;

/// A possible key of a [`PrefixTable`].
pub trait TableKey: Prefix {
    /// The storage of a table with these keys.
    type Store<V: Send>: Store<Self, V> + Send;
}

macro_rules! trie_key {
    ($prefix:ty, $bits:ty) => {
        impl TrieKey for $prefix {
            type Trie = ($bits, u8);

            fn to_trie(self) -> Self::Trie {
                self.to_parts()
            }

            fn from_trie((bits, len): Self::Trie) -> Self {
                Self::from_parts(bits, len).expect("the trie gives back only lengths that it was given")
            }
        }

        impl TableKey for $prefix {
            type Store<V: Send> = TrieStore<Self, V>;
        }
    };
}

trie_key!(Ipv4Prefix, u32);
trie_key!(Ipv6Prefix, u128);

impl TableKey for XidPrefix {
    type Store<V: Send> = OrderedStore<Self, V>;
}

/// The usual largest number of prefixes around a prefix in the Internet's table; more cost an allocation.
const USUAL_DEPTH: usize = 8;

/// A table from prefix to `V`, in the order of addresses, shorter prefixes first.
pub struct PrefixTable<P: TableKey, V: Send> {
    map: P::Store<V>,
}

impl<P: TableKey, V: Send> Default for PrefixTable<P, V> {
    fn default() -> Self {
        PrefixTable { map: P::Store::default() }
    }
}

impl<P: TableKey, V: Clone + Send> Clone for PrefixTable<P, V> {
    fn clone(&self) -> Self {
        PrefixTable { map: self.map.duplicate() }
    }
}

impl<P: TableKey, V: core::fmt::Debug + Send> core::fmt::Debug for PrefixTable<P, V> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<P: TableKey, V: Send> PrefixTable<P, V> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of prefixes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns true if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Returns the value of exactly the given prefix.
    pub fn get(&self, prefix: P) -> Option<&V> {
        self.map.get(prefix)
    }

    /// Returns the value of exactly the given prefix, for changing.
    pub fn get_mut(&mut self, prefix: P) -> Option<&mut V> {
        self.map.get_mut(prefix)
    }

    /// Returns the value of exactly the given prefix, made by `make` if absent.
    pub fn get_or_insert_with(&mut self, prefix: P, make: impl FnOnce() -> V) -> &mut V {
        self.map.get_or_insert_with(prefix, make)
    }

    /// Sets the value of a prefix; returns the old value.
    pub fn insert(&mut self, prefix: P, value: V) -> Option<V> {
        self.map.insert(prefix, value)
    }

    /// Removes a prefix; returns its value.
    pub fn remove(&mut self, prefix: P) -> Option<V> {
        self.map.remove(prefix)
    }

    /// The longest prefix that covers `prefix` (or is it).
    pub fn longest_match(&self, prefix: P) -> Option<(P, &V)> {
        self.map.longest_match(prefix)
    }

    /// The longest prefix that holds `addr`.
    pub fn longest_match_addr(&self, addr: P::Addr) -> Option<(P, &V)> {
        self.longest_match(P::host(addr))
    }

    /// Iterates over the prefixes that cover `prefix`, itself included, shortest first.
    pub fn covering(&self, prefix: P) -> impl Iterator<Item = (P, &V)> {
        // Longest match after longest match: the first brings the path into the processor's caches, the others follow it
        // there. The trie's own walk allocates at every node that holds one.
        let mut around: SmallVec<[(P, &V); USUAL_DEPTH]> = SmallVec::new();
        let mut next = Some(prefix);
        while let Some(found) = next.and_then(|p| self.longest_match(p)) {
            next = found.0.len().checked_sub(1).map(|len| found.0.truncate(len));
            around.push(found);
        }
        around.into_iter().rev()
    }

    /// Iterates over the prefixes inside `prefix`, itself included, in order.
    pub fn covered(&self, prefix: P) -> impl Iterator<Item = (P, &V)> {
        self.map.covered(prefix)
    }

    /// Iterates over the prefixes in order.
    pub fn iter(&self) -> impl Iterator<Item = (P, &V)> {
        self.map.iter_after(Cursor::Start)
    }

    /// Iterates over the prefixes in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (P, &mut V)> {
        self.map.iter_mut()
    }

    /// Iterates over the mutable values, in the order of their prefixes.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.map.iter_mut().map(|(_, value)| value)
    }

    /// Iterates over the present prefixes after a cursor, in order.
    pub fn iter_after(&self, cursor: Cursor<P>) -> impl Iterator<Item = (P, &V)> {
        self.map.iter_after(cursor)
    }

    /// Moves `cursor` to the next prefix and returns it.
    pub fn advance(&self, cursor: &mut Cursor<P>) -> Option<(P, &V)> {
        let (p, v) = self.iter_after(*cursor).next()?;
        *cursor = Cursor::After(p);
        Some((p, v))
    }

    /// The largest prefix around `addr` that lies inside `within` and inside which no prefix of the table lies strictly
    /// (XORP, figure 8): the range for which the longest match of `addr` is the longest match of every address.
    ///
    /// `within` is the longest match itself, or the default route without a match.
    pub fn largest_enclosing(&self, within: P, addr: P::Addr) -> P {
        let host = P::host(addr);
        let mut best = host;
        let mut len = host.len();
        // Widen from the address towards `within` for as long as nothing more specific lies inside; stops at the first
        // overlay, so that the cost is the number of bits, not of routes.
        while len > within.len() {
            len -= 1;
            let wider = host.truncate(len);
            let overlaid = self.covered(wider).any(|(p, _)| p != within);
            if overlaid {
                break;
            }
            best = wider;
        }
        best
    }

    /// Octets of the table on the heap, without the values' own heap.
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
