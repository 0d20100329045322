//! The compared tables, each behind the same few operations. Values are `u32`: the number of a route.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use iptrie::map::RTrieMap;
use prefix_trie::PrefixMap;
use sluice_base::{Ipv4Prefix, Ipv6Prefix, Prefix};
use sluice_stage::{Cursor, PrefixTable, TableKey, TrieKey};
use treebitmap::IpLookupTable;

/// Marks an absent value, for tables without such a mark.
const NOTHING: u32 = u32::MAX;

/// A table from prefix to number. Walks sum up their values, so that every value is read and can be compared.
pub trait Candidate<P> {
    /// The table's name in results.
    const NAME: &'static str;
    /// Returns an empty table.
    fn empty() -> Self;
    /// Sets the value of a prefix.
    fn insert(&mut self, prefix: P, value: u32);
    /// The value of exactly the given prefix.
    fn get(&self, prefix: P) -> Option<u32>;
    /// The value of the longest prefix around a host's prefix.
    fn longest(&self, host: P) -> Option<u32>;
    /// Removes a prefix.
    fn remove(&mut self, prefix: P) -> Option<u32>;
    /// Walks over the whole table, in any order.
    fn walk(&self) -> u64;
    /// Walks over the whole table with an iterator that can pause after any prefix while routes change; `None`: not
    /// supported.
    fn walk_safely(&self) -> Option<u64> {
        None
    }
    /// Walks over the prefixes around the given prefix; `None`: not supported.
    fn covering(&self, _: P) -> Option<u64> {
        None
    }
    /// Walks over the prefixes inside the given prefix; `None`: not supported.
    fn covered(&self, _: P) -> Option<u64> {
        None
    }
}

fn sum(values: impl Iterator<Item = u32>) -> u64 {
    values.map(u64::from).sum()
}

/// Prefixes between two pauses of a safe iterator: a slice of background work.
const SLICE: usize = 128;

impl<P: TableKey> Candidate<P> for PrefixTable<P, u32> {
    const NAME: &'static str = "PrefixTable";

    fn empty() -> Self {
        PrefixTable::new()
    }

    fn insert(&mut self, prefix: P, value: u32) {
        self.insert(prefix, value);
    }

    fn get(&self, prefix: P) -> Option<u32> {
        self.get(prefix).copied()
    }

    fn longest(&self, host: P) -> Option<u32> {
        self.longest_match(host).map(|(_, v)| *v)
    }

    fn remove(&mut self, prefix: P) -> Option<u32> {
        self.remove(prefix)
    }

    fn walk(&self) -> u64 {
        sum(self.iter().map(|(_, v)| *v))
    }

    fn walk_safely(&self) -> Option<u64> {
        let (mut cursor, mut total) = (Cursor::Start, 0);
        loop {
            let at = cursor;
            for (prefix, value) in self.iter_after(at).take(SLICE) {
                cursor = Cursor::After(prefix);
                total += u64::from(*value);
            }
            if cursor == at {
                return Some(total);
            }
        }
    }

    fn covering(&self, prefix: P) -> Option<u64> {
        Some(sum(self.covering(prefix).map(|(_, v)| *v)))
    }

    fn covered(&self, prefix: P) -> Option<u64> {
        Some(sum(self.covered(prefix).map(|(_, v)| *v)))
    }
}

/// The crate under `PrefixTable`, without a wrapper.
pub struct Bare<P: TrieKey>(PrefixMap<P::Trie, u32>);

impl<P: TrieKey> Candidate<P> for Bare<P> {
    const NAME: &'static str = "prefix-trie";

    fn empty() -> Self {
        Bare(PrefixMap::new())
    }

    fn insert(&mut self, prefix: P, value: u32) {
        self.0.insert(prefix.to_trie(), value);
    }

    fn get(&self, prefix: P) -> Option<u32> {
        self.0.get(&prefix.to_trie()).copied()
    }

    fn longest(&self, host: P) -> Option<u32> {
        self.0.get_lpm(&host.to_trie()).map(|(_, v)| *v)
    }

    fn remove(&mut self, prefix: P) -> Option<u32> {
        self.0.remove(&prefix.to_trie())
    }

    fn walk(&self) -> u64 {
        sum(self.0.iter().map(|(_, v)| *v))
    }

    fn covering(&self, prefix: P) -> Option<u64> {
        Some(sum(self.0.cover(&prefix.to_trie()).map(|(_, v)| *v)))
    }

    fn covered(&self, prefix: P) -> Option<u64> {
        Some(sum(self.0.children(&prefix.to_trie()).map(|(_, v)| *v)))
    }
}

