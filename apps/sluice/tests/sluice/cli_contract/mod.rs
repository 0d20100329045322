//! Every command in both forms, as text and as JSON, and every way of failing: the output matches its schema exactly.

mod answers;
mod closed_pipe;
mod cluster;
pub mod lines;
mod packages;
mod pktgen;
mod reference;
mod roles;
mod widths;

use crate::SLUICE;
use lines::{ALONE, RIGHT, WRONG};
use serde_json::{Value, json};
use sluice_lab::{Lab, LabOptions, Topology, available, until};
use sluice_load::wide;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const TOPOLOGY: &str = "
[nodes.left]
daemon = 'sluice'
config = '''
system { host-name a; }
policy { policy-statement all { term all { then { accept; } } } }
protocols {
    bgp {
        local-as 64500; router-id 10.0.0.1;
        default-policy accept;
        network [ 203.0.113.0/24 2001:db8:1::/48 ];
        neighbor 10.1.0.2 { peer-as 64501; import all; export all; connect-retry-time 1; ipv6-unicast enabled; password \"hunter2\"; }
        neighbor 10.1.0.9 { peer-as 64509; passive true; }
    }
    static {
        route 192.0.2.0/24 discard; route 2001:db8:2::/48 reject;
        xid-route hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2 local;
    }
}
xip { interface right; principal hid; }
rpki { cache near { address 10.1.0.2; } roa 192.0.2.0/24 65001; }
cluster {
    element 1; interconnect right; key 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a;
    member 1 { role spare; } member 2 { role balancer; }
    port 1 { balancer 2; interface out1; mac 02:00:00:00:01:01; }
}
'''
[nodes.right]
daemon = 'sluice'
config = '''
protocols {
    bgp {
        local-as 64501; router-id 10.0.0.2;
        default-policy accept;
        network [ 198.51.100.0/24 2001:db8:3::/48 ];
        neighbor 10.1.0.1 { peer-as 64500; connect-retry-time 1; ipv6-unicast enabled; password \"hunter2\"; }
    }
}
'''
[[links]]
a = 'left:right'
b = 'right:left'
a_addresses = ['10.1.0.1/24', '2001:db8::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8::2/64']
";

struct Router {
    lab: Lab,
    run_dir: PathBuf,
}

