//! Long-lived stale routes (RFC 9494): routes of a neighbor that has been away for longer than a restart takes stay as a last resort.
//!
//! * Such routes carry the community LLGR_STALE, so that other routers know too. Routes with NO_LLGR are removed instead (section 4.2).
//! * Any other route is better (section 4.3).
//! * Only neighbors that offer the capability receive such routes (section 4.5).

use crate::attributes::canonical;
use crate::wire::attribute::{Flags, code};
use alloc::vec::Vec;

/// LLGR_STALE (RFC 9494, section 5): 65535:6.
pub const STALE: [u8; 4] = [0xff, 0xff, 0, 6];

/// NO_LLGR (RFC 9494, section 5): 65535:7.
pub const REFUSED: [u8; 4] = [0xff, 0xff, 0, 7];

/// Returns true if a canonical set has the community LLGR_STALE.
pub fn is_stale(canonical: &[u8]) -> bool {
    has(canonical, STALE)
}

/// Returns true if a canonical set has the community NO_LLGR.
pub fn is_refused(canonical: &[u8]) -> bool {
    has(canonical, REFUSED)
}

fn has(canonical: &[u8], community: [u8; 4]) -> bool {
    let communities = canonical::find(canonical, code::COMMUNITIES).unwrap_or_default();
    communities.as_chunks::<4>().0.contains(&community)
}

/// Appends a canonical set with the community LLGR_STALE.
pub fn put_stale(canonical: &[u8], out: &mut Vec<u8>) {
    let present = canonical::find(canonical, code::COMMUNITIES).unwrap_or_default();
    let mut communities = present.to_vec();
    if !is_stale(canonical) {
        communities.extend_from_slice(&STALE);
    }
    canonical::put_with(
        canonical,
        Flags::OPTIONAL | Flags::TRANSITIVE,
        code::COMMUNITIES,
        Some(&communities),
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Asn;

    #[test]
    fn the_community_is_added_once() {
        let (octets, _) = canonical::local(Asn(1));
        assert!(!is_stale(&octets) && !is_refused(&octets));
        let (mut stale, mut twice) = (Vec::new(), Vec::new());
        put_stale(&octets, &mut stale);
        assert_eq!(stale, [&octets[..], &[0xc0, 8, 4, 0xff, 0xff, 0, 6]].concat());
        put_stale(&stale, &mut twice);
        assert_eq!(twice, stale);
        assert!(is_stale(&stale) && !is_refused(&stale));
    }
}
