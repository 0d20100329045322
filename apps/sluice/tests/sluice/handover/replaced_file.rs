//! The router's executable is replaced by an update of the package, which removes the file that runs.

use crate::SLUICE;
use sluice_lab::available;
use sluice_router_lab::RouterLab;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ALONE: &str = "
[nodes.sluice]
daemon = 'sluice'
config = 'protocols { static { route 192.0.2.0/24 discard; } }'
";

/// Gives a path a file of its own with the router's executable.
fn install(program: &Path) {
    // In the place of the former file, as dpkg(1) does.
    let _ = std::fs::remove_file(program);
    if std::fs::hard_link(SLUICE, program).is_err() {
        std::fs::copy(SLUICE, program).unwrap();
    }
}

#[test]
fn processes_start_from_the_new_file() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("sluice");
    install(&program);
    let lab = RouterLab::up(&ALONE.parse().unwrap(), &program);
    lab.until("the router is ready", RouterLab::ready);
    install(&program);

    let before = lab.pid("static").unwrap();
    lab.kill(before);
    lab.until("another process runs", |lab| {
        lab.pid("static").is_some_and(|pid| pid != before) && lab.ready()
    });
    for component in ["rib", "static", "manager"] {
        let output = lab.cli(&["restart", component]);
        assert!(output.status.success(), "{component}: {output:?}\n{}", lab.whole_log());
        lab.until("the router is ready", RouterLab::ready);
    }
}
