//! Policies and groups on a running router: refusals with their place, the order of terms, and the commands about policies.

use crate::manager::Router;

const CONFIGURATION: &str = r#"policy {
    prefix-list customers { prefix "10.0.0.0/8 orlonger"; }
    policy-statement from-customer {
        term ok { from { prefix-list customers; } then { local-preference 200; accept; } }
        term rest { then { reject; reason "not a customer's prefix"; } }
    }
    policy-statement all { term all { then { accept; } } }
}
protocols {
    bgp {
        local-as 65000;
        router-id 10.0.0.1;
        group customers { import from-customer; peer-as 65010; hold-time 30; }
        neighbor 10.0.0.2 { group customers; }
        neighbor 10.0.0.3 { group customers; hold-time 9; import all; }
    }
}
"#;

fn refused(router: &mut Router, command: &str, status: i32, said: &[&str]) {
    let (out, found) = router.shell(command);
    assert_eq!(found, status, "{command}: {out}");
    said.iter().for_each(|said| assert!(out.contains(said), "{command}: expected {said}: {out}"));
}

#[test]
fn a_refusal_has_its_place_and_changes_nothing() {
    let Some(mut router) = Router::up(CONFIGURATION) else { return };
    let hint = "there is no prefix-list `custmers`; did you mean `customers`?";
    let wrong = CONFIGURATION.replace("prefix-list customers; }", "prefix-list custmers; }");
    router.0.write("wrong.conf", &wrong).unwrap();
    // In a file: line and column of the file, by a commit and without a router.
    refused(
        &mut router,
        "sluice commit from-file wrong.conf",
        4,
        &["wrong.conf:4:38: bgp: policy policy-statement", hint],
    );
    refused(
        &mut router,
        "sluice config check wrong.conf",
        4,
        &["wrong.conf:4:38: bgp: policy policy-statement", hint],
    );
    // By statements: line and column of the candidate as shown.
    let set = "set policy policy-statement from-customer term ok from prefix-list custmers";
    refused(
        &mut router,
        &format!("sluice configure '{set}' commit"),
        4,
        &["candidate:", hint, "prefix-list [ custmers customers ];"],
    );
    let set = "set protocols bgp neighbor 10.0.0.2 export from-custmer";
    refused(&mut router, &format!("sluice configure '{set}' commit"), 4, &["did you mean `from-customer`?"]);
    let set = "set protocols bgp neighbor 10.0.0.2 group custmers";
    refused(&mut router, &format!("sluice configure '{set}' commit"), 4, &["did you mean `customers`?"]);
    refused(
        &mut router,
        "sluice configure 'delete policy policy-statement from-customer' commit",
        4,
        &["group customers import", "there are: all"],
    );
    let shown = router.run("sluice show configuration policy");
    assert!(shown.contains("prefix-list customers;") && !shown.contains("custmers"), "{shown}");
    // A component that the commit would start is checked before anything happens.
    router.run("sluice configure 'delete protocols bgp' commit");
    let set = "'set protocols bgp local-as 1' 'set protocols bgp router-id 1.1.1.1' 'set protocols bgp neighbor 10.0.0.9 peer-as 2' \
               'set protocols bgp neighbor 10.0.0.9 import x'";
    refused(
        &mut router,
        &format!("sluice configure {set} commit"),
        4,
        &["neighbor 10.0.0.9 import: there is no policy-statement `x`"],
    );
    assert_eq!(router.run("sluice show configuration protocols").trim(), "");
    // The router reads its file again, and starts, by the same rules.
    router.run("cp wrong.conf /etc/sluice/sluice.conf");
    refused(&mut router, "sluice reload", 4, &["sluice.conf:4:38: bgp: policy policy-statement", hint]);
}

#[test]
fn terms_move_and_groups_are_inherited() {
    let Some(mut router) = Router::up(CONFIGURATION) else { return };
    let terms = |router: &mut Router| {
        let shown = router.run("sluice show configuration policy policy-statement from-customer | grep term");
        shown.split_whitespace().filter(|word| !["term", "{"].contains(word)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(terms(&mut router), "ok rest");
    let (said, status) = router.shell(
        "sluice configure 'insert policy policy-statement from-customer term rest before ok' compare 'commit check' commit",
    );
    assert!(
        status == 0 && said.contains("filtered again: 10.0.0.2\n") && said.contains("0 sessions"),
        "{said}"
    );
    assert_eq!(terms(&mut router), "rest ok");
    let tested = router.run("sluice policy test from-customer 10.1.0.0/16");
    assert!(tested.contains("rejected by term rest of from-customer: not a customer's prefix"), "{tested}");
    router.run("sluice rollback 1");
    assert_eq!(terms(&mut router), "ok rest");
    assert!(router.waits(|router| {
        let file = router.run("cat /etc/sluice/sluice.conf");
        file.find("term ok").is_some_and(|ok| file.find("term rest").is_some_and(|rest| ok < rest))
    }));
    // A change of the group touches the neighbors that have nothing of their own there.
    let (said, _) =
        router.shell("sluice configure 'set protocols bgp group customers hold-time 60' 'commit check'");
    assert!(said.contains("session reset: 10.0.0.2\n"), "{said}");
    let effective = router.run("sluice show configuration effective protocols bgp neighbor 10.0.0.3");
    for line in
        ["peer-as 65010;  # group customers", "hold-time 9;\n", "import all;\n", "port 179;  # default"]
    {
        assert!(effective.contains(line), "{line}: {effective}");
    }
    let shown = router.run("sluice show policy from-customer");
    for line in [
        "policy-statement from-customer {",
        "used by protocols bgp group customers import\n",
        "used by protocols bgp neighbor 10.0.0.2 import, inherited from group customers\n",
        "uses prefix-list customers\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("10.0.0.3"), "{shown}");
    refused(&mut router, "sluice show policy from-custmer", 1, &["did you mean `from-customer`?"]);
    let tested = router.run("sluice policy test from-customer 10.1.0.0/16 as neighbor 10.0.0.2 compare all");
    assert!(tested.contains("local-preference: 100 -> 200") && tested.contains("differ"), "{tested}");
}

#[test]
fn names_of_policies_are_completed() {
    let Some(mut router) = Router::up(CONFIGURATION) else { return };
    let questions = ["policy test ", "policy test all 10.0.0.0/8 compare "];
    for line in
        ["show policy ", "configure set protocols bgp neighbor 10.0.0.2 export "].into_iter().chain(questions)
    {
        let offered = router.run(&format!("sluice __complete fish 'sluice {line}'"));
        assert!(offered.contains("from-customer") && offered.contains("all"), "{line}: {offered}");
        assert!(!offered.contains("ok"), "names of terms are no policies: {offered}");
    }
    let offered = router.run("sluice __complete fish 'sluice policy test all 10.0.0.0/8 as neighbor '");
    assert!(offered.contains("10.0.0.2"), "{offered}");
}
