//! Changes of attributes' values, as octets.

use crate::community::{Community, Kind, communities, put};
use crate::program::CommunitySets;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The segment type of ASes in order (RFC 4271, section 4.3).
const AS_SEQUENCE: u8 = 2;
/// The most ASes of a segment.
const LONGEST_SEGMENT: usize = 255;

/// Returns the communities with the missing members of a set; `None` if the set has none of the kind.
pub fn added(kind: Kind, value: &[u8], sets: &CommunitySets) -> Option<Vec<u8>> {
    let set = sets.of(kind);
    if set.exact().is_empty() {
        return None;
    }
    let present: Vec<Community> = communities(kind, value).collect();
    let mut value = value.to_vec();
    let missing = set.exact().iter().filter(|community| !present.contains(community));
    missing.for_each(|community| put(kind, *community, &mut value));
    Some(value)
}

/// Returns the communities outside a set; `None` if the set has none of the kind.
pub fn deleted(kind: Kind, value: &[u8], sets: &CommunitySets) -> Option<Vec<u8>> {
    let set = sets.of(kind);
    if set.is_empty() {
        return None;
    }
    let mut kept = Vec::new();
    communities(kind, value).filter(|c| !set.contains(*c)).for_each(|c| put(kind, c, &mut kept));
    Some(kept)
}

/// Returns true for AS numbers of private use (RFC 6996).
pub fn is_private(asn: u32) -> bool {
    (64_512..=65_534).contains(&asn) || (4_200_000_000..=4_294_967_294).contains(&asn)
}

/// Returns a path with AS numbers before it, in segments of at most 255.
pub fn prepended(path: &[u8], asns: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, rest) = match path {
        [AS_SEQUENCE, count, rest @ ..] if usize::from(*count) + asns.len() <= LONGEST_SEGMENT => {
            (asns.len() + usize::from(*count), rest)
        }
        path => (asns.len(), path),
    };
    if first > 0 {
        out.extend([AS_SEQUENCE, first as u8]);
        asns.iter().for_each(|asn| out.extend(asn.to_be_bytes()));
    }
    out.extend_from_slice(rest);
    out
}

/// Returns a path with other AS numbers, or without some. Segments without AS numbers go, and no AS is in a set twice.
pub fn mapped(path: &[u8], map: impl Fn(u32) -> Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = path;
    while let [kind, count, after @ ..] = rest
        && let Some((members, behind)) = after.split_at_checked(usize::from(*count) * 4)
    {
        let members = members.as_chunks::<4>().0.iter().filter_map(|asn| map(u32::from_be_bytes(*asn)));
        let mut members: Vec<u32> = members.collect();
        if *kind != AS_SEQUENCE {
            let mut seen = BTreeSet::new();
            members.retain(|asn| seen.insert(*asn));
        }
        if !members.is_empty() {
            out.extend([*kind, members.len() as u8]);
            members.iter().for_each(|asn| out.extend(asn.to_be_bytes()));
        }
        rest = behind;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segment type of an unordered set.
    const AS_SET: u8 = 1;

    fn segment(kind: u8, asns: &[u32]) -> Vec<u8> {
        let octets = asns.iter().flat_map(|asn| asn.to_be_bytes());
        [kind, asns.len() as u8].into_iter().chain(octets).collect()
    }

    #[test]
    fn no_as_is_in_a_set_twice() {
        let path = [segment(AS_SEQUENCE, &[1, 2, 1]), segment(AS_SET, &[3, 4, 5, 4])].concat();
        let replaced = mapped(&path, |asn| Some(if (4..=5).contains(&asn) { 1 } else { asn }));
        assert_eq!(replaced, [segment(AS_SEQUENCE, &[1, 2, 1]), segment(AS_SET, &[3, 1])].concat());
        // A sequence keeps its length.
        let replaced = mapped(&path, |_| Some(9));
        assert_eq!(replaced, [segment(AS_SEQUENCE, &[9, 9, 9]), segment(AS_SET, &[9])].concat());
    }
}
