//! The same states for the same prefixes and payloads.

use crate::SLUICE;
use crate::rpki::network::{self, PORT, Plan};
use crate::rpki::payloads;
use sluice_base::IpPrefix;
use sluice_load::source;
use sluice_load::table::RoutingTable;
use sluice_router_lab::{RouterLab, alone, share};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Prefixes of the sample.
const SAMPLE: (usize, usize) = (3000, 1000);

/// Payloads of the whole table.
const MANY: usize = 400_000;

const POLICY: &str = "policy { policy-statement rov { term invalid { from { validation invalid; } then { reject; reason \"the origin is invalid\"; } } } }";

fn router() -> String {
    format!("{POLICY}\nrpki {{ cache first {{ address 10.9.0.11; port {PORT}; retry-interval 1; }} }}")
}

fn compare(name: &str, found: &BTreeMap<IpPrefix, String>, expected: &BTreeMap<IpPrefix, &'static str>) {
    let other: Vec<_> = expected
        .iter()
        .filter(|(prefix, state)| found.get(prefix).map(String::as_str) != Some(**state))
        .map(|(prefix, state)| (prefix, state, found.get(prefix)))
        .take(10)
        .collect();
    assert_eq!(found.len(), expected.len(), "{name}");
    assert!(other.is_empty(), "{name} has other states: {other:?}");
}

fn has_frr() -> bool {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let is_there = folders.iter().any(|folder| Path::new(folder).join("frr/modules/bgpd_rpki.so").exists());
    if !is_there {
        sluice_testkit::skipped("FRR's module for RPKI is not installed (Debian's package frr-rpki-rtrlib)");
    }
    is_there
}

/// A sample of real prefixes, beside BIRD and FRR.
pub fn run() {
    let _share = share();
    if !has_frr() {
        return;
    }
    let table = source::find(None).unwrap().0.thinned(SAMPLE.0, SAMPLE.1);
    let vrps = payloads::of(&table, usize::MAX);
    let expected = payloads::states(&table, &vrps);
    let kinds = |state: &str| expected.values().filter(|known| **known == state).count();
    assert!(["valid", "invalid", "not-found"].iter().all(|state| kinds(state) > 300), "every kind is there");
    let plan = Plan { router: &router(), bgp: "", table: &table, has_others: true };
    let (lab, _cache) = network::up(&plan, Path::new(SLUICE), &vrps);
    network::until_payloads(&lab, Duration::from_secs(60), Some(payloads_of(&vrps)));
    let all = |found: &BTreeMap<IpPrefix, String>| {
        found.len() == expected.len()
            && expected.iter().all(|(prefix, state)| found.get(prefix).map(String::as_str) == Some(*state))
    };
    sluice_lab::until(Duration::from_secs(60), || all(&network::router_states(&lab)));
    compare("Sluice", &network::router_states(&lab), &expected);
    sluice_lab::until(Duration::from_secs(60), || all(&network::bird_states(&lab)));
    compare("BIRD", &network::bird_states(&lab), &expected);
    sluice_lab::until(Duration::from_secs(60), || all(&network::frr_states(&lab)));
    compare("FRR", &network::frr_states(&lab), &expected);
    let accepted = (kinds("valid"), kinds("not-found"));
    lab.until("invalid routes are rejected", |lab| {
        let (count, _) = lab.rib("bgp");
        count.v4 + count.v6 == accepted.0 + accepted.1
    });
}

/// Returns the number of distinct payloads.
fn payloads_of(vrps: &[sluice_validation::AnyVrp]) -> usize {
    sluice_validation::VrpTable::new(vrps.iter().copied()).len()
}

/// The Internet's table: the states of BIRD and FRR under the same cache, and time and memory beside theirs.
pub fn run_long(program: &Path) {
    if source::shared_folder().is_none() {
        return sluice_testkit::skipped("no table in the shared data");
    }
    let _alone = alone();
    let table: RoutingTable = source::find(None).unwrap().0;
    let vrps = payloads::of(&table, MANY);
    let expected = payloads::states(&table, &vrps);
    let accepted = expected.values().filter(|state| **state != "invalid").count();
    if !has_frr() {
        return;
    }
    let plan = Plan { router: &router(), bgp: "", table: &table, has_others: true };
    let mut lab = RouterLab::up(&plan.topology(), program);
    let patience = Duration::from_secs(300);
    let routes = |lab: &RouterLab| {
        let (count, _) = lab.rib("bgp");
        count.v4 + count.v6
    };
    lab.until_within(patience, "the table is there", |lab| routes(lab) == expected.len());
    let memory = |lab: &RouterLab, component: &str| lab.memory(component).unwrap_or(0) >> 20;
    lab.until_within(patience, "BIRD has the table", |lab| network::bird_count(lab) == expected.len());
    lab.until_within(patience, "FRR has the table", |lab| network::frr_count(lab) == expected.len());
    let without =
        (memory(&lab, "bgp"), network::memory_of(&lab, "validator"), network::memory_of(&lab, "frr"));
    let mut cache = network::Cache::new(&lab, "cache1");
    cache.set(&vrps);
    cache.start(&mut lab);
    let begin = Instant::now();
    let count = payloads_of(&vrps);
    network::until_payloads(&lab, patience, Some(count));
    let received = begin.elapsed();
    lab.until_within(patience, "invalid routes are rejected", |lab| routes(lab) == accepted);
    println!(
        "{} routes, {count} payloads: in effect {:.1} s after the cache's start, invalid routes rejected after {:.1} s; memory of bgp {} MiB, \
         then {} MiB; of rpki {} MiB",
        expected.len(),
        received.as_secs_f64(),
        begin.elapsed().as_secs_f64(),
        without.0,
        memory(&lab, "bgp"),
        memory(&lab, "rpki")
    );
    // The same states as those of the others, for every prefix. Their times are upper bounds: each question takes some seconds.
    let all = |found: &BTreeMap<IpPrefix, String>| {
        found.len() == expected.len()
            && expected.iter().all(|(prefix, state)| found.get(prefix).map(String::as_str) == Some(*state))
    };
    compare("Sluice", &network::router_states(&lab), &expected);
    for (name, node, states, before) in [
        (
            "BIRD",
            "validator",
            network::bird_states as fn(&RouterLab) -> BTreeMap<IpPrefix, String>,
            without.1,
        ),
        ("FRR", "frr", network::frr_states, without.2),
    ] {
        sluice_lab::until(patience, || all(&states(&lab)));
        compare(name, &states(&lab), &expected);
        println!(
            "{name}: the same states, seen {:.1} s after the cache's start; memory {before} MiB, then {} MiB",
            begin.elapsed().as_secs_f64(),
            network::memory_of(&lab, node)
        );
    }
    // A few payloads go: their routes come back, at once.
    let kept: Vec<_> = vrps.iter().skip(600).copied().collect();
    let expected = payloads::states(&table, &kept);
    let accepted = expected.values().filter(|state| **state != "invalid").count();
    cache.set(&kept);
    network::until_payloads(&lab, patience, Some(payloads_of(&kept)));
    let begin = Instant::now();
    lab.until_within(patience, "routes without payloads come back", |lab| routes(lab) == accepted);
    println!("600 payloads less: done {:.2} s after they were in effect", begin.elapsed().as_secs_f64());
    assert_eq!(lab.neighbor(network::FEED)["flaps"], "0");
}
