//! The main job on real input: `make demo`.
//!
//! Two BIRD feeds with the Internet's table, a Sluice router, an FRR neighbor, hosts on both ends, each in a namespace
//! of its own. The router learns, chooses, resolves, installs, re-advertises and forwards; then a feed dies. The counts
//! of every router must agree.

#![warn(clippy::disallowed_macros)]

mod network;
mod packets;
mod report;
mod run;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// A Sluice router between real neighbors takes the Internet's table and forwards packets.
#[derive(Parser)]
struct Args {
    /// A table of your own: an MRT dump, or prefixes one a line (also .gz, .bz2, .xz, .zst).
    #[arg(long)]
    table: Option<PathBuf>,
    /// At most this many IPv4 prefixes, for a quick look.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv4: usize,
    /// At most this many IPv6 prefixes.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv6: usize,
    /// Leave everything running and say how to look around.
    #[arg(long)]
    keep: bool,
    /// The Sluice executable; by default the executable beside the demo.
    #[arg(long)]
    sluice: Option<PathBuf>,
    /// Where the summary goes.
    #[arg(long, default_value = "target/demo/summary.json")]
    summary: PathBuf,
    /// For the demo itself: what runs on the hosts.
    #[command(subcommand)]
    host: Option<packets::HostCommand>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(command) = args.host {
        return packets::run(command);
    }
    match run::demo(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            sluice_print::errln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}
