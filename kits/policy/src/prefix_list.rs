//! Prefix lists: entries such as `10.0.0.0/8 orlonger`, and one trie for all lists in use.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use prefix_trie::PrefixMap;
use sluice_base::{AnyPrefix, IpPrefix, Prefix, XidPrefix};
use smallvec::SmallVec;

/// An entry of a prefix list: prefixes inside a prefix, of some lengths. Of prefixes of XIDs, the bits of the ID count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PrefixRange {
    /// The containing prefix.
    pub prefix: AnyPrefix,
    /// The shortest length.
    pub shortest: u8,
    /// The longest length.
    pub longest: u8,
}

impl PrefixRange {
    /// Returns true if a prefix belongs to the range.
    pub fn contains(&self, prefix: AnyPrefix) -> bool {
        (self.shortest..=self.longest).contains(&length(prefix)) && self.prefix.covers(prefix)
    }
}

/// Returns the length as people write it.
fn length(prefix: AnyPrefix) -> u8 {
    prefix.to::<XidPrefix>().map_or(prefix.len(), XidPrefix::id_bits)
}

/// Returns the longest length of the family.
fn width(prefix: AnyPrefix) -> u8 {
    match prefix.ip() {
        Some(IpPrefix::V4(_)) => 32,
        Some(IpPrefix::V6(_)) => 128,
        None => XidPrefix::WIDTH - XidPrefix::TYPE_BITS,
    }
}

/// The reason why a text is no [`PrefixRange`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeError(String);

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for RangeError {}

impl FromStr for PrefixRange {
    type Err = RangeError;

    /// Reads `PREFIX`, `PREFIX exact`, `PREFIX orlonger`, `PREFIX longer`, `PREFIX upto /N`, or `PREFIX prefix-length-range
    /// /N-/M`. A prefix is of IP, or of the XIDs of a principal.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        let mut words = text.split_whitespace();
        let word = words.next().unwrap_or_default();
        let prefix: AnyPrefix = word.parse().map_err(|error| RangeError(format!("`{word}`: {error}")))?;
        let (own, width) = (length(prefix), width(prefix));
        let form = "expected PREFIX, or PREFIX with `exact`, `orlonger`, `longer`, `upto /N` or `prefix-length-range /N-/M`";
        let wrong = || RangeError(format!("`{text}`: {form}"));
        let number = |text: &str| text.strip_prefix('/')?.parse::<u8>().ok();
        let (shortest, longest) = match (words.next(), words.next()) {
            (None | Some("exact"), None) => (own, own),
            (Some("orlonger"), None) => (own, width),
            (Some("longer"), None) => (own + 1, width),
            (Some("upto"), Some(longest)) => (own, number(longest).ok_or_else(wrong)?),
            (Some("prefix-length-range"), Some(range)) => {
                let (shortest, longest) = range.split_once('-').ok_or_else(wrong)?;
                (number(shortest).ok_or_else(wrong)?, number(longest).ok_or_else(wrong)?)
            }
            _ => return Err(wrong()),
        };
        if words.next().is_some() {
            return Err(wrong());
        }
        if shortest < own || shortest > longest || longest > width {
            let lengths =
                format!("the lengths of prefixes inside are /{own} to /{width}, the shorter one first");
            return Err(RangeError(format!("`{text}`: {lengths}")));
        }
        Ok(PrefixRange { prefix, shortest, longest })
    }
}

impl fmt::Display for PrefixRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, len, width) = (self.prefix, length(self.prefix), width(self.prefix));
        match (self.shortest, self.longest) {
            (shortest, longest) if (shortest, longest) == (len, len) => write!(f, "{prefix}"),
            (shortest, longest) if (shortest, longest) == (len, width) => write!(f, "{prefix} orlonger"),
            (shortest, longest) if (shortest, longest) == (len + 1, width) => write!(f, "{prefix} longer"),
            (shortest, longest) if shortest == len => write!(f, "{prefix} upto /{longest}"),
            (shortest, longest) => write!(f, "{prefix} prefix-length-range /{shortest}-/{longest}"),
        }
    }
}

