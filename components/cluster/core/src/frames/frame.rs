//! Addresses on the interconnect: of elements, and of the cluster's own frames.

use crate::inventory::ElementId;
use crate::mac::{PREFIX, is_inner};
use serde::Serialize;

pub use crate::mac::Mac;

/// The destination of the cluster's own frames: a locally administered group address.
pub const GROUP: Mac = Mac([0x03, 0x5c, 0, 0, 0, 0]);

/// The default EtherType of the cluster's own frames (IEEE 802, local experiments).
pub const ETHER_TYPE: u16 = 0x88b5;

/// The MAC address of an element on the interconnect: `02:5c`, element, port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
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
        is_inner(mac).then_some(InnerMac { element, port: u16::from_be_bytes([c, d]) })
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
            assert!(!crate::mac::is_neighbor(inner.mac()) && !inner.mac().is_group());
        }
        assert_eq!(InnerMac::of(Mac([2, 0x5c, 0, 0, 0, 1])), None);
        assert_eq!(InnerMac::of(GROUP), None);
        assert_eq!(
            std::format!("{}", InnerMac { element: ElementId::new(258).unwrap(), port: 3 }.mac()),
            "02:5c:01:02:00:03"
        );
    }
}
