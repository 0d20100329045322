//! A program that is a single component: the executable of a package.

use crate::{RunOptions, start_log};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::process::ExitCode;

/// The main function of a program that is the component `class` and nothing else: reads the manager's command line,
/// starts the log and runs the component.
pub fn program(class: &str, run: impl FnOnce(RunOptions) -> anyhow::Result<()>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = RunOptions::of_program(class, &arguments) else {
        complain(format_args!("usage: {class} run {class} --run-dir FOLDER; the router manager starts it"));
        return ExitCode::from(2);
    };
    start_log(&arguments[1]);
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("{class}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line on standard error, which may be a pipe that nobody reads.
fn complain(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
