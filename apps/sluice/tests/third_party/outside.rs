//! A component in Rust that is written by the generator and built outside of this workspace.

use crate::router::{Router, has, text};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_generated_component_is_built_started_and_removed() {
    if !has("cargo", "--version") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    let written = Command::new("cargo")
        .args(["run", "--quiet", "--locked", "-p", "xtask", "--", "new-component", "drifter", "--into"])
        .arg(&packages)
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(written.status.success(), "{}", text(&written));
    let drifter = packages.join("drifter");
    // Beside the target folder of this test: what was built for it once is not built again.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let built = Command::new("cargo")
        .args(["build", "--quiet"])
        .current_dir(&drifter)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    assert!(built.stderr.is_empty(), "no warnings: {}", text(&built));
    std::fs::copy(target.join("debug/sluice-drifter-process"), drifter.join("drifter")).unwrap();
    let checked =
        Command::new(crate::router::SLUICE).args(["package", "check"]).arg(&drifter).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked));

    let router = Router::start(folder.path(), "protocols { drifter { number 7; } }\n");
    router.until("it runs", || router.process("drifter", "state") == "running");
    assert!(router.log().contains("the number is 7, it was 0"), "{}", router.log());
    let pid = router.process("drifter", "pid");
    let done = router.configure(&["set protocols drifter number 8", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it has the new number", || router.log().contains("the number is 8, it was 7"));
    assert_eq!(router.process("drifter", "pid"), pid);
    let done = router.configure(&["delete protocols drifter", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it has ended", || {
        router.process("drifter", "state") == "stopped" || router.process("drifter", "state").is_null()
    });
}
