//! A component of the Python SDK has no hand-over: `sluice restart` ends and restarts the process, and reports the
//! plain restart; `sluice upgrade` names an alternative. The rest of the router does not notice.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::available;
use sluice_router_lab::RouterLab;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A router with the example package.
const CONFIG: &str = "
[nodes.sluice]
daemon = 'sluice'
config = 'protocols { static { route 192.0.2.0/24 discard; } hello { greeting hi; guest ann; } }'
";

/// Copies a folder's files and subfolders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &copied),
            false => drop(std::fs::copy(&path, copied).unwrap()),
        }
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Without `--json`.
fn in_words(lab: &RouterLab, words: &[&str]) -> Output {
    let mut command = lab.lab.command("sluice", SLUICE).unwrap();
    command.args(words).arg("--run-dir").arg(lab.run_dir()).output().unwrap()
}

fn greets(lab: &RouterLab) -> bool {
    lab.ask(&["show", "hello", "guests"])["guests"][0]["greeting"] == "hi, ann"
}

#[test]
fn a_component_without_hand_over_is_restarted_plainly() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return sluice_testkit::skipped("Python is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    // The component runs as another user.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let package = folder.path().join("packages/hello");
    copy(&python.join("examples/hello"), &package);
    copy(&python.join("sluice_xrl"), &package.join("sluice_xrl"));
    let program = folder.path().join("sluice");
    // The lab names a folder of packages last: the router finds this one there.
    let find = format!(
        "for last; do :; done; [ $1 = start ] && ln -s {} \"$last\"",
        folder.path().join("packages").display()
    );
    std::fs::write(&program, format!("#!/bin/sh\n{find}\nexec {SLUICE} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let lab = RouterLab::up(&CONFIG.parse().unwrap(), &program);
    lab.until("it greets", |l| l.ready() && greets(l));

    let before = ["hello", "static", "rib", "fea"].map(|component| lab.pid(component).unwrap());
    let output = in_words(&lab, &["restart", "hello"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}\n{}", lab.whole_log());
    let pid = lab.pid("hello").unwrap();
    let words = format!(
        "hello 1.0.0 runs in process {pid}: it hands nothing over, so process {} ended first",
        before[0]
    );
    assert!(said.contains(&words), "{words:?} is not in {said}");
    assert!(greets(&lab), "it has its configuration when the command returns");
    assert!(pid != before[0] && !sluice_router_lab::runs(before[0]));
    let others = ["static", "rib", "fea"].map(|component| lab.pid(component).unwrap());
    assert_eq!(others, before[1..]);
    assert_eq!((lab.restarts(), lab.last_end("hello").as_str()), (0, "exit status: 0"), "it was no death");
    let stopping = "somebody wants it to be started anew, and it hands nothing over";
    assert!(lab.whole_log().contains(stopping), "{}", lab.whole_log());

    // The same as JSON; ours hand over still.
    let reply = lab.ask(&["restart", "hello"]);
    assert_eq!(
        (&reply["old_pid"], &reply["handed_over"]),
        (&Value::from(pid), &Value::from(false)),
        "{reply}"
    );
    assert_eq!(lab.ask(&["restart", "static"])["handed_over"], true);

    let pid = lab.pid("hello");
    let output = in_words(&lab, &["upgrade", "hello", "--binary", "/bin/true"]);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains("then tell `sluice restart hello`"), "{said}");
    assert_eq!(lab.pid("hello"), pid);

    // One that does not come up again: nobody claims that the old one goes on.
    std::fs::write(package.join("hello"), "#!/bin/sh\nexit 3\n").unwrap();
    let output = in_words(&lab, &["restart", "hello"]);
    let said = text(&output);
    assert!(output.status.code() == Some(1) && said.contains("exit status: 3"), "{said}");
    assert!(!said.contains("the old process goes on"), "{said}");
    copy(&python.join("examples/hello"), &package);
    // The manager may be trying again at that moment, with the program of before.
    let output = in_words(&lab, &["restart", "hello"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(greets(&lab));
}
