//! IPv4 addresses and UDP ports: 4 octets of address, 2 of port, 14 zero octets.

use core::net::Ipv4Addr;

/// Returns the address and the port of an ID; `None` if the ID is ill-formed. Neither may be zero.
pub fn far_end(id: &[u8; 20]) -> Option<(Ipv4Addr, u16)> {
    let [a, b, c, d, high, low, rest @ ..] = *id;
    let (addr, port) = (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
    (!addr.is_unspecified() && port != 0 && rest == [0; 14]).then_some((addr, port))
}

/// Returns the ID of an address and a port.
pub fn id_of(addr: Ipv4Addr, port: u16) -> [u8; 20] {
    let mut id = [0; 20];
    id[..4].copy_from_slice(&addr.octets());
    id[4..6].copy_from_slice(&port.to_be_bytes());
    id
}

/// Returns true if an ID has an address and a port.
pub fn is_well_formed(id: &[u8; 20]) -> bool {
    far_end(id).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_needs_an_address_a_port_and_zeros() {
        let addr = Ipv4Addr::new(10, 2, 71, 2);
        let id = id_of(addr, 50135);
        assert_eq!(far_end(&id), Some((addr, 50135)));
        assert!(!is_well_formed(&id_of(Ipv4Addr::UNSPECIFIED, 1)) && !is_well_formed(&id_of(addr, 0)));
        let mut long = id;
        long[19] = 1;
        assert!(!is_well_formed(&long));
    }
}
