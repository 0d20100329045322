//! The variables of BGP's routes: a row each.

use sluice_base::XidType;
use sluice_policy::vocabulary::{Reads, Type, Variable, VariableId, Vocabulary};
use sluice_validation::{PathValidity, Validity};

/// Names of the values of `family`, by the family's number.
pub const FAMILIES: &[&str] = &["ipv4", "ipv6", "xid"];
/// Names of the values of `origin` (RFC 4271, section 5.1.1).
pub const ORIGINS: &[&str] = &["igp", "egp", "incomplete"];
/// Names of the values of `route-type`.
pub const ROUTE_TYPES: &[&str] = &["external", "internal", "local"];
/// Names of the values of `validation` (RFC 6811).
pub const VALIDATIONS: &[&str] = Validity::NAMES;
/// Names of the values of `aspa` (draft-ietf-sidrops-aspa-verification).
pub const PATH_VALIDATIONS: &[&str] = PathValidity::NAMES;

/// Names of the values of `principal`: the types of XIDs that have a name ([`XidType::named`]).
pub(crate) const PRINCIPALS: &[&str] = &XidType::NAMES;

/// The value of `protocol` of the router's own networks.
pub(crate) const NETWORK_PROTOCOL: &str = "network";

/// The value of `protocol` of the router's aggregates.
pub(crate) const AGGREGATE_PROTOCOL: &str = "aggregate";

/// LOCAL_PREF.
pub(crate) const LOCAL_PREFERENCE: VariableId = 0;
/// MULTI_EXIT_DISC.
pub const MED: VariableId = 1;
/// ORIGIN.
pub const ORIGIN: VariableId = 2;
/// The weight.
pub(crate) const WEIGHT: VariableId = 3;
/// The tags.
pub const TAG: VariableId = 4;
/// The distance at the RIB.
pub(crate) const RIB_DISTANCE: VariableId = 5;
/// The length of the AS path.
pub(crate) const AS_PATH_LENGTH: VariableId = 6;
/// The last AS of the path.
pub(crate) const ORIGIN_AS: VariableId = 7;
/// The first AS of the path.
pub(crate) const PATH_NEIGHBOR_AS: VariableId = 8;
/// The next hop.
pub const NEXT_HOP: VariableId = 9;
/// The neighbor's address.
pub const NEIGHBOR: VariableId = 10;
/// The neighbor's AS.
pub const NEIGHBOR_AS: VariableId = 11;
/// The neighbor's group.
pub const GROUP: VariableId = 12;
/// The address family.
pub const FAMILY: VariableId = 13;
/// The protocol that a route comes from.
pub const PROTOCOL: VariableId = 14;
/// The source of a route.
pub const ROUTE_TYPE: VariableId = 15;
/// The metric of a redistributed route.
pub const METRIC: VariableId = 16;
/// The length of the prefix.
pub const PREFIX_LENGTH: VariableId = 17;
/// The validation state.
pub const VALIDATION: VariableId = 18;
/// The type of an XID, as a place in [`PRINCIPALS`].
pub const PRINCIPAL: VariableId = 19;
/// The verification of the AS path.
pub const ASPA: VariableId = 20;

const fn row(name: &'static str, values: Type, is_writable: bool, reads: Reads) -> Variable {
    Variable { name, values, is_writable, reads }
}

/// BGP's variables, by number.
pub const VOCABULARY: Vocabulary = &[
    row("local-preference", Type::Number(u32::MAX), true, Reads::Attributes),
    row("med", Type::Number(u32::MAX), true, Reads::Attributes),
    row("origin", Type::Name(ORIGINS), true, Reads::Attributes),
    row("weight", Type::Number(u16::MAX as u32), true, Reads::Attributes),
    row("tag", Type::Number(u32::MAX), true, Reads::Attributes),
    row("rib-distance", Type::Number(u8::MAX as u32), true, Reads::Attributes),
    row("as-path-length", Type::Number(u16::MAX as u32), false, Reads::Attributes),
    row("origin-as", Type::Number(u32::MAX), false, Reads::Attributes),
    row("path-neighbor-as", Type::Number(u32::MAX), false, Reads::Attributes),
    row("next-hop", Type::Address, false, Reads::Attributes),
    row("neighbor", Type::Address, false, Reads::Neighbor),
    row("neighbor-as", Type::Number(u32::MAX), false, Reads::Neighbor),
    row("group", Type::Text, false, Reads::Neighbor),
    row("family", Type::Name(FAMILIES), false, Reads::Neighbor),
    row("protocol", Type::Text, false, Reads::Attributes),
    row("route-type", Type::Name(ROUTE_TYPES), false, Reads::Attributes),
    row("metric", Type::Number(u32::MAX), false, Reads::Attributes),
    // Of XIDs: bits of the ID.
    row("prefix-length", Type::Number(160), false, Reads::Prefix),
    // Of prefix and origin.
    row("validation", Type::Name(VALIDATIONS), false, Reads::Prefix),
    row("principal", Type::Name(PRINCIPALS), false, Reads::Prefix),
    // Of path and neighbor: routes of two neighbors with the same attributes may differ.
    row("aspa", Type::Name(PATH_VALIDATIONS), false, Reads::Prefix),
];

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_policy::vocabulary::find;

    #[test]
    fn numbers_are_places() {
        let named =
            [("local-preference", LOCAL_PREFERENCE), ("rib-distance", RIB_DISTANCE), ("next-hop", NEXT_HOP)];
        let more = [("family", FAMILY), ("protocol", PROTOCOL), ("metric", METRIC), ("principal", PRINCIPAL)];
        let more = more.into_iter().chain([("aspa", ASPA)]);
        for (name, number) in named.into_iter().chain(more) {
            assert_eq!(find(VOCABULARY, name).map(|(number, _)| number), Some(number), "{name}");
        }
        assert_eq!(VOCABULARY.len(), usize::from(ASPA) + 1);
    }
}
