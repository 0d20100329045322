//! Packets a second of the router's processor time: XDP and the kernel, in turn, on the real tables.

use crate::Prefixes;
use anyhow::Result;
use bench_forward::router::Engines;
use bench_forward::traffic::{Run, Spread, measure, on_field};
use bench_report::{Bar, Report, median, number, table};
use serde_json::json;
use sluice_base::IpPrefix;
use std::path::Path;

/// A comparison: its bar, the target, the table, and the spread of the destinations.
struct Case<'a> {
    bar: &'a str,
    target: f64,
    prefixes: &'a [IpPrefix],
    spread: Spread,
}

/// Measures, prints and reports.
pub fn run(prefixes: &Prefixes, rounds: usize, seconds: f64, pins: &Path, report: &mut Report) -> Result<()> {
    let case = |bar, target, prefixes, spread| Case { bar, target, prefixes, spread };
    let cases = [
        case("forward.ipv4_uniform_vs_kernel", 4.0, &prefixes.ipv4[..], Spread::Uniform),
        case("forward.ipv4_zipf_vs_kernel", 4.0, &prefixes.ipv4[..], Spread::Zipf),
        case("forward.ipv6_zipf_vs_kernel", 3.0, &prefixes.ipv6[..], Spread::Zipf),
    ];
    for case in cases {
        compare(&case, rounds, seconds, pins, report)?;
    }
    Ok(())
}

fn compare(case: &Case<'_>, rounds: usize, seconds: f64, pins: &Path, report: &mut Report) -> Result<()> {
    let destinations = case.spread.draw(case.prefixes);
    let one = |engines| {
        on_field(engines, case.prefixes, pins, |field| {
            measure(field, destinations.clone(), seconds, |_| Ok(()))
        })
    };
    let mut pairs: Vec<[Run; 2]> = Vec::new();
    for round in 0..rounds {
        let order =
            if round % 2 == 0 { [Engines::Kernel, Engines::Xdp] } else { [Engines::Xdp, Engines::Kernel] };
        let runs = order.map(one);
        let [first, second] = runs;
        let (first, second) = (first?, second?);
        let pair = if round % 2 == 0 { [first, second] } else { [second, first] };
        println!(
            "{} round {}: kernel {} packets/CPU s, XDP {}",
            case.bar,
            round + 1,
            number(pair[0].per_cpu_second),
            number(pair[1].per_cpu_second)
        );
        pairs.push(pair);
    }
    let middle = |value: &dyn Fn(&[Run; 2]) -> f64| median(&pairs.iter().map(value).collect::<Vec<_>>());
    let mut lines = Vec::new();
    for (n, engines) in [Engines::Kernel, Engines::Xdp].into_iter().enumerate() {
        let (cpu, wall) = (middle(&|p| p[n].per_cpu_second), middle(&|p| p[n].per_second));
        let arrived = middle(&|p| p[n].arrived);
        report.row(json!({
            "what": case.bar, "engines": engines.name(), "prefixes": case.prefixes.len(), "packets_per_cpu_s": cpu,
            "packets_per_s": wall, "arrived": arrived, "runs": pairs.len(),
        }));
        lines.push(vec![
            engines.name().into(),
            number(cpu),
            number(wall),
            format!("{:.0} %", arrived * 100.0),
        ]);
    }
    println!("{}", table(&[case.bar, "packets/CPU s", "packets/s", "arrived"], &lines));
    report.bar(Bar::higher(
        case.bar,
        middle(&|p| p[1].per_cpu_second / p[0].per_cpu_second),
        "x",
        case.target,
    ));
    Ok(())
}
