//! Packages: their commands, and the commands that handle them.

pub mod check;
pub mod commands;
pub mod manage;
pub mod new_protocol;
pub mod rights;
pub mod sign;

use crate::Where;
use crate::output;
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is done with packages.
#[derive(Subcommand)]
pub enum PackageCommand {
    /// Checks a package's folder without a router: files, module, rights, commands, metrics. Exit status: 0 nothing wrong, 4 something.
    Check {
        /// The folder with its package.toml.
        folder: PathBuf,
        #[command(flatten)]
        place: Where,
    },
    /// Installs a package in the running router. No process is restarted. Exit status: 0 installed, 4 the package is refused.
    Install {
        #[command(flatten)]
        args: manage::InstallArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Replaces an installed package by another version; its component's process hands over to one of that version.
    Upgrade {
        #[command(flatten)]
        args: manage::UpgradeArgs,
        #[command(flatten)]
        place: Where,
    },
    /// Removes a package from the running router, if nothing of it is configured.
    Remove {
        /// The package's name.
        name: String,
        #[command(flatten)]
        place: Where,
    },
    /// Lists the packages of the running router, with who signed them.
    List {
        #[command(flatten)]
        place: Where,
    },
    /// Checks whether a package is as it was signed, and prints the signer. Exit status: 0 signed by a key of trust, 1 not.
    Verify {
        #[command(flatten)]
        args: sign::VerifyArgs,
    },
    /// Signs the package in a folder.
    Sign {
        #[command(flatten)]
        args: sign::SignArgs,
    },
    /// Makes an archive of the package in a folder: NAME-VERSION.tar.zst.
    Pack {
        #[command(flatten)]
        args: sign::PackArgs,
    },
    /// Makes a key to sign packages with: FILE, which stays secret, and FILE.pub for those who trust it.
    NewKey {
        #[command(flatten)]
        args: sign::NewKeyArgs,
    },
}

/// Carries a command out.
pub fn run(command: PackageCommand) -> ExitCode {
    let (done, json) = match command {
        PackageCommand::Check { folder, place } => return check::run(&folder, place.json),
        PackageCommand::Install { args, place } => (manage::install(args, &place), place.json),
        PackageCommand::Upgrade { args, place } => (manage::upgrade(args, &place), place.json),
        PackageCommand::Remove { name, place } => (manage::remove(&name, &place), place.json),
        PackageCommand::List { place } => (manage::list(&place), place.json),
        PackageCommand::Verify { args } => {
            let json = args.place.json;
            return sign::verify(&args).unwrap_or_else(|failure| output::fail(&failure, json));
        }
        PackageCommand::Sign { args } => (sign::sign(&args), args.place.json),
        PackageCommand::Pack { args } => (sign::pack(&args), args.place.json),
        PackageCommand::NewKey { args } => (sign::new_key(&args), args.place.json),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output::fail(&failure, json),
    }
}
