//! Payloads that change while routes flow: only concerned routes are announced anew, and sessions stay.

use crate::SLUICE;
use crate::rpki::network::{self, FEED, PORT, Plan};
use crate::rpki::payloads::{self, origin};
use serde_json::{Value, json};
use sluice_base::{Asn, IpPrefix};
use sluice_load::source;
use sluice_load::table::{Announcement, RoutingTable};
use sluice_router_lab::bird::{commit, kill, withdrawals};
use sluice_router_lab::{RouterLab, recorder, share};
use sluice_validation::AnyVrp;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const ROUTER: &str = r#"
policy {
    policy-statement rov {
        term invalid { from { validation invalid; } then { reject; reason "the origin is invalid"; } }
    }
    policy-statement marked { term valid { from { validation valid; } then { med 10; } } }
}
"#;

const BGP: &str =
    "    neighbor 10.9.0.5 { peer-as 64505; connect-retry-time 1; ipv6-unicast enabled; export marked; }";

const PATIENCE: Duration = Duration::from_secs(60);

fn exact(announcement: &Announcement, asn: Asn) -> AnyVrp {
    AnyVrp::new(announcement.prefix, announcement.prefix.len(), asn).unwrap()
}

/// Updates that BIRD has from the router in this session.
fn updates(lab: &RouterLab) -> u32 {
    let shown = lab.birdc("bird", "show protocols all sluice");
    let counts = shown.lines().filter(|line| line.contains("Import updates"));
    counts.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok()).sum()
}

/// Routes that BIRD has from the router, and those with the mark of valid ones.
fn at_bird(lab: &RouterLab) -> (usize, usize) {
    let count = |filter: &str| {
        let shown = lab.birdc("bird", &format!("show route protocol sluice {filter}"));
        shown
            .lines()
            .filter(|line| line.split_whitespace().next().is_some_and(|word| word.contains('/')))
            .count()
    };
    (count(""), count("where bgp_med = 10"))
}

/// The states of the table under payloads, and what they are to BIRD.
struct States(BTreeMap<IpPrefix, &'static str>);

impl States {
    fn new<'v>(table: &RoutingTable, vrps: impl IntoIterator<Item = &'v AnyVrp>) -> Self {
        let vrps: Vec<AnyVrp> = vrps.into_iter().copied().collect();
        States(payloads::states(table, &vrps))
    }

    /// Routes that are announced, and those with the mark.
    fn announced(&self) -> (usize, usize) {
        let count = |wanted: fn(&str) -> bool| self.0.values().filter(|state| wanted(state)).count();
        (count(|state| state != "invalid"), count(|state| state == "valid"))
    }

    /// Updates and withdrawals that lead from these states to others.
    fn steps_to(&self, other: &States) -> (u32, u32) {
        let changed = self.0.iter().filter(|(prefix, state)| other.0[prefix] != **state);
        let withdrawn = changed.clone().filter(|(prefix, _)| other.0[prefix] == "invalid").count();
        ((changed.count() - withdrawn) as u32, withdrawn as u32)
    }
}

/// Updates and withdrawals that BIRD has from the router in this session.
fn received(lab: &RouterLab) -> (u32, u32) {
    (updates(lab), withdrawals(lab))
}

/// Returns what `show rpki` calls the epoch.
fn epoch(lab: &RouterLab) -> u64 {
    number(&lab.ask(&["show", "rpki"])["epoch"])
}

fn number(shown: &Value) -> u64 {
    let text = || shown.as_str().and_then(|text| text.parse().ok());
    shown.as_u64().or_else(text).unwrap_or_else(|| panic!("no number: {shown}"))
}

/// Returns what identifies the data of the only cache, without what changes with time.
fn data_of_cache(lab: &RouterLab) -> Value {
    let cache = lab.ask(&["show", "rpki", "cache"])["caches"][0].clone();
    let numbers = ["version", "session", "serial", "ipv4", "ipv6", "resets"];
    let numbers = numbers.map(|key| (key.to_owned(), json!(number(&cache[key]))));
    let mut data: serde_json::Map<String, Value> = numbers.into_iter().collect();
    data.extend(["name", "source"].map(|key| (key.to_owned(), cache[key].clone())));
    data.into()
}

