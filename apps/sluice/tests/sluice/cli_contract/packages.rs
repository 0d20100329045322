//! The documents about packages and rights.

use crate::cli_contract::{SLUICE, assert_valid, check_failure, text};
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, until};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Every document about packages and rights.
pub fn all(seen: &mut BTreeSet<String>) {
    rights(seen);
    new_protocol(seen);
    packages(seen);
}

/// Packages that come and go, in a router of their own: the others' folder is the host's.
fn packages(seen: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut lab = Lab::up(&"[nodes.host]\n".parse().unwrap(), LabOptions::unique("cli-packages")).unwrap();
    std::fs::write(path("conf"), "protocols {\n}\n").unwrap();
    let mut start = lab.command("host", SLUICE).unwrap();
    start.args([
        "start",
        "--config",
        &path("conf"),
        "--packages-dir",
        &path("packages"),
        "--run-dir",
        &path("run"),
    ]);
    start.stderr(Stdio::null());
    lab.spawn("host", "router", start).unwrap();
    let run = |words: &[&str]| lab.command("host", SLUICE).unwrap().args(words).output().unwrap();
    assert!(until(Duration::from_secs(30), || run(&["status", "--run-dir", &path("run")]).status.success()));
    let package = path("filter");
    std::fs::create_dir(&package).unwrap();
    for file in ["package.toml", "filter.yang"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages/filter").join(file);
        std::fs::copy(from, format!("{package}/{file}")).unwrap();
    }
    let (key, archive, packages, run_dir) =
        (path("key"), path("filter-1.tar.zst"), path("packages"), path("run"));
    let trust = path("trust");
    std::fs::create_dir(&trust).unwrap();
    let printed: [(&[&str], &str, i32); 8] = [
        (&["new-key", &key], "package-new-key", 0),
        (&["sign", &package, "--key", &key], "package-sign", 0),
        (&["pack", &package, "--into", &path("")], "package-pack", 0),
        (&["verify", &package, "--trust-dir", &trust], "package-verify", 1),
        (&["install", &archive, "--unsigned", "--run-dir", &run_dir], "package-install", 0),
        (&["upgrade", &archive, "--unsigned", "--run-dir", &run_dir], "package-upgrade", 0),
        (&["list", "--run-dir", &run_dir], "package-list", 0),
        (&["remove", "filter", "--run-dir", &run_dir], "package-remove", 0),
    ];
    for (words, schema, status) in printed {
        let output = run(&[&["package"], words, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", text(&output));
        let value: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}"));
        assert_valid(schema, &value, words[0]);
        seen.insert(schema.to_string());
    }
    assert_eq!(std::fs::read_dir(packages).unwrap().count(), 0);
    check_failure(
        &run(&["package", "remove", "filter", "--run-dir", &run_dir, "--json"]),
        "package remove",
        1,
        "failed",
    );
}

/// The first files of a protocol, without a router.
fn new_protocol(seen: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let words = ["new-protocol", "drip", "--language"].iter().chain(words);
        Command::new(SLUICE).args(words).current_dir(folder.path()).output().unwrap()
    };
    let value: Value = serde_json::from_slice(&run(&["python", "--json"]).stdout).unwrap();
    assert_valid("new-protocol", &value, "new-protocol");
    seen.insert("new-protocol".into());
    let checked = Command::new(SLUICE).args(["package", "check"]).arg(folder.path().join("drip")).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", text(&checked));
    check_failure(&run(&["python", "--json"]), "new-protocol", 1, "failed");
    let nowhere = run(&["rust"]);
    assert!(!nowhere.status.success() && text(&nowhere).contains("--source"), "{}", text(&nowhere));
}

/// Rights in words, without a router: of a component, and what a package would have in addition.
fn rights(seen: &mut BTreeSet<String>) {
    let run = |words: &[&str]| Command::new(SLUICE).arg("rights").args(words).output().unwrap();
    let document = |words: &[&str]| -> Value { serde_json::from_slice(&run(words).stdout).unwrap() };
    let bgp = document(&["show", "bgp", "--json"]);
    assert_valid("rights-show", &bgp, "rights show");
    assert!(bgp["may"].as_array().unwrap().contains(&"listen on TCP port 179".into()), "{bgp:#}");
    let folder = tempfile::tempdir().unwrap();
    let wider = folder.path().join("rights.toml");
    let calls = "[calls]\nrib = [\"rib.v1.Rib/RegisterOrigin\"]\n";
    std::fs::write(&wider, format!("class = \"static\"\n{calls}[sockets]\ntcp_listen = [8080]\n")).unwrap();
    let compared = document(&["diff", "static", wider.to_str().unwrap(), "--json"]);
    assert_valid("rights-diff", &compared, "rights diff");
    assert!(compared["more"].as_array().unwrap().contains(&"listen on TCP port 8080".into()), "{compared:#}");
    let said = text(&run(&["diff", "static", wider.to_str().unwrap()]));
    assert!(said.contains("static may no longer announce routes with a distance of 1 or more"), "{said}");
    let unknown = run(&["show", "nobody"]);
    assert!(!unknown.status.success() && text(&unknown).contains("name a component"), "{}", text(&unknown));
    seen.extend(["rights-show".to_string(), "rights-diff".to_string()]);
}
