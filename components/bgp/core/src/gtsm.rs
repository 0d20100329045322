//! The Generalized TTL Security Mechanism (RFC 5082) for connections from a neighbor. The socket of such a connection drops distant
//! packets only once accepted; earlier octets must not be processed either (section 3).

/// The octets of an IP header up to the TTL.
const IPV4_TTL: usize = 8;
/// The octets of an IPv6 header up to the hop limit.
const IPV6_HOP_LIMIT: usize = 7;

/// Returns the TTL of a packet with its IP header; `None` for octets of a different form.
fn ttl(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(IPV4_TTL).copied(),
        6 => packet.get(IPV6_HOP_LIMIT).copied(),
        _ => None,
    }
}

/// Returns true if the octets of a connection from before the socket dropped packets with less than `least` may be processed. `syn` is
/// the connection's first packet with its IP header; empty if the kernel did not keep it, as with SYN cookies: then no octet
/// may have come, because the sender's distance is unknown.
pub fn is_near(least: u8, syn: &[u8], has_octets: bool) -> bool {
    ttl(syn).map_or(!has_octets, |ttl| ttl >= least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn packet(version: u8, ttl: u8) -> Vec<u8> {
        let mut packet = vec![0; 60];
        packet[0] = version << 4;
        packet[if version == 4 { IPV4_TTL } else { IPV6_HOP_LIMIT }] = ttl;
        packet
    }

    #[test]
    fn first_packets_from_far_away_are_refused() {
        for version in [4, 6] {
            for (ttl, expected) in [(64, false), (253, false), (254, true), (255, true)] {
                for has_octets in [false, true] {
                    assert_eq!(is_near(254, &packet(version, ttl), has_octets), expected, "{version} {ttl}");
                }
            }
        }
    }

    #[test]
    fn octets_without_a_known_packet_are_refused() {
        for unknown in [&[][..], &packet(5, 255), &packet(4, 255)[..8]] {
            assert!(is_near(255, unknown, false) && !is_near(255, unknown, true));
        }
    }
}
