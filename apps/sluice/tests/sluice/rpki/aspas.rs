//! A cache of version 2 with ASPAs: a leaked route is rejected, and accepted when the ASPA changes; only routes whose AS path meets the ASPA
//! are announced anew, and no session ends.

use crate::SLUICE;
use crate::rpki::network::{self, Cache, PORT, RECEIVER};
use crate::rpki::version_two::AspaCache;
use sluice_lab::Topology;
use sluice_router_lab::bird::{commit, withdrawals};
use sluice_router_lab::{RouterLab, share};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// AS 64501 is a customer, and so are the ASes behind it. AS 64510 is its other provider, whose route it leaks; of AS 64530 nothing is known.
const LAB: &str = "
[nodes.lan]
daemon = 'switch'
[nodes.cache1]
[nodes.sluice]
daemon = 'sluice'
config = '''
policy {
    policy-statement no-leaks { term leaked { from { aspa invalid; } then { reject; reason \"the route was leaked\"; } } }
    policy-statement marked { term verified { from { aspa valid; } then { med 10; } } }
}
rpki { cache first { address 10.9.0.11; port PORT; retry-interval 1; } }
protocols { bgp {
    local-as 64500; router-id 10.9.0.1; default-policy accept;
    neighbor 10.9.0.2 { peer-as 64501; connect-retry-time 1; relationship customer; import no-leaks; keep-rejected false; }
    neighbor 10.9.0.5 { peer-as 64505; connect-retry-time 1; export marked; }
} }
'''
[nodes.feed]
daemon = 'bird'
config = '''
router id 10.9.0.2;
protocol device { }
protocol static { ipv4; route 203.0.113.0/24 blackhole; route 198.51.100.0/24 blackhole; route 192.0.2.0/24 blackhole; }
filter announced {
    if net = 203.0.113.0/24 then bgp_path.prepend(64510);
    if net = 198.51.100.0/24 then bgp_path.prepend(64520);
    if net = 192.0.2.0/24 then bgp_path.prepend(64530);
    accept;
}
protocol bgp sluice {
    local 10.9.0.2 as 64501; neighbor 10.9.0.1 as 64500; connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import none; export filter announced; };
}
'''
";

const LEAKED: &str = "203.0.113.0/24";
const VERIFIED: &str = "198.51.100.0/24";
const UNATTESTED: &str = "192.0.2.0/24";

fn topology() -> Topology {
    let mut text = LAB.replace("PORT", &PORT.to_string()) + RECEIVER;
    for (name, last) in [("sluice", 1), ("feed", 2), ("bird", 5), ("cache1", 11)] {
        text.push_str(&format!(
            "[[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.9.0.{last}/24']\n"
        ));
    }
    text.parse().unwrap()
}

/// Routes that BIRD has from the router, each with true if it has the mark of verified ones.
fn at_bird(lab: &RouterLab) -> BTreeMap<String, bool> {
    let shown = |filter: &str| {
        let shown = lab.birdc("bird", &format!("show route protocol sluice {filter}"));
        let prefixes = shown.lines().filter_map(|line| line.split_whitespace().next());
        prefixes.filter(|word| word.contains('/')).map(String::from).collect::<Vec<String>>()
    };
    let marked = shown("where bgp_med = 10");
    shown("").into_iter().map(|prefix| (prefix.clone(), marked.contains(&prefix))).collect()
}

fn routes(list: &[(&str, bool)]) -> BTreeMap<String, bool> {
    list.iter().map(|(prefix, is_marked)| ((*prefix).into(), *is_marked)).collect()
}

/// Updates that BIRD has from the router in this session.
fn updates(lab: &RouterLab) -> u32 {
    let shown = lab.birdc("bird", "show protocols all sluice");
    let counts = shown.lines().filter(|line| line.contains("Import updates"));
    counts.filter_map(|line| line.split_whitespace().nth(2)?.parse::<u32>().ok()).sum()
}

