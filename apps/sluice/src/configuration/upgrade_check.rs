//! `sluice config upgrade-check`: the differences in the behavior of the last committed configuration under the current
//! executable.

use crate::Where;
use crate::configuration::one_shot::CHANGES;
use crate::output::{Failure, failure_of_start, print_json, say};
use serde_json::json;
use sluice_manager_process::UpgradeError;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of the check.
#[derive(clap::Args)]
pub struct UpgradeCheckArgs {
    /// The folder of the committed configurations; `/var/lib/sluice` if absent, or `state` in a run-time folder other
    /// than the default.
    #[arg(long)]
    state_dir: Option<PathBuf>,
    /// The folder with the packages of third-party components.
    #[arg(long, default_value = "/etc/sluice/packages")]
    packages_dir: PathBuf,
}

/// Compares; the exit status is 0 without differences, and 10 otherwise.
pub fn run(args: UpgradeCheckArgs, place: &Where) -> Result<ExitCode, Failure> {
    let state_dir = args.state_dir.unwrap_or_else(|| crate::state_dir(&place.run_dir));
    let source = crate::source(PathBuf::new(), args.packages_dir, state_dir);
    let found = sluice_manager_process::upgrade_check(&source).map_err(failure)?;
    let version = env!("CARGO_PKG_VERSION");
    if place.json {
        let document = json!({ "version": version, "revision": found.revision, "notices": found.notices });
        print_json("config-upgrade-check", &document);
    } else if found.notices.is_empty() {
        say(&format!("revision {} means the same to sluice {version}", found.revision));
    } else {
        say(&format!("revision {} is not the same to sluice {version}:", found.revision));
        found.notices.iter().for_each(|notice| say(&format!("  {notice}")));
    }
    Ok(if found.notices.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(CHANGES) })
}

fn failure(error: UpgradeError) -> Failure {
    match error {
        UpgradeError::Start(error) => failure_of_start(error),
        error => Failure::failed(error.to_string()),
    }
}
