//! The identifiers of a family on the wire.

use super::{AFI_IPV4, AFI_IPV6, SAFI_UNICAST};
use core::fmt;
use serde::{Deserialize, Serialize};

/// A family on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct FamilyCode {
    /// Address family identifier.
    pub afi: u16,
    /// Subsequent address family identifier.
    pub safi: u8,
}

impl FamilyCode {
    /// Returns the octets, AFI first.
    pub const fn octets(self) -> [u8; 3] {
        let [high, low] = self.afi.to_be_bytes();
        [high, low, self.safi]
    }
}

impl fmt::Display for FamilyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.afi, self.safi) {
            (AFI_IPV4, SAFI_UNICAST) => f.write_str("ipv4-unicast"),
            (AFI_IPV6, SAFI_UNICAST) => f.write_str("ipv6-unicast"),
            (afi, safi) => write!(f, "AFI {afi}, SAFI {safi}"),
        }
    }
}
