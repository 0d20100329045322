//! The record of tests that could not run on the machine.

use std::fmt::Display;
use std::io::Write;

/// Environment variable with the file for records of skipped tests and of long tests that did not run. `cargo xtask test` sets the variable and counts
/// the file's lines.
pub const RECORD: &str = "SLUICE_RECORD";

/// Reports that the running test, or a part of it, cannot run on the machine: prints the test's name and `reason`, and
/// appends both to the file of `SLUICE_RECORD`, for the test runner to count.
///
/// # Panics
///
/// If the record is named but cannot be written: an uncounted skip would pass as a success.
pub fn skipped(reason: impl Display) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}", thread.name().unwrap_or("?")).replace(['\n', '\t'], " ");
    println!("skipped: {line}");
    record(&format!("skipped\t{line}"));
}

/// Appends a line to the record, if the record is named.
pub(crate) fn record(line: &str) {
    let Some(record) = std::env::var_os(RECORD) else { return };
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&record)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .unwrap_or_else(|e| panic!("{RECORD} names {}: {e}", record.display()));
}
