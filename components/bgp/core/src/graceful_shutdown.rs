//! Graceful shutdown (RFC 8326): traffic moves to further paths before a shutdown.
//!
//! * In: an external neighbor's route with GRACEFUL_SHUTDOWN gets the LOCAL_PREF 0, and so is used only where there is no other
//!   (section 4.1).
//! * Out, while the router prepares to go: sent routes carry GRACEFUL_SHUTDOWN, and within the AS the LOCAL_PREF 0 (section 4.2, for a
//!   whole router). No route is withdrawn, and the router itself decides as before: arriving packets are still forwarded.

use crate::wire::attribute::{Flags, RawAttribute, code, put_header};
use alloc::vec::Vec;

/// The community (RFC 8326, section 5): 65535:0.
pub(crate) const COMMUNITY: [u8; 4] = [0xff, 0xff, 0, 0];

/// LOCAL_PREF of routes before a shutdown (RFC 8326, section 4): lower than any normal value.
pub const LOCAL_PREF: u32 = 0;

/// Returns true if the value of a COMMUNITIES attribute has the community.
pub fn is_in(communities: &[u8]) -> bool {
    communities.chunks_exact(4).any(|community| community == COMMUNITY)
}

/// Appends COMMUNITIES with the community added.
pub(crate) fn put_communities(present: Option<&RawAttribute<'_>>, out: &mut Vec<u8>) {
    let (flags, value) =
        present.map_or((Flags::OPTIONAL | Flags::TRANSITIVE, &[][..]), |a| (a.flags.0, a.value));
    let more: &[u8] = if is_in(value) { &[] } else { &COMMUNITY };
    put_header(out, flags, code::COMMUNITIES, value.len() + more.len());
    out.extend_from_slice(value);
    out.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn it_is_put_in_once() {
        let check = |present: Option<&[u8]>, expected: &[u8]| {
            let attribute = present.map(|value| RawAttribute {
                flags: Flags(Flags::OPTIONAL | Flags::TRANSITIVE | Flags::PARTIAL),
                code: code::COMMUNITIES,
                value,
                offset: 0,
            });
            let mut out = vec![];
            put_communities(attribute.as_ref(), &mut out);
            assert_eq!(out, expected);
        };
        check(None, &[0xc0, 8, 4, 0xff, 0xff, 0, 0]);
        check(Some(&[0, 1, 0, 2]), &[0xe0, 8, 8, 0, 1, 0, 2, 0xff, 0xff, 0, 0]);
        check(Some(&[0xff, 0xff, 0, 0]), &[0xe0, 8, 4, 0xff, 0xff, 0, 0]);
        assert!(!is_in(&[0, 0, 0xff, 0xff, 0, 0, 0, 0]), "communities begin every four octets");
    }
}
