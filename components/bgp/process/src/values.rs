//! Values and errors in BGP's messages.

use sluice_base::FamilyId;
use sluice_bgp::family::FamilyIndex;
use sluice_bgp::shard::Resolution;
use sluice_bgp::wire::as_path::{AS_SET, Segments};
use sluice_xrl::XrlError;
use std::net::IpAddr;

/// Parses an address.
pub(crate) fn address(text: &str) -> Result<IpAddr, XrlError> {
    text.parse().map_err(|_| XrlError::BadArguments(format!("address: `{text}` is none")))
}

/// Returns the error of calls before the configuration.
pub(crate) fn not_configured() -> XrlError {
    XrlError::application(2, "BGP is not configured")
}

/// Returns a family of BGP's routes.
pub(crate) fn known_family(family: FamilyId) -> Result<FamilyIndex, XrlError> {
    let unknown = || XrlError::BadArguments(format!("family {family}: BGP has no such routes"));
    FamilyIndex::with_id(family).ok_or_else(unknown)
}

/// Returns the error of calls for an unknown neighbor.
pub(crate) fn unknown(neighbor: IpAddr) -> XrlError {
    XrlError::application(3, format!("there is no neighbor {neighbor}"))
}

/// Returns the number of a family in `common.v1.Family`.
pub(crate) fn family_number(family: FamilyIndex) -> i32 {
    family.row().id.0.into()
}

/// Returns milliseconds.
pub(crate) fn ms(duration: sluice_base::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the state of a next hop and the metric towards it.
pub(crate) fn resolution(resolution: Resolution) -> (String, u32) {
    match resolution {
        Resolution::Waiting => ("waiting".into(), 0),
        Resolution::Unreachable => ("unreachable".into(), 0),
        Resolution::Reachable { metric, .. } => ("reachable".into(), metric.0),
    }
}

/// Returns the text of an AS path.
pub(crate) fn as_path(value: &[u8]) -> String {
    let mut words = Vec::new();
    for segment in Segments::canonical(value).flatten() {
        let numbers: Vec<String> = segment.asns().map(|asn| asn.to_string()).collect();
        words.push(if segment.kind == AS_SET {
            format!("{{{}}}", numbers.join(","))
        } else {
            numbers.join(" ")
        });
    }
    words.join(" ")
}
