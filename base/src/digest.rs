//! Digests of tables, for two holders of a table, which find a difference without sending the table.
//!
//! A digest is the sum of the keyed hashes of a table's entries. The order of the entries makes no difference, and a change of an entry
//! subtracts the old hash and adds the new hash. Two different tables have equal digests with a probability of 2^-64.

use crate::{Address, AnyPrefix, Forwarding, GroupId};
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};

/// The key of the hashes, shared by the holders of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DigestKey(pub u64);

/// A word with as many ones as zeros: multiplications mix every bit.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns both halves of the product, folded.
const fn folded(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl DigestKey {
    /// Begins a hash.
    pub const fn begin(self) -> Hash {
        Hash(self.0 ^ MIX)
    }

    /// Returns the hash of a prefix and a value.
    pub fn of_prefix(self, prefix: AnyPrefix, value: u64) -> u64 {
        let hash = self.begin().word(u64::from(prefix.len()) | u64::from(prefix.family().0) << 16);
        hash.address(prefix.addr()).word(value).end()
    }
}

/// A hash under way.
#[derive(Clone, Copy, Debug)]
pub struct Hash(u64);

impl Hash {
    /// Adds a word.
    #[must_use]
    pub const fn word(self, word: u64) -> Self {
        Hash(folded(self.0 ^ word, MIX).wrapping_add(self.0.rotate_left(23)))
    }

    /// Adds an address.
    #[must_use]
    pub fn address(self, address: Address) -> Self {
        match address {
            Address::Ip(core::net::IpAddr::V4(address)) => self.word(u64::from(address.to_bits())),
            Address::Ip(core::net::IpAddr::V6(address)) => {
                let bits = address.to_bits();
                self.word((bits >> 64) as u64).word(bits as u64)
            }
            Address::Identifier(identifier) => self.octets(identifier.octets()),
        }
    }

    /// Adds octets, and the number of octets.
    #[must_use]
    pub fn octets(self, octets: &[u8]) -> Self {
        let (words, rest) = octets.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(self.word(octets.len() as u64), |hash, octets| hash.word(u64::from_le_bytes(*octets)));
        rest.iter().fold(hash, |hash, octet| hash.word(u64::from(*octet)))
    }

    /// Returns the hash.
    pub const fn end(self) -> u64 {
        folded(self.0 ^ MIX, self.0.rotate_left(32) | 1)
    }
}

/// The sum of the hashes of entries, and the number of the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Digest {
    /// The sum, modulo 2^64.
    pub sum: u64,
    /// The number of entries.
    pub entries: u64,
}

impl Digest {
    /// Replaces the hash of an entry. `None`: no entry before, or no entry any more.
    pub fn replace(&mut self, old: Option<u64>, new: Option<u64>) {
        let (before, after) = (old.unwrap_or(0), new.unwrap_or(0));
        self.sum = self.sum.wrapping_sub(before).wrapping_add(after);
        let entries = self.entries.wrapping_sub(u64::from(old.is_some()));
        self.entries = entries.wrapping_add(u64::from(new.is_some()));
    }
}

/// The digests of an owner's announcements to an engine, of one table and family: routes by their groups, and groups by their next hops. A
/// change of a group with any number of routes is one change of the second digest.
#[derive(Clone, Debug)]
pub struct AnnouncedDigest {
    key: DigestKey,
    routes: Digest,
    groups: Digest,
    hashes: BTreeMap<GroupId, u64>,
}

/// A route of a prefix as announced to an engine: its group, and true if its origin is external.
pub type AnnouncedRoute = (GroupId, bool);

impl AnnouncedDigest {
    /// The digests of empty tables.
    pub const fn new(key: DigestKey) -> Self {
        let empty = Digest { sum: 0, entries: 0 };
        AnnouncedDigest { key, routes: empty, groups: empty, hashes: BTreeMap::new() }
    }

    /// Returns the key.
    pub const fn key(&self) -> DigestKey {
        self.key
    }

    /// Clears the digests, and takes a new key.
    pub fn reset(&mut self, key: DigestKey) {
        *self = Self::new(key);
    }

    /// Notes a changed route of a prefix.
    pub fn route(&mut self, prefix: AnyPrefix, old: Option<AnnouncedRoute>, new: Option<AnnouncedRoute>) {
        let key = self.key;
        let hash = |(group, is_external): AnnouncedRoute| {
            key.of_prefix(prefix, u64::from(group.0) << 1 | u64::from(is_external))
        };
        self.routes.replace(old.map(hash), new.map(hash));
    }

    /// Notes a group with the next hops.
    pub fn group<G: Copy + Into<Address>>(&mut self, id: GroupId, forwarding: &Forwarding<G>) {
        let new = of_group(self.key, id, forwarding);
        let old = self.hashes.insert(id, new);
        self.groups.replace(old, Some(new));
    }

    /// Removes an unused group.
    pub fn unused(&mut self, id: GroupId) {
        let old = self.hashes.remove(&id);
        self.groups.replace(old, None);
    }

