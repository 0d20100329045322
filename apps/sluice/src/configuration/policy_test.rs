//! `sluice policy test`: what a policy does with a route or a trace.

use crate::Where;
use crate::connection::connect::{DEADLINE, block_on, connect};
use crate::output::{Failure, config_failure, print_json};
use crate::show::configuration::running_json;
use serde_json::Value;
use sluice_policy_test::{Question, Trial, TrialError};
use sluice_xrl::idl::manager::v1 as pb;
use std::path::{Path, PathBuf};

/// The question, and the configuration with the policies.
#[derive(clap::Args)]
pub struct PolicyTestArgs {
    /// POLICY, then a route or a file in MRT, then `as neighbor ADDRESS` and `compare POLICY`.
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// A configuration file; the running configuration if absent.
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// The folder with the packages of third-party components, for --config.
    #[arg(long, default_value = "/etc/sluice/packages")]
    packages_dir: PathBuf,
}

/// Answers the question.
pub fn run(args: PolicyTestArgs, place: &Where) -> Result<(), Failure> {
    let question = Question::parse(&args.words).map_err(failure)?;
    let configuration = match args.config {
        Some(file) => {
            let source = crate::source(file, args.packages_dir, PathBuf::new());
            sluice_manager_process::read_configuration(&source).map_err(config_failure)?
        }
        None => block_on(running(&place.run_dir))??,
    };
    let trace = match question.subject.as_slice() {
        [file] if Path::new(file).is_file() => {
            Some(std::fs::read(file).map_err(|error| Failure::io(file, &error))?)
        }
        _ => None,
    };
    let trial = Trial::read(&configuration).map_err(failure)?;
    let report = trial.answer(&question, trace.as_deref()).map_err(failure)?;
    match place.json {
        true => print_json("policy-test", &report.json),
        false => sluice_print::out!("{}", report.text),
    }
    Ok(())
}

/// Returns the running configuration in JSON.
async fn running(run_dir: &Path) -> Result<Value, Failure> {
    let router = connect(run_dir, DEADLINE).await?;
    let client = pb::ConfigurationClient::new(&router, "manager").with_deadline(DEADLINE);
    running_json(&client, &[], pb::Form::Json).await
}

fn failure(error: TrialError) -> Failure {
    match error {
        TrialError::Configuration(reason) => Failure::new(Failure::CONFIG, "config-invalid", reason),
        error => Failure::usage(error.to_string()),
    }
}
