//! IPv6 addresses and UDP ports: 16 octets of address, 2 of port, 2 zero octets.

use core::net::Ipv6Addr;

/// Returns the address and the port of an ID; `None` if the ID is ill-formed. Neither may be zero.
pub fn far_end(id: &[u8; 20]) -> Option<(Ipv6Addr, u16)> {
    let [addr @ .., high, low, 0, 0] = *id else { return None };
    let (addr, port) = (Ipv6Addr::from_octets(addr), u16::from_be_bytes([high, low]));
    (!addr.is_unspecified() && port != 0).then_some((addr, port))
}

/// Returns the ID of an address and a port.
pub fn id_of(addr: Ipv6Addr, port: u16) -> [u8; 20] {
    let mut id = [0; 20];
    id[..16].copy_from_slice(&addr.octets());
    id[16..18].copy_from_slice(&port.to_be_bytes());
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
        let addr = Ipv6Addr::LOCALHOST;
        let id = id_of(addr, 13781);
        assert_eq!(far_end(&id), Some((addr, 13781)));
        assert!(!is_well_formed(&id_of(Ipv6Addr::UNSPECIFIED, 1)) && !is_well_formed(&id_of(addr, 0)));
        let mut long = id;
        long[18] = 1;
        assert!(!is_well_formed(&long));
    }
}
