//! A router whose manager was killed: the possible requests, and their answers.

use crate::manager::Router;
use std::time::{Duration, Instant};

const BGP: &str = "protocols {
  static { route 10.1.0.0/16 discard; }
  bgp { local-as 64500; router-id 10.0.0.1; default-policy accept; neighbor 127.0.0.2 { peer-as 64501; } }
}\n";

#[test]
fn components_answer_without_their_manager() {
    let Some(mut router) = Router::up(BGP) else { return };
    let (manager, bgp) = (router.pid("manager"), router.pid("bgp"));
    router.run(&format!("kill -9 {manager}"));
    let dead = format!("! kill -0 {manager} 2>/dev/null || grep -q '^State:.Z' /proc/{manager}/status");
    assert!(router.waits(|router| router.shell(&dead).1 == 0));
    for (command, answer) in [
        ("show bgp summary", "AS 64500"),
        ("show routes", "10.1.0.0/16"),
        ("show interfaces", "lo"),
        ("show bgp neighbor", "127.0.0.2"),
    ] {
        let began = Instant::now();
        let (said, status) = router.shell(&format!("sluice {command}"));
        let took = began.elapsed();
        assert_eq!(status, 0, "{command}: {said}");
        assert!(
            said.contains(answer) && said.contains("manager in /run/sluice is dead"),
            "{command}: {said}"
        );
        assert!(said.contains(&format!("bgp (process {bgp})")), "{said}");
        assert!(took < Duration::from_secs(1), "{command} took {took:?}");
    }
    // On standard error: a program that reads the answer sees nothing of it.
    let summary: serde_json::Value =
        serde_json::from_str(&router.run("sluice show bgp summary --json 2>/dev/null")).unwrap();
    assert_eq!(summary["local_as"], 64500);
    for command in ["status", "show processes", "restart bgp", "clear bgp neighbor 127.0.0.2"] {
        let (said, status) = router.shell(&format!("sluice {command}"));
        assert_eq!(status, 3, "{command}: {said}");
        assert!(said.contains("manager in /run/sluice is dead") && said.contains("`sluice start`"), "{said}");
    }
    router.run(&format!("kill -9 {bgp}"));
    let dead = format!("so are bgp (process {bgp})");
    assert!(router.waits(|router| router.shell("sluice status").0.contains(&dead)));
    router.start("");
    assert!(router.kernel().contains("10.1.0.0/16"));
}

/// Kills the manager, and waits for its end.
fn kill_manager(router: &mut Router) {
    let manager = router.pid("manager");
    router.run(&format!("kill -9 {manager}"));
    let dead = format!("! kill -0 {manager} 2>/dev/null || grep -q '^State:.Z' /proc/{manager}/status");
    assert!(router.waits(|router| router.shell(&dead).1 == 0));
}

#[test]
fn components_are_adopted_by_records_of_all_versions_but_later_ones() {
    const RECORD: &str = "/run/sluice/state.json";
    let Some(mut router) = Router::up(BGP) else { return };
    let bgp = router.pid("bgp");
    // A later version: the components go on, and the message has both versions.
    kill_manager(&mut router);
    router.run(&format!("sed -i 's/\"version\": 2/\"version\": 3/' {RECORD}"));
    let (said, status) = router.shell("timeout 20 sluice start");
    assert_eq!(status, 1, "{said}");
    for part in ["cannot adopt the running components (bgp, fea, rib, static)", "version 3", "up to 2"] {
        assert!(said.contains(part), "{said}");
    }
    let (said, _) = router.shell("sluice show bgp summary");
    assert!(said.contains("AS 64500") && said.contains(&format!("bgp (process {bgp})")), "{said}");
    router.run(&format!("sed -i 's/\"version\": 3/\"version\": 2/' {RECORD}"));
    router.start("");
    assert_eq!(router.pid("bgp"), bgp);
    // A version without a number: the processes alone.
    kill_manager(&mut router);
    let first =
        "import json, sys; f = sys.argv[1]; p = json.load(open(f))['processes']; json.dump(p, open(f, 'w'))";
    router.run(&format!("python3 -c \"{first}\" {RECORD}"));
    router.start("");
    assert_eq!(router.pid("bgp"), bgp);
    // Damage is of no use to any version: the router starts, and processes that nobody knows end.
    kill_manager(&mut router);
    router.run(&format!("truncate --size=40 {RECORD}"));
    router.start("");
    assert_ne!(router.pid("bgp"), bgp);
    assert!(router.waits(|router| router.shell(&format!("kill -0 {bgp} 2>/dev/null")).1 != 0));
    assert!(router.kernel().contains("10.1.0.0/16"));
    let events = router.json("sluice show events --component manager --last 1000").to_string();
    assert!(events.contains("process.record-unusable"), "{events}");
}

#[test]
fn strangers_read_nothing_without_a_key() {
    let Some(mut router) = Router::up(BGP) else { return };
    let manager = router.pid("manager");
    router.run(&format!("kill -9 {manager}"));
    // Even a user who could read the state: the receiver asks the kernel who calls.
    router.run("chmod -R a+rX /run/sluice; chmod a+rwx /run/sluice/xrl; chmod a+rw /run/sluice/xrl/*");
    let (said, status) = router.shell("setpriv --reuid 12345 --clear-groups sluice show bgp summary");
    assert_eq!(status, 3, "{said}");
    assert!(!said.contains("AS 64500"), "{said}");
}

#[test]
fn a_manager_that_stands_still_is_said_to_run() {
    let Some(mut router) = Router::up(BGP) else { return };
    let manager = router.pid("manager");
    router.run(&format!("kill -STOP {manager}"));
    for command in ["status", "show version", "show bgp summary"] {
        let (said, status) = router.shell(&format!("sluice {command}"));
        assert_eq!(status, 9, "{command}: {said}");
        assert!(said.contains(&format!("process {manager}")) && !said.contains("no router runs"), "{said}");
    }
    router.run(&format!("kill -CONT {manager}"));
    assert!(router.waits(|router| router.status() == 0));
}
