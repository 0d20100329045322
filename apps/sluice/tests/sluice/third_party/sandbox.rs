//! A component that tries what its sandbox does not allow, while the router's own components go on.

use crate::third_party::router::{Router, copy, has, install, python, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Outcomes that count as a refusal: of permissions, of Landlock, of system calls' filters.
const REFUSED: [&str; 4] =
    ["Permission denied", "Operation not permitted", "No such file or directory", "Not a directory"];

/// The router's own components.
const NEIGHBORS: [&str; 4] = ["fea", "rib", "bgp", "static"];

#[test]
fn a_vandal_is_kept_in_its_sandbox() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "vandal");
    copy(&python().join("sluice_xrl"), &packages.join("vandal/sluice_xrl"));
    let router = Router::start_with_control_groups(
        folder.path(),
        "protocols { static { route 192.0.2.0/24 { discard; } } bgp { local-as 65001; router-id 192.0.2.1; } }\n",
    );
    router.until("the static route is in the kernel", || router.kernel() == ["192.0.2.0/24"]);
    let pids = || NEIGHBORS.map(|class| router.process(class, "pid"));
    let before = pids();
    std::fs::write(packages.join("vandal/world.json"), world(&router, folder.path()).to_string()).unwrap();
    let done = router.configure(&["set protocols vandal", "commit"]);
    assert!(done.status.success(), "{}", text(&done));

    // Each process is confined as planned, by the kernel's word.
    let security = router.ask(&["show", "security"]);
    let processes = security["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 5, "{security:#}");
    let mut users: Vec<&Value> = processes.iter().map(|process| &process["uid"]).collect();
    users.sort_by_key(|uid| uid.as_u64());
    users.dedup();
    assert_eq!(users.len(), 5, "each has a user of its own: {security:#}");
    for process in processes {
        assert_eq!(process["differences"], json!([]), "{process:#}");
        let is_fea = process["component"] == "fea";
        assert_eq!(process["network"], if is_fea { "router" } else { "empty" }, "{process:#}");
        assert_eq!(process["capabilities"].as_array().map(Vec::len), Some(if is_fea { 5 } else { 0 }));
    }

    let outcomes = || -> BTreeMap<String, String> {
        let log = router.log();
        let lines = log.lines().filter_map(|line| line.split_once(": output: attempt ")?.1.split_once(": "));
        lines.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    };
    router.until("every attempt was made", || outcomes().contains_key("done"));
    let mut outcomes = outcomes();
    let mut take = |name: &str| outcomes.remove(name).unwrap_or_default();
    take("done");
    // A shell runs in the same sandbox: it sees no interface and has the component's user.
    let user = processes.iter().find(|process| process["component"] == "vandal").unwrap()["uid"].clone();
    assert_eq!(take("a shell"), format!("/sys/class/net/* {user}"));
    assert_eq!(take("files"), "64");
    let has_groups = !security["missing"].to_string().contains("control groups");
    let bounded = [take("memory"), take("processes"), take("threads"), take("processor")];
    if has_groups {
        assert_eq!(bounded[0], "signal 9");
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        assert!(number(&bounded[1]) < 16 && number(&bounded[2]) < 16, "{bounded:?}");
        assert!(number(&bounded[3]) <= 35, "{bounded:?}");
    } else {
        sluice_testkit::skipped(
            "no control groups: bounds of memory, processes and processors are not tried",
        );
    }
    assert!(outcomes.len() > 60, "{outcomes:#?}");
    for (name, outcome) in &outcomes {
        // SIGSYS: the call ended the process.
        let expected = if name.starts_with("call ") {
            outcome == "signal 31"
        } else {
            REFUSED.contains(&outcome.as_str())
        };
        assert!(expected, "{name}: {outcome}");
    }
    assert_eq!(pids(), before, "no neighbor was harmed");
    assert_eq!(router.kernel(), ["192.0.2.0/24"]);
}

#[test]
fn a_component_keeps_files_up_to_its_quota() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "keeper");
    copy(&python().join("sluice_xrl"), &packages.join("keeper/sluice_xrl"));
    let router = Router::start(folder.path(), "protocols { keeper; }\n");
    let said = |text: &str| router.log().lines().any(|line| line.contains(text));
    router.until("it writes its file", || said("attempt lives: 1 in "));
    for other in ["/tmp/keeper", "../keeper-too", "../../users.json"] {
        router.until("no other folder is its own", || said(&format!("attempt {other}: Permission denied")));
    }
    let words = text(&router.run_alone(&["rights", "show", packages.join("keeper").to_str().unwrap()]));
    assert!(words.contains("keeper may keep files of 4 MiB in a folder of its own"), "{words}");
    let restarted = router.run(&["restart", "keeper"]);
    assert!(restarted.status.success(), "{}", text(&restarted));
    router.until("the next process finds the file", || said("attempt lives: 2 in "));

    let done = router.configure(&["set protocols keeper fill true", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("a file cannot be larger than the quota", || said("attempt a large file: File too large"));
    router.until("it is ended at its quota", || said("its files have more than 4 MiB"));
    let status = || text(&router.run(&["status"]));
    router.until("it is not started, and the operator knows why", || {
        let said = status();
        said.contains("keeper is") && said.contains("not started: its files have more than 4 MiB")
    });
    assert!(!said("attempt lives: 3 in "), "a full folder grows with no life");
    for number in 0..8 {
        let _ = std::fs::remove_file(folder.path().join(format!("run/state/files/keeper/filler-{number}")));
    }
    router.run(&["restart", "keeper"]);
    router.until("it is started anew, and its file is there", || said("attempt lives: 3 in "));
    let done = router.configure(&["delete protocols keeper", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
}

/// Describes the router to the component: files and folders of the router and of the host, processes, sockets.
fn world(router: &Router, folder: &Path) -> Value {
    let run = folder.join("run");
    let socket = |component: &str| -> PathBuf {
        let mut sockets = std::fs::read_dir(run.join("xrl").join(component)).unwrap();
        sockets.next().unwrap().unwrap().path()
    };
    let sockets: BTreeMap<&str, PathBuf> = NEIGHBORS.iter().map(|name| (*name, socket(name))).collect();
    let processes: BTreeMap<&str, Value> =
        NEIGHBORS.iter().map(|name| (*name, router.process(name, "pid"))).collect();
    json!({
        "files": {
            "the configuration": folder.join("router.conf"),
            "the state": run.join("state.json"),
            "the users": run.join("state/users.json"),
            "the audit": run.join("state/audit.jsonl"),
            "passwords": "/etc/shadow",
            "accounts": "/etc/passwd",
        },
        "folders": {
            "the run-time folder": run,
            "the sockets": run.join("xrl"),
            "the state folder": run.join("state"),
            "its package": folder.join("packages/vandal"),
            "the host's temporary files": "/tmp",
            "processes": "/proc",
        },
        "processes": processes,
        "sockets": sockets,
    })
}
