//! The journal, kept by the real daemon on a host of the test's own: every report of the router is there, with its id,
//! its fields and its priority, and no secret is.

use crate::own_host;
use crate::own_host::{Host, PATIENCE};
use serde_json::Value;
use std::collections::BTreeMap;

const DAEMON: &str = "/lib/systemd/systemd-journald";

/// A secret forbidden in the journal.
const PASSWORD: &str = "hunter2-of-a-neighbor";

/// The daemon keeps the journal of the host alone, without the messages of the machine's kernel.
const DAEMON_CONFIG: &str = "[Journal]\nStorage=volatile\nReadKMsg=no\nRuntimeMaxUse=32M\n";

/// Starts the router like systemd (systemd.exec(5)): standard error is a stream to the journal, and the variable names
/// the stream. Both are inherited.
const START: &str = "exec systemd-cat bash -c \
    'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2); exec sluice start --config /etc/sluice/sluice.conf'";

fn config(hold_time: u16) -> String {
    format!(
        "protocols {{
            bgp {{
                local-as 64500;
                router-id 10.0.0.1;
                default-policy accept;
                neighbor 127.0.0.2 {{ peer-as 64501; connect-retry-time 1; hold-time {hold_time}; password {PASSWORD}; }}
            }}
            static {{ route 192.0.2.0/24 discard; }}
        }}\n"
    )
}

/// Reports the reason for skipping the test.
fn possible() -> bool {
    let possible = own_host::possible(&[DAEMON, "journalctl", "systemd-cat"]);
    if let Err(reason) = &possible {
        sluice_testkit::skipped(reason);
    }
    possible.is_ok()
}

/// A host with a journal; the error has the reason why the daemon cannot run.
fn host_with_journal() -> Result<Host, String> {
    let mut host = Host::new();
    let made = "mount -t tmpfs tmpfs /var/log && mkdir -p /run/log/journal /run/systemd/journal /etc/systemd && \
        echo 0123456789abcdef0123456789abcdef > /run/machine-id && touch /etc/machine-id && \
        mount --bind /run/machine-id /etc/machine-id";
    let (said, status) = host.shell(made)?;
    assert_eq!(status, 0, "{said}");
    host.write("/etc/systemd/journald.conf", DAEMON_CONFIG)?;
    let log = host.start(DAEMON)?;
    // The sockets of a daemon that has ended stay.
    let runs = || succeeds(&mut host, "systemd-cat true && test -S /run/systemd/journal/socket");
    match sluice_lab::until(PATIENCE / 5, runs) {
        true => Ok(host),
        false => Err(format!("{DAEMON}: {}", std::fs::read_to_string(log).unwrap_or_default())),
    }
}

fn succeeds(host: &mut Host, command: &str) -> bool {
    host.shell(command).unwrap().1 == 0
}

/// Runs a command, which must succeed. Returns its output.
fn said(host: &mut Host, command: &str) -> String {
    let (said, status) = host.shell(command).unwrap();
    assert_eq!(status, 0, "`{command}`: {said}");
    said
}

/// An entry of the journal, as printed by `journalctl -o json`.
type Entry = BTreeMap<String, Value>;

/// The router's entries.
fn journal(host: &mut Host) -> Vec<Entry> {
    // What was written before is in the files then.
    let text = said(host, "journalctl --sync; journalctl --no-pager --all -o json SYSLOG_IDENTIFIER=sluice");
    text.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn field<'e>(entry: &'e Entry, name: &str) -> &'e str {
    entry.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the journal's name of an event's field.
fn in_journal(field: &str) -> String {
    format!("F_{}", field.to_uppercase())
}

/// Returns true if an entry matches an event kept by the router.
fn reports(entry: &Entry, event: &Value) -> bool {
    let id = event["id"].as_str().unwrap();
    let same_id = match id {
        "log" => !entry.contains_key("F_EVENT"),
        id => field(entry, "F_EVENT") == id,
    };
    let fields = event["fields"].as_object().unwrap();
    same_id
        && field(entry, "MESSAGE") == event["text"]
        && field(entry, "SLUICE_COMPONENT") == event["component"]
        && fields.iter().all(|(name, value)| entry.get(&in_journal(name)) == Some(value))
        && field(entry, "PRIORITY") == priority(event["level"].as_str().unwrap())
}

