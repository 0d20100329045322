//! The launcher of components: `sluice confine PLAN -- PROGRAM ARGUMENTS`.

use clap::Args;
use sluice_sandbox::launch::{FAILED, launch};
use sluice_sandbox::{Host, Plan};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the launcher.
#[derive(Args)]
pub struct ConfineArgs {
    /// Print the layers of confinement that the host offers, as JSON, and end.
    #[arg(long, conflicts_with_all = ["plan", "program"])]
    probe: bool,
    /// The confinement, as JSON.
    #[arg(required_unless_present = "probe")]
    plan: Option<String>,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "probe")]
    program: Vec<OsString>,
}

/// Executes the program in the place of this process; returns the reason if that fails.
pub fn run(args: ConfineArgs) -> ExitCode {
    if args.probe {
        sluice_print::outln!("{}", serde_json::json!(Host::probe()));
        return ExitCode::SUCCESS;
    }
    let plan: Plan = match serde_json::from_str(args.plan.as_deref().unwrap_or_default()) {
        Ok(plan) => plan,
        Err(error) => {
            sluice_print::errln!("confine: the plan cannot be read: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let mut words = args.program.into_iter();
    let program = PathBuf::from(words.next().unwrap_or_default());
    match launch(&plan, program, words.collect()) {
        Ok(never) => match never {},
        Err(error) => {
            sluice_print::errln!("confine: nothing was started: {error}");
            ExitCode::from(FAILED)
        }
    }
}
