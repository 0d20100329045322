//! The benchmark still works: a small table from feed to receiver, to the kernel, and around a lost feed, with Sluice and BIRD 2; and
//! with the client out of the way; and among many neighbors that are silent.

use std::path::Path;
use std::process::Command;

/// Runs the smallest benchmark with more arguments and returns its output; `None` if the benchmark cannot run here.
fn smoke(arguments: &[&str]) -> Option<String> {
    // Cargo builds the router beside this benchmark when it tests the workspace.
    let sluice = Path::new(env!("CARGO_BIN_EXE_bench-bgp")).with_file_name("sluice");
    if !sluice.exists() {
        sluice_testkit::skipped("the router is not built; test the whole workspace, or build -p sluice");
        return None;
    }
    if let Err(reason) = sluice_lab::available() {
        sluice_testkit::skipped(reason);
        return None;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_bench-bgp"))
        .arg("--smoke")
        .args(arguments)
        .arg("--sluice")
        .arg(sluice)
        .output()
        .expect("the benchmark starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}{errors}");
    assert!(output.status.success());
    Some(text.into_owned())
}

/// Returns the number in a column of a scenario's table, in the row that begins with `name`. The table ends with an empty line; its first
/// line begins with the scenario's name.
fn value(text: &str, scenario: &str, name: &str, column: usize) -> Option<f64> {
    let mut table =
        text.lines().skip_while(|line| !is_head(line, scenario)).take_while(|line| !line.is_empty());
    let row = table.find(|line| columns(line).first() == Some(&name))?;
    // A latency has two numbers, and large numbers have commas between thousands.
    let cell = columns(row).get(column)?.split(", ").next()?.replace(',', "");
    cell.parse().ok()
}

fn is_head(line: &str, scenario: &str) -> bool {
    let columns = columns(line);
    columns.first() == Some(&scenario) && columns.len() > 2
}

/// Returns the cells of a table's line: at least two blanks are between two cells.
fn columns(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

/// Asserts that each daemon has a time in each scenario, and sent UPDATEs.
fn check(text: &str, scenarios: &[&str], daemons: &[&str]) {
    for scenario in scenarios {
        for daemon in daemons {
            let [time, updates] = [1, 5].map(|column| value(text, scenario, daemon, column));
            assert!(time.is_some(), "{scenario}: {daemon} has no time");
            assert!(updates.is_some_and(|count| count > 0.0), "{scenario}: {daemon}: {updates:?} UPDATEs");
        }
    }
}

#[test]
fn sluice_and_bird() {
    let Some(text) = smoke(&["--only", "S1,S5,S7"]) else { return };
    check(&text, &["S1", "S5", "S7"], &["Sluice", "BIRD 2"]);
}

#[test]
fn threads_with_the_client_out_of_the_way() {
    let Some(text) = smoke(&["--only", "S3", "--daemons", "sluice", "--threads", "2"]) else { return };
    let settings = ["Sluice", "Sluice, 1 thread", "Sluice, 2 threads"];
    check(&text, &["S3"], &settings);
    for setting in &settings[1..] {
        let seconds = value(&text, "S3, threads", setting, 1);
        assert!(seconds.is_some(), "{setting}: no time with the client out of the way");
    }
}

#[test]
fn many_silent_neighbors() {
    let Some(text) = smoke(&["--only", "S2,S6", "--daemons", "sluice", "--silent", "300"]) else { return };
    check(&text, &["S2", "S6"], &["Sluice"]);
}

#[test]
fn a_heading_is_no_result() {
    let text = "table: made up\nS1: one feed to Sluice\n\nS1      seconds  CPU s\n\
                ----------------------\nSluice  0.52     0.1\nBIRD 2  not done\n\nSluice  9  9\n";
    assert_eq!(value(text, "S1", "Sluice", 1), Some(0.52));
    assert_eq!(value(text, "S1", "BIRD 2", 1), None);
    assert_eq!(value(text, "S2", "Sluice", 1), None);
    assert_eq!(value(&text.replace("\nSluice  0.52", ""), "S1", "Sluice", 1), None);
}