/// Writes a recording of the state, and what its reader must find, for `testdata/state/rpki`. The recorder refuses the state, and the component works on.
fn record(lab: &RouterLab) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state/rpki");
    std::fs::create_dir_all(&folder).unwrap();
    let vrps = lab.ask(&["show", "rpki", "table"])["vrps"].clone();
    let expected = json!({ "epoch": epoch(lab), "caches": [data_of_cache(lab)], "vrps": vrps });
    std::fs::write(folder.join("state"), recorder::record(lab, "rpki")).unwrap();
    let text = serde_json::to_string_pretty(&expected).unwrap();
    std::fs::write(folder.join("expected.json"), text + "\n").unwrap();
}

/// A new process of the component has the payloads at once, and asks the cache for changes since the serial number of the old process. No
/// route's state changes.
pub fn run_with_a_restart() {
    let _share = share();
    let table = source::find(None).unwrap().0.thinned(200, 100);
    let all: Vec<&Announcement> = table.v4.iter().chain(&table.v6).collect();
    let valid: Vec<AnyVrp> = all.iter().step_by(6).map(|a| exact(a, origin(a))).collect();
    let router =
        format!("{ROUTER}\nrpki {{ cache first {{ address 10.9.0.11; port {PORT}; retry-interval 1; }} }}");
    let plan = Plan { router: &router, bgp: BGP, table: &table, has_others: false };
    let (lab, cache) = network::up(&plan, Path::new(SLUICE), &valid);
    network::until_payloads(&lab, PATIENCE, Some(valid.len()));
    let first = States::new(&table, &valid);
    lab.until("the receiver has all, and the valid ones marked", |lab| at_bird(lab) == first.announced());
    record(&lab);

    let before = (epoch(&lab), data_of_cache(&lab), received(&lab));
    assert_eq!(before.1["resets"], 1, "{}", before.1);
    let done = lab.cli(&["restart", "rpki"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let summary = lab.ask(&["show", "rpki"]);
    assert_eq!((&summary["has_data"], number(&summary["epoch"])), (&json!(true), before.0), "at once");
    assert_eq!(number(&summary["ipv4"]) + number(&summary["ipv6"]), valid.len() as u64, "{summary}");
    lab.until("the cache has answered the new process", |lab| {
        lab.ask(&["show", "rpki", "cache"])["caches"][0]["state"] == "ready"
    });
    // All data were requested once, by the old process.
    assert_eq!((epoch(&lab), data_of_cache(&lab), received(&lab)), before);

    // BGP follows the new process: what changes is sent, and nothing else.
    cache.set(&valid[7..]);
    let second = States::new(&table, &valid[7..]);
    lab.until("marks are gone", |lab| at_bird(lab) == second.announced());
    let (sent, now) = (first.steps_to(&second), received(&lab));
    assert_eq!((now.0 - before.2.0, now.1 - before.2.1), sent);
    assert_eq!(data_of_cache(&lab)["resets"], 1);
    let log = lab.whole_log();
    for event in ["rpki.data.source", "bgp.validation.begins"] {
        assert_eq!(log.matches(event).count(), 1, "{event}: {log}");
    }
}

pub fn run() {
    let _share = share();
    let table = source::find(None).unwrap().0.thinned(600, 300);
    let all: Vec<&Announcement> = table.v4.iter().chain(&table.v6).collect();
    let valid: Vec<AnyVrp> = all.iter().step_by(3).map(|a| exact(a, origin(a))).collect();
    let router =
        format!("{ROUTER}\nrpki {{ cache first {{ address 10.9.0.11; port {PORT}; retry-interval 1; }} }}");
    let plan = Plan { router: &router, bgp: BGP, table: &table, has_others: false };
    let (lab, cache) = network::up(&plan, Path::new(SLUICE), &valid);
    network::until_payloads(&lab, PATIENCE, Some(valid.len()));
    let first = States::new(&table, &valid);
    lab.until("the receiver has all but the invalid, and the valid ones marked", |lab| {
        at_bird(lab) == first.announced()
    });

    // Some routes become invalid: they are withdrawn, and nothing else is sent. One of them is explained.
    let mut before = received(&lab);
    let mut expect = |lab: &RouterLab, old: &States, new: &States, what: &str| {
        lab.until(what, |lab| at_bird(lab) == new.announced());
        let (updates, withdrawals) = old.steps_to(new);
        let now = received(lab);
        assert_eq!((now.0 - before.0, now.1 - before.1), (updates, withdrawals), "{what}");
        before = now;
        (updates, withdrawals)
    };
    let bad: Vec<AnyVrp> =
        all.iter().skip(1).step_by(3).take(10).map(|a| exact(a, Asn(origin(a).0 + 1))).collect();
    cache.set(valid.iter().chain(&bad));
    let second = States::new(&table, valid.iter().chain(&bad));
    let (_, withdrawn) = expect(&lab, &first, &second, "invalid routes are withdrawn");
    assert!(withdrawn >= 8, "{withdrawn}");
    let prefix = bad[0].prefix().to_string();
    let explained = lab.ask(&["explain", &prefix]);
    let cause = explained["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("policy rov, term invalid: the origin is invalid"), "{cause}");
    assert_eq!(explained["paths"][0]["validation"], "invalid");
    assert_eq!(explained["payloads"][0]["asn"], bad[0].asn().0, "{explained}");
    let shown = lab.ask(&["show", "rpki", "validation", &prefix, &(bad[0].asn().0 - 1).to_string()]);
    assert_eq!((&shown["state"], &shown["vrps"][0]["net"]), (&"invalid".into(), &prefix.as_str().into()));
    let shown = lab.ask(&["show", "rpki", "table", &prefix]);
    let has_it =
        |vrp: &serde_json::Value| vrp["net"] == prefix.as_str() && vrp["max_length"] == bad[0].max_length();
    assert!(shown["vrps"].as_array().unwrap().iter().any(has_it), "{shown}");

    // Seven valid ones lose their payloads: updates without the mark, and nothing else.
    let third_payloads: Vec<AnyVrp> = valid[7..].iter().chain(&bad).copied().collect();
    cache.set(&third_payloads);
    let third = States::new(&table, &third_payloads);
    expect(&lab, &second, &third, "marks are gone");

    // Neither the end of a process nor a hand-over changes a route.
    kill(&lab, "rpki");
    for component in ["rpki", "bgp"] {
        let done = lab.cli(&["restart", component]);
        assert!(done.status.success(), "{component}: {}", String::from_utf8_lossy(&done.stdout));
    }
    network::until_payloads(&lab, PATIENCE, Some(third_payloads.len()));
    // Something that comes after all that the new processes say: the operator's own payload makes a route valid.
    let own = AnyVrp::new(bad[3].prefix(), bad[3].max_length(), Asn(bad[3].asn().0 - 1)).unwrap();
    commit(&lab, &format!("set rpki roa {} {}", own.prefix(), own.asn()));
    let fourth = States::new(&table, third_payloads.iter().chain([&own]));
    expect(&lab, &third, &fourth, "the operator's own payload counts");
    let filtered = bad[4].asn();
    commit(&lab, &format!("set rpki filter none as {filtered}"));
    let left: Vec<AnyVrp> =
        third_payloads.iter().copied().filter(|vrp| vrp.asn() != filtered).chain([own]).collect();
    let fifth = States::new(&table, &left);
    expect(&lab, &fourth, &fifth, "a filter leaves payloads out");

    // Without the component everything is accepted.
    commit(&lab, "delete rpki");
    lab.until("nothing is validated", |lab| at_bird(lab) == (all.len(), 0));
    assert_eq!(lab.neighbor(FEED)["flaps"], "0", "no session ended");
}
