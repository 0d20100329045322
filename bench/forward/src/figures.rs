//! Packets a second of the router's processor time as in appendix A of Olsson, Wassen and Pedersen, "Open Source Routing in
//! High-Speed Production Use" (Uppsala University): by tables and packet filters, with many flows and with two.

use crate::Prefixes;
use anyhow::{Context, Result};
use bench_forward::router::Engines;
use bench_forward::traffic::{Load, Run, measure, on_prepared_field};
use bench_report::{Plot, Report, Series, median, number, table};
use serde_json::json;
use sluice_base::{IpPrefix, Rng};
use sluice_pktgen::destinations::random_hosts;
use std::net::IpAddr;
use std::path::Path;

/// The prefixes that all packets match, as in the paper (benchmark networks, RFC 2544).
const MATCHED: [&str; 2] = ["198.18.0.0/16", "198.19.0.0/16"];
/// Concurrent flows of the flow load, and packets of a flow in a row.
const FLOWS: usize = 2 * 4096;
const FLOW_LENGTH: u32 = 10;

/// Rules on the way of forwarded packets. The last one accepts the packets.
const RULES: &str = "table ip filter { chain passing { type filter hook forward priority 0; policy drop; \
    ip daddr 192.0.2.0/24 drop; tcp dport 25 drop; ip saddr 10.0.0.0/24 accept; }; }";
/// The same with connection tracking.
const TRACKED: &str = "table ip filter { chain passing { type filter hook forward priority 0; policy drop; \
    ct state invalid drop; ip daddr 192.0.2.0/24 drop; tcp dport 25 drop; \
    ct state { new, established, related } ip saddr 10.0.0.0/24 accept; }; }";

/// A test of the appendix.
struct Test {
    name: &'static str,
    has_full_table: bool,
    /// Rules of nftables, if any.
    rules: Option<&'static str>,
    /// Thousand packets a second in the paper: flow load, two flows.
    paper: [f64; 2],
}

const TESTS: [Test; 4] = [
    Test { name: "small table", has_full_table: false, rules: None, paper: [1040.0, 2010.0] },
    Test { name: "full table", has_full_table: true, rules: None, paper: [950.0, 2020.0] },
    Test { name: "rules", has_full_table: true, rules: Some(RULES), paper: [820.0, 1670.0] },
    Test { name: "rules, tracking", has_full_table: true, rules: Some(TRACKED), paper: [211.0, 730.0] },
];

/// The loads: names and titles.
const LOADS: [(&str, &str); 2] = [
    ("flow load", "Flow load: 2 x 4096 flows of 10 packets"),
    ("two flows", "Two flows, a destination each"),
];

/// The engines by column.
const ENGINES: [Engines; 2] = [Engines::Kernel, Engines::Xdp];

/// Measures and reports; returns the plots with the suffixes of their files.
pub fn run(
    prefixes: &Prefixes,
    rounds: usize,
    seconds: f64,
    pins: &Path,
    report: &mut Report,
) -> Result<Vec<(&'static str, Plot)>> {
    let matched: Vec<IpPrefix> = MATCHED.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let full: Vec<IpPrefix> = prefixes.ipv4.iter().chain(&matched).copied().collect();
    let loads = [flow_load(&matched), two_flows(&matched).context("two prefixes")?];
    let mut results: Vec<[[f64; 2]; 2]> = Vec::new();
    for test in &TESTS {
        let routes = if test.has_full_table { &full } else { &matched };
        let mut runs: [[Vec<Run>; 2]; 2] = Default::default();
        for round in 0..rounds {
            for column in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let both = on_prepared_field(ENGINES[column], routes, test.rules, pins, |field| {
                    let flows = measure(field, loads[0].clone(), seconds, |_| Ok(()))?;
                    Ok([flows, measure(field, loads[1].clone(), seconds, |_| Ok(()))?])
                })?;
                for (load, run) in both.into_iter().enumerate() {
                    runs[load][column].push(run);
                }
            }
        }
        results.push(runs.map(|engines| {
            engines.map(|runs| median(&runs.iter().map(|run| run.per_cpu_second).collect::<Vec<_>>()))
        }));
    }
    for (load, (name, _)) in LOADS.into_iter().enumerate() {
        print(load, name, rounds, &results, report);
    }
    let plot = |load: usize| bars(LOADS[load].1, load, &results);
    Ok(vec![("-flow-load", plot(0)), ("-two-flows", plot(1))])
}

/// Addresses in turn, `FLOW_LENGTH` packets to each.
fn flow_load(matched: &[IpPrefix]) -> Load {
    let destinations = random_hosts(matched, FLOWS, &mut Rng::from_seed(21));
    Load { destinations, flows: 1, flow_length: FLOW_LENGTH }
}

/// The first host of each prefix.
fn two_flows(matched: &[IpPrefix]) -> Option<Load> {
    let first = |prefix: &IpPrefix| match prefix.addr() {
        IpAddr::V4(address) => Some(IpAddr::V4((u32::from(address) + 1).into())),
        IpAddr::V6(_) => None,
    };
    let destinations = matched.iter().map(first).collect::<Option<_>>()?;
    Some(Load { destinations, flows: 1, flow_length: 1 })
}

/// Prints a table of one load and adds its rows to the report.
fn print(load: usize, name: &str, rounds: usize, results: &[[[f64; 2]; 2]], report: &mut Report) {
    let mut lines = Vec::new();
    for (test, result) in TESTS.iter().zip(results) {
        let [kernel, xdp] = result[load];
        lines.push(vec![
            test.name.to_owned(),
            number(kernel),
            number(xdp),
            number(test.paper[load] * 1000.0),
        ]);
        for (engines, packets) in ENGINES.into_iter().zip(result[load]) {
            report.row(json!({
                "what": format!("appendix A, {name}"), "test": test.name, "engines": engines.name(),
                "packets_per_cpu_s": packets, "paper_packets_per_s": test.paper[load] * 1000.0, "runs": rounds,
                "is_off_by_rules": engines == Engines::Xdp && test.rules.is_some(),
            }));
        }
    }
    println!("{}", table(&[name, "kernel/CPU s", "XDP/CPU s", "paper (2 cores, 2007)"], &lines));
}

fn bars(title: &str, load: usize, results: &[[[f64; 2]; 2]]) -> Plot {
    let points = |value: &dyn Fn(usize) -> f64| (0..TESTS.len()).map(|n| (n as f64, value(n), 0.0)).collect();
    let series = |name: &str, points| Series { name: name.to_owned(), points };
    Plot {
        title: title.to_owned(),
        x: "With rules, the kernel forwards all packets: XDP is off by design.".to_owned(),
        y: "thousand packets a second of CPU time".to_owned(),
        logarithmic: false,
        boxes: Vec::new(),
        names: TESTS.iter().map(|test| test.name.to_owned()).collect(),
        series: vec![
            series("kernel", points(&|n| results[n][load][0] / 1000.0)),
            series("kernel and XDP", points(&|n| results[n][load][1] / 1000.0)),
            series("paper, 2 cores", points(&|n| TESTS[n].paper[load])),
        ],
    }
}
