//! XIP forwarded by Sluice beside IPv4 forwarded by the kernel and by Sluice: figure 5 of "Linux XIA: An Interoperable Meta Network
//! Architecture to Crowdsource the Future Internet" (ANCS 2015). The rates are packets per processor second of the router's own
//! threads. Two more parts need no network: decisions on rows that were never seen, by themselves and in packets, and useful rows in a flood of unique rows.
//! `make bench-xia`, as root; in network namespaces of its own.

mod beds;
mod cases;
mod domains;
mod figure;
mod flood;
mod punts;
mod rows;
mod slots;
mod slow_path;
mod sockets;
mod xia;

use anyhow::{Context, Result};
use bench_report::Report;
use cases::Part;
use clap::Parser;
use domains::Domains;
use std::path::Path;

/// Domains of the paper: the blocks of a snapshot of Route Views.
const PAPER_DOMAINS: f64 = 462_150.0;

/// XIP forwarded beside IPv4.
#[derive(Parser)]
struct Args {
    /// Only these parts.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Only the figure: both panels with four ports as in the paper, Zipf exponents from 0 to 2, and sizes and ports.
    #[arg(long, conflicts_with = "only")]
    figures: bool,
    /// The share of the paper's 462,150 domains.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// All prefixes of the table as domains, 1,042,325 of the Internet's.
    #[arg(long, conflicts_with = "scale")]
    all_prefixes: bool,
    /// Alternating runs of each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let parts: Vec<Part> = if args.figures {
        Part::FIGURES.to_vec()
    } else if args.only.is_empty() {
        Part::ALL.to_vec()
    } else {
        args.only.clone()
    };
    let mut report = Report::begin("xia");
    let most = (PAPER_DOMAINS * args.scale).max(1.0) as usize;
    let domains = Domains::read(if args.all_prefixes { usize::MAX } else { most })?;
    if parts.contains(&Part::SlowPath) {
        slow_path::run(&domains, args.rounds, &mut report)?;
        punts::run(&domains, args.rounds, &mut report)?;
    }
    if parts.contains(&Part::Flood) {
        flood::run(&domains, &mut report)?;
    }
    if parts.contains(&Part::Slots) {
        slots::run(args.rounds, &mut report)?;
    }
    let mut plots = Vec::new();
    let cases = cases::list(&parts, args.figures);
    let has_sockets = parts.contains(&Part::Sockets);
    if !cases.is_empty() || has_sockets {
        sluice_lab::available().context("labs cannot be made here")?;
        let pins = tempfile::tempdir()?;
        bench_forward::router::mount_pins(pins.path())?;
        let sockets = match has_sockets {
            true => sockets::run(&domains, args.rounds, pins.path(), &mut report),
            false => Ok(()),
        };
        let figure = measured(&args, &cases, &domains, pins.path(), &mut report);
        nix::mount::umount2(pins.path(), nix::mount::MntFlags::MNT_DETACH)?;
        sockets?;
        plots = figure?;
    }
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (*suffix, plot)).collect();
    report.finish(&plots)?;
    Ok(())
}

fn measured(
    args: &Args,
    cases: &[cases::Case],
    domains: &Domains,
    pins: &Path,
    report: &mut Report,
) -> Result<Vec<(&'static str, bench_report::Plot)>> {
    let results = figure::measure(cases, domains, args.rounds, args.seconds, pins)?;
    Ok(figure::report(&results, report))
}
