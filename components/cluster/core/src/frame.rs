//! MAC addresses: of neighbors, of the router's ports, and of elements on the interconnect.

use crate::inventory::ElementId;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The first octets of the MAC address of an element; a locally administered prefix.
pub const PREFIX: [u8; 2] = [0x02, 0x5c];

/// The destination of the cluster's own frames: a locally administered group address.
pub const GROUP: Mac = Mac([0x03, 0x5c, 0, 0, 0, 0]);

/// The default EtherType of the cluster's own frames (IEEE 802, local experiments).
pub const ETHER_TYPE: u16 = 0x88b5;

/// An Ethernet address (48 bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
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

/// The MAC address of an element on the interconnect: `02:5c`, element, port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InnerMac {
    /// The element.
    pub element: ElementId,
    /// The number of the outer port; 0 for the element itself.
    pub port: u16,
}

impl InnerMac {
    /// Returns the octets.
    pub fn mac(self) -> Mac {
        let ([a, b], [c, d]) = (self.element.number().to_be_bytes(), self.port.to_be_bytes());
        Mac([PREFIX[0], PREFIX[1], a, b, c, d])
    }

    /// Reads an address; `None` without the prefix, and for element 0.
    pub fn of(mac: Mac) -> Option<Self> {
        let [_, _, a, b, c, d] = mac.0;
        let element = ElementId::new(u16::from_be_bytes([a, b]))?;
        mac.is_inner().then_some(InnerMac { element, port: u16::from_be_bytes([c, d]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_addresses_are_read_as_they_are_written() {
        for (element, port) in [(1, 0), (7, 1), (u16::MAX, u16::MAX)] {
            let inner = InnerMac { element: ElementId::new(element).unwrap(), port };
            assert_eq!(InnerMac::of(inner.mac()), Some(inner));
            assert!(!inner.mac().is_station() && !inner.mac().is_group());
        }
        assert_eq!(InnerMac::of(Mac([2, 0x5c, 0, 0, 0, 1])), None);
        assert_eq!(InnerMac::of(GROUP), None);
        assert_eq!(
            std::format!("{}", InnerMac { element: ElementId::new(258).unwrap(), port: 3 }.mac()),
            "02:5c:01:02:00:03"
        );
    }
}
