//! Who may look, who may change what, and who did: by the kernel's word on the user.

use crate::SLUICE;
use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available, until};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const CONFIGURATION: &str = "protocols { static { route 192.0.2.0/24 { discard; } } bgp { local-as 65001; router-id 192.0.2.1; default-policy accept; \
                             neighbor 192.0.2.9 { peer-as 65002; password hunter2; } } }\n";
/// Users that every Debian has: the first looks, the second administers, the third is nobody here.
const READER: (&str, u32) = ("games", 5);
const ADMINISTRATOR: (&str, u32) = ("daemon", 1);
const STRANGER: (&str, u32) = ("sys", 3);

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

struct Router {
    lab: Lab,
    run_dir: String,
}

impl Router {
    /// Starts a router whose host has the groups of its people.
    fn start(folder: &Path) -> Self {
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let file = folder.join("router.conf");
        std::fs::write(&file, CONFIGURATION).unwrap();
        let mut groups = std::fs::read_to_string("/etc/group").unwrap();
        groups.retain(|c| c != '\r');
        let kept: Vec<&str> = groups.lines().filter(|line| !line.starts_with("sluice")).collect();
        let groups = format!(
            "{}\nsluice:x:64001:{}\nsluice-admin:x:64002:{}\n",
            kept.join("\n"),
            READER.0,
            ADMINISTRATOR.0
        );
        std::fs::write(folder.join("group"), groups).unwrap();
        let topology: Topology = "[nodes.host]\n".parse().unwrap();
        let mut lab = Lab::up(&topology, LabOptions::unique("people")).unwrap();
        let run_dir = folder.join("run").display().to_string();
        let mut start = lab.command("host", "unshare").unwrap();
        start.args(["--mount", "--propagation", "private", "sh", "-c"]);
        start.arg("mount --bind \"$0\" /etc/group && exec \"$@\"").arg(folder.join("group"));
        start
            .arg(SLUICE)
            .arg("start")
            .arg("--config")
            .arg(&file)
            .args(["--run-dir", &run_dir])
            .arg("--state-dir")
            .arg(folder.join("state"));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        start.stdout(log.try_clone().unwrap()).stderr(log);
        lab.spawn("host", "router", start).unwrap();
        let router = Router { lab, run_dir };
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        let is_ready = || router.run(0, &["status"]).status.success();
        assert!(until(Duration::from_secs(30), is_ready), "{}", log());
        router
    }

