//! Every command as each role: who may, and what the audit has of it.

use super::lines::RIGHT;
use super::{Router, text, words};
use serde_json::Value;
use sluice_lab::until;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Users that every Debian has.
const READER: (&str, &str) = ("games", "5");
const OPERATOR: (&str, &str) = ("daemon", "1");

/// Commands that an operator may carry out, and a reader may not.
const OPERATING: [&str; 9] = [
    "clear",
    // The statements of a commit are judged one by one: an operator drains.
    "commit",
    "request bgp refresh",
    "request xip ping",
    "xip ping",
    "xip traceroute",
    "drain",
    "undrain",
    "restart",
];
/// Commands of administrators.
const ADMINISTERING: [&str; 5] =
    ["profile", "reload", "upgrade", "request bgp inject", "request bgp stop-injection"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    Reader,
    Operator,
    Administrator,
}

fn least(line: &str) -> Level {
    let begins = |all: &[&str]| all.iter().any(|start| line.starts_with(start));
    if begins(&ADMINISTERING) {
        Level::Administrator
    } else if begins(&OPERATING) {
        Level::Operator
    } else {
        Level::Reader
    }
}

impl Router {
    fn run_as(&self, (_, uid): (&str, &str), line: &str) -> Output {
        let mut command: Command = self.lab.command("left", "setpriv").unwrap();
        command.args(["--reuid", uid, "--regid", "65534", "--clear-groups", crate::SLUICE]);
        // The file of a dump is for this user.
        let mut words: Vec<&str> = words(line);
        if line.ends_with("dump-table") {
            words.pop();
            words.push("/dev/null");
        }
        command.args(words).arg("--run-dir").arg(&self.run_dir).stdin(Stdio::null()).output().unwrap()
    }

    /// Returns the acts of a person in the audit, with the first line of each.
    fn acts(&self, who: &str) -> Vec<(String, String)> {
        let audit = self.value(&["show", "audit", "last", "100000"]);
        let records = audit["records"].as_array().cloned().unwrap_or_default();
        let of = |record: &Value| {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (record["who"] == who).then(|| (word(&record["act"]), word(&record["lines"][0])))
        };
        records.iter().filter_map(of).collect()
    }
}

/// Runs every line as a person, and compares who may with the person's level.
fn every_line(router: &Router, person: (&str, &str), level: Level) {
    let mut wrong = Vec::new();
    for (line, ..) in RIGHT {
        let output = router.run_as(person, line);
        let is_refused = output.status.code() == Some(7);
        if is_refused == (level >= least(line)) {
            wrong.push(format!("{line}: {:?}: {}", output.status.code(), text(&output)));
        }
    }
    assert!(wrong.is_empty(), "{person:?}: {wrong:#?}");
}

#[test]
fn every_command_is_for_the_roles_that_may_and_reading_is_no_change() {
    let Some(router) = Router::up() else { return };
    let user = |(name, _): (&str, &str), role: &str| format!("set system user {name} role {role}");
    let (reader, operator) = (user(READER, "read-only"), user(OPERATOR, "operator"));
    let done = router.run(&["configure", &reader, &operator, "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    every_line(&router, READER, Level::Reader);
    every_line(&router, OPERATOR, Level::Operator);
    // What the Finder noted comes into the audit with the last call of the operator.
    let is_noted = || {
        let acts = router.acts(OPERATOR.0);
        acts.iter().any(|(act, line)| act == "call" && line.ends_with("/ResetNeighbor"))
    };
    assert!(until(Duration::from_secs(30), is_noted), "{:#?}", router.acts(OPERATOR.0));
    let of_reader = router.acts(READER.0);
    assert!(of_reader.iter().any(|(act, _)| act == "log-in"), "{of_reader:#?}");
    let changes: Vec<_> =
        of_reader.iter().filter(|(act, _)| !["log-in", "denied"].contains(&act.as_str())).collect();
    assert!(changes.is_empty(), "a reader changes nothing: {changes:#?}");
    let calls: Vec<String> =
        router.acts(OPERATOR.0).into_iter().filter(|(act, _)| act == "call").map(|(_, line)| line).collect();
    let acts = ["Clear", "Reset", "Refresh", "Ping", "CallElement"];
    let is_change = |line: &String| {
        let method = line.rsplit('/').next().unwrap_or_default();
        acts.iter().any(|act| method.starts_with(act))
    };
    assert!(calls.iter().all(is_change), "{calls:#?}");
}
