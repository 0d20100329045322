//! Routes into the kernel: a full table from BGP to the kernel, by Sluice and by BIRD 2 in turn; the FEA's path beside a bare
//! netlink loop; a next hop changed under a full table. `make bench-fib`, as root; in network namespaces of its own.

mod full_table;
mod netlink;
mod network;
mod paths;

use anyhow::{Context, Result};
use bench_lab::TableArgs;
use bench_report::Report;
use clap::{Parser, ValueEnum};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The full table beside BIRD.
    FullTable,
    /// The FEA beside a bare loop, and changed next hops.
    Netlink,
}

/// Routes into the kernel, beside peers in the same run.
#[derive(Parser)]
struct Args {
    /// Only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Alternating runs of each.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Made-up routes for the netlink part.
    #[arg(long, default_value_t = 1_000_000)]
    routes: usize,
    #[command(flatten)]
    full: TableArgs,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let mut report = Report::begin("fib");
    let mut plots = Vec::new();
    if args.only != Some(Part::Netlink) {
        let sluice = args.full.sluice()?;
        let (table, source) = args.full.table()?;
        let runs = full_table::run(&sluice, &table, args.rounds)?;
        plots = full_table::report(&runs, &table, &source.to_string(), &mut report);
    }
    if args.only != Some(Part::FullTable) {
        netlink::run(args.routes, args.rounds, &mut report)?;
    }
    bench_lab::reap_orphans();
    let plots: Vec<_> = plots.iter().map(|(suffix, plot)| (*suffix, plot)).collect();
    report.finish(&plots)?;
    Ok(())
}
