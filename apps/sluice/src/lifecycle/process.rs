//! The commands whose process stays: the router's manager, its components, and their launchers.
//!
//! These commands have a parser of their own. The parser of all commands touches code and memory all over the executable, 2.5 MB of
//! resident memory that each process of a router would keep.

use crate::lifecycle::confine::{self, ConfineArgs};
use crate::output::{self, Failure};
use crate::{Where, components, source, state_dir};
use clap::{Parser, Subcommand};
use sluice_base::{TableId, class_of, instance_of};
use sluice_manager_process::StartOptions;
use sluice_process::RunOptions;
use std::path::PathBuf;
use std::process::ExitCode;

/// A command that starts a process of a router.
#[derive(Subcommand)]
pub enum ProcessCommand {
    /// Starts the router and stays in the foreground until it is asked to end (SIGTERM, Ctrl-C; SIGHUP reads the file again).
    Start {
        /// The configuration file.
        #[arg(long, short, default_value = "/etc/sluice/sluice.conf")]
        config: PathBuf,
        /// The folder with the packages of third-party components.
        #[arg(long, default_value = "/etc/sluice/packages")]
        packages_dir: PathBuf,
        /// The folder of the committed configurations; `/var/lib/sluice` if absent, or `state` in a run-time folder
        /// other than the default.
        #[arg(long)]
        state_dir: Option<PathBuf>,
        /// The first of 256 users that component classes get; no user or group of the host may have one of the numbers.
        #[arg(long, default_value_t = sluice_sandbox::users::FIRST)]
        first_user: u32,
        #[command(flatten)]
        place: Where,
    },
    /// Confines itself and executes a component's program; started by the router manager.
    #[command(hide = true)]
    Confine(ConfineArgs),
    /// Reads packages' modules with bounds of time and memory; started before the router reads them.
    #[command(hide = true)]
    TryPackages {
        /// The packages' folders.
        folders: Vec<PathBuf>,
    },
    /// Runs a component; started by the router manager.
    #[command(hide = true)]
    Run {
        /// The component's class, or CLASS@INSTANCE where a class runs several times.
        component: String,
        /// The routing table of the instance.
        #[arg(long, default_value_t = TableId::MAIN.0)]
        table: u32,
        #[command(flatten)]
        place: Where,
    },
}

/// The program as far as processes of a router need the program.
#[derive(Parser)]
#[command(name = "sluice", version, propagate_version = true)]
struct ProcessCli {
    #[command(subcommand)]
    command: ProcessCommand,
}

/// Returns true if a command line starts a process of a router.
pub fn is_process(args: &[String]) -> bool {
    args.first().is_some_and(|first| ProcessCommand::has_subcommand(first))
}

/// Parses the program's arguments.
///
/// # Errors
///
/// If the arguments are refused, or ask for help or the version.
pub fn parse() -> Result<ProcessCommand, clap::Error> {
    ProcessCli::try_parse().map(|cli| cli.command)
}

impl ProcessCommand {
    /// Runs the process until its end.
    pub fn run(self) -> ExitCode {
        let (result, json) = match self {
            ProcessCommand::Start { config, packages_dir, state_dir: chosen, first_user, place } => {
                sluice_manager_process::close_inherited();
                sluice_manager_process::permit_descriptors();
                sluice_process::start_log("manager");
                let state_dir = chosen.unwrap_or_else(|| state_dir(&place.run_dir));
                let source = source(config, packages_dir, state_dir);
                let options = StartOptions { source, run_dir: place.run_dir, first_user };
                (sluice_manager_process::start(options).map_err(output::start_failure), place.json)
            }
            ProcessCommand::Confine(args) => return confine::run(args),
            ProcessCommand::TryPackages { folders } => {
                let tried = sluice_manager_process::try_packages(components::BUILTINS, &folders);
                (tried.map_err(|error| Failure::io("bounds", &error)), false)
            }
            ProcessCommand::Run { component, table, place } => {
                sluice_process::start_log(&component);
                let instance = instance_of(&component).map(Into::into);
                let options = RunOptions { run_dir: place.run_dir, instance, table: TableId(table) };
                (components::run(class_of(&component), options).map_err(output::start_failure), place.json)
            }
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => output::fail(&failure, json),
        }
    }
}