    fn run(&self, user: u32, words: &[&str]) -> Output {
        let mut command: Command = self.lab.command("host", "setpriv").unwrap();
        let user = user.to_string();
        command.args(["--reuid", &user, "--regid", "65534", "--clear-groups", SLUICE]);
        command.args(words).args(["--run-dir", &self.run_dir]).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(0, &[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn users_have_the_roles_of_their_groups() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let router = Router::start(folder.path());

    // A reader looks at everything but passwords, and changes nothing.
    for words in
        [&["show", "processes"][..], &["show", "routes"], &["show", "bgp", "summary"], &["show", "audit"]]
    {
        let shown = router.run(READER.1, words);
        assert!(shown.status.success(), "{words:?}: {}", text(&shown));
    }
    let shown = router.run(READER.1, &["show", "configuration"]);
    assert!(shown.status.success() && text(&shown).contains("192.0.2.0/24"), "{}", text(&shown));
    assert!(!text(&shown).contains("hunter2"), "{}", text(&shown));
    let changes: [&[&str]; 5] = [
        &["configure", "set protocols static route 198.51.100.0/24 discard", "commit"],
        &["restart", "static"],
        &["clear", "bgp", "neighbor", "192.0.2.9"],
        &["stop"],
        &["call", "rib/rib.v1.Rib/UnregisterOrigin?origin:txt=static"],
    ];
    for words in changes {
        let refused = router.run(READER.1, words);
        assert!(!refused.status.success(), "{words:?}: {}", text(&refused));
        let said = text(&refused);
        assert!(said.contains("may not") || said.contains("not permitted"), "{words:?}: {said}");
    }

    // A stranger gets the list of roles.
    let refused = router.run(STRANGER.1, &["show", "routes"]);
    assert!(!refused.status.success());
    assert!(
        text(&refused).contains("sluice-admin") && text(&refused).contains("group sluice"),
        "{}",
        text(&refused)
    );

    // An administrator changes everything, under the name that the kernel knows.
    let done = router
        .run(ADMINISTRATOR.1, &["configure", "set protocols static route 198.51.100.0/24 discard", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    let revisions = router.json(&["show", "revisions"]);
    assert_eq!(revisions["revisions"][0]["user"], ADMINISTRATOR.0, "{revisions:#}");

    // The audit has all of it, and a change of the file is found with its place.
    let audit = router.json(&["show", "audit"]);
    let records = audit["records"].as_array().unwrap();
    let of = |act: &str, who: &str| records.iter().find(|r| r["act"] == act && r["who"] == who).cloned();
    let commit = of("commit", ADMINISTRATOR.0).unwrap_or_else(|| panic!("{audit:#}"));
    assert_eq!((&commit["result"], &commit["uid"]), (&"done".into(), &ADMINISTRATOR.1.into()), "{commit:#}");
    assert!(commit["lines"][0].as_str().unwrap().contains("198.51.100.0/24"), "{commit:#}");
    assert!(router.run(0, &["request", "audit", "verify"]).status.success());
    assert!(router.run(0, &["audit", "verify"]).status.success());
    // Refusals that processes report come a moment later, and are behind the commit then.
    let last = text(&router.run(0, &["audit", "show", "last", "20"]));
    assert!(last.contains("commit"), "{last}");
    let file = folder.path().join("state/audit.log");
    let changed = std::fs::read_to_string(&file).unwrap().replace("198.51.100.0/24", "198.51.100.0/25");
    std::fs::write(&file, changed).unwrap();
    let verified = router.run(0, &["request", "audit", "verify"]);
    assert!(!verified.status.success(), "{}", text(&verified));
    assert!(text(&verified).contains("the record was changed after it was written"), "{}", text(&verified));

    // What was refused stands in the list.
    let counted = || {
        let reply = router.json(&["show", "denials"]);
        let rows = reply["denials"].as_array().cloned().unwrap_or_default();
        let has = |kind: &str, uid: u32| rows.iter().any(|row| row["kind"] == kind && row["uid"] == uid);
        has("resolution", READER.1) && has("secret", STRANGER.1)
    };
    assert!(until(Duration::from_secs(10), counted), "{:#}", router.json(&["show", "denials"]));
}

#[test]
fn the_configuration_gives_roles() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let router = Router::start(folder.path());
    let (operator, planner) = (READER.1, STRANGER.1);
    let done = router.run(
        0,
        &[
            "configure",
            &format!("set system user {} role operator", READER.0),
            "set system role planner write \"protocols static\"",
            "set system role planner command \"clear bgp\"",
            &format!("set system user planning uid {planner}"),
            "set system user planning role planner",
            "commit",
        ],
    );
    assert!(done.status.success(), "{}", text(&done));
    let succeeds = |user: u32, words: &[&str]| {
        let done = router.run(user, words);
        assert!(done.status.success(), "{words:?}: {}", text(&done));
    };
    let fails = |user: u32, words: &[&str], why: &str| {
        let refused = router.run(user, words);
        assert!(!refused.status.success(), "{words:?}: {}", text(&refused));
        assert!(text(&refused).contains(why), "{words:?}: {}", text(&refused));
    };
    // An operator looks, restarts and drains, and changes nothing else.
    succeeds(operator, &["show", "routes"]);
    succeeds(operator, &["restart", "static"]);
    succeeds(operator, &["clear", "bgp", "neighbor", "192.0.2.9"]);
    succeeds(operator, &["drain"]);
    succeeds(operator, &["undrain"]);
    let route = "set protocols static route 198.51.100.0/24 discard";
    fails(operator, &["configure", route, "commit"], "protocols static route 198.51.100.0/24");
    fails(operator, &["stop"], "not permitted");
    // A role of one's own: static routes, and one call.
    succeeds(planner, &["configure", route, "commit"]);
    succeeds(planner, &["clear", "bgp", "neighbor", "192.0.2.9"]);
    fails(planner, &["configure", "set protocols bgp local-as 65009", "commit"], "protocols bgp local-as");
    fails(
        planner,
        &["configure", "delete protocols static", "set system host-name mine", "commit"],
        "system host-name",
    );
    fails(
        planner,
        &["configure", "set system user planning role admin", "commit"],
        "system user planning role",
    );
    fails(planner, &["restart", "static"], "may not");
    assert_eq!(router.json(&["show", "configuration", "system"])["host-name"], Value::Null);
    let audit = router.json(&["show", "audit"]).to_string();
    assert!(audit.contains("does not let you change `system user planning role"), "{audit}");

    // Commands that go past the manager are in the audit too, by the Finder's word; so is who came.
    let has = |act: &str, who: &str, line: &str| {
        let audit = router.json(&["show", "audit"]);
        let records = audit["records"].as_array().cloned().unwrap_or_default();
        records.iter().any(|r| r["act"] == act && r["who"] == who && r["lines"].to_string().contains(line))
    };
    let is_noted = || {
        has("call", READER.0, "bgp/bgp.v1.Bgp/ResetNeighbor")
            && has("log-in", READER.0, "")
            && has("log-in", STRANGER.0, "")
    };
    assert!(until(Duration::from_secs(10), is_noted), "{:#}", router.json(&["show", "audit"]));
    assert!(!has("call", READER.0, "Get"));

    // A role that reads a part sees that part of every configuration, and of every difference.
    let part = "set system role planner read \"protocols static\"";
    succeeds(0, &["configure", part, "set protocols bgp neighbor 192.0.2.9 hold-time 30", "commit"]);
    let compared = ["compare", "rollback", "1"];
    for words in [&["show", "configuration"][..], &["show", "configuration", "protocols"], &compared] {
        let (all, shown) = (router.run(0, words), router.run(planner, words));
        assert!(shown.status.success() && text(&all).contains("bgp"), "{words:?}: {}", text(&all));
        assert!(
            !text(&shown).contains("bgp") && !text(&shown).contains("role"),
            "{words:?}: {}",
            text(&shown)
        );
    }
    assert!(text(&router.run(planner, &["show", "configuration"])).contains("198.51.100.0/24"));

    // An editor belongs to who opened it, also beside another administrator.
    let opened = router.json(&["call", "manager/manager.v1.Configuration/Open?user:txt=root"]);
    let editor = opened["editor"].as_str().map(ToOwned::to_owned).unwrap_or_else(|| opened.to_string());
    for method in ["Renew", "Check", "Commit", "Rollback", "Close"] {
        let call = format!("manager/manager.v1.Configuration/{method}?editor:u64={editor}");
        fails(ADMINISTRATOR.1, &["call", &call], "belongs to user:root");
    }
    succeeds(0, &["call", &format!("manager/manager.v1.Configuration/Close?editor:u64={editor}")]);

    // A role is validated, and ends at once when it is taken away.
    fails(0, &["configure", "set system user x role nothing", "commit"], "system user x role");
    succeeds(
        0,
        &["configure", &format!("delete system user {}", READER.0), "delete system user planning", "commit"],
    );
    fails(planner, &["show", "routes"], "sluice-admin");
    fails(operator, &["restart", "static"], "may not");
    succeeds(operator, &["show", "routes"]);
}
