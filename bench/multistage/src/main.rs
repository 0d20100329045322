//! A router of many machines: one balancer beside one router, and the router's rate by the numbers of balancers and routers. Figures 2, 5
//! and 6 of "Multistage Switching Architectures for Software Routers" (Bianco et al., IEEE Network, 2007), with the paper's numbers.
//! `make bench-multistage`, as root; in network namespaces of its own.

mod capped;
mod element;
mod inner;
mod single;

use anyhow::{Context, Result};
use bench_report::{Plot, Report};
use clap::{Parser, ValueEnum};
use std::path::Path;

/// The rate of a balancer of the paper: the line rate of 1 Gbit/s Ethernet with frames of 64 octets, in packets a second.
pub const PAPER_BALANCER: f64 = 1_488_000.0;
/// The rate of a router of the paper, with the same frames.
pub const PAPER_ROUTER: f64 = 640_000.0;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One balancer beside one router, by processor time and frame size (figure 2).
    Single,
    /// The balancer by the number of inner interfaces (figure 5).
    Inner,
    /// The router by the numbers of balancers and routers (figure 6).
    Capped,
}

/// A router of many machines.
#[derive(Parser)]
struct Args {
    /// Only these parts.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Alternating runs of each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// The share of the paper's rates to which elements are capped: one machine has to run all elements.
    #[arg(long, default_value_t = 0.01)]
    share: f64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    let pins = tempfile::tempdir()?;
    bench_forward::router::mount_pins(pins.path())?;
    let result = run(&args, pins.path());
    nix::mount::umount2(pins.path(), nix::mount::MntFlags::MNT_DETACH)?;
    result
}

fn run(args: &Args, pins: &Path) -> Result<()> {
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = Report::begin("multistage");
    let mut plots: Vec<(&'static str, Plot)> = Vec::new();
    if wanted(Part::Single) {
        plots.push(("-sizes", single::run(args.rounds, args.seconds, pins, &mut report)?));
    }
    if wanted(Part::Inner) {
        plots.push(("-figure-5", inner::run(args.share, args.seconds, &mut report)?));
    }
    if wanted(Part::Capped) {
        plots.push(("-figure-6", capped::run(args.share, args.seconds, pins, &mut report)?));
    }
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (*suffix, plot)).collect();
    report.finish(&plots)?;
    Ok(())
}
