//! Policies beside BIRD 2's filters of the same meaning, with the same feed by the same client: a policy of 50 terms with a
//! prefix list of 10,000 entries, 500 communities and 5 AS-path expressions over the full table, at import and at export, an empty
//! policy, and a new policy for all routes. `make bench-policy`, as root.
//!
//! The cost of a policy is the processor time with the policy less the processor time without, each up to the router's rest.
//! Every policy accepts every route, so that both routers have the same work besides the policy.

mod cell;
mod network;
mod policy;

use anyhow::{Context, Result, ensure};
use bench_lab::{Device, LOCAL_AS};
use bench_report::{Bar, Report, median, table};
use cell::{Case, Stage};
use clap::Parser;
use network::{FEED, FIRST_AS};
use policy::{COMMUNITIES, Lists, community};
use serde_json::json;
use sluice_base::{Asn, IpPrefix};
use sluice_bgpsim::message::Voice;
use sluice_bgpsim::order::{Mix, Order};
use sluice_bgpsim::scenario::Scenario;
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::wire::attribute::{code, put_header};
use sluice_bgpsim::workload::{ANY_NUMBER, Cast, Families, Spread, Workload};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const DEVICES: [Device; 2] = [Device::Sluice, Device::Bird];
/// The least processor time of a policy for a ratio, in seconds.
const LEAST_S: f64 = 0.02;

/// Policies beside filters of BIRD 2.
#[derive(Parser)]
struct Args {
    /// Runs of each cell; results are medians.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The share of the table that is used.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Seconds that a phase may take.
    #[arg(long, default_value_t = 240)]
    limit: u64,
    /// The table: prefixes, a line each, or an MRT dump; a real one if absent.
    #[arg(long)]
    table: Option<PathBuf>,
    /// The Sluice executable; the one beside this program if absent.
    #[arg(long)]
    sluice: Option<PathBuf>,
}

/// Processor seconds of all runs, by case and router.
type Samples = BTreeMap<(Case, &'static str), Vec<f64>>;

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.scale > 0.0 && args.scale <= 1.0, "--scale is a share: above 0, at most 1");
    ensure!(args.runs > 0, "--runs is at least 1");
    sluice_lab::available().context("labs cannot be made here")?;
    ensure!(Device::Bird.is_here(), "BIRD 2 is not installed; it is Debian's package bird2");
    bench_lab::adopt_orphans()?;
    let sluice = sluice_load::counts::sluice_program(args.sluice.as_deref())?;
    let (routes, source) = sluice_load::source::find(args.table.as_deref())?;
    let table = with_communities(scaled(Table::real(&routes), args.scale));
    println!("table: {source}: {} prefixes", bench_report::number(table.prefixes().count() as f64));
    let lists = Lists::new(table.prefixes());
    let workload = workload(&table)?;
    let stage = Stage { sluice: &sluice, lists: &lists, limit: Duration::from_secs(args.limit) };
    let mut report = Report::begin("policy");
    report.row(json!({"what": "how", "table": source.to_string(), "scale": args.scale, "runs": args.runs}));
    let samples = measure(&stage, &workload, args.runs)?;
    add_results(&samples, &mut report);
    report.finish(&[])?;
    Ok(())
}

/// Runs each cell several times; the routers take turns, and each run begins with the other one.
fn measure(stage: &Stage<'_>, workload: &Workload, runs: usize) -> Result<Samples> {
    let mut samples = Samples::new();
    for run in 0..runs {
        let mut devices = DEVICES;
        devices.rotate_left(run % DEVICES.len());
        for (case, device) in Case::ALL.into_iter().flat_map(|case| devices.map(|device| (case, device))) {
            let seconds = stage.perform(device, case, workload)?;
            println!("run {} {:<8} {:<34} CPU {seconds:>7.3} s", run + 1, device.name(), case.name());
            samples.entry((case, device.name())).or_default().push(seconds);
            bench_lab::reap_orphans();
        }
    }
    Ok(samples)
}

/// Prints the medians, and adds rows and bars.
fn add_results(samples: &Samples, report: &mut Report) {
    let seconds = |case, device: Device| samples.get(&(case, device.name())).map_or(0.0, |all| median(all));
    let cost = |case, device| match case {
        Case::Plain | Case::PlainToTen | Case::Refilter => seconds(case, device),
        Case::AcceptAll | Case::Import => seconds(case, device) - seconds(Case::Plain, device),
        Case::Export => seconds(case, device) - seconds(Case::PlainToTen, device),
    };
    let mut lines = Vec::new();
    for case in Case::ALL {
        for device in DEVICES {
            let (whole, own) = (seconds(case, device), cost(case, device));
            lines.push(vec![
                case.name().into(),
                device.name().into(),
                format!("{whole:.3}"),
                format!("{own:.3}"),
            ]);
            report.row(
                json!({"case": case.name(), "router": device.name(), "cpu_s": whole, "policy_cpu_s": own}),
            );
        }
    }
    println!("{}", table(&["work", "router", "CPU s", "of which policy"], &lines));
    let bars = [
        ("policy.import_cost_vs_bird", Case::Import),
        ("policy.export_cost_vs_bird", Case::Export),
        ("policy.refilter_vs_bird", Case::Refilter),
    ];
    for (name, case) in bars {
        let [ours, theirs] = DEVICES.map(|device| cost(case, device).max(0.0));
        if theirs < LEAST_S {
            println!("{name}: BIRD needs less than {LEAST_S} s for it; use a larger --scale");
            continue;
        }
        report.bar(Bar::lower(name, ours / theirs, "times", 1.0));
    }
}

/// A share of the table.
fn scaled(table: Table, scale: f64) -> Table {
    let v4 = table.prefixes().filter(|prefix| matches!(prefix, IpPrefix::V4(_))).count();
    let v6 = table.prefixes().count() - v4;
    let part = |count: usize| ((count as f64 * scale) as usize).max(100).min(count);
    table.thinned(Size { v4: part(v4), v6: part(v6) })
}

/// Adds three of the policies' communities to every second group of routes.
fn with_communities(mut table: Table) -> Table {
    for (number, group) in table.groups.iter_mut().enumerate().filter(|(number, _)| number % 2 == 0) {
        let rest = &mut group.attributes.rest;
        put_header(rest, 0xc0, code::COMMUNITIES, 12);
        for n in [number, number / 3 + 7, number / 5 + 90] {
            let (high, low) = community(n % COMMUNITIES);
            rest.extend_from_slice(&high.to_be_bytes());
            rest.extend_from_slice(&low.to_be_bytes());
        }
    }
    table
}

/// One neighbor announces the table.
fn workload(table: &Table) -> Result<Workload> {
    let voice = Voice {
        asn: Asn(FIRST_AS),
        internal: false,
        next_hop_v4: FEED,
        next_hop_v6: "2001:db8:1::2".parse()?,
        per_message: ANY_NUMBER,
        paths: 1,
    };
    let families = Families { v4: true, v6: true };
    let target_as = Asn(LOCAL_AS);
    let cast =
        Cast { voices: vec![voice], families, target_as, order: Order::Threads, mix: Mix::One, seed: 1 };
    cast.table(table, Scenario::Announce, Spread::Split, ANY_NUMBER)
}
