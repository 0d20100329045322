//! Components that the generators write: in Rust, built outside of the workspace, and in Python.

use crate::third_party::router::{Router, has, text};
use sluice_testkit::workspace::Workspace;
use std::path::Path;
use std::process::Command;

#[test]
fn a_generated_component_is_built_started_and_removed() {
    if !has("cargo", "--version") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    // As `cargo xtask test` was built: nothing is built once more.
    let written = Command::new("cargo")
        .args(["xtask", "new-component", "drifter", "--into"])
        .arg(&packages)
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(written.status.success(), "{}", text(&written));
    let drifter = packages.join("drifter");
    // The package is a workspace of its own: cargo finds all that it depends on.
    let found = Command::new("cargo")
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(&drifter)
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", text(&found));
    let sluice = Path::new(crate::third_party::router::SLUICE);
    let built = folder.path().join("workspace");
    std::fs::create_dir(&built).unwrap();
    let workspace = Workspace::copy(&root, &built, &[]).unwrap();
    std::fs::create_dir(built.join("drifter")).unwrap();
    let parts = ["core", "process"].map(|part| drifter.join(part));
    let copied = Command::new("cp").arg("-a").args(parts).arg(built.join("drifter")).status();
    assert!(copied.unwrap().success());
    workspace
        .add(&["drifter/core", "drifter/process"], ("drifter/process", "sluice-drifter-process"))
        .unwrap();
    let built = workspace.build("sluice-drifter-process", sluice).arg("--quiet").output().unwrap();
    assert!(built.status.success(), "{}", text(&built));
    assert!(built.stderr.is_empty(), "no warnings: {}", text(&built));
    std::fs::copy(sluice.with_file_name("sluice-drifter-process"), drifter.join("drifter")).unwrap();
    let checked = Command::new(crate::third_party::router::SLUICE)
        .args(["package", "check"])
        .arg(&drifter)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", text(&checked));

    runs_and_goes(folder.path());
}

#[test]
fn a_generated_program_in_python_runs() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    let written = Command::new(crate::third_party::router::SLUICE)
        .args(["new-protocol", "drifter", "--language", "python", "--into"])
        .arg(&packages)
        .output()
        .unwrap();
    assert!(written.status.success(), "{}", text(&written));
    runs_and_goes(folder.path());
}

/// Starts a router with the generated package, changes the package's configuration, and removes it.
fn runs_and_goes(folder: &Path) {
    let configuration =
        "interfaces { interface lo { enabled true; } }\nprotocols { drifter { route 203.0.113.0/24; } }\n";
    let router = Router::start(folder, configuration);
    router.until("it runs", || router.process("drifter", "state") == "running");
    let has = |prefix: &str| router.kernel().iter().any(|route| route.contains(prefix));
    router.until("its route is in the kernel", || has("203.0.113.0/24"));
    let pid = router.process("drifter", "pid");
    let done = router.configure(&["set protocols drifter route 198.51.100.0/24", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it has the new route", || has("198.51.100.0/24") && !has("203.0.113.0/24"));
    assert_eq!(router.process("drifter", "pid"), pid);
    router.until("it receives from the socket that the FEA opened", || {
        let mut send = router.lab.command("host", "bash").unwrap();
        assert!(send.args(["-c", "printf hello > /dev/udp/127.0.0.1/52525"]).status().unwrap().success());
        router.log().contains("received 5 octets")
    });
    let done = router.configure(&["delete protocols drifter", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it has ended", || {
        router.process("drifter", "state") == "stopped" || router.process("drifter", "state").is_null()
    });
    router.until("its route is gone", || !has("198.51.100.0/24"));
}
