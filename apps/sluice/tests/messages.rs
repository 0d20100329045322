//! Marks of route refreshes (RFC 7313), extended messages (RFC 8654) and the interval between advertisements, with BIRD, FRR and OpenBGPD.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::{RouterLab, SLUICE, possible_with_frr, share};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// A route whose attributes fit in no message of 4,096 octets, and one whose do.
const LONG: &str = "203.0.113.0/24";
const SHORT: &str = "198.51.100.0/24";

fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.0.0.{host}/24']\n"
    )
}

fn bird(asn: u32, host: u8, own: &str, is_extended: bool) -> String {
    let extended = if is_extended { "enable extended messages;" } else { "" };
    format!(
        "router id 10.0.0.{host};\nprotocol device {{ }}\n{own}\
         protocol bgp sluice {{ local as {asn}; neighbor 10.0.0.1 as 64500; {extended}\n\
         connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
         ipv4 {{ import all; export where source = RTS_STATIC; }}; }}\n"
    )
}

/// The feed: both routes, and one that a test switches on and off.
fn feed() -> String {
    let mut communities = String::new();
    for n in 0..400 {
        write!(communities, "bgp_large_community.add((64501, {n}, 1)); ").unwrap();
    }
    let own = format!(
        "protocol static plain {{ ipv4; route {SHORT} blackhole; }}\n\
         protocol static heavy {{ ipv4; route {LONG} blackhole {{ {communities} }}; }}\n\
         protocol static flapper {{ disabled; ipv4; route 192.0.2.0/24 blackhole; }}\n"
    );
    bird(64501, 2, &own, true)
}

const FRR: &str = "router bgp 64504\n bgp router-id 10.0.0.4\n no bgp ebgp-requires-policy\n\
     \x20neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n\
     \x20address-family ipv4 unicast\n  neighbor 10.0.0.1 soft-reconfiguration inbound\n exit-address-family\n";

const OPENBGPD: &str = "AS 64505\nrouter-id 10.0.0.5\nfib-update no\nnexthop qualify via default\n\
     neighbor 10.0.0.1 {\n remote-as 64500\n announce enhanced refresh yes\n}\n\
     allow from any\nallow to any\n";

const CONFIG: &str = "protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;
    group all { connect-retry-time 1; }
    neighbor 10.0.0.2 { peer-as 64501; group all; }
    neighbor 10.0.0.3 { peer-as 64503; group all; }
    neighbor 10.0.0.4 { peer-as 64504; group all; }
    neighbor 10.0.0.5 { peer-as 64505; group all; }
    neighbor 10.0.0.6 { peer-as 64506; group all; advertisement-interval 3; }
} }\n";

fn up() -> RouterLab {
    let nodes = [
        node("sluice", 1, "sluice", CONFIG),
        node("feed", 2, "bird", &feed()),
        node("short", 3, "bird", &bird(64503, 3, "", false)),
        node("frr", 4, "frr", FRR),
        node("openbgpd", 5, "openbgpd", OPENBGPD),
        node("paced", 6, "bird", &bird(64506, 6, "", true)),
    ];
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned() + &nodes.concat();
    RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE))
}

/// True if a node has a route of a prefix.
fn has(lab: &RouterLab, node: &str, prefix: &str) -> bool {
    let question = match node {
        "frr" => format!("show bgp ipv4 unicast {prefix}"),
        "openbgpd" => format!("show rib {prefix}"),
        _ => format!("show route {prefix}"),
    };
    let said = lab.lab.control(node, &question).unwrap_or_default();
    said.contains(prefix) && !said.contains("not in table")
}

/// The ROUTE-REFRESH messages that Sluice received from a neighbor.
fn refreshes(lab: &RouterLab, neighbor: &str) -> u64 {
    let view: Value = lab.neighbor(neighbor);
    let count = &view["received"]["route_refresh"];
    count.as_str().and_then(|text| text.parse().ok()).or(count.as_u64()).unwrap_or(0)
}

fn capabilities(lab: &RouterLab, neighbor: &str) -> String {
    lab.neighbor(neighbor).to_string()
}

