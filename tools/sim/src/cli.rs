//! `sluice simulate`.

use crate::campaign::{self, Budget};
use crate::network::Network;
use crate::scenario::Scenario;
use crate::simulate::{self, Plan, Summary};
use crate::trace::Trace;
use crate::world::{MILLISECOND, SECOND, Settings};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use sluice_topology::Topology;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The arguments.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    /// The network: `waxman:N`, `ba:N`, `thesis`, `ring:N` and more, or a file (GraphML, BRITE, CAIDA), with options
    /// behind commas.
    #[arg(required_unless_present_any = ["campaign", "replay"], conflicts_with_all = ["campaign", "replay"])]
    pub topology: Option<String>,
    /// The seed of every random choice; in a campaign, the first seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of text.
    #[arg(long, short = 'j')]
    pub json: bool,
    /// Write every event to this file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Whole routers with RIB and FEA. Without the option, BGP alone, and a next hop on a link counts as connected.
    #[arg(long)]
    pub full: bool,
    /// Prefixes that a router originates.
    #[arg(long, default_value_t = 3)]
    pub prefixes_per_node: u32,
    /// Only so many routers, chosen by the seed, originate any.
    #[arg(long, value_name = "N")]
    pub originating: Option<usize>,
    /// The longest virtual time in seconds.
    #[arg(long, default_value_t = 3600, value_name = "SECONDS")]
    pub until: u64,
    /// The reaction time of a router, in milliseconds; messages that arrive meanwhile are handled together.
    #[arg(long, default_value_t = 50, value_name = "MILLISECONDS")]
    pub reaction: u64,
    /// Write the input of the routers named by --vantage to an MRT file; times are virtual.
    #[arg(long, value_name = "FILE")]
    pub mrt: Option<PathBuf>,
    /// Numbers of routers, from 0.
    #[arg(long, num_args = 1.., value_delimiter = ',', default_value = "0", value_name = "NODE")]
    pub vantage: Vec<u32>,

    /// Run small random networks with random faults and changes, and check each network at rest.
    #[arg(long, conflicts_with = "replay")]
    pub campaign: bool,
    /// Number of networks that a campaign runs, with consecutive seeds.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub seeds: u64,
    /// Seconds that a campaign may take.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// Networks that run at a time; if absent, the number of processors.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Do not reduce a failing network.
    #[arg(long, requires = "campaign")]
    pub as_found: bool,
    /// The file for the reduced failing network of a campaign; `sluice-simulate-SEED.json` if absent.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Repeat a failing network, from the file that a campaign wrote.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
}

