//! Types a page's commands on a host, and compares.

use crate::guide::compare::is_like;
use crate::guide::page::Command;
use crate::own_host::{Host, PATIENCE};
use std::path::Path;
use std::time::Duration;

/// The longest wait at the end of a page for commands still running.
const SHORT: Duration = Duration::from_secs(5);

/// Runs a command and compares.
pub fn run(host: &mut Host, command: &Command) -> Result<(), String> {
    let patience = if command.is_awaited { PATIENCE } else { Duration::ZERO };
    compare(command, patience, || host.shell(&command.text))
}

/// Returns an error unless the expected output of a command still running has arrived.
pub fn came(command: &Command, file: &Path) -> Result<(), String> {
    compare(command, SHORT, || Ok((std::fs::read_to_string(file).unwrap_or_default(), command.status)))
}

/// Compares the output with the expectation, until equal or until the timeout.
fn compare(
    command: &Command,
    patience: Duration,
    mut output: impl FnMut() -> Result<(String, i32), String>,
) -> Result<(), String> {
    let mut last = Ok((String::new(), 0));
    let is_so = sluice_lab::until(patience, || {
        last = output();
        let like =
            |(said, status): &(String, i32)| is_like(&command.expected, said) && *status == command.status;
        last.as_ref().map_or(true, like)
    });
    let (said, status) = last?;
    match is_so {
        true => Ok(()),
        false => Err(format!(
            "`{}` printed, with status {status}:\n{said}\nand not, with status {}:\n{}\n",
            command.text,
            command.status,
            command.expected.join("\n")
        )),
    }
}
