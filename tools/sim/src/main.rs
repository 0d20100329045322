//! `sluice simulate` as a separate program, for users who build only the simulator.

#![warn(clippy::disallowed_macros)]

use clap::Parser;
use sluice_sim::SimulateArgs;
use std::process::ExitCode;

/// Simulates whole networks of Sluice routers in one process, in virtual time.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: SimulateArgs,
}

fn main() -> anyhow::Result<ExitCode> {
    sluice_sim::cli::run(&Cli::parse().args, &|document| sluice_print::outln!("{document:#}"))
}
