//! Command-line options of benchmarks with a full table.

use anyhow::Result;
use sluice_load::RoutingTable;
use sluice_load::counts::sluice_program;
use sluice_load::source::{self, TableSource};
use std::path::PathBuf;

/// The table and the router.
#[derive(clap::Args, Clone, Debug)]
pub struct TableArgs {
    /// At most this many IPv4 prefixes of the full table.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv4: usize,
    /// At most this many IPv6 prefixes of the full table.
    #[arg(long, default_value_t = usize::MAX)]
    max_ipv6: usize,
    /// The Sluice executable; if absent, the executable beside the program.
    #[arg(long)]
    sluice: Option<PathBuf>,
}

impl TableArgs {
    /// Returns the path of the Sluice executable.
    pub fn sluice(&self) -> Result<PathBuf> {
        sluice_program(self.sluice.as_deref())
    }

    /// Returns the requested part of the full table and its source; prints both.
    pub fn table(&self) -> Result<(RoutingTable, TableSource)> {
        let (table, source) = source::find(None)?;
        let table = table.thinned(self.max_ipv4, self.max_ipv6);
        println!("full table: {source}: {} IPv4 and {} IPv6 prefixes", table.v4.len(), table.v6.len());
        Ok((table, source))
    }
}