impl Router {
    fn up() -> Option<Self> {
        if let Err(reason) = available() {
            sluice_testkit::skipped(reason);
            return None;
        }
        let topology: Topology = TOPOLOGY.parse().unwrap();
        let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique("cli") };
        let lab = Lab::up(&topology, options).unwrap();
        let run_dir = lab.dir("left").join("run");
        let router = Router { lab, run_dir };
        router.wait_for_session();
        Some(router)
    }

    /// Waits until the neighbor's routes are there and nothing more is to be done.
    fn wait_for_session(&self) {
        let established = || {
            let summary = self.value(&["show", "bgp", "summary"]);
            let has_routes =
                summary["established"] == 1 && wide(&summary["tables"][0]["prefixes"]) >= Some(2);
            has_routes && self.value(&["show", "summary"])["idle"] == true
        };
        assert!(
            until(Duration::from_secs(60), established),
            "no session: {}",
            self.lab.log("left", "sluice")
        );
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command("left", SLUICE).unwrap();
        command.args(words).arg("--run-dir").arg(&self.run_dir).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn value(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A schema that also refuses undocumented fields: printing a field without documentation is an error of the document.
fn strict(name: &str) -> jsonschema::Validator {
    let output = Command::new(SLUICE).arg("schema").args(name.split('-')).output().unwrap();
    let output = match output.status.success() {
        true => output,
        false => Command::new(SLUICE).args(["schema", name]).output().unwrap(),
    };
    let mut schema: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}"));
    close(&mut schema);
    jsonschema::validator_for(&schema).unwrap()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".into(), json!(false));
            }
            if object.get("format") == Some(&json!("uint64")) {
                object.insert("pattern".into(), json!("^(0|[1-9][0-9]*)$"));
            }
            if object.get("format") == Some(&json!("uint32")) {
                object.extend([("minimum".into(), json!(0)), ("maximum".into(), json!(u32::MAX))]);
            }
            object.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

fn assert_valid(schema: &str, document: &Value, what: &str) {
    let validator = strict(schema);
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{what} does not match docs/schemas/{schema}.json: {errors:?}\n{document:#}");
}

/// The file of the command that writes one.
const TABLE_DUMP: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/cli-contract-table.mrt");

/// A trace without records.
const EMPTY_TRACE: &str = "/dev/null";

fn words(line: &str) -> Vec<&str> {
    let mut words: Vec<&str> = line.split(' ').collect();
    if line.ends_with("--binary") {
        words.push(SLUICE);
    }
    if line.ends_with("dump-table") {
        words.push(TABLE_DUMP);
    }
    if line == "request bgp inject" {
        words.extend([EMPTY_TRACE, "192.0.2.77", "peer-as", "64501"]);
    }
    words
}

#[test]
fn every_command_prints_what_its_schema_requires() {
    let Some(router) = Router::up() else { return };
    memory(&router);
    metrics(&router);
    let mut seen = BTreeSet::new();
    drop(std::fs::remove_file(TABLE_DUMP));
    for (line, schema, status) in RIGHT {
        let words = words(line);
        let output = router.run(&[&words[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(*status), "{line}: {}", text(&output));
        assert!(output.stderr.is_empty(), "{line}: {}", text(&output));
        // `monitor` prints one document a line.
        let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        let documents: Vec<Value> = documents.map(|d| d.unwrap_or_else(|e| panic!("{line}: {e}"))).collect();
        assert_eq!(documents.len(), if *schema == "monitor" { 3 } else { 1 }, "{line}");
        documents.iter().for_each(|d| assert_valid(schema, d, line));
        assert!(!text(&output).contains("hunter2"), "{line}");
        // A dump overwrites no file.
        drop(std::fs::remove_file(TABLE_DUMP));
        let as_text = router.run(&words);
        assert_eq!(as_text.status.code(), Some(*status), "{line}: {}", text(&as_text));
        let is_text = serde_json::from_slice::<Value>(&as_text.stdout).is_err() || as_text.stdout.is_empty();
        assert!(is_text || line.starts_with("call"), "{line}: {}", text(&as_text));
        seen.insert(schema.to_string());
    }
    alone(&router, &mut seen);
    changes(&router, &mut seen);
    events(&router);
    reports(&router, &mut seen);
    seen.extend(["error", "config-check", "package-check"].map(String::from));
    let all = Command::new(SLUICE).arg("schema").output().unwrap();
    let all: BTreeSet<String> = String::from_utf8(all.stdout).unwrap().lines().map(String::from).collect();
    failures(&router);
    ends(&router, &mut seen);
    let missed: Vec<_> = all.difference(&seen).collect();
    assert!(missed.is_empty(), "no test prints {missed:?}");
}

/// Commands without a router.
fn alone(router: &Router, seen: &mut BTreeSet<String>) {
    for (line, schema, status) in ALONE {
        let output = Command::new(SLUICE).args(words(line)).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(*status), "{line}: {}", text(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_valid(schema, &value, line);
        seen.insert(schema.to_string());
        if *schema == "lab-status" {
            let labs = value.as_array().unwrap();
            assert!(labs.iter().any(|lab| lab["name"] == router.lab.name()), "{value:#}");
        }
    }
}

/// The end of the router, and the commands possible afterward.
fn ends(router: &Router, seen: &mut BTreeSet<String>) {
    for line in ["stop", "flush"] {
        let output = router.run(&[line, "--json"]);
        assert!(output.status.success(), "{line}: {}", text(&output));
        assert_valid(line, &serde_json::from_slice(&output.stdout).unwrap(), line);
        seen.insert(line.to_string());
    }
}

/// The memory of the processes adds up to the total.
fn memory(router: &Router) {
    let value = router.value(&["show", "memory"]);
    let processes = value["processes"].as_array().unwrap();
    for name in ["manager", "rib", "fea", "bgp"] {
        assert!(processes.iter().any(|process| process["component"] == name), "{name}: {value:#}");
    }
    for column in ["resident_bytes", "proportional_bytes", "heap_bytes"] {
        let of = |of: &Value| wide(&of[column]).unwrap();
        assert_eq!(processes.iter().map(of).sum::<u64>(), of(&value["total"]), "{column}: {value:#}");
        assert!(processes.iter().all(|process| of(process) > 0), "{column}: {value:#}");
    }
    assert!(
        processes.iter().all(|p| wide(&p["proportional_bytes"]) <= wide(&p["resident_bytes"])),
        "{value:#}"
    );
    let shown = router.run(&["show", "memory"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.lines().last().is_some_and(|line| line.starts_with("total ")), "{shown}");
}

/// The output for monitoring: complete and valid, also while a component does not answer.
fn metrics(router: &Router) {
    let output = router.run(&["show", "metrics"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.ends_with("\n# EOF\n"), "{shown}");
    let mut names = BTreeSet::new();
    let (mut family, mut series) = (String::new(), BTreeSet::new());
    for line in shown.lines().filter(|line| *line != "# EOF") {
        if let Some(remark) = line.strip_prefix("# HELP ") {
            family = remark.split(' ').next().unwrap().into();
            assert!(names.insert(family.clone()), "{family} is there twice");
        } else if let Some(remark) = line.strip_prefix("# ") {
            let (kind, rest) = remark.split_once(' ').unwrap();
            assert!(["TYPE", "UNIT"].contains(&kind) && rest.starts_with(&format!("{family} ")), "{line}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(&family) && value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(name.to_string()), "{name} is there twice");
        }
    }
    for expected in [
        "sluice_up{component=\"bgp\"} 1\n",
        "# TYPE sluice_bgp_neighbor_flaps counter\nsluice_bgp_neighbor_flaps_total{neighbor=\"10.1.0.2\",peer_as=\"64501\"} 0\n",
        "sluice_bgp_neighbor_state{neighbor=\"10.1.0.2\",peer_as=\"64501\",state=\"Established\"} 1\n",
        "sluice_bgp_neighbor_prefixes_received{family=\"ipv4\",neighbor=\"10.1.0.2\",peer_as=\"64501\"} 1\n",
        "sluice_rib_origin_routes{family=\"ipv4\",origin=\"static\",table=\"254\"} 1\n",
        "# UNIT sluice_static_uptime_seconds seconds\n",
        "sluice_static_readiness{state=\"ready\"} 1\n",
        "sluice_manager_process_state{component=\"bgp\",state=\"running\"} 1\n",
        "sluice_manager_configuration_trouble 0\n",
        "sluice_fea_refusals_total 0\n",
    ] {
        assert!(shown.contains(expected), "{expected}{shown}");
    }
    let pid = router.value(&["show", "processes"])["processes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["component"] == "static")
        .unwrap()["pid"]
        .to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    signal("-STOP");
    let stuck =
        [&["show", "metrics"][..], &["show", "metrics", "--json"], &["show", "metrics", "static", "--json"]];
    let [as_text, as_json, alone] = stuck.map(|words| router.run(&[words, &["--timeout", "5"]].concat()));
    signal("-CONT");
    assert_eq!(as_text.status.code(), Some(0), "{}", text(&as_text));
    let shown = String::from_utf8_lossy(&as_text.stdout);
    assert!(shown.contains("sluice_up{component=\"static\"} 0\n") && shown.ends_with("# EOF\n"), "{shown}");
    assert!(shown.contains("state=\"Established\"} 1\n") && !shown.contains("sluice_static_"), "{shown}");
    let said = String::from_utf8_lossy(&as_text.stderr);
    assert!(said.starts_with("sluice: static: ") && said.lines().count() == 1, "{said}");
    let value: Value = serde_json::from_slice(&as_json.stdout).unwrap();
    assert_valid("show-metrics", &value, "show metrics");
    assert_eq!(value["errors"][0]["component"], "static", "{}", value["errors"]);
    check_failure(&alone, "show metrics static", 6, "DeadlineExceeded");
}

/// Changes of the configuration by single commands.
fn changes(router: &Router, seen: &mut BTreeSet<String>) {
    let mut valid = |line: &[&str], schema: &str, status: i32| {
        let output = router.run(&[line, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(status), "{line:?}: {}", text(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_valid(schema, &value, &line.join(" "));
        seen.insert(schema.into());
        value
    };
    let name = || router.value(&["show", "configuration"])["system"]["host-name"].clone();
    let value = valid(
        &["configure", "set system host-name b", "compare", "commit comment \"a name\""],
        "configure",
        0,
    );
    assert_eq!(value["results"][1]["result"]["changes"], "1");
    assert_eq!(name(), "b");
    assert_eq!(valid(&["compare", "--rollback", "1"], "compare", 10)["changes"], "1");
    valid(&["rollback", "1"], "rollback", 0);
    assert_eq!(name(), "a");
    // Whatever goes wrong, nothing is committed.
    let output = router.run(&["configure", "set system host-name c", "set frob", "commit"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert_eq!(name(), "a");
    // From standard input.
    let mut child = router
        .command(&["configure", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"set system host-name d\ncommit\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(name(), "d");
    // A secret is in no error.
    let wrong = format!("set protocols bgp neighbor 10.1.0.2 password hunter2{}", "x".repeat(100));
    let output = router.run(&["configure", &wrong, "--json"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(!text(&output).contains("hunter2"), "{}", text(&output));
    // A file, looked at first.
    let file = router.run_dir.join("new.conf");
    std::fs::write(&file, "system { host-name e; }\n").unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        valid(&["commit", "--from-file", file, "--check"], "commit", 10)["effects"][0]["component"],
        "bgp"
    );
    assert_eq!(name(), "d");
    // Who has the configuration for himself keeps others out.
    let opened =
        router.value(&["call", "manager/manager.v1.Configuration/Open?mode:enum=EXCLUSIVE&user:txt=holder"]);
    let editor = opened["editor"].as_str().unwrap_or_else(|| panic!("{opened}"));
    check_failure(&router.run(&["commit", "--json"]), "commit", 5, "conflict");
    router.value(&["call", &format!("manager/manager.v1.Configuration/Close?editor:u64={editor}")]);
    valid(&["commit"], "commit", 0);
}

/// Events are printed as they happen, with the reason.
fn events(router: &Router) {
    let follow = |words: &[&str]| {
        // An event that never comes is not waited for without end.
        let mut command = router.lab.command("left", "timeout").unwrap();
        command.arg("300").arg(SLUICE).args(words).arg("--json").arg("--run-dir").arg(&router.run_dir);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()))
    };
    // A session that a commit ends at this moment cannot be ended again, and an attempt may fail meanwhile: the next session can be ended.
    let down = (0..15).find_map(|_| {
        // Only a session that is up can end: commits before may have ended it.
        router.wait_for_session();
        // The event before it shows that the monitor has begun.
        let (mut child, mut lines) =
            follow(&["monitor", "sessions", "component", "bgp", "last", "1", "count", "2"]);
        assert!(lines.next().is_some());
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || lines.next().map(|line| sender.send(line)));
        let output = router.run(&["clear", "bgp", "neighbor", "10.1.0.2"]);
        assert!(output.status.success(), "{}", text(&output));
        let Ok(event) = receiver.recv_timeout(Duration::from_secs(10)) else {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        };
        assert!(child.wait().unwrap().success());
        event["fields"]["reason"].as_str().unwrap().contains("NOTIFICATION").then_some(event)
    });
    let down = down.expect("the session ended");
    assert_eq!((&down["id"], &down["fields"]["neighbor"]), (&json!("bgp.session.down"), &json!("10.1.0.2")));
    // Routes are sent as they change, and none that were there before. Those of the neighbor come back first.
    router.wait_for_session();
    let (mut child, mut lines) = follow(&["monitor", "routes", "last", "0", "count", "2"]);
    let mut number = 0;
    let first = loop {
        // It listens from its first of these reports on.
        number += 1;
        let route = format!("set protocols static route 192.0.2.{number}/32 discard");
        let done = router.run(&["configure", &route, "commit"]);
        assert!(done.status.success(), "{}", text(&done));
        if number == 40 || child.try_wait().unwrap().is_some() {
            break lines.next().unwrap();
        }
    };
    assert_eq!((&first["id"], &first["component"]), (&json!("rib.route.set"), &json!("rib")), "{first}");
    assert!(first["fields"]["prefix"].as_str().unwrap().starts_with("192.0.2."), "{first}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The manager reports a process that dies, and the one that takes its place is followed too.
    let (mut child, mut lines) = follow(&["monitor", "processes", "last", "1"]);
    assert!(lines.next().is_some());
    let processes = router.value(&["show", "processes"]);
    let all = processes["processes"].as_array().unwrap();
    let pid = all.iter().find(|p| p["component"] == "static").unwrap()["pid"].to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    // Two processes report it, either of them first.
    let mut expected = BTreeSet::from([("process.died", "manager"), ("process.registered", "static")]);
    for event in lines {
        expected.retain(|(id, component)| event["id"] != *id || event["component"] != *component);
        if expected.is_empty() {
            break;
        }
    }
    assert!(expected.is_empty(), "never reported: {expected:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Commands about the host.
fn reports(router: &Router, seen: &mut BTreeSet<String>) {
    let output = router.run(&["doctor", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output));
    assert_valid("doctor", &serde_json::from_slice(&output.stdout).unwrap(), "doctor");
    let output = router.run(&["config", "upgrade-check", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("config-upgrade-check", &value, "config upgrade-check");
    assert_eq!(value["notices"], json!([]));
    // A version that had another schema: the one of the newest revision is changed.
    let schema = router.run_dir.join("state/schema.json");
    let before = std::fs::read_to_string(&schema).unwrap();
    std::fs::write(&schema, before.replace("\"impact\":\"none\"", "\"impact\":\"restart\"")).unwrap();
    let output = router.run(&["config", "upgrade-check", "--json"]);
    std::fs::write(&schema, before).unwrap();
    assert_eq!(output.status.code(), Some(10), "{}", text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("config-upgrade-check", &value, "config upgrade-check");
    assert_eq!(value["notices"][0]["what"], "impact");
    seen.insert("config-upgrade-check".into());
    let file = router.run_dir.join("bundle.tar.gz");
    let output = router.run(&["support-bundle", "--into", file.to_str().unwrap(), "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid("support-bundle", &value, "support-bundle");
    let unpacked = Command::new("tar").arg("-xzOf").arg(&file).output().unwrap();
    assert!(unpacked.status.success() && unpacked.stdout.len() > 1000);
    let all = String::from_utf8_lossy(&unpacked.stdout);
    assert!(all.contains("10.1.0.2") && !all.contains("hunter2"));
    seen.extend(["doctor".to_string(), "support-bundle".to_string()]);
    cluster::all(seen);
    packages::all(seen);
    pktgen::packets(seen);
}

fn check_failure(output: &Output, line: &str, status: i32, code: &str) {
    assert_eq!(output.status.code(), Some(status), "{line}: {}", text(output));
    let value: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{line}: {e}: {}", text(output)));
    assert_valid("error", &value, line);
    assert_eq!(value["error"]["code"], code, "{line}: {value}");
    assert!(output.stderr.is_empty(), "{line}: {}", text(output));
}

fn failures(router: &Router) {
    for (line, status, code) in WRONG {
        let tool = ["config", "lab"].contains(&words(line)[0]);
        let run = |extra: &[&str]| {
            let all = [&words(line)[..], extra].concat();
            match tool {
                true => Command::new(SLUICE).args(&all).output().unwrap(),
                false => router.run(&all),
            }
        };
        // A flag that lacks its value takes the next word: the order is the test's.
        let output = match line.ends_with("--timeout") {
            true => {
                Command::new(SLUICE).args(["--json", "show", "bgp", "summary", "--timeout"]).output().unwrap()
            }
            false => run(&["--json"]),
        };
        check_failure(&output, line, *status, code);
        if !line.ends_with("--timeout") {
            let output = run(&[]);
            assert_eq!(output.status.code(), Some(*status), "{line}: {}", text(&output));
            assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line}: {}", text(&output));
        }
    }
}

#[test]
fn without_a_router() {
    let folder = tempfile::tempdir().unwrap();
    for (line, _, _) in RIGHT {
        // The version is known without a router; the tools of the kernel are not asked.
        if *line == "show version" {
            continue;
        }
        let output = Command::new(SLUICE)
            .args(words(line))
            .args(["--json", "--run-dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        check_failure(&output, line, 3, "not-connected");
    }
    let file = folder.path().join("x.conf");
    std::fs::write(&file, "system { host-name x; }\n").unwrap();
    let output = Command::new(SLUICE).args(["config", "check", "--json"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_valid("config-check", &serde_json::from_slice(&output.stdout).unwrap(), "config check");
}