/// The number of a prefix list in [`PrefixLists`].
pub type ListId = u16;

/// The numbers of the lists with a prefix, in order.
pub type Matching = SmallVec<[ListId; 8]>;

/// An entry of a list, at its prefix in the trie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    shortest: u8,
    longest: u8,
    list: ListId,
}

/// The prefix lists in use. One walk from the root of a trie finds every list with an IP prefix; prefixes of XIDs are looked up by each
/// length that an entry has.
#[derive(Clone, Default)]
pub struct PrefixLists {
    ipv4: PrefixMap<(u32, u8), Vec<Row>>,
    ipv6: PrefixMap<(u128, u8), Vec<Row>>,
    xids: BTreeMap<u8, BTreeMap<XidPrefix, Vec<Row>>>,
    lists: ListId,
}

impl fmt::Debug for PrefixLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} prefix lists", self.lists)
    }
}

impl PrefixLists {
    /// Adds a list and returns its number; `None` if there are 65,535 lists.
    pub fn add(&mut self, entries: impl IntoIterator<Item = PrefixRange>) -> Option<ListId> {
        let list = self.lists;
        self.lists = self.lists.checked_add(1)?;
        for PrefixRange { prefix, shortest, longest } in entries {
            let row = Row { shortest, longest, list };
            let rows = match (prefix.ip(), prefix.to::<XidPrefix>()) {
                (Some(IpPrefix::V4(prefix)), _) => self.ipv4.entry(prefix.to_parts()).or_default(),
                (Some(IpPrefix::V6(prefix)), _) => self.ipv6.entry(prefix.to_parts()).or_default(),
                (None, Some(prefix)) => self.xids.entry(prefix.len()).or_default().entry(prefix).or_default(),
                // No other family has a form to be written in.
                (None, None) => continue,
            };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        Some(list)
    }

    /// Returns the lists with a prefix.
    pub fn matching(&self, prefix: AnyPrefix) -> Matching {
        let mut matching = Matching::new();
        let len = length(prefix);
        let mut take = |rows: &[Row]| {
            let fits = |row: &&Row| (row.shortest..=row.longest).contains(&len);
            matching.extend(rows.iter().filter(fits).map(|row| row.list));
        };
        match (prefix.ip(), prefix.to::<XidPrefix>()) {
            (Some(IpPrefix::V4(prefix)), _) => {
                self.ipv4.cover_values(&prefix.to_parts()).for_each(|rows| take(rows));
            }
            (Some(IpPrefix::V6(prefix)), _) => {
                self.ipv6.cover_values(&prefix.to_parts()).for_each(|rows| take(rows));
            }
            (None, Some(prefix)) => {
                let shorter = self.xids.range(..=prefix.len());
                let rows = shorter.filter_map(|(len, entries)| entries.get(&prefix.truncate(*len)));
                rows.for_each(|rows| take(rows));
            }
            (None, None) => {}
        }
        matching.sort_unstable();
        matching.dedup();
        matching
    }

    /// Returns true if a list contains an address.
    pub fn has_address(&self, list: ListId, address: IpAddr) -> bool {
        let width = if address.is_ipv4() { 32 } else { 128 };
        let host = IpPrefix::new(address, width);
        host.is_some_and(|host| self.matching(host.into()).binary_search(&list).is_ok())
    }

    /// Returns the number of lists.
    pub fn len(&self) -> usize {
        self.lists.into()
    }

    /// Returns true if there is no list.
    pub fn is_empty(&self) -> bool {
        self.lists == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_base::{Ipv4Prefix, Ipv6Prefix, XidType};
    use std::string::ToString;

    #[test]
    fn entries_are_read_and_written() {
        for same in [
            "10.0.0.0/8",
            "10.0.0.0/8 orlonger",
            "10.0.0.0/8 longer",
            "10.0.0.0/8 upto /24",
            "10.0.0.0/8 prefix-length-range /16-/24",
            "2001:db8::/32 upto /48",
            "0.0.0.0/0 orlonger",
            "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1",
            "ad-0000000000000000000000000000000000000000/0 orlonger",
            "hid-a100000000000000000000000000000000000000/8 upto /24",
        ] {
            assert_eq!(same.parse::<PrefixRange>().map(|range| range.to_string()).as_deref(), Ok(same));
        }
        assert_eq!("10.0.0.0/8 exact".parse::<PrefixRange>().expect("valid").to_string(), "10.0.0.0/8");
        for (wrong, said) in [
            ("10.0.0.1/8", "bits after"),
            ("10.0.0.0", "ADDRESS/LENGTH"),
            ("10.0.0.0/8 ge 16", "orlonger"),
            ("10.0.0.0/8 upto 24", "upto /N"),
            ("10.0.0.0/8 upto /7", "/8 to /32"),
            ("10.0.0.0/8 upto /33", "/8 to /32"),
            ("10.0.0.0/8 prefix-length-range /24-/16", "the shorter one first"),
            ("10.0.0.1/32 longer", "/32"),
            ("10.0.0.0/8 upto /24 x", "expected"),
            ("", "``"),
            ("ad-a1", "`ad-a1`"),
            ("ad-a100000000000000000000000000000000000000/8 upto /161", "/8 to /160"),
        ] {
            let error = wrong.parse::<PrefixRange>().expect_err(wrong).to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn prefixes_of_xids_count_the_bits_of_the_id() {
        let range: PrefixRange =
            "ad-a100000000000000000000000000000000000000/8 upto /16".parse().expect("valid");
        assert_eq!((range.shortest, range.longest), (8, 16));
        let is_in = |text: &str| range.contains(text.parse().expect("a prefix"));
        assert!(is_in("ad-a1ff000000000000000000000000000000000000/16"));
        assert!(!is_in("ad-a1ff000000000000000000000000000000000000/24"), "too long");
        assert!(!is_in("hid-a1ff000000000000000000000000000000000000/16"), "of another principal");
        assert!(!is_in("161.0.0.0/8"));
    }

    fn prefixes() -> impl Strategy<Value = AnyPrefix> {
        // Few addresses, so that prefixes lie inside each other.
        let ipv4 = (0..4u32, 0..=32u8).prop_map(|(bits, len)| {
            AnyPrefix::of(Ipv4Prefix::from_parts(bits << 28 | bits, len).expect("a length"))
        });
        let ipv6 = (0..4u128, 0..=128u8).prop_map(|(bits, len)| {
            AnyPrefix::of(Ipv6Prefix::from_parts(bits << 120 | bits, len).expect("a length"))
        });
        let xids = (0..2u8, 0..4u8, 0..=160u8).prop_map(|(kind, bits, len)| {
            let kind = if kind == 0 { XidType::AD } else { XidType::HID };
            AnyPrefix::of(XidPrefix::of_type(kind, [bits << 4 | bits; 20], len).expect("a length"))
        });
        prop_oneof![ipv4, ipv6, xids]
    }

    fn ranges() -> impl Strategy<Value = PrefixRange> {
        (prefixes(), 0..=160u8, 0..=160u8).prop_map(|(prefix, a, b)| {
            let width = width(prefix);
            let shortest = a.clamp(length(prefix), width);
            PrefixRange { prefix, shortest, longest: b.clamp(shortest, width) }
        })
    }

    proptest! {
        #[test]
        fn the_trie_agrees_with_a_scan(
            lists in proptest::collection::vec(proptest::collection::vec(ranges(), 0..6), 0..12),
            prefix in prefixes(),
        ) {
            let mut all = PrefixLists::default();
            for (number, list) in lists.iter().enumerate() {
                prop_assert_eq!(all.add(list.iter().copied()), Some(number as ListId));
            }
            let scan = lists.iter().enumerate().filter(|(_, list)| list.iter().any(|range| range.contains(prefix)));
            let scan: Vec<ListId> = scan.map(|(number, _)| number as ListId).collect();
            prop_assert_eq!(all.matching(prefix).to_vec(), scan);
        }
    }
}
