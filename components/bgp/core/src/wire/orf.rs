//! Outbound route filters on the wire: the capability (RFC 5291, section 5) and entries in ROUTE-REFRESH messages (section 4; RFC 5292,
//! section 3).

use super::{FamilyKey, MAX_MESSAGE_LEN, WireError};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_wire::Cursor;

/// The type of filters by address prefix (RFC 5292, section 5).
pub(crate) const ADDRESS_PREFIX: u8 = 64;
/// The sender takes filters.
pub const RECEIVE: u8 = 1;
/// The sender sends filters.
pub const SEND: u8 = 2;

/// Values of When-to-refresh.
const IMMEDIATE: u8 = 1;
const DEFER: u8 = 2;

/// The most octets of entries in a message of 4,096 octets.
const ROOM: usize = MAX_MESSAGE_LEN - 19 - 4 - 1 - 3;

/// The filters by address prefix of a family, in the capability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct FilterFamily {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
    /// [`RECEIVE`], [`SEND`] or the sum of both.
    pub mode: u8,
}

/// Reads the value of the capability. Filters of further types are left out. `None` if the value is malformed.
pub(crate) fn decode_capability(value: &[u8]) -> Option<Vec<FilterFamily>> {
    let mut c = Cursor::new(value);
    let mut families = Vec::new();
    while !c.is_empty() {
        let [a, b, _, safi, count] = c.array().ok()?;
        for _ in 0..count {
            let [kind, mode] = c.array().ok()?;
            if kind == ADDRESS_PREFIX && (RECEIVE..=RECEIVE + SEND).contains(&mode) {
                families.push(FilterFamily { afi: u16::from_be_bytes([a, b]), safi, mode });
            }
        }
    }
    Some(families)
}

/// Appends the value of the capability.
pub(crate) fn put_capability(families: &[FilterFamily], out: &mut Vec<u8>) {
    for family in families {
        let [a, b] = family.afi.to_be_bytes();
        out.extend_from_slice(&[a, b, 0, family.safi, 1, ADDRESS_PREFIX, family.mode]);
    }
}

/// An entry of a filter by address prefix. Entries are ordered by their sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The place among the entries.
    pub sequence: u32,
    /// True if matching routes are not wanted.
    pub denies: bool,
    /// The prefix around matching prefixes.
    pub prefix: IpPrefix,
    /// The shortest matching length; 0: see [`Entry::lengths`].
    pub min_len: u8,
    /// The longest matching length; 0: see [`Entry::lengths`].
    pub max_len: u8,
}

impl Entry {
    /// Returns the shortest and the longest matching length (RFC 5292, section 4).
    pub fn lengths(&self) -> (u8, u8) {
        let (length, width) = (self.prefix.len(), if self.prefix.addr().is_ipv4() { 32 } else { 128 });
        match (self.min_len, self.max_len) {
            (0, 0) => (length, length),
            (min, 0) => (min, width),
            (0, max) => (length, max),
            both => both,
        }
    }
}

/// A change of a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// An entry is added.
    Add(Entry),
    /// An entry is removed.
    Remove(Entry),
    /// Removal of every entry.
    RemoveAll,
}

/// The filters in a ROUTE-REFRESH message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterMessage {
    /// True if routes are to be advertised by the filter at once, false before a further message.
    pub is_immediate: bool,
    /// The changes of the filter by address prefix; `None` if an entry has an unknown value, which removes the filter.
    pub actions: Option<Vec<Action>>,
}

impl FilterMessage {
    /// Reads the part of a message after the family. Filters of further types are ignored.
    ///
    /// # Errors
    ///
    /// A length does not fit.
    pub fn decode(rest: &[u8], is_ipv4: bool) -> Result<Self, WireError> {
        let mut c = Cursor::new(rest);
        let when = c.u8()?;
        let mut actions = (when == IMMEDIATE || when == DEFER).then(Vec::new);
        while !c.is_empty() {
            let (kind, length) = (c.u8()?, c.u16()?);
            let mut entries = c.sub(length.into())?;
            if kind != ADDRESS_PREFIX {
                continue;
            }
            while !entries.is_empty() {
                let action = decode_entry(&mut entries, is_ipv4)?;
                actions = actions.zip(action).map(|(mut actions, action)| {
                    actions.push(action);
                    actions
                });
                if actions.is_none() {
                    break;
                }
            }
        }
        Ok(FilterMessage { is_immediate: when != DEFER, actions })
    }
}

/// Reads an entry; `None` for an unknown value.
fn decode_entry(c: &mut Cursor<'_>, is_ipv4: bool) -> Result<Option<Action>, WireError> {
    let flags = c.u8()?;
    if flags >> 6 == 2 {
        return Ok(Some(Action::RemoveAll));
    }
    let [a, b, d, e] = c.array()?;
    let [min_len, max_len, length] = c.array()?;
    let octets = c.take(usize::from(length).div_ceil(8))?;
    let (prefix, width) = match is_ipv4 {
        true => (Ipv4Prefix::from_octets(octets, length).map(IpPrefix::from), 32),
        false => (Ipv6Prefix::from_octets(octets, length).map(IpPrefix::from), 128),
    };
    let Some(prefix) = prefix else { return Ok(None) };
    let in_range = |len: u8| len == 0 || (length..=width).contains(&len);
    if !in_range(min_len) || !in_range(max_len) || (max_len > 0 && min_len > max_len) {
        return Ok(None);
    }
    let (sequence, denies) = (u32::from_be_bytes([a, b, d, e]), flags & 0x20 != 0);
    let entry = Entry { sequence, denies, prefix, min_len, max_len };
    Ok(match flags >> 6 {
        0 => Some(Action::Add(entry)),
        1 => Some(Action::Remove(entry)),
        _ => None,
    })
}