#[test]
fn refreshes_are_marked_and_long_routes_go_where_they_fit() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let lab = up();
    for node in ["short", "frr", "openbgpd", "paced"] {
        lab.until("all have the short route", |lab| has(lab, node, SHORT));
    }
    for node in ["paced", "frr"] {
        lab.until("who takes long messages has the long route", |lab| has(lab, node, LONG));
    }
    assert!(!has(&lab, "short", LONG) && !has(&lab, "openbgpd", LONG));
    let cause = lab.ask(&["explain", LONG, "to", "10.0.0.3"])["cause"].clone();
    assert!(cause.as_str().unwrap().contains("do not fit in a message"), "{cause}");
    for neighbor in ["10.0.0.2", "10.0.0.4"] {
        let said = capabilities(&lab, neighbor);
        assert!(said.contains("extended-message") && said.contains("enhanced-route-refresh"), "{said}");
    }
    assert!(capabilities(&lab, "10.0.0.5").contains("enhanced-route-refresh"));
    // Sluice asks: the neighbor marks the beginning and the end, and nothing is lost.
    // OpenBGPD does so only after an End-of-RIB marker, and sends none to a router that preserves no routes.
    for neighbor in ["10.0.0.2", "10.0.0.4"] {
        assert!(lab.cli(&["request", "bgp", "refresh", neighbor]).status.success());
        lab.until("the neighbor marks the refresh", |lab| refreshes(lab, neighbor) >= 2);
    }
    lab.until("the routes are there", |lab| {
        has(lab, "short", SHORT)
            && lab.ask(&["show", "bgp", "routes", LONG])["routes"].as_array().map(Vec::len) == Some(1)
    });
    // The neighbors ask, and read the marks.
    lab.birdc("short", "reload in sluice");
    lab.lab.control("frr", "clear bgp ipv4 unicast 10.0.0.1 in").unwrap();
    lab.lab.control("openbgpd", "neighbor 10.0.0.1 refresh").unwrap();
    for neighbor in ["10.0.0.3", "10.0.0.4", "10.0.0.5"] {
        lab.until("the neighbor asked", |lab| refreshes(lab, neighbor) >= 1);
    }
    lab.until("OpenBGPD read a request's answer", |lab| {
        let said = lab.lab.control("openbgpd", "show neighbor 10.0.0.1").unwrap_or_default();
        let is_one = |line: &&str| line.ends_with(" 1");
        let marks = said.lines().map(str::trim).filter(|line| line.contains("-of-RR")).filter(is_one);
        marks.count() == 2
    });
    for node in ["short", "frr", "openbgpd"] {
        assert!(has(&lab, node, SHORT), "{node} keeps the route");
        assert!(lab.established("10.0.0.3"));
    }
    // A route that flaps: the neighbor with an interval hears of it less often.
    let updates = |node: &str| -> u32 {
        let said = lab.lab.control(node, "show protocols all sluice").unwrap_or_default();
        let number = |line: &str| line.split_whitespace().nth(2).and_then(|n| n.parse::<u32>().ok());
        let counted = said.lines().filter(|line| {
            line.trim().starts_with("Import updates:") || line.trim().starts_with("Import withdraws:")
        });
        counted.filter_map(number).sum()
    };
    let before = ["short", "paced"].map(updates);
    for n in 0..20 {
        lab.birdc("feed", if n % 2 == 0 { "enable flapper" } else { "disable flapper" });
        let count = usize::from(n % 2 == 0);
        lab.until("the route came or went", |lab| has(lab, "short", "192.0.2.0/24") == (count == 1));
    }
    lab.birdc("feed", "enable flapper");
    for node in ["short", "paced"] {
        lab.until("both have the route in the end", |lab| has(lab, node, "192.0.2.0/24"));
    }
    let [plain, paced] = [updates("short") - before[0], updates("paced") - before[1]];
    assert!(plain >= 21 && paced < plain, "{plain} without an interval, {paced} with one");
}

/// FRR filters by its prefix list at Sluice, and Sluice by its own at FRR.
#[test]
fn filters_by_prefix_go_both_ways() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let config = "policy { prefix-list mine { prefix [ \"10.9.0.0/16 upto /24\" ]; } }
    protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept; network [ 192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 ];
        neighbor 10.0.0.4 { peer-as 64504; connect-retry-time 1; prefix-filter-receive true; prefix-filter-send mine; }
    } }\n";
    let frr = "ip prefix-list THEIRS seq 5 permit 192.0.2.0/24\nip prefix-list THEIRS seq 10 deny 198.51.100.0/24\n\
         ip prefix-list THEIRS seq 15 permit 203.0.112.0/22 le 24\n\
         router bgp 64504\n bgp router-id 10.0.0.4\n no bgp ebgp-requires-policy\n no bgp network import-check\n\
         \x20neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n\
         \x20address-family ipv4 unicast\n  network 10.9.1.0/24\n  network 10.9.1.128/25\n  network 172.16.0.0/12\n\
         \x20 neighbor 10.0.0.1 capability orf prefix-list both\n  neighbor 10.0.0.1 prefix-list THEIRS in\n exit-address-family\n";
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned()
        + &node("sluice", 1, "sluice", config)
        + &node("frr", 4, "frr", frr);
    let lab = RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE));
    // What Sluice announced: FRR's own filter does not hide anything of that.
    let announced =
        |lab: &RouterLab| lab.ask(&["show", "bgp", "neighbor", "10.0.0.4", "advertised"])["routes"].clone();
    let prefixes = |routes: &Value| -> Vec<String> {
        let all = routes.as_array().into_iter().flatten();
        all.filter_map(|route| Some(route["prefix"].as_str()?.to_owned())).collect()
    };
    lab.until("FRR's filter decides what it is told", |lab| {
        prefixes(&announced(lab)) == ["192.0.2.0/24", "203.0.113.0/24"]
    });
    let cause = lab.ask(&["explain", "198.51.100.0/24", "to", "10.0.0.4"])["cause"].clone();
    assert!(cause.as_str().unwrap().contains("outbound route filter denies the prefix"), "{cause}");
    let received =
        |lab: &RouterLab| prefixes(&lab.ask(&["show", "bgp", "neighbor", "10.0.0.4", "received"])["routes"]);
    lab.until("Sluice's filter decides what FRR sends", |lab| received(lab) == ["10.9.1.0/24"]);
    // Another list takes effect in the same session.
    let words = ["configure", "set policy prefix-list mine prefix 172.16.0.0/12", "commit"];
    assert!(lab.cli(&words).status.success());
    lab.until("FRR sends what the new list has", |lab| received(lab) == ["10.9.1.0/24", "172.16.0.0/12"]);
    let flaps = lab.neighbor("10.0.0.4")["flaps"].clone();
    assert!(flaps == "0" || flaps == 0, "{flaps}");
}
