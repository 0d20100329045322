//! The benchmark still works: a small table from feed to receiver, to the kernel, and around a lost feed, with Sluice and BIRD 2; and
//! with the client out of the way.

use std::path::Path;
use std::process::Command;

/// A quick look with more arguments; what it prints. `None` where it cannot be done.
fn smoke(arguments: &[&str]) -> Option<String> {
    // `make test` builds the router's release before the tests.
    let folder = Path::new(env!("CARGO_BIN_EXE_bench-bgp")).parent().and_then(Path::parent);
    let sluice = folder.map(|target| target.join("release/sluice")).filter(|program| program.exists());
    let Some(sluice) = sluice else {
        println!("skipped: smoke: there is no release build of sluice");
        return None;
    };
    if let Err(reason) = sluice_lab::available() {
        println!("skipped: smoke: {reason}");
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