/// StayRTR writes ASPAs as an earlier draft does: its payloads for origins come in version 1.
pub fn run_with_an_earlier_draft() {
    let _share = share();
    let mut lab = RouterLab::up(&topology(), Path::new(SLUICE));
    let mut cache = Cache::new(&lab, "cache1");
    let of = r#"[{"customer_asid": 64510, "providers": [1, 2]}]"#;
    cache.set_text(&format!(
        r#"{{"metadata": {{"buildtime": "2026-01-01T00:00:00Z"}},
            "roas": [{{"prefix": "{LEAKED}", "maxLength": 24, "asn": "AS64510", "ta": "lab"}}],
            "provider_authorizations": {{"ipv4": {of}, "ipv6": {of}}}}}"#
    ));
    cache.start(&mut lab);
    network::until_payloads(&lab, Duration::from_secs(60), Some(1));
    let shown = lab.ask(&["show", "rpki", "cache"]);
    let shown = &shown["caches"][0];
    assert_eq!((&shown["version"], &shown["aspas"]), (&1.into(), &0.into()), "{shown}");
    lab.until("no path is verified", |lab| {
        let shown = lab.ask(&["show", "bgp", "routes", LEAKED]);
        let path = &shown["routes"][0]["paths"][0];
        (&path["validation"], &path["aspa"]) == (&"valid".into(), &"unknown".into())
    });
}

pub fn run() {
    let _share = share();
    let lab = RouterLab::up(&topology(), Path::new(SLUICE));
    lab.until("without data every route is accepted", |lab| {
        at_bird(lab) == routes(&[(LEAKED, false), (VERIFIED, false), (UNATTESTED, false)])
    });
    let first = [(64510, vec![0]), (64520, vec![64501, 64511])];
    let cache = lab.lab.inside("cache1", || AspaCache::start(PORT, &first)).unwrap();
    lab.until("the leaked route is withdrawn, the verified one is marked", |lab| {
        at_bird(lab) == routes(&[(VERIFIED, true), (UNATTESTED, false)])
    });
    let shown = lab.ask(&["show", "rpki"]);
    assert_eq!((&shown["aspas"], &shown["ipv4"]), (&2.into(), &0.into()), "{shown}");
    let shown = lab.ask(&["show", "rpki", "cache"]);
    assert_eq!((&shown["caches"][0]["version"], &shown["caches"][0]["aspas"]), (&2.into(), &2.into()));
    let shown = lab.ask(&["show", "rpki", "aspa", "64511"]);
    assert_eq!(shown["aspas"][0]["customer"], 64520, "{shown}");
    assert_eq!(shown["aspas"].as_array().map(Vec::len), Some(1), "{shown}");
    let explained = lab.ask(&["explain", LEAKED]);
    let cause = explained["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("policy no-leaks, term leaked: the route was leaked"), "{cause}");
    assert_eq!(explained["paths"][0]["aspa"], "invalid");
    for (prefix, state) in [(VERIFIED, "valid"), (UNATTESTED, "unknown")] {
        assert_eq!(lab.ask(&["show", "bgp", "routes", prefix])["routes"][0]["paths"][0]["aspa"], state);
    }

    // AS 64510 names the customer its provider: its route climbs, and is the only one that is sent.
    let before = (updates(&lab), withdrawals(&lab));
    cache.set(&[(64510, vec![64501]), (64520, vec![64501, 64511])]);
    lab.until("the route is accepted", |lab| {
        at_bird(lab) == routes(&[(LEAKED, true), (VERIFIED, true), (UNATTESTED, false)])
    });
    assert_eq!((updates(&lab), withdrawals(&lab)), (before.0 + 1, before.1));

    // ASPAs go: nothing is attested any more for one route. Live upgrades of both processes change no route.
    cache.set(&[(64510, vec![64501])]);
    let third = routes(&[(LEAKED, true), (VERIFIED, false), (UNATTESTED, false)]);
    lab.until("the mark is gone", |lab| at_bird(lab) == third);
    let before = (updates(&lab), withdrawals(&lab));
    for component in ["rpki", "bgp"] {
        let done = lab.cli(&["restart", component]);
        assert!(done.status.success(), "{component}: {}", String::from_utf8_lossy(&done.stdout));
    }
    // The next change comes after all that the new processes send.
    cache.set(&[(64510, vec![0])]);
    lab.until("the route is a leak again", |lab| {
        at_bird(lab) == routes(&[(VERIFIED, false), (UNATTESTED, false)])
    });
    assert_eq!((updates(&lab), withdrawals(&lab)), (before.0, before.1 + 1));
    commit(&lab, "delete rpki");
    lab.until("nothing is verified", |lab| at_bird(lab).len() == 3);
    for neighbor in ["10.9.0.2", "10.9.0.5"] {
        assert_eq!(lab.neighbor(neighbor)["flaps"], "0", "no session ended");
    }
}
