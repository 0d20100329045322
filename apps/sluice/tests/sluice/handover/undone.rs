//! An executable that passes the check once and keeps dying afterward: the previous executable runs again,
//! automatically and soon.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::available;
use sluice_router_lab::RouterLab;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A router without neighbors; its route proves that `static` works.
const ALONE: &str = "
[nodes.sluice]
daemon = 'sluice'
config = 'protocols { static { route 192.0.2.0/24 discard; } }'
";

/// An executable that runs the router until the file [`dead`] exists, and from then on only exits.
fn soon_dead(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let dead = dead(&program);
    let text = format!("#!/bin/sh\n[ -e {} ] && exit 7\nexec {SLUICE} \"$@\"\n", dead.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The file whose existence ends each new process of an executable.
fn dead(program: &Path) -> PathBuf {
    program.with_extension("dead")
}

fn events(lab: &RouterLab, id: &str) -> Vec<Value> {
    let all = lab.ask(&["show", "events", "--component", "manager", "--last", "1000"]);
    all["events"].as_array().into_iter().flatten().filter(|e| e["id"] == id).cloned().collect()
}

fn upgrade(lab: &RouterLab, program: &Path) {
    let before = lab.pid("static");
    let output = lab.cli(&["upgrade", "static", "--binary", &program.display().to_string()]);
    assert!(output.status.success(), "{output:?}\n{}", lab.whole_log());
    assert_ne!(lab.pid("static"), before);
}

/// A lab with a ready router, and a folder for executables.
fn router() -> Option<(RouterLab, tempfile::TempDir)> {
    if let Err(reason) = available() {
        sluice_testkit::skipped(reason);
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let lab = RouterLab::up(&ALONE.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    Some((lab, folder))
}

/// Kills `static`, which then fails to start from the upgraded executable; the component runs and works from its
/// previous executable again, and the fall-back is reported.
fn falls_back(lab: &RouterLab, program: &Path) {
    std::fs::write(dead(program), "").unwrap();
    lab.kill(lab.pid("static").unwrap());
    lab.until("the upgrade is undone", |l| !events(l, "process.fell-back").is_empty() && l.ready());
    let died = events(lab, "process.died");
    let exits = died.iter().filter(|event| event["fields"]["reason"] == "exit status: 7").count();
    assert_eq!(exits, 2, "three deaths are enough\n{}", lab.whole_log());
    let event = &events(lab, "process.fell-back")[0];
    assert_eq!((&event["level"], &event["fields"]["class"]), (&"error".into(), &"static".into()), "{event}");
    assert_eq!(event["fields"]["reason"], "exit status: 7");
    let end = lab.last_end("static");
    assert_eq!(end, "exit status: 7; its upgrade is undone: the executable from before runs again");
    assert_eq!(lab.kernel().v4, 1);
}

/// Kills `static`, and waits for its restart.
fn dies_once(lab: &RouterLab) {
    let pid = lab.pid("static").unwrap();
    lab.kill(pid);
    lab.until("it is back", |l| l.ready() && l.pid("static") != Some(pid));
}

#[test]
fn an_upgrade_that_keeps_dying_is_undone() {
    let Some((lab, folder)) = router() else { return };
    let program = soon_dead(folder.path(), "once");
    upgrade(&lab, &program);
    falls_back(&lab, &program);
    let shown = lab
        .lab
        .command("sluice", SLUICE)
        .unwrap()
        .args(["show", "processes", "--run-dir"])
        .arg(lab.run_dir())
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.lines().any(|l| l.starts_with("static") && l.contains("its upgrade is undone")), "{shown}");

    // It stays so; who dies now dies as who was never upgraded.
    dies_once(&lab);
    let exits =
        events(&lab, "process.died").iter().filter(|e| e["fields"]["reason"] == "exit status: 7").count();
    assert_eq!((exits, events(&lab, "process.fell-back").len()), (2, 1), "{}", lab.whole_log());

    // A second upgrade to one that does is none of it.
    upgrade(&lab, Path::new(SLUICE));
    dies_once(&lab);
    assert_eq!(events(&lab, "process.fell-back").len(), 1);
}

#[test]
fn the_managers_next_life_undoes_it_too() {
    let Some((lab, folder)) = router() else { return };
    // Once for the upgrade, and once more after a restart: both lives are of the executable on trial.
    let program = soon_dead(folder.path(), "twice");
    upgrade(&lab, &program);
    assert!(lab.cli(&["restart", "static"]).status.success());
    assert!(lab.cli(&["restart", "manager"]).status.success());
    lab.until("the manager's next life has taken over", |l| {
        l.whole_log().contains("taken over from an earlier life") && l.ready()
    });
    falls_back(&lab, &program);
}
