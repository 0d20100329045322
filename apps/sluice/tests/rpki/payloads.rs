//! Validated ROA payloads for a table of routes, as StayRTR reads them, and the states that they make.

use sluice_base::{Asn, IpPrefix};
use sluice_load::table::{Announcement, RoutingTable};
use sluice_validation::{AnyVrp, VrpTable};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the origin of an announcement.
pub fn origin(announcement: &Announcement) -> Asn {
    *announcement.path.last().unwrap()
}

/// Makes payloads for a share of the table's prefixes, of every kind: for the prefix and its origin, for another origin, for a shorter
/// prefix with and without room for the route.
pub fn of(table: &RoutingTable, most: usize) -> Vec<AnyVrp> {
    let all: Vec<&Announcement> = table.v4.iter().chain(&table.v6).collect();
    let step = (all.len() / most.max(1)).max(1);
    let mut vrps = Vec::new();
    for (number, announcement) in all.iter().step_by(step).enumerate() {
        let (prefix, asn) = (announcement.prefix, origin(announcement));
        let shorter =
            |bits: u8| IpPrefix::new(prefix.addr(), prefix.len().saturating_sub(bits).max(8)).unwrap();
        let wider = |bits: u8| Some(shorter(bits)).filter(|wider| wider.len() <= prefix.len());
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
        write!(
            text,
            "{comma}\n{{\"prefix\":\"{prefix}\",\"maxLength\":{longest},\"asn\":\"AS{asn}\",\"ta\":\"lab\"}}"
        )
        .unwrap();
    }
    text + "]}\n"
}

/// Returns the state of each prefix of a table.
pub fn states(table: &RoutingTable, vrps: &[AnyVrp]) -> BTreeMap<IpPrefix, &'static str> {
    let payloads = VrpTable::new(vrps.iter().copied());
    let all = table.v4.iter().chain(&table.v6);
    all.map(|a| (a.prefix, payloads.validate(a.prefix, Some(origin(a))).name())).collect()
}
