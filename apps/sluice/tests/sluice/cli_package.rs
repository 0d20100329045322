//! A dropped-in package: its statements, help, completion and commands work without a rebuild.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available, until};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const MODULE: &str = r#"
module sluice-hello {
  yang-version 1.1;
  namespace "urn:sluice:hello";
  prefix hello;
  import sluice-extensions { prefix sluice; }
  import sluice-router { prefix router; }
  description "Greetings.";
  augment "/router:protocols" {
    container hello {
      description "Whom to greet.";
      leaf greeting {
        type string { length "1..20"; }
        default "hello";
        description "What is said.";
        sluice:impact "none";
      }
    }
  }
}
"#;

const COMMANDS: &str = r#"
[help]
"show hello" = "Greetings and who is there to be greeted"

[[command]]
words = "show hello processes"
help = "Who is there to be greeted"
call = "manager/manager.v1.Manager/GetProcesses"
rows = "processes"
column = [{ heading = "who", path = "component" }, { heading = "router", path = "version" }]

[[command]]
words = "show processes"
help = "A name that is taken"
call = "manager/manager.v1.Manager/GetProcesses"
column = [{ heading = "x", path = "x" }]
"#;

const RIGHTS: &str = r#"
class = "hello"
[calls]
manager = ["manager.v1.Manager/GetProcesses"]
"#;

const METRICS: &str = r#"
[[metric]]
name = "hello_greeted"
type = "gauge"
help = "Who is there to be greeted."
call = "manager/manager.v1.Manager/GetProcesses"
rows = "processes"
labels = { who = "component" }

[[metric]]
name = "hello_greetings"
type = "counter"
help = "What nobody answers."
call = "manager/manager.v1.Manager/GetProcesses"
value = "greetings"
"#;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_package_is_known_everywhere() {
    if let Err(reason) = available() {
        sluice_testkit::skipped(reason);
        return;
    }
    // The router's files go after the router.
    let folder = tempfile::tempdir().unwrap();
    let topology: Topology = "[nodes.host]\n".parse().unwrap();
    let mut lab = Lab::up(&topology, LabOptions::unique("package")).unwrap();
    let at = folder.path();
    write(at, "packages/hello/package.toml", "name = 'hello'\nversion = '1.0'\ndescription = 'Greetings.'\n");
    write(at, "packages/hello/sluice-hello.yang", MODULE);
    write(at, "packages/hello/commands.toml", COMMANDS);
    write(at, "packages/hello/metrics.toml", METRICS);
    write(at, "packages/hello/rights.toml", RIGHTS);
    // A command runs with the rights of whoever types it: a package names no call that its rights do not name.
    let foreign = COMMANDS.replace("show hello", "show thief").replace("GetProcesses", "StopRouter");
    write(at, "packages/thief/package.toml", "name = 'thief'\nversion = '1.0'\ndescription = 'A trap.'\n");
    write(at, "packages/thief/commands.toml", &foreign);
    write(at, "router.conf", "protocols { hello { greeting hi; } }\n");
    let mut command = lab.command("host", SLUICE).unwrap();
    command.arg("start");
    for (option, value) in [
        ("--config", "router.conf"),
        ("--packages-dir", "packages"),
        ("--state-dir", "state"),
        ("--run-dir", "run"),
    ] {
        command.arg(option).arg(at.join(value));
    }
    lab.spawn("host", "sluice", command).unwrap();
    let run = |words: &[&str]| -> Output {
        Command::new(SLUICE).args(words).env("SLUICE_RUN_DIR", at.join("run")).output().unwrap()
    };
    let ready = || run(&["status"]).status.success();
    assert!(until(Duration::from_secs(60), ready), "{}", lab.log("host", "sluice"));

    // Its command, as text, abbreviated, as JSON, with a schema of its own.
    let shown = run(&["show", "hello", "processes"]);
    assert!(shown.status.success() && text(&shown).contains("manager"), "{}", text(&shown));
    assert!(text(&run(&["sh", "hel", "proc"])).contains("who"), "abbreviated");
    let value: Value = serde_json::from_slice(&run(&["show", "hello", "processes", "-j"]).stdout).unwrap();
    let schema: Value =
        serde_json::from_slice(&run(&["schema", "show", "hello", "processes"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&value), "{schema:#}\n{value:#}");

    // Its metrics; what the answer does not have is said, and nothing else is missing.
    let shown = run(&["show", "metrics", "hello"]);
    assert!(shown.status.success(), "{}", text(&shown));
    let said = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(said, "sluice: hello: hello_greetings: the answer has no `greetings`\n");
    let value: Value = serde_json::from_slice(&run(&["show", "metrics", "-j"]).stdout).unwrap();
    let families = value["metrics"].as_array().unwrap();
    let greeted = families.iter().find(|f| f["name"] == "sluice_hello_greeted").unwrap();
    assert!(greeted["samples"].as_array().unwrap().len() >= 3, "{greeted}");
    assert_eq!(greeted["samples"][0]["value"], 1, "{greeted}");
    assert_eq!(value["errors"][0]["component"], "hello", "{value:#}");

    // Its help, its statements.
    let offered = |line: &str| text(&run(&["__complete", "fish", line]));
    assert!(offered("sluice show he").contains("hello\tGreetings and who"), "{}", offered("sluice show he"));
    let statement = offered("sluice configure set protocols hello ");
    assert!(statement.contains("greeting\tWhat is said"), "{statement}");
    let done = run(&["configure", "set protocols hello greeting hey", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    assert!(text(&run(&["show", "configuration", "protocols", "hello"])).contains("greeting hey;"));
    let wrong = run(&["configure", "set protocols hello greeting aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    assert_eq!(wrong.status.code(), Some(4), "{}", text(&wrong));

    // What is taken stays what it was, and it is said.
    assert!(text(&run(&["show", "processes"])).contains("restarts"));
    let packages: Value = serde_json::from_slice(&run(&["show", "packages", "-j"]).stdout).unwrap();
    let hello = packages["packages"].as_array().unwrap().iter().find(|p| p["name"] == "hello").unwrap();
    assert_eq!(hello["commands"], serde_json::json!(["show hello processes"]), "{hello}");
    assert_eq!(hello["commands_refused"], serde_json::json!(["`show processes` is there already"]));
    let thief = packages["packages"].as_array().unwrap().iter().find(|p| p["name"] == "thief").unwrap();
    let reason = thief["refused"].as_str().unwrap_or_default();
    assert!(reason.contains("StopRouter") && reason.contains("[calls]"), "{thief}");
    assert!(!run(&["show", "thief", "processes"]).status.success() && ready());
}
