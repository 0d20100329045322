//! Marks of route refreshes (RFC 7313), extended messages (RFC 8654) and the interval between advertisements, with BIRD, FRR and OpenBGPD.

use crate::SLUICE;
use crate::interop_matrix::proved;
use serde_json::Value;
use sluice_router_lab::lan::{FAMILIES, Family, node, topology};
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::fmt::Write as _;
use std::path::Path;

/// A route whose attributes fit in no message of 4,096 octets.
const fn long(family: Family) -> &'static str {
    family.pick("203.0.113.0/24", "2001:db8:203::/48")
}

/// A route whose attributes fit in any message.
const fn short(family: Family) -> &'static str {
    family.pick("198.51.100.0/24", "2001:db8:198::/48")
}

/// The name of BIRD's session in a family.
const fn session(family: Family) -> &'static str {
    family.pick("sluice", "sluice6")
}

fn bird(asn: u32, host: u8, own: &str, is_extended: bool) -> String {
    let extended = if is_extended { "enable extended messages;" } else { "" };
    let mut text = format!("router id 10.0.0.{host};\nprotocol device {{ }}\n{own}");
    for family in FAMILIES {
        writeln!(
            text,
            "protocol bgp {} {{ local as {asn}; neighbor {} as 64500; {extended}\n\
             connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
             {} {{ import all; export where source = RTS_STATIC; }}; }}",
            session(family),
            family.address(1),
            family.name()
        )
        .unwrap();
    }
    text
}

/// The feed: the routes of both families, and one that a test switches on and off.
fn feed() -> String {
    let mut communities = String::new();
    for n in 0..400 {
        write!(communities, "bgp_large_community.add((64501, {n}, 1)); ").unwrap();
    }
    let mut own = "protocol static flapper { disabled; ipv4; route 192.0.2.0/24 blackhole; }\n".to_owned();
    for family in FAMILIES {
        let (name, short, long) = (family.name(), short(family), long(family));
        write!(
            own,
            "protocol static {{ {name}; route {short} blackhole; }}\n\
             protocol static {{ {name}; route {long} blackhole {{ {communities} }}; }}\n"
        )
        .unwrap();
    }
    bird(64501, 2, &own, true)
}

const FRR: &str = "router bgp 64504\n bgp router-id 10.0.0.4\n no bgp ebgp-requires-policy\n\
     \x20neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n\
     \x20neighbor 2001:db8::1 remote-as 64500\n neighbor 2001:db8::1 timers connect 1\n\
     \x20address-family ipv4 unicast\n  neighbor 10.0.0.1 soft-reconfiguration inbound\n\
     \x20 no neighbor 2001:db8::1 activate\n exit-address-family\n\
     \x20address-family ipv6 unicast\n  neighbor 2001:db8::1 activate\n\
     \x20 neighbor 2001:db8::1 soft-reconfiguration inbound\n exit-address-family\n";

const OPENBGPD: &str = "AS 64505\nrouter-id 10.0.0.5\nfib-update no\nnexthop qualify via default\n\
     neighbor 10.0.0.1 {\n remote-as 64500\n announce enhanced refresh yes\n}\n\
     neighbor 2001:db8::1 {\n remote-as 64500\n announce enhanced refresh yes\n}\n\
     allow from any\nallow to any\n";

fn config() -> String {
    let mut text = "protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;\n\
                    group all { connect-retry-time 1; }\n"
        .to_owned();
    for family in FAMILIES {
        for host in 2..=6 {
            let asn = if host == 2 { 64501 } else { 64500 + u32::from(host) };
            let interval = if host == 6 { "advertisement-interval 3;" } else { "" };
            let address = family.address(host);
            writeln!(text, "neighbor {address} {{ peer-as {asn}; group all; {interval} }}").unwrap();
        }
    }
    text + "} }\n"
}

fn up() -> RouterLab {
    let nodes = [
        node("sluice", 1, "sluice", &config()),
        node("feed", 2, "bird", &feed()),
        node("short", 3, "bird", &bird(64503, 3, "", false)),
        node("frr", 4, "frr", FRR),
        node("openbgpd", 5, "openbgpd", OPENBGPD),
        node("paced", 6, "bird", &bird(64506, 6, "", true)),
    ];
    RouterLab::up(&topology(&nodes), Path::new(SLUICE))
}

