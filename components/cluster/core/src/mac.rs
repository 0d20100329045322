//! Ethernet addresses.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The first octets of the MAC address of an element; a locally administered prefix.
pub const PREFIX: [u8; 2] = [0x02, 0x5c];

/// An Ethernet address (48 bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Octets of an address.
    pub const LEN: usize = 6;

    /// Returns true for an address of many stations, broadcast among them.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns true for the address of a single station that a neighbor may have: no group, not zero, no element's.
    pub fn is_station(self) -> bool {
        !self.is_group() && self.0 != [0; 6] && !self.is_inner()
    }

    /// Returns true for an address with the prefix of elements.
    pub fn is_inner(self) -> bool {
        self.0.starts_with(&PREFIX)
    }

    /// Returns the address as a number of 48 bits, the first octet in the lowest bits.
    pub fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
