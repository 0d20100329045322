//! Outbound route filters of a neighbor by prefix (RFC 5291, RFC 5292): the routes wanted by a neighbor.
//!
//! A filter is a list of entries in the order of sequence numbers; the first matching entry decides. A filter with entries denies
//! prefixes without a match; an empty filter permits every prefix. In the form of [`PrefixFilter`], a look-up costs one step for each
//! prefix length in use.

use crate::wire::orf::{Action, Entry};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{IpPrefix, Prefix};

/// The most entries of a filter; further entries are ignored.
pub const MOST_ENTRIES: usize = 10_000;

/// The entries sent by a neighbor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Entries(BTreeSet<Entry>);

impl Entries {
    /// Carries out actions of a message, in order. Returns false if entries were ignored because there are too many.
    pub fn apply(&mut self, actions: &[Action]) -> bool {
        let mut has_room = true;
        for action in actions {
            match action {
                Action::Add(_) if self.0.len() >= MOST_ENTRIES => has_room = false,
                Action::Add(entry) => drop(self.0.insert(*entry)),
                Action::Remove(entry) => drop(self.0.remove(entry)),
                Action::RemoveAll => self.0.clear(),
            }
        }
        has_room
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true without entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the filter; `None` if every prefix is wanted.
    pub fn filter(&self) -> Option<PrefixFilter> {
        if self.0.is_empty() {
            return None;
        }
        let mut rows: BTreeMap<IpPrefix, Vec<Row>> = BTreeMap::new();
        for entry in &self.0 {
            let rows = rows.entry(entry.prefix).or_default();
            let (shortest, longest) = entry.lengths();
            // Of entries with the same lengths the first decides.
            if !rows.iter().any(|row| (row.shortest, row.longest) == (shortest, longest)) {
                rows.push(Row { sequence: entry.sequence, shortest, longest, denies: entry.denies });
            }
        }
        let lengths: BTreeSet<u8> = rows.keys().map(|prefix| prefix.len()).collect();
        Some(PrefixFilter { lengths: lengths.into_iter().collect(), rows })
    }
}

/// An entry at its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    sequence: u32,
    shortest: u8,
    longest: u8,
    denies: bool,
}

/// Returns the first `length` bits of a prefix.
fn truncated(prefix: IpPrefix, length: u8) -> IpPrefix {
    match prefix {
        IpPrefix::V4(prefix) => prefix.truncate(length).into(),
        IpPrefix::V6(prefix) => prefix.truncate(length).into(),
    }
}

/// A filter with at least one entry, for look-ups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrefixFilter {
    /// The lengths of the entries' prefixes.
    lengths: Vec<u8>,
    /// In the order of sequence numbers.
    rows: BTreeMap<IpPrefix, Vec<Row>>,
}

