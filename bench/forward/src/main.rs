//! Packets forwarded by XDP beside the kernel, in the same run on the same prefixes, per processor second of the router's own
//! threads; the cost of the chain alone; a full table loaded; packets under churn; a next hop changed under a million routes.
//! `make bench-forward`, as root; in network namespaces of its own.

mod chain;
mod churn;
mod figures;
mod loading;
mod rates;
mod repoint;

use anyhow::{Context, Result};
use bench_forward::{is_forwarded, router};
use bench_lab::TableArgs;
use bench_report::Report;
use clap::{Parser, ValueEnum};
use sluice_base::IpPrefix;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The chain without forwarding.
    Chain,
    /// Rates beside the kernel.
    Rates,
    /// The full table loaded.
    Loading,
    /// Rates under churn.
    Churn,
    /// A next hop changed.
    Repoint,
    /// The figures of Uppsala's appendix A.
    Figures,
}

/// Packets forwarded by XDP beside the kernel.
#[derive(Parser)]
struct Args {
    /// Only these parts.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Only the figures of Uppsala's appendix A.
    #[arg(long, conflicts_with = "only")]
    figures: bool,
    /// Alternating runs of each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[command(flatten)]
    full: TableArgs,
}

/// The real prefixes by family.
pub struct Prefixes {
    /// IPv4, without those that hosts and multicast have.
    pub ipv4: Vec<IpPrefix>,
    /// IPv6.
    pub ipv6: Vec<IpPrefix>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    let pins = tempfile::tempdir()?;
    router::mount_pins(pins.path())?;
    let result = run(&args, pins.path());
    nix::mount::umount2(pins.path(), nix::mount::MntFlags::MNT_DETACH)?;
    result
}

fn run(args: &Args, pins: &std::path::Path) -> Result<()> {
    let only: &[Part] = if args.figures { &[Part::Figures] } else { &args.only };
    let wanted = |part| only.is_empty() || only.contains(&part);
    let mut report = Report::begin("forward");
    if wanted(Part::Chain) {
        chain::run(&mut report)?;
    }
    let (table, _) = args.full.table()?;
    let prefixes = Prefixes {
        ipv4: table.v4.iter().map(|a| a.prefix).filter(is_forwarded).collect(),
        ipv6: table.v6.iter().map(|a| a.prefix).collect(),
    };
    if wanted(Part::Rates) {
        rates::run(&prefixes, args.rounds, args.seconds, pins, &mut report)?;
    }
    if wanted(Part::Loading) {
        loading::run(&prefixes, args.rounds, pins, &mut report)?;
    }
    if wanted(Part::Churn) {
        churn::run(&prefixes, args.rounds, args.seconds, pins, &mut report)?;
    }
    if wanted(Part::Repoint) {
        repoint::run(&prefixes, args.rounds, pins, &mut report)?;
    }
    let mut plots = Vec::new();
    if wanted(Part::Figures) {
        plots = figures::run(&prefixes, args.rounds, args.seconds, pins, &mut report)?;
    }
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (*suffix, plot)).collect();
    report.finish(&plots)?;
    Ok(())
}
