//! The rules for each known attribute: flags, form, and the treatment of errors (RFC 7606, sections 3 and 7).
//! A row for each attribute.

use crate::wire::attribute::{Flags, code};
use sluice_base::Asn;
use sluice_wire::Cursor;

/// The treatment of a malformed attribute, mildest first (RFC 7606, section 2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Treatment {
    /// The attribute is left out, the routes stay.
    Discard,
    /// The routes are withdrawn.
    Withdraw,
    /// The session ends.
    Reset,
}

/// The peers allowed to send an attribute, and the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scope {
    /// All peers; stored.
    Everywhere,
    /// Internal peers; ignored from external peers, with any value.
    Internal,
    /// All peers, but outside the set: merged, or a part of the routes, or not to be kept.
    NotStored,
}

/// A row of the table.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub code: u8,
    /// The required flags among Optional and Transitive.
    pub flags: u8,
    pub on_flags: Treatment,
    pub on_value: Treatment,
    pub scope: Scope,
    /// Returns true for a well-formed value; always true for attributes that the scan reads itself.
    pub is_well_formed: fn(&[u8]) -> bool,
}

const WELL_KNOWN: u8 = Flags::TRANSITIVE;
const TRANSITIVE: u8 = Flags::OPTIONAL | Flags::TRANSITIVE;
const NON_TRANSITIVE: u8 = Flags::OPTIONAL;

/// The stored attributes that may be removed from a route too large for a message (RFC 8654, section 4): attributes with the treatment
/// "attribute discard" (RFC 7606, section 7). In the order of removal: ATOMIC_AGGREGATE is the shortest, and should stay (RFC 4271, section
/// 5.1.6).
pub const REMOVABLE: [u8; 3] = [code::AGGREGATOR, code::PREFIX_SID, code::ATOMIC_AGGREGATE];

/// The row of `code`; `None` for an unknown attribute.
pub(super) fn rule(code: u8) -> Option<&'static Rule> {
    INDEX.get(usize::from(code)).and_then(|row| RULES.get(usize::from(*row)))
}

/// Row numbers by code, for the lookup on the hot path; no row's number is `u8::MAX`.
static INDEX: [u8; 64] = {
    let mut index = [u8::MAX; 64];
    let mut row = 0;
    while row < RULES.len() {
        index[RULES[row].code as usize] = row as u8;
        row += 1;
    }
    index
};

macro_rules! rules {
    ($($code:ident $flags:ident, flags $on_flags:ident, value $on_value:ident, $scope:ident, $check:expr;)*) => {
        static RULES: [Rule; [$(code::$code),*].len()] = [$(Rule {
            code: code::$code,
            flags: $flags,
            on_flags: Treatment::$on_flags,
            on_value: Treatment::$on_value,
            scope: Scope::$scope,
            is_well_formed: $check,
        }),*];
    };
}

rules! {
    ORIGIN WELL_KNOWN, flags Withdraw, value Withdraw, Everywhere, |v| matches!(v, [0..=2]);
    AS_PATH WELL_KNOWN, flags Withdraw, value Withdraw, Everywhere, |_| true;
    NEXT_HOP WELL_KNOWN, flags Withdraw, value Withdraw, NotStored, |v| v.len() == 4;
    MULTI_EXIT_DISC NON_TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, |v| v.len() == 4;
    LOCAL_PREF WELL_KNOWN, flags Withdraw, value Withdraw, Internal, |v| v.len() == 4;
    ATOMIC_AGGREGATE WELL_KNOWN, flags Discard, value Discard, Everywhere, |v| v.is_empty();
    AGGREGATOR TRANSITIVE, flags Discard, value Discard, Everywhere, |_| true;
    COMMUNITIES TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, multiple_of::<4>;
    ORIGINATOR_ID NON_TRANSITIVE, flags Withdraw, value Withdraw, Internal, |v| v.len() == 4;
    CLUSTER_LIST NON_TRANSITIVE, flags Withdraw, value Withdraw, Internal, multiple_of::<4>;
    MP_REACH_NLRI NON_TRANSITIVE, flags Withdraw, value Reset, NotStored, |_| true;
    MP_UNREACH_NLRI NON_TRANSITIVE, flags Withdraw, value Reset, NotStored, |_| true;
    EXTENDED_COMMUNITIES TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, multiple_of::<8>;
    AS4_PATH TRANSITIVE, flags Withdraw, value Discard, NotStored, |_| true;
    AS4_AGGREGATOR TRANSITIVE, flags Withdraw, value Discard, NotStored, is_aggregator::<8>;
    PMSI_TUNNEL TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, is_pmsi_tunnel;
    TUNNEL_ENCAPSULATION TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, is_tunnel_encapsulation;
    IPV6_EXTENDED_COMMUNITIES TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, multiple_of::<20>;
    AIGP NON_TRANSITIVE, flags Discard, value Discard, NotStored, |_| true;
    BGP_LS NON_TRANSITIVE, flags Discard, value Discard, NotStored, |_| true;
    LARGE_COMMUNITY TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, multiple_of::<12>;
    ONLY_TO_CUSTOMER TRANSITIVE, flags Withdraw, value Withdraw, Everywhere, |v| v.len() == 4;
    PREFIX_SID TRANSITIVE, flags Discard, value Discard, Everywhere, is_prefix_sid;
}

fn multiple_of<const N: usize>(value: &[u8]) -> bool {
    !value.is_empty() && value.len().is_multiple_of(N)
}