impl PrefixFilter {
    /// Returns true if a route of a prefix is wanted.
    pub fn permits(&self, prefix: IpPrefix) -> bool {
        let lengths = self.lengths.iter().take_while(|length| **length <= prefix.len());
        let candidates = lengths.filter_map(|length| self.rows.get(&truncated(prefix, *length))).flatten();
        let matching = candidates.filter(|row| (row.shortest..=row.longest).contains(&prefix.len()));
        matching.min_by_key(|row| row.sequence).is_some_and(|row| !row.denies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(sequence: u32, denies: bool, prefix: &str, min_len: u8, max_len: u8) -> Entry {
        Entry { sequence, denies, prefix: prefix.parse().unwrap(), min_len, max_len }
    }

    fn permits(entries: &[Entry], prefix: &str) -> bool {
        let mut all = Entries::default();
        all.apply(&entries.iter().map(|entry| Action::Add(*entry)).collect::<Vec<_>>());
        all.filter().is_none_or(|filter| filter.permits(prefix.parse().unwrap()))
    }

    #[test]
    fn lengths_are_those_of_the_table_in_rfc_5292() {
        let cases: [(u8, u8, [bool; 4]); 4] = [
            (0, 0, [true, false, false, false]),
            (17, 0, [false, true, true, true]),
            (0, 24, [true, true, true, false]),
            (17, 24, [false, true, true, false]),
        ];
        for (min_len, max_len, expected) in cases {
            let one = [entry(1, false, "10.1.0.0/16", min_len, max_len)];
            let found =
                ["10.1.0.0/16", "10.1.0.0/17", "10.1.1.0/24", "10.1.1.0/25"].map(|p| permits(&one, p));
            assert_eq!(found, expected, "{min_len} {max_len}");
            assert!(!permits(&one, "10.2.0.0/16"));
        }
    }

    #[test]
    fn the_first_match_decides() {
        let rest = entry(9, false, "0.0.0.0/0", 0, 32);
        let all = [entry(5, true, "10.0.0.0/8", 0, 32), entry(1, false, "10.1.0.0/16", 0, 0), rest];
        assert!(
            permits(&all, "10.1.0.0/16") && !permits(&all, "10.1.0.0/17") && permits(&all, "192.0.2.0/24")
        );
        assert!(!permits(&all[..2], "192.0.2.0/24"), "no match denies");
        assert!(permits(&[], "192.0.2.0/24"));
    }

    #[test]
    fn entries_come_and_go() {
        let mut entries = Entries::default();
        let (one, other) = (entry(1, false, "10.0.0.0/8", 0, 0), entry(2, true, "2001:db8::/32", 0, 128));
        assert!(entries.apply(&[
            Action::Add(one),
            Action::Add(other),
            Action::Remove(entry(3, false, "10.0.0.0/8", 0, 0))
        ]));
        assert_eq!(entries.len(), 2);
        entries.apply(&[Action::Remove(one)]);
        assert_eq!(entries.len(), 1);
        entries.apply(&[Action::RemoveAll]);
        assert!(entries.is_empty() && entries.filter().is_none());
        let many: Vec<Action> =
            (0..MOST_ENTRIES as u32 + 1).map(|n| Action::Add(entry(n, false, "10.0.0.0/8", 0, 0))).collect();
        assert!(!entries.apply(&many));
        assert_eq!(entries.len(), MOST_ENTRIES);
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        (
            0..6_u32,
            any::<bool>(),
            0..4_u32,
            8..12_u8,
            prop_oneof![Just(0), 9..14_u8],
            prop_oneof![Just(0), 9..14_u8],
        )
            .prop_map(|(sequence, denies, bits, length, min_len, max_len)| {
                let prefix = sluice_base::Ipv4Prefix::from_parts(bits << 20, 32).unwrap().truncate(length);
                Entry { sequence, denies, prefix: prefix.into(), min_len, max_len }
            })
    }

    proptest! {
        /// A look-up has the result of a walk over the entries in order.
        #[test]
        fn look_ups_are_walks(entries in prop::collection::vec(any_entry(), 0..12), bits in 0..64_u32, length in 8..16_u8) {
            let prefix: IpPrefix = sluice_base::Ipv4Prefix::from_parts(bits << 18, 32).unwrap().truncate(length).into();
            let mut all = Entries::default();
            all.apply(&entries.iter().map(|entry| Action::Add(*entry)).collect::<Vec<_>>());
            let is_match = |entry: &&Entry| {
                let (shortest, longest) = entry.lengths();
                entry.prefix.covers(prefix) && (shortest..=longest).contains(&prefix.len())
            };
            let lowest = all.0.iter().filter(is_match).map(|entry| entry.sequence).min();
            // Entries with the same number and different decisions have no order.
            let deciding: BTreeSet<bool> =
                all.0.iter().filter(is_match).filter(|entry| Some(entry.sequence) == lowest).map(|entry| entry.denies).collect();
            prop_assume!(deciding.len() < 2);
            let expected = all.is_empty() || deciding == BTreeSet::from([false]);
            prop_assert_eq!(all.filter().is_none_or(|filter| filter.permits(prefix)), expected);
        }
    }
}
