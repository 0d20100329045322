//! Ethernet addresses of elements.

pub use sluice_base::Mac;

/// The first octets of the MAC address of an element; a locally administered prefix.
pub const PREFIX: [u8; 2] = [0x02, 0x5c];

/// Returns true for the address of a single station that a neighbor may have: no group, not zero, no element's.
pub fn is_neighbor(mac: Mac) -> bool {
    mac.is_station() && !is_inner(mac)
}

/// Returns true for an address with the prefix of elements.
pub fn is_inner(mac: Mac) -> bool {
    mac.0.starts_with(&PREFIX)
}
