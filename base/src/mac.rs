//! Ethernet addresses.

use core::fmt;
use serde::{Deserialize, Serialize};

/// An Ethernet address (48 bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Octets of an address.
    pub const LEN: usize = 6;
    /// The broadcast address.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Returns true for an address of many stations, broadcast among them.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns true for the address of a single station: neither group bit nor all zeros.
    pub fn is_station(self) -> bool {
        !self.is_group() && self.0 != [0; 6]
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
