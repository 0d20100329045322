//! `sluice show`: what the router does, as a table or as JSON.

mod bgp;
mod interfaces;
mod processes;
mod routes;
mod targets;

use crate::Where;
use crate::connect::with_router;
use crate::output::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum ShowCommand {
    /// Interfaces and their addresses.
    Interfaces,
    /// Routes: of the RIB, or of the kernel; all, one prefix, or the one that an address is forwarded by.
    #[command(alias = "route")]
    Routes(routes::RoutesArgs),
    /// BGP: sessions, neighbours, routes.
    Bgp {
        #[command(subcommand)]
        command: bgp::BgpCommand,
    },
    /// Counts of the RIB's tables, and of the forwarding engine.
    Summary,
    /// The router's processes.
    Processes,
    /// Targets that can be called, with their interfaces.
    Targets,
}

/// Shows.
pub fn run(command: ShowCommand, place: &Where) -> Result<(), Failure> {
    let json = place.json;
    with_router(place, move |router| async move {
        match command {
            ShowCommand::Interfaces => interfaces::show(&router, json).await,
            ShowCommand::Routes(args) => routes::show(&router, args, json).await,
            ShowCommand::Bgp { command } => bgp::show(&router, command, json).await,
            ShowCommand::Summary => routes::summary(&router, json).await,
            ShowCommand::Processes => processes::show(&router, json).await,
            ShowCommand::Targets => targets::show(&router, json).await,
        }
    })
}