/// Returns the parts after the family of the messages that add these entries; with `removes_all`, after the removal of earlier
/// entries. Only the last message requests routes. FRR ignores entries behind REMOVE-ALL in a message, so REMOVE-ALL has a message of its
/// own.
pub fn messages(entries: &[Entry], removes_all: bool) -> Vec<Vec<u8>> {
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    let removal = Vec::from([2 << 6]);
    for entry in entries {
        let mut octets = Vec::from([u8::from(entry.denies) << 5]);
        octets.extend_from_slice(&entry.sequence.to_be_bytes());
        octets.extend_from_slice(&[entry.min_len, entry.max_len]);
        match entry.prefix {
            IpPrefix::V4(prefix) => prefix.put(&mut octets),
            IpPrefix::V6(prefix) => prefix.put(&mut octets),
        }
        match chunks.last_mut() {
            Some(last) if last.len() + octets.len() <= ROOM => last.append(&mut octets),
            _ => chunks.push(octets),
        }
    }
    if removes_all {
        chunks.insert(0, removal);
    }
    let last = chunks.len().saturating_sub(1);
    let message = |(number, entries): (usize, Vec<u8>)| {
        let [a, b] = (entries.len() as u16).to_be_bytes();
        let when = if number == last { IMMEDIATE } else { DEFER };
        [&[when, ADDRESS_PREFIX, a, b][..], &entries].concat()
    };
    chunks.into_iter().enumerate().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sluice_base::Prefix;

    #[test]
    fn messages_come_back() {
        let entry = |n: u32| Entry {
            sequence: n,
            denies: n.is_multiple_of(3),
            prefix: Ipv4Prefix::from_parts(n << 12, 24).unwrap().into(),
            min_len: 0,
            max_len: 32,
        };
        let all: Vec<Entry> = (1..1000).map(entry).collect();
        assert_eq!(messages(&[], false), Vec::<Vec<u8>>::new());
        let messages = messages(&all, true);
        assert!(messages.len() > 1);
        let read: Vec<FilterMessage> =
            messages.iter().map(|rest| FilterMessage::decode(rest, true).unwrap()).collect();
        let last = read.len() - 1;
        assert!(read.iter().enumerate().all(|(n, message)| message.is_immediate == (n == last)));
        let actions: Vec<Action> = read.into_iter().flat_map(|message| message.actions.unwrap()).collect();
        assert_eq!(actions[0], Action::RemoveAll);
        assert_eq!(actions[1..], all.iter().map(|entry| Action::Add(*entry)).collect::<Vec<_>>());
    }

    #[test]
    fn wrong_values_remove_the_filter_and_wrong_lengths_are_errors() {
        let decode = |octets: &[u8]| FilterMessage::decode(octets, true);
        let filter = |octets: &[u8]| decode(octets).unwrap().actions;
        // Entry: flags, sequence, minimum, maximum, length, prefix.
        assert_eq!(filter(&[1, 64, 0, 1, 0x80]), Some(Vec::from([Action::RemoveAll])));
        assert_eq!(filter(&[1, 64, 0, 9, 0, 0, 0, 0, 1, 0, 33, 8, 10]), None, "longer than an address");
        assert_eq!(filter(&[1, 64, 0, 9, 0, 0, 0, 0, 1, 7, 0, 8, 10]), None, "shorter than the prefix");
        assert_eq!(
            filter(&[1, 64, 0, 9, 0, 0, 0, 0, 1, 20, 10, 8, 10]),
            None,
            "the minimum above the maximum"
        );
        assert_eq!(filter(&[1, 64, 0, 9, 0xc0, 0, 0, 0, 1, 0, 0, 8, 10]), None, "an unknown action");
        assert_eq!(filter(&[7, 64, 0, 1, 0x80]), None, "an unknown time");
        assert_eq!(filter(&[1, 65, 0, 1, 0x80]), Some(Vec::new()), "another type");
        assert!(decode(&[]).is_err() && decode(&[1, 64]).is_err() && decode(&[1, 64, 0, 9, 0]).is_err());
        assert!(decode(&[1, 64, 0, 9, 0, 0, 0, 0, 1, 0, 0, 16, 10]).is_err());
    }

    #[test]
    fn capabilities_come_back() {
        let families = [
            FilterFamily { afi: 1, safi: 1, mode: RECEIVE },
            FilterFamily { afi: 2, safi: 1, mode: RECEIVE | SEND },
        ];
        let mut value = Vec::new();
        put_capability(&families, &mut value);
        assert_eq!(decode_capability(&value).as_deref(), Some(&families[..]));
        assert_eq!(decode_capability(&[0, 1, 0, 1, 2, 128, 3, 64, 1]).map(|all| all.len()), Some(1));
        assert_eq!(decode_capability(&[0, 1, 0, 1, 2, 128, 3]), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_read(octets in prop::collection::vec(any::<u8>(), 0..60), is_ipv4 in any::<bool>()) {
            let _ = FilterMessage::decode(&octets, is_ipv4);
            let _ = decode_capability(&octets);
        }
    }
}
