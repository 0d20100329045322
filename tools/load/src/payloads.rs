//! Validated ROA payloads (RFC 6811) for a table of routes, as StayRTR reads them.

use crate::table::{Announcement, RoutingTable};
use sluice_base::{Asn, IpPrefix};
use sluice_validation::AnyVrp;
use std::fmt::Write;

/// Returns the origin of an announcement; AS 0 for an empty path.
pub fn origin(announcement: &Announcement) -> Asn {
    announcement.path.last().copied().unwrap_or(Asn(0))
}

/// Makes payloads for a share of the table's prefixes, at most about `most`, of every kind: for the prefix and its origin, for another
/// origin, for a shorter prefix with and without room for the route.
pub fn of(table: &RoutingTable, most: usize) -> Vec<AnyVrp> {
    let all: Vec<&Announcement> = table.v4.iter().chain(&table.v6).collect();
    let step = (all.len() / most.max(1)).max(1);
    let mut vrps = Vec::new();
    for (number, announcement) in all.iter().step_by(step).enumerate() {
        let (prefix, asn) = (announcement.prefix, origin(announcement));
        let wider = |bits: u8| {
            let wider = IpPrefix::new(prefix.addr(), prefix.len().saturating_sub(bits).max(8))?;
            (wider.len() <= prefix.len()).then_some(wider)
        };
        vrps.extend(match number % 6 {
            0 | 1 => AnyVrp::new(prefix, prefix.len(), asn),
            2 => AnyVrp::new(prefix, prefix.len(), Asn(asn.0 + 1)),
            3 => wider(1).and_then(|wider| AnyVrp::new(wider, prefix.len(), asn)),
            4 => wider(2).and_then(|wider| AnyVrp::new(wider, wider.len(), asn)),
            _ => None,
        });
    }
    vrps
}

/// Returns payloads in the form of the validators' JSON.
pub fn json<'v>(vrps: impl IntoIterator<Item = &'v AnyVrp>) -> String {
    let mut text = String::from("{\"metadata\":{\"buildtime\":\"2026-01-01T00:00:00Z\"},\"roas\":[");
    for (number, vrp) in vrps.into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let (prefix, longest, asn) = (vrp.prefix(), vrp.max_length(), vrp.asn());
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{comma}\n{{\"prefix\":\"{prefix}\",\"maxLength\":{longest},\"asn\":\"AS{asn}\",\"ta\":\"lab\"}}"
        );
    }
    text + "]}\n"
}
