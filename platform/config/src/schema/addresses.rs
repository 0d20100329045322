//! Addresses that no machine can have, in leaves whose types of `sluice-extensions` want the address of one machine. libyang checks no
//! patterns of types that are made of the addresses of `ietf-inet-types`.

use std::net::IpAddr;

/// Returns the expected values if `value`, in its canonical form, is an address that a leaf of a type cannot have; `None` for other values
/// and for leaves of other types.
pub(crate) fn fault(type_name: &str, value: &str) -> Option<&'static str> {
    let is_global = match type_name {
        "unicast-address" | "ipv4-unicast-address" | "ip-address-and-prefix" => false,
        "global-address" => true,
        _ => return None,
    };
    let address = value.split_once('/').map_or(value, |(address, _)| address);
    match address.parse().ok()? {
        IpAddr::V4(v4) => {
            let is_machine = v4.octets()[0] != 0 && !v4.is_multicast() && !v4.is_broadcast();
            (!is_machine).then_some(
                "the address of one machine: not 0.0.0.0/8, no multicast address, and not 255.255.255.255",
            )
        }
        IpAddr::V6(v6) if v6.is_unspecified() || v6.is_multicast() => {
            Some("the address of one machine: neither :: nor a multicast address")
        }
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            Some("an IPv6 address, or an IPv4 address as such: not one that is mapped into IPv6")
        }
        IpAddr::V6(v6) if is_global && v6.is_unicast_link_local() => {
            Some("an address that needs no interface: not a link-local one")
        }
        IpAddr::V6(_) => None,
    }
}
