//! Routes of processes that ended, which their next processes have yet to announce again.

use crate::connection::session::Session;
use serde_json::{Value, json};
use sluice_xrl::XrlEndpoint;
use sluice_xrl::idl::rib::v1 as rib;
use std::collections::BTreeMap;

/// The numbers of such routes, by table and origin.
pub type Refreshing = BTreeMap<(u32, String), u64>;

/// Asks the RIB for the routes that wait to be announced again; none if the RIB does not answer.
pub async fn refreshing(session: &Session, router: &XrlEndpoint) -> Refreshing {
    let client = rib::RibClient::new(router, "rib").with_deadline(session.flags.timeout);
    let summary = client.get_summary(rib::GetSummaryRequest {}).await.unwrap_or_default();
    of(&summary)
}

/// The count of an origin is in the summary of each family, for all families.
fn of(summary: &rib::GetSummaryReply) -> Refreshing {
    let origins = summary.tables.iter().flat_map(|table| table.origins.iter().map(move |o| (table.table, o)));
    let waiting = origins.filter(|(_, origin)| origin.stale > 0);
    waiting.map(|(table, origin)| ((table, origin.origin.clone()), origin.stale)).collect()
}

/// Returns a line for each origin.
pub fn lines(refreshing: &Refreshing) -> Vec<String> {
    let line = |((_, origin), routes): (&(u32, String), &u64)| {
        let noun = if *routes == 1 { "route" } else { "routes" };
        format!("refreshing: {routes} {noun} of the previous process of {origin}")
    };
    refreshing.iter().map(line).collect()
}

/// Returns the origins as JSON.
pub fn as_json(refreshing: &Refreshing) -> Value {
    let origin = |((table, origin), routes): (&(u32, String), &u64)| json!({ "table": table, "origin": origin, "routes": routes });
    refreshing.iter().map(origin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_with_stale_routes_are_named_once() {
        let origin =
            |name: &str, stale| rib::OriginSummary { origin: name.into(), stale, ..Default::default() };
        let table = |origins| rib::TableSummary { table: 254, origins, ..Default::default() };
        let families =
            vec![table(vec![origin("bgp", 31), origin("static", 0)]), table(vec![origin("bgp", 31)])];
        let refreshing = of(&rib::GetSummaryReply { tables: families });
        assert_eq!(lines(&refreshing), ["refreshing: 31 routes of the previous process of bgp"]);
        assert_eq!(as_json(&refreshing)[0]["routes"], 31);
    }
}
