//! The one executable: the router, its components, and the tools around it.

mod call;
mod components;
mod connect;
mod output;
mod profile;
mod restart;
mod show;
mod status;

sluice_xrl::include_idl!();

use clap::{Args, CommandFactory, Parser, Subcommand};
use output::Failure;
use sluice_lab::LabCommand;
use sluice_manager_shell::{ConfigSource, StartOptions};
use sluice_shell::RunOptions;
use std::path::PathBuf;
use std::process::ExitCode;

/// An open router platform.
///
/// `sluice start` runs a router from a configuration file; `sluice show` looks at it; `sluice lab` builds whole networks of routers
/// in namespaces to try things in.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the router is.
#[derive(Args, Clone)]
struct Where {
    /// The router's run-time folder.
    #[arg(long, env = "SLUICE_RUN_DIR", default_value = "/run/sluice", global = true)]
    run_dir: PathBuf,
    /// Print one JSON document instead of text, errors too.
    #[arg(long, short = 'j', global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Starts the router and stays in the foreground until it is told to end (SIGTERM, Ctrl-C; SIGHUP reads the file again).
    Start {
        /// The configuration file.
        #[arg(long, short, default_value = "/etc/sluice/sluice.conf")]
        config: PathBuf,
        /// A folder with YANG modules of third-party components.
        #[arg(long, default_value = "/etc/sluice/yang")]
        yang_dir: PathBuf,
        #[command(flatten)]
        place: Where,
    },
    /// Runs one component; the router manager does this.
    #[command(hide = true)]
    Run {
        /// The component's class.
        component: String,
        #[command(flatten)]
        place: Where,
    },
    /// Succeeds if the router runs and all its components are ready.
    Status {
        #[command(flatten)]
        place: Where,
    },
    /// Works with configuration files.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Shows what the router does.
    Show {
        #[command(subcommand)]
        command: show::ShowCommand,
        #[command(flatten)]
        place: Where,
    },
    /// Replaces a component's process by a new one, which takes over all it has: no session drops, no packet is lost. If the new one
    /// does not come up or fails its check, the old one goes on, and the exit status is 1.
    Restart {
        #[command(flatten)]
        args: restart::RestartArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Does the same with another executable.
    Upgrade {
        #[command(flatten)]
        args: restart::UpgradeArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Calls a method of a component by its text form, or lists what there is to call.
    Call {
        #[command(flatten)]
        args: call::CallArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Follows routes on their way from the wire to the kernel and prints how long each step takes.
    Profile {
        #[command(flatten)]
        args: profile::ProfileArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Builds networks of routers in namespaces.
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Acts as any number of BGP peers, to measure and verify what a router makes of their routes.
    ///
    /// Senders announce a table or replay a trace; receivers compare what they are told with what they should be told, and take the
    /// time. Each peer needs an address of its own, because routers tell peers apart by it: --local is the first of them, and the
    /// router has to know them all as neighbors, senders first, each with the next AS. `--floor` shows what the client itself can do.
    Bgpsim(Box<sluice_bgpsim::BgpsimArgs>),
    /// Measures this executable's own parts.
    #[command(hide = true)]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Simulates whole networks of Sluice routers in one process, in virtual time.
    ///
    /// A large network runs until it has come to rest. A campaign runs many small ones with random faults and checks each; a network that
    /// fails is cut down and written to a file, from which --replay runs it again.
    Simulate(Box<sluice_sim::SimulateArgs>),
    /// Prints a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page, or writes one for each command into a folder.
    Man {
        /// The folder; without it the top page goes to standard output.
        #[arg(long)]
        into: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Where BGP's time goes in an UPDATE, beside the multicore BGP thesis; what each optimisation gains.
    BgpProfile(bench_profile::ProfileArgs),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Checks a file; says file, line, column and what was expected.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// A folder with YANG modules of third-party components.
        #[arg(long, default_value = "/etc/sluice/yang")]
        yang_dir: PathBuf,
        /// Print one JSON document instead of text.
        #[arg(long, short = 'j')]
        json: bool,
    },
}

fn source(file: PathBuf, yang_dir: PathBuf) -> ConfigSource {
    ConfigSource { file, builtins: components::BUILTINS, yang_dir: Some(yang_dir) }
}

fn main() -> ExitCode {
    let (result, json) = match Cli::parse().command {
        Command::Start { config, yang_dir, place } => {
            sluice_shell::start_log();
            let options = StartOptions { source: source(config, yang_dir), run_dir: place.run_dir };
            (sluice_manager_shell::start(options).map_err(Failure::from), place.json)
        }
        Command::Run { component, place } => {
            sluice_shell::start_log();
            let options = RunOptions { run_dir: place.run_dir };
            (components::run(&component, options).map_err(Failure::from), place.json)
        }
        Command::Config { command: ConfigCommand::Check { file, yang_dir, json } } => {
            (check(file, yang_dir, json), json)
        }
        Command::Status { place } => (status::run(&place), place.json),
        Command::Show { command, place } => (show::run(command, &place), place.json),
        Command::Restart { args, place } => (restart::restart(args, &place), place.json),
        Command::Upgrade { args, place } => (restart::upgrade(args, &place), place.json),
        Command::Call { args, place } => (call::run(args, &place), place.json),
        Command::Profile { args, place } => (profile::run(args, &place), place.json),
        Command::Lab { command } => {
            return sluice_lab::run(command).unwrap_or_else(|error| Failure::from(error).print(false));
        }
        Command::Bgpsim(args) => {
            return sluice_bgpsim::cli::run(&args)
                .unwrap_or_else(|error| Failure::from(error).print(args.json));
        }
        Command::Bench { command: BenchCommand::BgpProfile(args) } => {
            (bench_profile::run(&args).map_err(Failure::from), false)
        }
        Command::Simulate(args) => {
            return sluice_sim::cli::run(&args).unwrap_or_else(|error| Failure::from(error).print(args.json));
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "sluice", &mut std::io::stdout());
            (Ok(()), false)
        }
        Command::Man { into } => (man(into), false),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.print(json),
    }
}

fn check(file: PathBuf, yang_dir: PathBuf, json: bool) -> Result<(), Failure> {
    let shown = file.display().to_string();
    sluice_manager_shell::check(&source(file, yang_dir)).map_err(Failure::config)?;
    match json {
        true => output::json(&serde_json::json!({ "file": shown, "valid": true })),
        false => println!("{shown}: valid"),
    }
    Ok(())
}

fn man(into: Option<PathBuf>) -> Result<(), Failure> {
    let written = match into {
        Some(folder) => {
            std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(Cli::command(), &folder))
        }
        None => clap_mangen::Man::new(Cli::command()).render(&mut std::io::stdout()),
    };
    written.map_err(|e| Failure::from(anyhow::Error::from(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }
}
