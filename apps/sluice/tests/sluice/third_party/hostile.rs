//! A component that tries what its rights do not allow.

use crate::third_party::router::{Router, copy, has, install, python, text};
use std::collections::BTreeMap;

/// The attempts that succeed, because the rights allow them.
const ALLOWED: [&str; 2] = ["own origin", "two routes"];

#[test]
fn what_is_anothers_stays_anothers() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "intruder");
    copy(&python().join("sluice_xrl"), &packages.join("intruder/sluice_xrl"));
    let router = Router::start(
        folder.path(),
        "protocols { static { route 192.0.2.0/24 { discard; } } bgp { local-as 65001; router-id 192.0.2.1; } }\n",
    );
    router.until("the static route is in the kernel", || router.kernel() == ["192.0.2.0/24"]);
    let pids: Vec<_> = ["rib", "static", "bgp", "fea"].map(|class| router.process(class, "pid")).into();
    let done = router.configure(&["set protocols intruder", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    let outcomes = || -> BTreeMap<String, String> {
        let log = router.log();
        let lines = log.lines().filter_map(|line| line.split_once(": output: attempt ")?.1.split_once(": "));
        lines.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    };
    router.until("every attempt was made", || outcomes().contains_key("done"));
    let mut outcomes = outcomes();
    outcomes.remove("done");
    assert_eq!(outcomes.len(), 30, "{outcomes:#?}");
    for (name, outcome) in &outcomes {
        let is_allowed = ALLOWED.contains(&name.as_str());
        let is_denied =
            ["AccessDenied", "BadKey", "UnknownTarget"].iter().any(|error| outcome.contains(error));
        assert_eq!(
            (outcome.contains("it worked"), is_denied),
            (is_allowed, !is_allowed),
            "{name}: {outcome}"
        );
    }
    // Nobody lost a route, a process or a session, and the intruder has what its rights allow.
    router.until("the kernel has the routes of both", || {
        router.kernel() == ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"]
    });
    // Every kind of refusal was counted, with an event for the first of each.
    let denials = || {
        let reply: serde_json::Value =
            serde_json::from_str(&text(&router.run(&["show", "denials", "--json"]))).unwrap();
        let rows = reply["denials"].as_array().cloned().unwrap_or_default();
        let own = rows.into_iter().filter(|row| row["pid"] == router.process("intruder", "pid"));
        own.map(|row| (row["kind"].as_str().unwrap().to_owned(), row["subject"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    router.until("all are counted", || {
        let kinds = denials();
        let has = |kind: &str, subject: &str| kinds.iter().any(|(k, s)| k == kind && s.contains(subject));
        has("right", "origin static: the origin belongs to static")
            && has("right", "origin connected: its rights name no such origin")
            && has("right", "its rights are for 2 routes at most")
            && has("resolution", "static/common.v1.Component/Prepare")
            && has("registration", "static")
            && has("key", "rib/rib.v1.Rib/GetRoutes")
    });
    assert!(router.log().contains("access.denied"), "{}", router.log());
    let now: Vec<_> = ["rib", "static", "bgp", "fea"].map(|class| router.process(class, "pid")).into();
    assert_eq!(now, pids);
}
