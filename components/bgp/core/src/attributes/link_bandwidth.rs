//! The bandwidth of a path's link, from its link bandwidth extended community (RFC 10005).

use super::canonical;
use crate::wire::attribute::code;

/// The octets of an extended community (RFC 4360, section 2).
const LENGTH: usize = 8;
/// The types of the community: transitive, and not; both of an AS number of two octets.
const TYPES: [u8; 2] = [0x00, 0x40];
/// The sub-type.
const SUB_TYPE: u8 = 0x04;

/// Returns the bandwidth in octets a second of a canonical set, rounded down: the lowest one of several, transitive or not (RFC 10005).
/// Values that are no bandwidth, which are negative numbers, infinities and NaN, are ignored as if their community did not exist.
pub(crate) fn link_bandwidth(canonical: &[u8]) -> Option<u64> {
    let value = canonical::find(canonical, code::EXTENDED_COMMUNITIES)?;
    value.chunks_exact(LENGTH).filter_map(bandwidth_of).min()
}

fn bandwidth_of(community: &[u8]) -> Option<u64> {
    let &[kind, SUB_TYPE, _, _, a, b, c, d] = community else { return None };
    let bandwidth = f32::from_be_bytes([a, b, c, d]);
    let is_bandwidth = TYPES.contains(&kind) && bandwidth.is_finite() && bandwidth >= 0.0;
    // The conversion ends at the limit of the type.
    is_bandwidth.then_some(bandwidth as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute::put_header;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn set(communities: &[[u8; LENGTH]]) -> Vec<u8> {
        let mut octets = Vec::new();
        put_header(&mut octets, 0xc0, code::EXTENDED_COMMUNITIES, communities.len() * LENGTH);
        octets.extend(communities.iter().flatten());
        octets
    }

    fn community(kind: u8, sub_type: u8, bandwidth: f32) -> [u8; LENGTH] {
        let [a, b, c, d] = bandwidth.to_be_bytes();
        [kind, sub_type, 0xfd, 0xe9, a, b, c, d]
    }

    #[test]
    fn both_types_are_read() {
        let other = community(0x00, 0x02, 7.0);
        for kind in TYPES {
            assert_eq!(
                link_bandwidth(&set(&[other, community(kind, SUB_TYPE, 1.25e9)])),
                Some(1_250_000_000)
            );
        }
        assert_eq!(link_bandwidth(&set(&[other, community(0x01, SUB_TYPE, 7.0)])), None);
        let several =
            [(0x00, 9.0), (0x40, 5.0), (0x00, 7.0)].map(|(kind, value)| community(kind, SUB_TYPE, value));
        assert_eq!(link_bandwidth(&set(&several)), Some(5));
        assert_eq!(link_bandwidth(&[]), None);
    }

    #[test]
    fn values_that_are_no_bandwidth_are_ignored() {
        for bad in [-1.0, f32::MIN, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bad = community(0x40, SUB_TYPE, bad);
            assert_eq!(link_bandwidth(&set(&[bad])), None);
            assert_eq!(link_bandwidth(&set(&[bad, community(0x00, SUB_TYPE, 9.0)])), Some(9));
        }
        for (bandwidth, read) in [(0.0, 0), (-0.0, 0), (0.5, 0), (f32::MIN_POSITIVE, 0), (f32::MAX, u64::MAX)]
        {
            assert_eq!(link_bandwidth(&set(&[community(0x40, SUB_TYPE, bandwidth)])), Some(read));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_read(value in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut octets = Vec::new();
            put_header(&mut octets, 0xc0, code::EXTENDED_COMMUNITIES, value.len());
            octets.extend_from_slice(&value);
            let is_without = value.len() < LENGTH;
            prop_assert!(link_bandwidth(&octets).is_none() || !is_without);
        }
    }
}
