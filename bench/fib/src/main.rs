//! Routes into the kernel: a full table from BGP to the kernel, by Sluice and by BIRD 2 in turn; the FEA's path beside a bare
//! netlink loop; a next hop changed under a full table. `make bench-fib`, as root; in network namespaces of its own.

mod full_table;
mod netlink;
mod network;
mod paths;

use anyhow::{Context, Result};
use bench_report::Report;
use clap::{Parser, ValueEnum};
use sluice_load::counts::sluice_program;
use std::path::PathBuf;

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
    /// At most this many IPv4 prefixes of the full table.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv4: usize,
    /// At most this many IPv6 prefixes of the full table.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv6: usize,
    /// Made-up routes for the netlink part.
    #[arg(long, default_value_t = 1_000_000)]
    routes: usize,
    /// The Sluice executable; the one beside this program if absent.
    #[arg(long)]
    sluice: Option<PathBuf>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    sluice_lab::available().context("labs cannot be made here")?;
    bench_lab::adopt_orphans()?;
    let mut report = Report::begin("fib");
    let mut plots = Vec::new();
    if args.only != Some(Part::Netlink) {
        let sluice = sluice_program(args.sluice.as_deref())?;
        let (table, source) = sluice_load::source::find(None)?;
        let table = table.thinned(args.max_ipv4, args.max_ipv6);
        println!("full table: {source}: {} IPv4 and {} IPv6 prefixes", table.v4.len(), table.v6.len());
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
