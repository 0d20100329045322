//! The benchmark still works: a small table from feed to receiver, to the kernel, and around a lost feed, with Sluice and BIRD 2.

use std::path::Path;
use std::process::Command;

#[test]
fn sluice_and_bird() {
    // `make test` builds the router's release before the tests.
    let folder = Path::new(env!("CARGO_BIN_EXE_bench-bgp")).parent().and_then(Path::parent);
    let sluice = folder.map(|target| target.join("release/sluice")).filter(|program| program.exists());
    let Some(sluice) = sluice else {
        println!("skipped: smoke: there is no release build of sluice");
        return;
    };
    if let Err(reason) = sluice_lab::available() {
        println!("skipped: smoke: {reason}");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_bench-bgp"))
        .args(["--smoke", "--only", "S1,S5,S7", "--sluice"])
        .arg(sluice)
        .output()
        .expect("the benchmark starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{text}{errors}");
    assert!(output.status.success());
    assert!(text.contains("Sluice"));
}
