//! Names of address families.

use sluice_xrl::idl::common::v1 as common;

/// Returns the name of an address family.
pub fn family(number: i32) -> &'static str {
    match common::Family::try_from(number) {
        Ok(common::Family::Ipv6) => "ipv6",
        Ok(common::Family::Xid) => "xid",
        _ => "ipv4",
    }
}
