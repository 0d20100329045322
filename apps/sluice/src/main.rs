//! The executable: the router, its components, and the tools around the router.

#![warn(clippy::disallowed_macros)]

mod command_line;
mod commands;
mod components;
mod configuration;
mod connection;
mod doctor;
mod lifecycle;
mod manual;
mod observe;
mod output;
mod packages;
mod schemas;
mod shell;
mod shipped;
mod show;

use clap::{Args, Parser, Subcommand};
use output::Failure;
use sluice_lab::LabCommand;
use sluice_manager_process::ConfigSource;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An open router platform.
///
/// `sluice start` runs a router from a configuration file. `sluice` alone opens the interactive shell, where `?` lists
/// the possible next words; its commands (`show ...`, `configure ...`, `monitor`) are also commands by themselves.
/// `sluice lab` builds whole networks of routers in namespaces, for experiments.
#[derive(Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Options that name the router.
#[derive(Args, Clone)]
struct Where {
    /// The router's run-time folder.
    #[arg(long, env = "SLUICE_RUN_DIR", default_value = "/run/sluice", global = true)]
    run_dir: PathBuf,
    /// Print one JSON document instead of text, errors too.
    #[arg(long, short = 'j', global = true)]
    json: bool,
    /// Print all at once, also on a terminal.
    #[arg(long, global = true, hide = true)]
    no_pager: bool,
    /// No colors, also on a terminal.
    #[arg(long, global = true, hide = true)]
    no_color: bool,
    /// No remarks beside the result.
    #[arg(long, short = 'q', global = true, hide = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Process(lifecycle::process::ProcessCommand),
    /// Works with configuration files.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Works with policies.
    Policy {
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Works with packages of third parties.
    Package {
        #[command(subcommand)]
        command: packages::PackageCommand,
    },
    /// Writes the first files of a package with a protocol of your own. What is written can be built and installed.
    NewProtocol {
        #[command(flatten)]
        args: packages::new_protocol::NewProtocolArgs,
    },
    /// Makes the certificates by which the elements of a cluster trust each other.
    Cluster {
        #[command(subcommand)]
        command: components::ElementCommand,
    },
    /// Shows what a component may do, in words.
    Rights {
        #[command(subcommand)]
        command: RightsCommand,
    },
    /// Replaces a component's process by a new process, which takes over the whole state: no session drops, no packet
    /// is lost. If the new process fails to start or fails its check, the old process goes on, and the exit status is
    /// 1.
    Restart {
        #[command(flatten)]
        args: lifecycle::restart::RestartArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Does the same with another executable.
    Upgrade {
        #[command(flatten)]
        args: lifecycle::restart::UpgradeArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Calls a method of a component by its text form, or lists the methods.
    Call {
        #[command(flatten)]
        args: command_line::call::CallArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Follows routes on their way from the wire to the kernel and prints how long each step takes.
    Profile {
        #[command(flatten)]
        args: observe::profile::ProfileArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Builds networks of routers in namespaces.
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Acts as any number of BGP peers, to measure and verify a router's handling of their routes.
    ///
    /// Senders announce a table or replay a trace; receivers compare received routes with the expected routes, and take
    /// the time. Each peer needs an address of its own, because routers identify peers by their address: --local is
    /// the first address, and the router must have every peer as a neighbor, senders first, each with the next AS.
    /// `--floor` measures the client itself.
    Bgpsim(Box<sluice_bgpsim::BgpsimArgs>),
    /// Sends and counts packets, and replays captures.
    ///
    /// `send` writes numbered UDP packets by an XDP program, millions a second; `count` is the other end. Both work in the network
    /// namespace in which they are started: `sluice lab exec NODE sluice pktgen ...`. Outside of labs, sending needs the interface's
    /// name twice.
    Pktgen {
        #[command(subcommand)]
        command: sluice_pktgen::PktgenCommand,
    },
    /// Measures this executable's own parts.
    #[command(hide = true)]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Simulates whole networks of Sluice routers in a single process, in virtual time.
    ///
    /// A large network runs until convergence. A campaign runs many small networks with random faults and checks each;
    /// a failing network is reduced and written to a file, which --replay runs again.
    Simulate(Box<sluice_sim::SimulateArgs>),
    /// Prints the JSON Schema of a command's output with --json; without a command every schema.
    Schema {
        /// The command's words.
        command: Vec<String>,
    },
    /// Prints a completion script for a shell.
    Completions {
        /// The shell.
        shell: command_line::completions::Shell,
    },
    /// Prints the completions of a line; called by completion scripts.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The shell.
        shell: command_line::completions::Shell,
        /// The line up to the cursor, the program's name included.
        #[arg(allow_hyphen_values = true)]
        line: String,
    },
    /// Shows a command's manual page, or writes the pages of every command into a folder.
    ///
    /// At a terminal man(1) shows the page; otherwise its source goes to standard output.
    Man {
        /// The command's words; the page of the program without any.
        command: Vec<String>,
        /// The folder.
        #[arg(long, conflicts_with = "command")]
        into: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Prints BGP's time by function of an UPDATE, beside the multicore BGP thesis, and the gain of each optimization.
    BgpProfile(bench_profile::ProfileArgs),
}

#[derive(Subcommand)]
enum RightsCommand {
    /// Prints everything that a component may do.
    Show {
        /// A component of the router, a package, or the path of a package's folder or of a rights.toml.
        component: String,
        #[command(flatten)]
        options: RightsOptions,
    },
    /// Prints what a component may do in addition, and what it may not do any more.
    Diff {
        /// The rights before, named as for `show`.
        old: String,
        /// The rights after.
        new: String,
        #[command(flatten)]
        options: RightsOptions,
    },
}

#[derive(clap::Args)]
struct RightsOptions {
    /// The folder with the packages of third-party components.
    #[arg(long, default_value = "/etc/sluice/packages")]
    packages_dir: PathBuf,
    #[command(flatten)]
    place: Where,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Checks a file; prints file, line, column and what was expected.
    Check {
        /// The configuration file.
        file: PathBuf,
        /// The folder with the packages of third-party components.
        #[arg(long, default_value = "/etc/sluice/packages")]
        packages_dir: PathBuf,
        #[command(flatten)]
        place: Where,
    },
    /// Compares the behavior of the last committed configuration, perhaps committed by a different version, with its
    /// behavior in this executable: removed statements, refused values, defaults, impacts. Needs no router. Exit
    /// status: 0 no difference, 10 some differences.
    UpgradeCheck {
        #[command(flatten)]
        args: configuration::upgrade_check::UpgradeCheckArgs,
        #[command(flatten)]
        place: Where,
    },
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Tries a policy on a route, or on the routes of a trace in MRT: which terms apply, what each changes, and who decides.
    ///
    /// A route is a prefix with properties: `10.1.0.0/16 as-path "65010 65020" community 65000:100 med 5`. The policies are those of
    /// the running router, or with --config those of a file; no router is needed then.
    Test {
        #[command(flatten)]
        args: configuration::policy_test::PolicyTestArgs,
        #[command(flatten)]
        place: Where,
    },
}

fn source(file: PathBuf, packages_dir: PathBuf, state_dir: PathBuf) -> ConfigSource {
    let trust_dir = packages_dir.with_file_name("trust");
    let trial = sluice_process::own_executable().ok();
    ConfigSource { file, builtins: components::BUILTINS, packages_dir, trust_dir, state_dir, trial }
}

/// Returns the default state folder of a router.
fn state_dir(run_dir: &Path) -> PathBuf {
    match run_dir == Path::new("/run/sluice") {
        true => "/var/lib/sluice".into(),
        false => run_dir.join("state"),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let json = command_line::flags::wants_json(&args);
    if lifecycle::process::is_process(&args) {
        return match lifecycle::process::parse() {
            Ok(command) => command.run(),
            Err(error) => refuse(&error, json),
        };
    }
    match command_line::front::choose(&args) {
        Ok(command_line::front::Choice::Tool) => {}
        Ok(command_line::front::Choice::Words(flags, words)) => return shell::one_command(flags, words),
        Ok(command_line::front::Choice::Interactive(flags)) => return shell::run(flags, None),
        Ok(command_line::front::Choice::Help(words)) => return command_line::front::help(&words),
        Ok(command_line::front::Choice::Needless(why)) => {
            sluice_print::errln!("sluice: {why}");
            return ExitCode::SUCCESS;
        }
        Ok(command_line::front::Choice::Version) => {
            sluice_print::outln!("sluice {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(failure) => return output::fail(&failure, json),
    }
    match Cli::try_parse() {
        Ok(cli) => run_tool(cli.command),
        Err(error) => refuse(&error, json),
    }
}

/// Prints why the arguments of a tool are refused, or the help that they ask for.
fn refuse(error: &clap::Error, json: bool) -> ExitCode {
    if !json || !error.use_stderr() {
        error.exit()
    }
    let text = error.render().to_string();
    let text = text.trim().trim_start_matches("error: ").to_string();
    output::fail(&Failure::usage(text), true)
}

fn run_tool(command: Command) -> ExitCode {
    let (result, json) = match command {
        Command::Process(command) => return command.run(),
        Command::Config { command: ConfigCommand::Check { file, packages_dir, place } } => {
            (check(file, packages_dir, &place), place.json)
        }
        Command::Config { command: ConfigCommand::UpgradeCheck { args, place } } => {
            return configuration::upgrade_check::run(args, &place)
                .unwrap_or_else(|failure| output::fail(&failure, place.json));
        }
        Command::Policy { command: PolicyCommand::Test { args, place } } => {
            (configuration::policy_test::run(args, &place), place.json)
        }
        Command::Package { command } => return packages::run(command),
        Command::Cluster { command } => {
            let done = command.run(output::print_json, state_dir);
            (done, command.is_json())
        }
        Command::NewProtocol { args } => (packages::new_protocol::new_protocol(&args), args.place.json),
        Command::Rights { command } => {
            let (printed, json) = match command {
                RightsCommand::Show { component, options } => {
                    let json = options.place.json;
                    (packages::rights::show(&component, &options.packages_dir, json), json)
                }
                RightsCommand::Diff { old, new, options } => {
                    let json = options.place.json;
                    (packages::rights::diff(&old, &new, &options.packages_dir, json), json)
                }
            };
            return printed.unwrap_or_else(|failure| output::fail(&failure, json));
        }
        Command::Restart { args, place } => (lifecycle::restart::restart(args, &place), place.json),
        Command::Upgrade { args, place } => (lifecycle::restart::upgrade(args, &place), place.json),
        Command::Call { args, place } => (command_line::call::run(args, &place), place.json),
        Command::Profile { args, place } => (observe::profile::run(args, &place), place.json),
        Command::Lab { command } => {
            return sluice_lab::run(command)
                .unwrap_or_else(|error| output::fail(&Failure::from(error), false));
        }
        Command::Bgpsim(args) => {
            return sluice_bgpsim::cli::run(&args, |value| output::print_json("bgpsim", value))
                .unwrap_or_else(|error| output::fail(&Failure::from(error), args.json));
        }
        Command::Pktgen { command } => {
            let done = sluice_pktgen::run(&command, output::print_json).map_err(output::packet_failure);
            (done, command.is_json())
        }
        Command::Bench { command: BenchCommand::BgpProfile(args) } => {
            (bench_profile::run(&args).map_err(Failure::from), false)
        }
        Command::Simulate(args) => {
            return sluice_sim::cli::run(&args, &|value| output::print_json("simulate", value))
                .unwrap_or_else(|error| output::fail(&Failure::from(error), args.json));
        }
        Command::Schema { command } => (manual::schemas::print(&command), false),
        Command::Completions { shell } => {
            sluice_print::out!("{}", shell.script());
            (Ok(()), false)
        }
        Command::Complete { shell, line } => (command_line::completions::run(shell, &line), false),
        Command::Man { into: Some(folder), .. } => (manual::pages::write_into(&folder), false),
        Command::Man { command, .. } => (manual::pages::show(&command), false),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::fail(&failure, json),
    }
}

fn check(file: PathBuf, packages_dir: PathBuf, place: &Where) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let refused = sluice_manager_process::check(&source(file, packages_dir, PathBuf::new()))
        .map_err(output::config_failure)?;
    match place.json {
        true => {
            let refused: Vec<_> = refused
                .iter()
                .map(|r| serde_json::json!({ "package": r.name, "reason": r.reason }))
                .collect();
            let value = serde_json::json!({ "file": shown, "valid": true, "refused_packages": refused });
            output::print_json("config-check", &value);
        }
        false => {
            for r in refused.iter().filter(|_| !place.quiet) {
                output::complain(&format!("sluice: package `{}` is refused: {}", r.name, r.reason));
            }
            sluice_print::outln!("{shown}: valid");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_without_a_router_take_the_common_flags() {
        let common = ["--json", "--no-pager", "--no-color", "--quiet", "--run-dir", "/run/x"];
        for line in [
            "config check x.conf",
            "rights show bgp",
            "rights diff bgp rib",
            "package check x",
            "package verify x",
            "package sign x --key y",
            "package pack x",
            "package new-key x",
            "new-protocol x --language python",
            "policy test x",
        ] {
            let words = std::iter::once("sluice").chain(line.split(' ')).chain(common);
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err().map(|error| error.to_string()));
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
        command_line::front::whole().debug_assert();
    }
}
