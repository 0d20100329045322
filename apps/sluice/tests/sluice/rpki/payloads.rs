//! The states that payloads make.

pub use sluice_load::payloads::{json, of, origin};

use sluice_base::IpPrefix;
use sluice_load::table::RoutingTable;
use sluice_validation::{AnyVrp, VrpTable};
use std::collections::BTreeMap;

/// Returns the state of each prefix of a table.
pub fn states(table: &RoutingTable, vrps: &[AnyVrp]) -> BTreeMap<IpPrefix, &'static str> {
    let payloads = VrpTable::new(vrps.iter().copied());
    let all = table.v4.iter().chain(&table.v6);
    all.map(|a| (a.prefix, payloads.validate(a.prefix, Some(origin(a))).name())).collect()
}
