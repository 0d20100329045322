//! Every command on pipes that nobody reads.

use super::lines::{ALONE, RIGHT, WRONG};
use super::{Router, words};
use crate::SLUICE;
use std::process::{Command, Stdio};

/// Further commands that need no router.
const MORE: [&str; 17] = [
    "--help",
    "--version",
    "help show routes",
    "show --help",
    "package --help",
    "rights show bgp",
    "rights show bgp --json",
    "rights diff static bgp",
    "schema",
    "schema status",
    "completions bash",
    "completions zsh",
    "__complete bash sluice",
    "man show routes",
    "simulate ring:3 --prefixes-per-node 1",
    "package check /",
    "config check /proc/version",
];
/// The status of a panicked program.
const PANICKED: i32 = 101;

/// A pipe whose reader is gone.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn survives(mut command: Command, line: &str) -> Option<String> {
    let status = command.stdin(Stdio::null()).stdout(closed()).stderr(closed()).status().unwrap();
    // A status of none is a signal, as of an abort.
    let is_fine = status.code().is_some_and(|code| code != PANICKED);
    (!is_fine).then(|| format!("{line}: {status}"))
}

#[test]
fn no_command_panics_on_a_closed_pipe_without_a_router() {
    let mut failed = Vec::new();
    let lines = RIGHT.iter().map(|(line, ..)| *line).chain(WRONG.iter().map(|(line, ..)| *line));
    for line in lines.filter(|line| !line.starts_with("lab") && !line.starts_with("config")) {
        let mut command = Command::new(SLUICE);
        command.args(words(line)).args(["--run-dir", "/nowhere"]);
        failed.extend(survives(command, line));
    }
    for line in ALONE.iter().map(|(line, ..)| *line).chain(MORE) {
        let mut command = Command::new(SLUICE);
        command.args(line.split(' '));
        failed.extend(survives(command, line));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn no_command_panics_on_a_closed_pipe_beside_a_router() {
    let Some(router) = Router::up() else { return };
    let mut failed = Vec::new();
    let reads = [
        "show", "status", "explain", "compare", "monitor", "call", "rtstat", "policy", "xip", "package",
        "doctor",
    ];
    let lines = RIGHT.iter().map(|(line, ..)| *line).chain(["package list", "call --list", "doctor"]);
    for line in lines.filter(|line| reads.contains(&line.split(' ').next().unwrap())) {
        failed.extend(survives(router.command(&words(line)), line));
        let in_json = [words(line), vec!["--json"]].concat();
        failed.extend(survives(router.command(&in_json), line));
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