/// Simulates. The status is 0 if the network converged and no condition was broken. `document` prints a JSON document.
pub fn run(args: &SimulateArgs, document: &dyn Fn(&Value)) -> Result<ExitCode> {
    if let Some(file) = &args.replay {
        return replay(args, file, document);
    }
    if args.campaign {
        return run_campaign(args, document);
    }
    let spec = args.topology.as_deref().unwrap_or_default();
    let topology = Topology::parse_spec(spec, args.seed).with_context(|| format!("topology {spec}"))?;
    let summary = run_network(args, (&topology).into())?;
    if args.json {
        document(&serde_json::to_value(&summary)?);
    } else {
        print(&summary);
    }
    Ok(if summary.quiet { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_network(args: &SimulateArgs, mut network: Network) -> Result<Summary> {
    if let Some(fault) = network.fault() {
        bail!("the topology: {fault}");
    }
    ensure!(
        args.vantage.iter().all(|v| (*v as usize) < network.nodes.len()),
        "--vantage: there are {} routers, from 0",
        network.nodes.len()
    );
    simulate::originate(&mut network, args.prefixes_per_node);
    if let Some(count) = args.originating {
        simulate::thin(&mut network, count, args.seed);
    }
    let base = if args.full { Settings::full() } else { Settings::light() };
    let settings = Settings { reaction: (args.reaction * MILLISECOND).max(1), ..base };
    let trace = args.mrt.as_deref().map(Trace::create).transpose().context("--mrt")?;
    let log = args.log.as_deref().map(create_log).transpose()?;
    let plan = Plan { network, seed: args.seed, settings, until: args.until, boot_spread: SECOND };
    let (summary, world) = simulate::run(plan, |world| {
        if let Some(trace) = &trace {
            world.tap(trace.tap(args.vantage.iter().copied().collect()));
        }
        if let Some(log) = log {
            world.fabric.history.log_to(log);
        }
    });
    drop(world);
    if let Some(trace) = trace {
        trace.finish().context("--mrt")?;
    }
    Ok(summary)
}

fn create_log(path: &Path) -> Result<crate::fabric::history::Log> {
    let file = File::create(path).with_context(|| format!("{}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

fn print(s: &Summary) {
    let rest = if s.quiet { "came to rest" } else { "did not come to rest" };
    sluice_print::outln!("routers {}, links {}, prefixes {}: {rest}", s.routers, s.links, s.prefixes);
    sluice_print::outln!("sessions up         {}", s.sessions);
    sluice_print::outln!("routes in tables    {} ({} routers have every prefix)", s.routes, s.complete);
    sluice_print::outln!("UPDATEs received    {}", s.updates);
    sluice_print::outln!("virtual time        {:.3} s", s.virtual_seconds);
    sluice_print::outln!("real time           {:.2} s", s.seconds);
    sluice_print::outln!("events              {} ({:.0} a second)", s.events, s.events_per_second);
    sluice_print::outln!("memory              {:.0} MB", s.memory as f64 / 1e6);
    sluice_print::outln!("history             {}", s.history);
}

fn run_campaign(args: &SimulateArgs, document: &dyn Fn(&Value)) -> Result<ExitCode> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let report = campaign::campaign(&Budget {
        first: args.seed,
        seeds: args.seeds,
        time: args.seconds.map(Duration::from_secs),
        jobs: args.jobs.unwrap_or(processors),
        shrink: !args.as_found,
    });
    let failure = report.failure.as_ref();
    let file = failure.map(|(scenario, _)| {
        args.save.clone().unwrap_or_else(|| format!("sluice-simulate-{}.json", scenario.seed).into())
    });
    if let (Some((scenario, _)), Some(file)) = (failure, &file) {
        std::fs::write(file, serde_json::to_string_pretty(scenario)? + "\n")
            .with_context(|| format!("{}", file.display()))?;
    }
    let per_second = report.seeds as f64 / report.seconds.max(1e-9);
    if args.json {
        document(&json!({
                "seeds": report.seeds, "events": report.events, "virtual_seconds": report.virtual_seconds,
                "seconds": report.seconds, "seeds_per_second": per_second,
                "failed": failure.map(|(s, _)| s.seed), "wrong": failure.map(|(_, w)| w), "file": file,
        }));
    } else {
        sluice_print::outln!(
            "{} networks, {} events, {} virtual hours in {:.1} s: {per_second:.0} networks a second",
            report.seeds,
            report.events,
            report.virtual_seconds / 3600,
            report.seconds
        );
    }
    let (Some((scenario, wrong)), Some(file)) = (failure, file) else { return Ok(ExitCode::SUCCESS) };
    if !args.json {
        sluice_print::outln!("seed {} fails:", scenario.seed);
        wrong.iter().for_each(|w| sluice_print::outln!("  {w}"));
        sluice_print::outln!("repeat it with: sluice simulate --replay {}", file.display());
    }
    Ok(ExitCode::FAILURE)
}

fn replay(args: &SimulateArgs, file: &Path, document: &dyn Fn(&Value)) -> Result<ExitCode> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("{shown}"))?;
    let scenario = Scenario::parse(&text).with_context(|| format!("{shown}"))?;
    let log = args.log.as_deref().map(create_log).transpose()?;
    let outcome = campaign::run(&scenario, log);
    if args.json {
        document(&json!({
                "seed": scenario.seed, "events": outcome.events, "virtual_seconds": outcome.virtual_seconds,
                "history": format!("{:016x}", outcome.history), "wrong": outcome.wrong,
        }));
    } else {
        sluice_print::outln!("{} events, {} virtual seconds", outcome.events, outcome.virtual_seconds);
        outcome.wrong.iter().for_each(|w| sluice_print::outln!("  {w}"));
    }
    Ok(if outcome.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
