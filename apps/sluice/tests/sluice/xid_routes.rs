//! Static routes of XIDs, from the operator's words to the RIB: committed, shown, rolled back, and kept when processes die.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::bird::{commit, kill};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

const TOPOLOGY: &str = r#"
[nodes.other]
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { static { route 198.51.100.0/24 { discard; } } }
'''
[[links]]
a = 'sluice:net'
b = 'other:net'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
"#;

const AD: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const HID: &str = "hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2";
const LPM: &str = "lpm-0a00000000000000000000000000000000000000/8";

/// The selected routes of XIDs: prefix and forwarding.
fn shown(lab: &RouterLab) -> Vec<(String, Value)> {
    let routes = lab.ask(&["show", "routes", "--xid"]);
    let all = routes["routes"].as_array().cloned().unwrap_or_default();
    let selected = all.into_iter().filter(|route| route["selected"] == true);
    selected.map(|r| (r["prefix"].as_str().unwrap().to_owned(), r["forwarding"].clone())).collect()
}

#[test]
fn static_routes_of_xids_are_committed_shown_rolled_back_and_kept() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);

    let set = "set protocols static xid-route";
    let refused = |statement: String, expected: &str| {
        let done = lab.cli(&["configure", &statement, "commit"]);
        let text =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && text.contains(expected), "{statement}: {text}");
    };
    refused(format!("{set} ad-1 local"), "expected an XID");
    refused(format!("{set} lpm-0a01000000000000000000000000000000000000/8 local"), "must be zero");
    refused(format!("{set} {AD} gateway hid-1"), "expected an XID");

    commit(&lab, &format!("{set} {LPM} local"));
    commit(&lab, &format!("{set} {AD} gateway {HID}"));
    lab.until("the local route is there", |l| shown(l).len() == 1);
    assert_eq!(shown(&lab), [(LPM.to_owned(), Value::from("local"))], "the redirect leads nowhere yet");
    let neighbor = format!("{set} {HID} interface net; {set} {HID} link-layer-address 02:00:00:00:00:02");
    let words: Vec<&str> = neighbor.split("; ").collect();
    let done = lab.cli(&["configure", words[0], words[1], "commit"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("the redirect is used", |l| shown(l).len() == 3);
    let all = shown(&lab);
    let of = |prefix: &str| all.iter().find(|(shown, _)| shown == prefix).unwrap().1.clone();
    assert_eq!(of(AD)[0]["gateway"], HID);
    assert_eq!(of(HID)[0]["gateway"], "ether-0200000000020000000000000000000000000000");
    assert_eq!(of(HID)[0]["interface"], "net");
    // An XID inside the prefix, and the kernel, which has none of them.
    let inside = lab.ask(&["show", "routes", "lpm-0aff000000000000000000000000000000000000"]);
    assert_eq!(inside["routes"][0]["prefix"], LPM);
    let summary = lab.ask(&["show", "summary"]);
    let xids = summary["tables"].as_array().unwrap().iter().find(|table| table["family"] == "xid").unwrap();
    assert_eq!((&xids["prefixes"], &xids["engine"]["wanted"]), (&Value::from("3"), &Value::from("0")));

    kill(&lab, "rib");
    lab.until("the next RIB has the routes", |l| shown(l) == all);
    kill(&lab, "static");
    lab.until("the routes are fresh again", |l| {
        let routes = l.ask(&["show", "routes", "--xid"]);
        shown(l) == all && routes["routes"].as_array().unwrap().iter().all(|route| route["stale"] == false)
    });

    assert!(lab.cli(&["rollback", "1"]).status.success());
    lab.until("the neighbor is gone, and the redirect with it", |l| shown(l).len() == 1);
}
