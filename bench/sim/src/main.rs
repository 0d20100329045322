//! The simulator: a network of 1,000 routers from the first OPEN until rest, a network of 10,000 routers of which few
//! originate prefixes, and the number of a campaign's networks that a core runs in a second. `make bench-sim`.

use anyhow::{Context, Result, ensure};
use bench_report::{Bar, Report, median, table};
use clap::Parser;
use serde_json::{Value, json};
use sluice_sim::campaign::{self, Budget};
use sluice_sim::network::Network;
use sluice_sim::simulate::{self, Plan};
use sluice_sim::world::{MILLISECOND, SECOND, Settings};
use sluice_topology::Topology;
use std::process::Command;
use std::time::Duration;

/// Seed of every random choice: a benchmark has a single history.
const SEED: u64 = 1;
/// A campaign's share of the time, in seconds.
const CAMPAIGN: Duration = Duration::from_secs(10);

/// A simulated network.
struct Case {
    name: &'static str,
    topology: &'static str,
    prefixes: u32,
    /// Routers that originate; `None`: every router.
    originating: Option<usize>,
}

const CASES: [Case; 2] = [
    Case { name: "1000_routers", topology: "waxman:1000,m=6", prefixes: 3, originating: None },
    Case { name: "10000_stubs", topology: "ba:10000,m=2", prefixes: 1, originating: Some(100) },
];

/// The simulator: large networks, and campaigns.
#[derive(Parser)]
struct Args {
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Runs only the given case, once, in the current process, and prints its figures as JSON.
    #[arg(long, hide = true)]
    one: Option<usize>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(case) = args.one {
        println!("{}", one(CASES.get(case).context("no such case")?)?);
        return Ok(());
    }
    let mut report = Report::begin("sim");
    let mut lines = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let runs = (0..args.rounds.max(1)).map(|_| apart(number)).collect::<Result<Vec<Value>>>()?;
        let middle = |key: &str| median(&runs.iter().filter_map(|r| r[key].as_f64()).collect::<Vec<f64>>());
        ensure!(runs.iter().all(|r| r["history"] == runs[0]["history"]), "one seed had two histories");
        let (seconds, gb) = (middle("seconds"), middle("memory") / 1e9);
        lines.push(vec![
            case.name.to_owned(),
            runs[0]["sessions"].to_string(),
            format!("{seconds:.1}"),
            format!("{gb:.2}"),
            format!("{:.0}", middle("events_per_second")),
            format!("{:.0}", middle("updates") / seconds),
        ]);
        if case.originating.is_none() {
            report.bar(Bar::lower("sim.1000_routers_s", seconds, "s", 60.0));
            report.bar(Bar::lower("sim.1000_routers_gb", gb, "GB", 4.0));
        }
        runs.into_iter().for_each(|run| report.row(json!({ "case": case.name, "run": run })));
    }
    println!("{}", table(&["network", "sessions", "s", "GB", "events/s", "UPDATEs/s"], &lines));
    let budget = Budget { first: SEED, seeds: u64::MAX, time: Some(CAMPAIGN), jobs: 1, shrink: true };
    let campaign = campaign::campaign(&budget);
    ensure!(campaign.failure.is_none(), "a campaign found a bug: `sluice simulate --campaign` names it");
    let rate = campaign.seeds as f64 / campaign.seconds;
    println!("campaign: {rate:.0} networks a second on one core");
    report.row(json!({ "case": "campaign", "networks_per_second": rate, "events": campaign.events }));
    report.finish(&[])?;
    Ok(())
}

/// Runs a case in a process of its own, so that the memory is the case's alone.
fn apart(case: usize) -> Result<Value> {
    let program = std::env::current_exe()?;
    let output = Command::new(program).args(["--one", &case.to_string()]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn one(case: &Case) -> Result<Value> {
    let mut network = Network::from(&Topology::parse_spec(case.topology, SEED)?);
    simulate::originate(&mut network, case.prefixes);
    if let Some(count) = case.originating {
        simulate::thin(&mut network, count, SEED);
    }
    let settings = Settings { reaction: 50 * MILLISECOND, ..Settings::light() };
    let plan = Plan { network, seed: SEED, settings, until: 3600, boot_spread: SECOND };
    let (summary, _) = simulate::run(plan, |_| {});
    ensure!(
        summary.quiet && summary.complete == summary.routers,
        "not everything is known everywhere: {summary:?}"
    );
    Ok(serde_json::to_value(summary)?)
}
