//! A made-up family, in unit tests only: labels, which are no IP prefixes and have IPv4 next hops. The key and its codec are all that the
//! family needs beside its row.

#[path = "../../../../../testkit/families/label.rs"]
mod label;
mod tests;

pub(crate) use label::Label;

use crate::wire::{FamilyKey, SAFI_UNICAST};
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::{IpPrefix, Ipv4Prefix, Prefix};

/// An address family identifier for private use (RFC 4760, section 10).
const PRIVATE_AFI: u16 = 65_280;

impl FamilyKey for Label {
    type Hop = Ipv4Prefix;
    const AFI: u16 = PRIVATE_AFI;
    const SAFI: u8 = SAFI_UNICAST;

    fn from_octets(octets: &[u8], len: u8) -> Option<Self> {
        let whole = core::array::from_fn(|n| octets.get(n).copied().unwrap_or(0));
        Self::from_parts(u32::from_be_bytes(whole), len)
    }

    fn put(self, out: &mut Vec<u8>) {
        out.push(self.len());
        self.push_octets(out);
    }

    fn as_ip(self) -> Option<IpPrefix> {
        None
    }

    fn is_routable(self) -> bool {
        true
    }
}

impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_parts().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (bits, len) = Deserialize::deserialize(deserializer)?;
        Label::from_parts(bits, len).ok_or_else(|| serde::de::Error::custom("a label longer than its width"))
    }
}