/// A sorted map: the floor. A longest match looks for the predecessor, and again above what the two have in common.
pub struct Sorted<P>(BTreeMap<P, u32>);

impl<P: Prefix> Sorted<P> {
    /// Values of the prefixes around `prefix`, longest first.
    fn around(&self, prefix: P) -> impl Iterator<Item = u32> {
        let mut next = Some(prefix);
        std::iter::from_fn(move || {
            loop {
                let from = next?;
                let Some((found, value)) = self.0.range(..=from).next_back() else {
                    next = None;
                    return None;
                };
                let up = |p: P| p.len().checked_sub(1).map(|len| p.truncate(len));
                if found.covers(from) {
                    next = up(*found);
                    return Some(*value);
                }
                let mut common = found.truncate(from.len());
                while !common.covers(from) {
                    common = up(common)?;
                }
                next = Some(common);
            }
        })
    }
}

impl<P: Prefix> Candidate<P> for Sorted<P> {
    const NAME: &'static str = "BTreeMap";

    fn empty() -> Self {
        Sorted(BTreeMap::new())
    }

    fn insert(&mut self, prefix: P, value: u32) {
        self.0.insert(prefix, value);
    }

    fn get(&self, prefix: P) -> Option<u32> {
        self.0.get(&prefix).copied()
    }

    fn longest(&self, host: P) -> Option<u32> {
        self.around(host).next()
    }

    fn remove(&mut self, prefix: P) -> Option<u32> {
        self.0.remove(&prefix)
    }

    fn walk(&self) -> u64 {
        sum(self.0.values().copied())
    }

    fn covering(&self, prefix: P) -> Option<u64> {
        Some(sum(self.around(prefix)))
    }

    fn covered(&self, prefix: P) -> Option<u64> {
        Some(sum(self.0.range(prefix..).take_while(|(p, _)| prefix.covers(**p)).map(|(_, v)| *v)))
    }
}

/// The tree bitmap of `ip_network_table`.
pub struct Bitmap<A: treebitmap::address::Address>(IpLookupTable<A, u32>);

/// The Patricia trie of `iptrie`.
pub struct Patricia<K>(RTrieMap<K, u32>);

macro_rules! key {
    ($key:ty, $prefix:expr) => {
        <$key>::new($prefix.addr().0, $prefix.len()).expect("a prefix is no longer than its family allows")
    };
}
macro_rules! family {
    ($prefix:ty, $addr:ty, $key:ty) => {
        impl Candidate<$prefix> for Bitmap<$addr> {
            const NAME: &'static str = "treebitmap";

            fn empty() -> Self {
                Bitmap(IpLookupTable::new())
            }

            fn insert(&mut self, prefix: $prefix, value: u32) {
                self.0.insert(prefix.addr().0, prefix.len().into(), value);
            }

            fn get(&self, prefix: $prefix) -> Option<u32> {
                self.0.exact_match(prefix.addr().0, prefix.len().into()).copied()
            }

            fn longest(&self, host: $prefix) -> Option<u32> {
                self.0.longest_match(host.addr().0).map(|(_, _, v)| *v)
            }

            fn remove(&mut self, prefix: $prefix) -> Option<u32> {
                self.0.remove(prefix.addr().0, prefix.len().into())
            }

            fn walk(&self) -> u64 {
                sum(self.0.iter().map(|(_, _, v)| *v))
            }

            fn covering(&self, prefix: $prefix) -> Option<u64> {
                let all = self.0.matches(prefix.addr().0);
                Some(sum(all.take_while(|(_, len, _)| *len <= prefix.len().into()).map(|(_, _, v)| *v)))
            }
        }

        impl Candidate<$prefix> for Patricia<$key> {
            const NAME: &'static str = "iptrie";

            fn empty() -> Self {
                Patricia(RTrieMap::with_root(NOTHING))
            }

            fn insert(&mut self, prefix: $prefix, value: u32) {
                self.0.insert(key!($key, prefix), value);
            }

            fn get(&self, prefix: $prefix) -> Option<u32> {
                self.0.get(&key!($key, prefix)).copied()
            }

            fn longest(&self, host: $prefix) -> Option<u32> {
                let (_, value) = self.0.lookup(&host.addr().0);
                (*value != NOTHING).then_some(*value)
            }

            fn remove(&mut self, prefix: $prefix) -> Option<u32> {
                self.0.remove(&key!($key, prefix))
            }

            fn walk(&self) -> u64 {
                sum(self.0.iter().map(|(_, v)| *v).filter(|v| *v != NOTHING))
            }
        }
    };
}

family!(Ipv4Prefix, Ipv4Addr, iptrie::Ipv4Prefix);
family!(Ipv6Prefix, Ipv6Addr, iptrie::Ipv6Prefix);