fn priority(level: &str) -> &'static str {
    match level {
        "error" => "3",
        "warn" => "4",
        "info" => "6",
        _ => "7",
    }
}

/// The number of a component's process.
fn pid(host: &mut Host, component: &str) -> u64 {
    let all: Value = serde_json::from_str(&said(host, "sluice show processes --json")).unwrap();
    let process = all["processes"].as_array().unwrap().iter().find(|p| p["component"] == component);
    process.and_then(|p| p["pid"].as_u64()).unwrap()
}

/// Makes the router report events of each level: the router starts, refuses a file, takes a commit, loses a process and
/// starts it anew.
fn busy_router(host: &mut Host) {
    host.write("/etc/sluice/sluice.conf", &config(90)).unwrap();
    host.start(START).unwrap();
    // With the status 8 it runs degraded: not with the configuration of the file.
    let ready =
        |host: &mut Host| sluice_lab::until(PATIENCE, || succeeds(host, "sluice status || [ $? = 8 ]"));
    assert!(ready(host), "{}", host.shell("sluice status; journalctl --no-pager").unwrap().0);
    host.write("/etc/sluice/new.conf", &config(30)).unwrap();
    said(host, "sluice commit --from-file /etc/sluice/new.conf --comment 'a shorter hold time'");
    // Wrong is what stands behind the secret.
    let wrong = config(30).replace(PASSWORD, &format!("{PASSWORD} {PASSWORD}"));
    host.write("/etc/sluice/sluice.conf", &wrong).unwrap();
    let manager = pid(host, "manager");
    said(host, &format!("kill -HUP {manager}"));
    let pid = pid(host, "static");
    said(host, &format!("kill -9 {pid}"));
    for id in ["config.refused", "process.died"] {
        let mut is_reported = || said(host, "sluice show events --component manager --json").contains(id);
        assert!(sluice_lab::until(PATIENCE, &mut is_reported), "{id}");
    }
    assert!(ready(host));
}

#[test]
fn what_is_reported_is_in_the_journal() {
    if !possible() {
        return;
    }
    let mut host = match host_with_journal() {
        Ok(host) => host,
        Err(reason) => return sluice_testkit::skipped(reason),
    };
    busy_router(&mut host);
    let events: Value =
        serde_json::from_str(&said(&mut host, "sluice show events --last 1000 --json")).unwrap();
    let events = events["events"].as_array().unwrap();
    let entries = journal(&mut host);
    for event in events {
        let number = entries.iter().filter(|entry| reports(entry, event)).count();
        assert!(number > 0, "{event} is not in the journal:\n{entries:#?}");
    }
    for component in ["manager", "bgp", "rib", "fea", "static"] {
        assert!(
            events.iter().any(|e| e["component"] == component),
            "{component} reports nothing: {events:#?}"
        );
    }

    // Each by what an operator looks for, with what docs/events.md promises of it.
    for (id, priority, fields) in [
        ("config.start", "6", [("F_REVISION", "1")].as_slice()),
        (
            "config.commit",
            "6",
            &[("F_REVISION", "2"), ("F_COMMENT", "a shorter hold time"), ("F_VIA", "commit")],
        ),
        ("config.refused", "4", &[]),
        ("process.died", "4", &[("F_CLASS", "static"), ("F_REASON", "signal: 9 (SIGKILL)")]),
        ("process.ready", "6", &[("F_CLASS", "bgp")]),
    ] {
        let found =
            said(&mut host, &format!("journalctl --no-pager -o json F_EVENT={id} PRIORITY={priority}"));
        let found: Vec<Entry> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let as_promised = |entry: &&Entry| fields.iter().all(|(name, value)| field(entry, name) == *value);
        let entry = found.iter().find(as_promised).unwrap_or_else(|| panic!("{id} {fields:?}: {found:#?}"));
        assert_eq!((field(entry, "_TRANSPORT"), field(entry, "SYSLOG_IDENTIFIER")), ("journal", "sluice"));
    }
    // Nothing of it as a mere line of text.
    let text = said(&mut host, "journalctl --no-pager -o cat _TRANSPORT=stdout");
    assert!(text.is_empty() || text.trim() == "-- No entries --", "{text}");
    let all = said(&mut host, "journalctl --no-pager --all -o export");
    assert!(all.contains("a shorter hold time") && !all.contains("hunter2"), "a secret is in the journal");
}
