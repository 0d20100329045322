//! Tables of XIDs: whole identifiers without structure, a few prefixes among them, beside IPv6 addresses of the same number.

use std::collections::HashMap;

use anyhow::ensure;
use bench_report::{Report, median, number, table};
use serde_json::json;
use sluice_base::{Ipv6Prefix, Prefix, Rng, XidPrefix, XidType};
use sluice_stage::PrefixTable;

use crate::candidates::{Candidate, Sorted};
use crate::workload::Workload;
use crate::{Measure, Run, Values, measure, run};

/// Whole XIDs in the table.
const COUNT: usize = 1_000_000;
/// Prefixes in the table, with 1 to 16 bits of an LPM XID.
const PREFIXES: usize = 1000;
const RUNS: usize = 3;

/// A hash table: the floor for exact look-ups. It has no order and no prefixes.
struct Hashed(HashMap<XidPrefix, u32>);

impl Candidate<XidPrefix> for Hashed {
    const NAME: &'static str = "HashMap";

    fn empty() -> Self {
        Hashed(HashMap::new())
    }

    fn insert(&mut self, prefix: XidPrefix, value: u32) {
        self.0.insert(prefix, value);
    }

    fn get(&self, prefix: XidPrefix) -> Option<u32> {
        self.0.get(&prefix).copied()
    }

    fn longest(&self, host: XidPrefix) -> Option<u32> {
        (0..=host.len()).rev().find_map(|len| self.0.get(&host.truncate(len)).copied())
    }

    fn remove(&mut self, prefix: XidPrefix) -> Option<u32> {
        self.0.remove(&prefix)
    }

    fn walk(&self) -> u64 {
        self.0.values().copied().map(u64::from).sum()
    }
}

/// Random octets, as those of hashes.
fn octets<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.below(256) as u8)
}

/// Measures the tables, and prints them.
pub fn compare(report: &mut Report) -> anyhow::Result<()> {
    let mut rng = Rng::from_seed(2015);
    let hid = |rng: &mut Rng| XidPrefix::of_type(XidType::HID, octets(rng), 160);
    let lpm = |rng: &mut Rng| XidPrefix::of_type(XidType::LPM, octets(rng), 1 + rng.below(16) as u8);
    let mut xids: Vec<XidPrefix> = (0..COUNT).filter_map(|_| hid(&mut rng)).collect();
    xids.extend((0..PREFIXES).filter_map(|_| lpm(&mut rng)));
    xids.sort_unstable();
    xids.dedup();
    let mut addresses: Vec<Ipv6Prefix> = (0..COUNT)
        .filter_map(|_| Ipv6Prefix::from_parts(u128::from_be_bytes(octets(&mut rng)), 128))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut values = Values::new();
    let space = XidPrefix::of_type(XidType::HID, [0; 20], 0);
    let work = Workload::new(&xids, space.unwrap_or(XidPrefix::default_route()), 48);
    let tables = tables!(XidPrefix: PrefixTable<_, u32>, Hashed, Sorted<_>);
    measure("xid", &work, &tables, RUNS, &mut values)?;
    let work = Workload::new(&addresses, Ipv6Prefix::default_route(), 16);
    measure("ipv6", &work, &tables!(Ipv6Prefix: PrefixTable<_, u32>), RUNS, &mut values)?;
    let rows: std::collections::BTreeSet<_> =
        values.keys().map(|(family, name, _)| (*family, *name)).collect();
    ensure!(!rows.is_empty(), "nothing was measured");
    let mut lines = Vec::new();
    for (family, name) in rows {
        let mut line = vec![format!("{family} {name}")];
        for measure in Measure::ALL {
            let all = values.get(&(family, name, measure)).map(|all| median(all));
            line.push(all.map_or("-".to_owned(), number));
            report.row(json!({"family": family, "table": name, "prefixes": COUNT, "measure": measure.names().0, "median": all}));
        }
        lines.push(line);
    }
    let head: Vec<&str> = std::iter::once("table").chain(Measure::ALL.iter().map(|m| m.names().1)).collect();
    println!("{}", table(&head, &lines));
    Ok(())
}