    /// Records routes of a group that the owner believes unused. The digests differ from the owner's until [`AnnouncedDigest::reset`]: the
    /// owner may give the number to another group, and the routes would seem to use the new group.
    pub fn still_used(&mut self, id: GroupId) {
        let old = self.hashes.remove(&id);
        // The hash of no group.
        self.groups.replace(old, old.map(|hash| !hash));
    }

    /// Returns the digests of the routes and of the groups.
    pub const fn digests(&self) -> [Digest; 2] {
        [self.routes, self.groups]
    }
}

fn of_group<G: Copy + Into<Address>>(key: DigestKey, id: GroupId, forwarding: &Forwarding<G>) -> u64 {
    let hash = key.begin().word(u64::from(id.0));
    let hops = match forwarding {
        Forwarding::Discard => return hash.word(1).end(),
        Forwarding::Reject => return hash.word(2).end(),
        Forwarding::Local => return hash.word(3).end(),
        Forwarding::NextHops(hops) => hops,
    };
    let hash = hops.iter().fold(hash.word(4), |hash, hop| {
        let interface = hop.interface.map_or(0, |interface| u64::from(interface.0.get()));
        let flags = u64::from(hop.weight) | u64::from(hop.is_backup) << 8;
        let hash = hash.word(flags << 32 | interface);
        let hash = match hop.gateway {
            Some(gateway) => hash.word(1).address(gateway.into()),
            None => hash.word(0),
        };
        match &hop.encapsulation {
            Some(header) => hash.word(u64::from(header.kind()) + 1).octets(header.parameters()),
            None => hash.word(0),
        }
    });
    hash.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InterfaceIndex, NextHop};
    use core::net::IpAddr;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    const KEY: DigestKey = DigestKey(7);

    fn prefixes() -> Vec<AnyPrefix> {
        let text = ["0.0.0.0/0", "::/0", "10.0.0.0/8", "10.0.0.0/9", "2001:db8::/32", "2001:db8::/33"];
        text.iter().map(|text| text.parse().expect("a prefix")).collect()
    }

    #[test]
    fn the_order_of_changes_makes_no_difference() {
        let (mut forth, mut back) = (AnnouncedDigest::new(KEY), AnnouncedDigest::new(KEY));
        for prefix in prefixes() {
            forth.route(prefix, None, Some((GroupId(1), false)));
        }
        for prefix in prefixes().into_iter().rev() {
            back.route(prefix, None, Some((GroupId(2), true)));
            back.route(prefix, Some((GroupId(2), true)), Some((GroupId(1), false)));
        }
        assert_eq!(forth.digests(), back.digests());
        prefixes().into_iter().for_each(|prefix| forth.route(prefix, Some((GroupId(1), false)), None));
        assert_eq!(forth.digests(), [Digest::default(); 2]);
    }

    #[test]
    fn each_part_of_an_entry_counts() {
        let mut sums = BTreeSet::new();
        let mut number = 0;
        for prefix in prefixes() {
            for route in [(GroupId(1), false), (GroupId(1), true), (GroupId(2), false)] {
                let mut digest = AnnouncedDigest::new(KEY);
                digest.route(prefix, None, Some(route));
                sums.insert(digest.digests()[0].sum);
                number += 1;
            }
        }
        let interface = InterfaceIndex::new(3).expect("not 0");
        let gateways: [IpAddr; 2] = ["10.0.0.1".parse().expect("IPv4"), "2001:db8::1".parse().expect("IPv6")];
        let hops = gateways.map(|gateway| NextHop::via_on(gateway, interface));
        let others = [NextHop::on(interface), hops[0].as_backup(), NextHop { weight: 2, ..hops[0] }];
        let forwardings: Vec<Forwarding> = hops.into_iter().chain(others).map(Forwarding::one).collect();
        for forwarding in forwardings.iter().chain(&[Forwarding::Discard, Forwarding::Reject]) {
            for id in [GroupId(1), GroupId(2)] {
                let mut digest = AnnouncedDigest::new(KEY);
                digest.group(id, forwarding);
                digest.group(id, forwarding);
                assert_eq!(digest.digests()[1].entries, 1);
                sums.insert(digest.digests()[1].sum);
                number += 1;
                digest.unused(id);
                digest.unused(id);
                assert_eq!(digest.digests()[1], Digest::default());
            }
        }
        assert_eq!(sums.len(), number);
    }

    #[test]
    fn the_key_and_the_kind_of_gateways() {
        let gateway: IpAddr = "10.0.0.1".parse().expect("an address");
        let digest = |key| {
            let mut digest = AnnouncedDigest::new(key);
            digest.group(GroupId(1), &Forwarding::one(NextHop::via(gateway)));
            digest.digests()
        };
        assert_ne!(digest(KEY), digest(DigestKey(8)));
        let mut of_any = AnnouncedDigest::new(KEY);
        of_any.group(GroupId(1), &Forwarding::one(NextHop::via(Address::Ip(gateway))));
        assert_eq!(digest(KEY), of_any.digests());
    }
}
