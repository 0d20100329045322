//! The variables of BGP's routes in policies.

use sluice_policy::vocabulary::{Reads, Type, Variable, Vocabulary};

/// The variables of BGP's routes.
pub const VOCABULARY: Vocabulary = &[
    number("local-preference", u32::MAX, true, Reads::Attributes),
    number("med", u32::MAX, true, Reads::Attributes),
    name("origin", &["igp", "egp", "incomplete"], true, Reads::Attributes),
    number("weight", 65_535, true, Reads::Attributes),
    number("tag", u32::MAX, true, Reads::Attributes),
    number("rib-distance", 255, true, Reads::Attributes),
    number("as-path-length", u32::MAX, false, Reads::Attributes),
    number("origin-as", u32::MAX, false, Reads::Attributes),
    number("path-neighbor-as", u32::MAX, false, Reads::Attributes),
    other("next-hop", Type::Address, Reads::Attributes),
    other("neighbor", Type::Address, Reads::Neighbor),
    number("neighbor-as", u32::MAX, false, Reads::Neighbor),
    other("group", Type::Text, Reads::Neighbor),
    name("family", &["ipv4", "ipv6"], false, Reads::Prefix),
    other("protocol", Type::Text, Reads::Attributes),
    name("route-type", &["external", "internal", "local"], false, Reads::Attributes),
    number("metric", u32::MAX, false, Reads::Attributes),
    other("interface", Type::Text, Reads::Attributes),
    number("prefix-length", 128, false, Reads::Prefix),
    name("validation", &["unknown"], false, Reads::Prefix),
];

const fn number(name: &'static str, largest: u32, is_writable: bool, reads: Reads) -> Variable {
    Variable { name, values: Type::Number(largest), is_writable, reads }
}

const fn name(
    name: &'static str,
    names: &'static [&'static str],
    is_writable: bool,
    reads: Reads,
) -> Variable {
    Variable { name, values: Type::Name(names), is_writable, reads }
}

const fn other(name: &'static str, values: Type, reads: Reads) -> Variable {
    Variable { name, values, is_writable: false, reads }
}
