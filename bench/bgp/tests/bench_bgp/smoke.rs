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

#[test]
fn sluice_and_bird() {
    let text = smoke(&["--only", "S1,S5,S7"]);
    assert!(text.is_none_or(|text| text.contains("Sluice")));
}

#[test]
fn threads_with_the_client_out_of_the_way() {
    let text = smoke(&["--only", "S3", "--daemons", "sluice", "--threads", "2"]);
    assert!(text.is_none_or(|text| text.contains("client out of the way: s")));
}

#[test]
fn many_silent_neighbors() {
    let text = smoke(&["--only", "S2,S6", "--daemons", "sluice", "--silent", "300"]);
    assert!(text.is_none_or(|text| text.contains("Sluice")));
}