/// AS number and address in `N` octets, the AS not 0 (RFC 7606, section 7.7; RFC 7607).
pub(super) fn is_aggregator<const N: usize>(value: &[u8]) -> bool {
    value.len() == N && aggregator_as(value).is_some_and(|asn| asn.0 != 0)
}

/// The AS number of an AGGREGATOR of 6 or 8 octets.
pub(super) fn aggregator_as(value: &[u8]) -> Option<Asn> {
    match *value {
        [a, b, _, _, _, _] => Some(Asn(u16::from_be_bytes([a, b]).into())),
        [a, b, c, d, _, _, _, _] => Some(Asn(u32::from_be_bytes([a, b, c, d]))),
        _ => None,
    }
}

/// Flags, tunnel type, label and identifier (RFC 6514, section 5). Type 255 is reserved (RFC 7385);
/// ingress replication (6) names an endpoint's address; further identifiers have forms of their own.
fn is_pmsi_tunnel(value: &[u8]) -> bool {
    match *value {
        [_, 255, ..] => false,
        [_, 6, _, _, _, ref endpoint @ ..] => matches!(endpoint.len(), 4 | 16),
        [_, _, _, _, _, ..] => true,
        _ => false,
    }
}

/// Returns true if one or more elements fill `value`. `element` takes an element from the non-empty cursor,
/// and fails if the element does not fit.
fn is_filled_by(value: &[u8], mut element: impl FnMut(&mut Cursor<'_>) -> Option<()>) -> bool {
    let mut c = Cursor::new(value);
    let mut is_good = !value.is_empty();
    while is_good && !c.is_empty() {
        is_good = element(&mut c).is_some();
    }
    is_good
}

/// TLVs with a type of one octet and a length of two (RFC 8669, sections 3 and 6). Values are not checked: the RFC defines
/// values for labeled routes only, to be ignored with unlabeled routes.
fn is_prefix_sid(value: &[u8]) -> bool {
    is_filled_by(value, |c| {
        let [_, high, low] = c.array().ok()?;
        c.take(u16::from_be_bytes([high, low]).into()).ok().map(drop)
    })
}

/// Tunnel TLVs with a type and a length of two octets each, which sub-TLVs fill (RFC 9012, sections 2 and 13).
fn is_tunnel_encapsulation(value: &[u8]) -> bool {
    is_filled_by(value, |c| {
        let (_, len) = (c.u16().ok()?, c.u16().ok()?);
        let tunnel = c.take(len.into()).ok()?;
        (tunnel.is_empty() || is_filled_by(tunnel, sub_tlv)).then_some(())
    })
}

/// Takes a sub-TLV of a tunnel: the length has two octets if the type is above 127 (RFC 9012, section 2).
fn sub_tlv(c: &mut Cursor<'_>) -> Option<()> {
    let kind = c.u8().ok()?;
    let len = if kind > 127 { c.u16().ok()?.into() } else { usize::from(c.u8().ok()?) };
    c.take(len).ok().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// Every beginning of a well-formed value is malformed, unless it ends where a TLV ends.
    fn check(is_well_formed: fn(&[u8]) -> bool, value: &[u8], ends: &[usize]) {
        for len in 0..=value.len() {
            assert_eq!(is_well_formed(&value[..len]), ends.contains(&len), "{len} of {value:?}");
        }
    }

    #[test]
    fn removable_attributes_are_those_that_are_discarded_if_malformed() {
        let is_discarded =
            |rule: &&Rule| rule.on_value == Treatment::Discard && rule.scope == Scope::Everywhere;
        let discarded: BTreeSet<u8> = RULES.iter().filter(is_discarded).map(|rule| rule.code).collect();
        assert_eq!(discarded, BTreeSet::from(REMOVABLE));
    }

    #[test]
    fn tlvs_end_with_the_attribute() {
        // A label index, an unknown TLV without a value, and one of 300 octets.
        let mut sid = [1, 0, 7, 0, 0, 0, 0, 0, 0, 9, 77, 0, 0, 78, 1, 44].to_vec();
        sid.resize(sid.len() + 300, 0);
        check(is_prefix_sid, &sid, &[10, 13, 316]);
        // A tunnel with a color (type 4) and a sub-TLV of type 200 and 256 octets, and an empty tunnel.
        let mut tunnel = [0, 8, 1, 13, 4, 8, 3, 11, 0, 0, 0, 0, 0, 1, 200, 1, 0].to_vec();
        tunnel.resize(tunnel.len() + 256, 0);
        tunnel.extend_from_slice(&[0, 15, 0, 0]);
        check(is_tunnel_encapsulation, &tunnel, &[273, 277]);
    }

    #[test]
    fn sub_tlvs_end_with_their_tunnel() {
        assert!(is_tunnel_encapsulation(&[0, 8, 0, 3, 4, 1, 9]));
        // The sub-TLV's length is one too long, one too short, or cut off.
        assert!(!is_tunnel_encapsulation(&[0, 8, 0, 3, 4, 2, 9]));
        assert!(!is_tunnel_encapsulation(&[0, 8, 0, 3, 4, 0, 9]));
        assert!(!is_tunnel_encapsulation(&[0, 8, 0, 2, 200, 0]));
        assert!(!is_tunnel_encapsulation(&[0, 8, 0, 1, 4]));
        // A second tunnel does not make up for it.
        assert!(!is_tunnel_encapsulation(&[0, 8, 0, 2, 4, 1, 0, 8, 0, 0]));
    }
}