/// True if a node has a route of a prefix.
fn has(lab: &RouterLab, node: &str, prefix: &str) -> bool {
    let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
    let question = match node {
        "frr" => format!("show bgp {family} unicast {prefix}"),
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
    for family in FAMILIES {
        are_marked_and_fit(&lab, family);
    }
    // A route that flaps: the neighbor with an interval receives it less often.
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
    proved("enhanced route refresh (RFC 7313)", &["BIRD", "FRR", "OpenBGPD"]);
    proved("extended messages (RFC 8654)", &["BIRD", "FRR"]);
}

/// Routes go where their attributes fit, and refreshes both ways have marks, in the sessions of a family.
fn are_marked_and_fit(lab: &RouterLab, family: Family) {
    let (short, long) = (short(family), long(family));
    for node in ["short", "frr", "openbgpd", "paced"] {
        lab.until("all have the short route", |lab| has(lab, node, short));
    }
    for node in ["paced", "frr"] {
        lab.until("who takes long messages has the long route", |lab| has(lab, node, long));
    }
    assert!(!has(lab, "short", long) && !has(lab, "openbgpd", long));
    let [feed, plain, frr, openbgpd] = [2, 3, 4, 5].map(|host| family.address(host));
    let cause = lab.ask(&["explain", long, "to", &plain])["cause"].clone();
    assert!(cause.as_str().unwrap().contains("do not fit in a message"), "{cause}");
    for neighbor in [&feed, &frr] {
        let said = capabilities(lab, neighbor);
        assert!(said.contains("extended-message") && said.contains("enhanced-route-refresh"), "{said}");
    }
    assert!(capabilities(lab, &openbgpd).contains("enhanced-route-refresh"));
    let agreed = |neighbor: &str| lab.neighbor(neighbor)["agreed"].to_string();
    assert!(agreed(&frr).contains("\"enhanced route refresh\",\"extended messages\""), "{}", agreed(&frr));
    assert!(!agreed(&plain).contains("extended messages"), "{}", agreed(&plain));
    // Sluice asks: the neighbor marks the beginning and the end, and nothing is lost.
    // OpenBGPD does so only after an End-of-RIB marker, and sends none to a router that preserves no routes.
    for neighbor in [&feed, &frr] {
        assert!(lab.cli(&["request", "bgp", "refresh", neighbor]).status.success());
        lab.until("the neighbor marks the refresh", |lab| refreshes(lab, neighbor) >= 2);
    }
    lab.until("the routes are there", |lab| {
        has(lab, "short", short)
            && lab.ask(&["show", "bgp", "routes", long])["routes"].as_array().map(Vec::len) == Some(1)
    });
    // The neighbors ask, and read the marks.
    let (name, router) = (family.name(), family.address(1));
    lab.birdc("short", &format!("reload in {}", session(family)));
    lab.lab.control("frr", &format!("clear bgp {name} unicast {router} in")).unwrap();
    lab.lab.control("openbgpd", &format!("neighbor {router} refresh")).unwrap();
    for neighbor in [&plain, &frr, &openbgpd] {
        lab.until("the neighbor asked", |lab| refreshes(lab, neighbor) >= 1);
    }
    lab.until("OpenBGPD read a request's answer", |lab| {
        let said = lab.lab.control("openbgpd", &format!("show neighbor {router}")).unwrap_or_default();
        let is_one = |line: &&str| line.ends_with(" 1");
        let marks = said.lines().map(str::trim).filter(|line| line.contains("-of-RR")).filter(is_one);
        marks.count() == 2
    });
    for node in ["short", "frr", "openbgpd"] {
        assert!(has(lab, node, short), "{node} keeps the route");
    }
    assert!(lab.established(&plain));
}

/// FRR filters by its prefix list at Sluice, and Sluice by its own at FRR.
#[test]
fn filters_by_prefix_go_both_ways() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let config = "policy { prefix-list mine { prefix [ \"10.9.0.0/16 upto /24\" \"2001:db8:9::/48 upto /64\" ]; } }
    protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;
        network [ 192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8:192::/48 2001:db8:198::/48 2001:db8:203::/48 ];
        group all { peer-as 64504; connect-retry-time 1; prefix-filter-receive true; prefix-filter-send mine; }
        neighbor 10.0.0.4 { group all; }
        neighbor 2001:db8::4 { group all; }
    } }\n";
    let frr = "ip prefix-list THEIRS seq 5 permit 192.0.2.0/24\nip prefix-list THEIRS seq 10 deny 198.51.100.0/24\n\
         ip prefix-list THEIRS seq 15 permit 203.0.112.0/22 le 24\n\
         ipv6 prefix-list THEIRS seq 5 permit 2001:db8:192::/48\nipv6 prefix-list THEIRS seq 10 deny 2001:db8:198::/48\n\
         ipv6 prefix-list THEIRS seq 15 permit 2001:db8:202::/47 le 48\n\
         router bgp 64504\n bgp router-id 10.0.0.4\n no bgp ebgp-requires-policy\n no bgp network import-check\n\
         \x20neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n\
         \x20neighbor 2001:db8::1 remote-as 64500\n neighbor 2001:db8::1 timers connect 1\n\
         \x20address-family ipv4 unicast\n  network 10.9.1.0/24\n  network 10.9.1.128/25\n  network 172.16.0.0/12\n\
         \x20 neighbor 10.0.0.1 capability orf prefix-list both\n  neighbor 10.0.0.1 prefix-list THEIRS in\n\
         \x20 no neighbor 2001:db8::1 activate\n exit-address-family\n\
         \x20address-family ipv6 unicast\n  network 2001:db8:9:1::/64\n  network 2001:db8:9:1:8000::/65\n  network 2001:db8:a::/48\n\
         \x20 neighbor 2001:db8::1 activate\n\
         \x20 neighbor 2001:db8::1 capability orf prefix-list both\n  neighbor 2001:db8::1 prefix-list THEIRS in\n exit-address-family\n";
    let nodes = [node("sluice", 1, "sluice", config), node("frr", 4, "frr", frr)];
    let lab = RouterLab::up(&topology(&nodes), Path::new(SLUICE));
    let prefixes = |lab: &RouterLab, family: Family, side: &str| -> Vec<String> {
        let routes = lab.ask(&["show", "bgp", "neighbor", &family.address(4), side])["routes"].clone();
        let all = routes.as_array().into_iter().flatten();
        all.filter_map(|route| Some(route["prefix"].as_str()?.to_owned())).collect()
    };
    for family in FAMILIES {
        // What Sluice announced: FRR's own filter does not hide anything of that.
        let passed =
            family.pick(["192.0.2.0/24", "203.0.113.0/24"], ["2001:db8:192::/48", "2001:db8:203::/48"]);
        lab.until("FRR's filter decides what it receives", |lab| {
            prefixes(lab, family, "advertised") == passed
        });
        let cause = lab.ask(&["explain", short(family), "to", &family.address(4)])["cause"].clone();
        assert!(cause.as_str().unwrap().contains("outbound route filter denies the prefix"), "{cause}");
        let filters = lab.neighbor(&family.address(4))["families"][0].clone();
        let counts = [&filters["filter_entries_received"], &filters["filter_entries_sent"]];
        assert_eq!(counts, [3, 1], "{filters}");
        let own = family.pick("10.9.1.0/24", "2001:db8:9:1::/64");
        lab.until("Sluice's filter decides what FRR sends", |lab| prefixes(lab, family, "received") == [own]);
    }
    // Another list takes effect in the same sessions.
    let words = [
        "configure",
        "set policy prefix-list mine prefix 172.16.0.0/12",
        "set policy prefix-list mine prefix 2001:db8:a::/48",
        "commit",
    ];
    assert!(lab.cli(&words).status.success());
    for family in FAMILIES {
        let both = family.pick(["10.9.1.0/24", "172.16.0.0/12"], ["2001:db8:9:1::/64", "2001:db8:a::/48"]);
        lab.until("FRR sends what the new list has", |lab| prefixes(lab, family, "received") == both);
        let flaps = lab.neighbor(&family.address(4))["flaps"].clone();
        assert!(flaps == "0" || flaps == 0, "{flaps}");
    }
    proved("outbound route filters (RFC 5292)", &["FRR"]);
}
