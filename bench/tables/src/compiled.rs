//! The Internet's routes in the tables of the XDP program: time to load and to change them, and memory.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use bench_report::{Report, median, number, table};
use serde_json::json;
use sluice_base::{IpKey, IpPrefix, Prefix};
use sluice_fea::xdp::{Action, Area, GroupSlot, MemberSlot, Memory, Tables, Target, Way, Words};
use sluice_testkit::heap;

use crate::workload::Workload;

/// Groups that the routes are spread over: the neighbors of a large router.
const GROUPS: usize = 64;

/// Single changes of a run.
const CHANGES: usize = 20_000;

/// Words of a page of memory.
const PAGE: usize = 512;

/// The measured values, in the order of the columns.
const MEASURES: [(&str, &str); 10] = [
    ("load_ns", "load"),
    ("replace_p50_ns", "replace p50"),
    ("replace_p99_ns", "p99"),
    ("flap_p50_ns", "flap p50"),
    ("flap_p99_ns", "p99"),
    ("repoint_p50_ns", "repoint group"),
    ("lookup_ns", "look-up"),
    ("prefix_bytes", "B a prefix"),
    ("words_mebibytes", "MiB of words"),
    ("nodes", "nodes"),
];

/// Runs the measurements for a family and prints their medians.
pub fn measure<P: IpKey>(
    family: &'static str,
    work: &Workload<P>,
    runs: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let all = (0..runs).map(|_| run(work)).collect::<anyhow::Result<Vec<_>>>()?;
    let medians: Vec<f64> =
        (0..MEASURES.len()).map(|at| median(&all.iter().map(|run| run[at]).collect::<Vec<_>>())).collect();
    for ((name, _), value) in MEASURES.iter().zip(&medians) {
        report.row(json!({
            "family": family, "table": "xdp", "prefixes": work.arrival.len(), "measure": name, "median": value,
            "runs": runs,
        }));
    }
    let head: Vec<&str> = MEASURES.iter().map(|(_, head)| *head).collect();
    println!(
        "{family}, the XDP program's tables, {} prefixes in random order over {GROUPS} groups; ns (load: a prefix; flap: \
         removal and return; look-up: a host in a random prefix); median of {runs}\n{}",
        number(work.arrival.len() as f64),
        table(&head, &[medians.iter().map(|value| number(*value)).collect()])
    );
    Ok(())
}

fn run<P: IpKey>(work: &Workload<P>) -> anyhow::Result<[f64; MEASURES.len()]> {
    let mut tables = Tables::new(Memory::default());
    let way = |n: usize| Way { action: Action::Forward, mtu: n as u32, ..Way::KERNEL };
    let members: Vec<MemberSlot> =
        (0..GROUPS).map(|n| tables.add_member(way(n))).collect::<Result<_, _>>().context("members")?;
    let groups: Vec<GroupSlot> =
        members.iter().map(|m| tables.add_group(&[(*m, 1)])).collect::<Result<_, _>>().context("groups")?;
    let base = heap::start();
    let start = Instant::now();
    for (n, prefix) in work.arrival.iter().enumerate() {
        tables.set_route((*prefix).into(), Target::Group(groups[n % GROUPS]))?;
    }
    let load_ns = nanoseconds(start) / work.arrival.len().max(1) as f64;
    let held = heap::since(base).held as f64 / work.arrival.len().max(1) as f64;

    let changed = || work.asked.iter().take(CHANGES).map(|prefix| (*prefix).into()).enumerate();
    let mut replace = Vec::with_capacity(CHANGES);
    for (n, prefix) in changed() {
        let target = Target::Group(groups[(n * 7) % GROUPS]);
        let start = Instant::now();
        tables.set_route(prefix, target)?;
        replace.push(nanoseconds(start));
    }
    let mut flap = Vec::with_capacity(CHANGES);
    for (n, prefix) in changed() {
        let target = Target::Group(groups[(n * 11) % GROUPS]);
        let start = Instant::now();
        tables.remove_route(prefix);
        tables.set_route(prefix, target)?;
        flap.push(nanoseconds(start));
        if let Some(grace) = tables.begin_grace() {
            tables.end_grace(grace);
        }
    }
    let mut repoint = Vec::new();
    for (n, group) in groups.iter().enumerate() {
        let start = Instant::now();
        tables.set_group(*group, &[(members[(n + 1) % GROUPS], 1)])?;
        repoint.push(nanoseconds(start));
    }
    let hosts: Vec<IpPrefix> = work.hosts.iter().map(|prefix| (*prefix).into()).collect();
    let start = Instant::now();
    for host in &hosts {
        black_box(match host {
            IpPrefix::V4(key) => tables.lookup_ipv4(key.addr().0, 0),
            IpPrefix::V6(key) => tables.lookup_ipv6(key.addr().0, 0),
        });
    }
    let lookup_ns = nanoseconds(start) / hosts.len().max(1) as f64;
    let usage = tables.usage();
    Ok([
        load_ns,
        percentile(&mut replace, 50),
        percentile(&mut replace, 99),
        percentile(&mut flap, 50),
        percentile(&mut flap, 99),
        percentile(&mut repoint, 50),
        lookup_ns,
        held,
        written(tables.words()) as f64 * 8.0 / f64::from(1 << 20),
        f64::from(usage.ipv4_nodes.used + usage.ipv6_nodes.used),
    ])
}

fn nanoseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Returns the number of words in pages with an entry that is not 0: the memory that maps take.
fn written(words: &Memory) -> usize {
    let pages = |area: Area| {
        let starts = (0..area.words()).step_by(PAGE);
        starts.filter(move |start| {
            (*start..(start + PAGE).min(area.words())).any(|word| words.load(area, word) != 0)
        })
    };
    Area::ALL.iter().map(|area| pages(*area).count() * PAGE).sum()
}
