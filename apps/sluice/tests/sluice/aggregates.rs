//! Aggregates and conditional advertisement beside FRR: both are fed by one BIRD, and another BIRD compares what both announce.

use crate::SLUICE;
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::path::Path;

const AGGREGATE: &str = "172.16.0.0/12";
const AGGREGATE6: &str = "2001:db8:8000::/34";

/// A router on the LAN, whose addresses end in `host`.
fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.0.0.{host}/24', '2001:db8::{host}/64']\n"
    )
}

/// A BIRD with sessions to the routers 1 and 2.
fn bird(asn: u32, host: u8, own: &str) -> String {
    let mut text = format!("router id 10.0.0.{host};\nprotocol device {{ }}\n{own}");
    for (neighbor, neighbor_as) in [(1, 64500), (2, 64510)] {
        text.push_str(&format!(
            "protocol bgp n{neighbor} {{ local as {asn}; neighbor 10.0.0.{neighbor} as {neighbor_as};\n\
             connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
             ipv4 {{ import all; export where source = RTS_STATIC; }};\n\
             ipv6 {{ import all; export where source = RTS_STATIC; next hop address 2001:db8::{host}; }}; }}\n"
        ));
    }
    text
}

/// The feed: contributors in groups that come and go, and a route outside the aggregates.
const FEED: &str = "protocol static steady { ipv4; route 172.16.1.0/24 blackhole; route 172.31.255.0/24 blackhole; }\n\
    protocol static longer { ipv4; route 172.20.0.0/16 blackhole { bgp_path.prepend(64999); }; }\n\
    protocol static six { ipv6; route 2001:db8:8001::/48 blackhole; }\n\
    protocol static incomplete { disabled; ipv4; route 172.17.0.0/24 blackhole { bgp_origin = ORIGIN_INCOMPLETE; }; }\n\
    protocol static outside { ipv4; route 198.51.100.0/24 blackhole; }\n";

fn frr(of_process: &str, of_family: &str, of_family6: &str, more: &str) -> String {
    let mut text = format!(
        "router bgp 64510\n bgp router-id 10.0.0.2\n no bgp ebgp-requires-policy\n no bgp network import-check\n{of_process}"
    );
    for (host, asn) in [(3, 64501), (4, 64502)] {
        text.push_str(&format!(
            " neighbor 10.0.0.{host} remote-as {asn}\n neighbor 10.0.0.{host} timers connect 1\n\
             \x20neighbor 10.0.0.{host} advertisement-interval 0\n"
        ));
    }
    let both = "  neighbor 10.0.0.3 activate\n  neighbor 10.0.0.4 activate\n";
    format!(
        "{text} address-family ipv4 unicast\n{both}{of_family} exit-address-family\n \
         address-family ipv6 unicast\n{both}{of_family6} exit-address-family\n{more}"
    )
}

fn sluice(statements: &str, policies: &str) -> String {
    format!(
        "{policies}protocols {{ bgp {{ local-as 64500; router-id 10.0.0.1; default-policy accept; {statements}\n\
         group all {{ connect-retry-time 1; ipv6-unicast {{ enabled; }} }}\n\
         neighbor 10.0.0.3 {{ peer-as 64501; group all; }}\n\
         neighbor 10.0.0.4 {{ peer-as 64502; group all; {}}}\n}} }}\n",
        if policies.is_empty() { "" } else { "export watch; " },
    )
}

fn lab(sluice: &str, frr: &str, feed: &str) -> RouterLab {
    let nodes = [
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", frr),
        node("feed", 3, "bird", &bird(64501, 3, feed)),
        node("observer", 4, "bird", &bird(64502, 4, "")),
    ];
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned() + &nodes.concat();
    RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE))
}

/// The attributes of a prefix that a router announced to the observer, without the names of the router. FRR gives routes of its own a
/// MULTI_EXIT_DISC of 0, which counts as none.
fn attributes(lab: &RouterLab, router: u8, prefix: &str) -> Vec<String> {
    let question = format!("show route all protocol n{router} {prefix}");
    let said = lab.lab.control("observer", &question).unwrap_or_default();
    let neutral = |line: &str| {
        line.trim()
            .replace(&format!("645{}0", router - 1), "ASN")
            .replace(&format!("10.0.0.{router}"), "ROUTER")
    };
    let lines = said.lines().filter(|line| line.trim().starts_with("BGP.") && !line.contains("next_hop"));
    let lines = lines.filter(|line| line.trim() != "BGP.med: 0");
    lines.map(neutral).collect()
}

/// The prefixes that a router announced to the observer.
fn prefixes(lab: &RouterLab, router: u8) -> Vec<String> {
    let question = format!("show route protocol n{router}");
    let said = lab.lab.control("observer", &question).unwrap_or_default();
    let first = said.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let mut all: Vec<String> =
        first.filter_map(|line| line.split_whitespace().next().map(String::from)).collect();
    all.retain(|prefix| prefix.contains('/'));
    all.sort();
    all
}

fn control(lab: &RouterLab, question: &str) {
    lab.birdc("feed", question);
}

/// The number of UPDATEs about routes that the observer received from Sluice.
fn updates(lab: &RouterLab) -> u32 {
    let said = lab.lab.control("observer", "show protocols all n1").unwrap_or_default();
    let numbers = |line: &str| line.split_whitespace().nth(2).and_then(|n| n.parse::<u32>().ok());
    let of = |what: &str| -> u32 {
        said.lines().filter(|line| line.trim().starts_with(what)).filter_map(numbers).sum()
    };
    of("Import updates:") + of("Import withdraws:")
}

#[test]
fn both_routers_announce_the_same_aggregates() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let summary =
        format!("aggregate {AGGREGATE} {{ summary-only; }} aggregate {AGGREGATE6} {{ summary-only; }}");
    let of_frr = frr(
        "",
        &format!("  aggregate-address {AGGREGATE} summary-only\n"),
        &format!("  aggregate-address {AGGREGATE6} summary-only\n"),
        "",
    );
    let lab = lab(&sluice(&summary, ""), &of_frr, FEED);
    let summaries = ["172.16.0.0/12", "198.51.100.0/24", "2001:db8:8000::/34"];
    for router in [1, 2] {
        lab.until("the observer has the summaries alone", |lab| prefixes(lab, router) == summaries);
    }
    let same = |prefix: &str, expected: &[&str]| {
        lab.until("both have the same attributes", |lab| {
            let [ours, theirs] = [1, 2].map(|router| attributes(lab, router, prefix));
            ours == theirs && expected.iter().all(|line| ours.iter().any(|known| known == line))
        });
    };
    let aggregator = "BGP.aggregator: ROUTER ASASN";
    same(AGGREGATE, &["BGP.origin: IGP", "BGP.as_path: ASN", "BGP.atomic_aggr:", aggregator]);
    same(AGGREGATE6, &["BGP.origin: IGP", "BGP.as_path: ASN", "BGP.atomic_aggr:", aggregator]);
    // Packets without a contributor are dropped in both kernels.
    for (node, prefix, family) in
        [("sluice", AGGREGATE, "-4"), ("sluice", AGGREGATE6, "-6"), ("frr", AGGREGATE, "-4")]
    {
        lab.until("the kernel drops the rest", |lab| {
            let said =
                lab.lab.exec(node, "ip", [family, "route", "show", "type", "blackhole"]).unwrap_or_default();
            said.contains(prefix)
        });
    }
    let explained = lab.ask(&["explain", AGGREGATE]);
    assert_eq!(
        (explained["contributors"].as_u64(), explained["contributing"][0].as_str()),
        (Some(3), Some("172.16.1.0/24"))
    );
    let cause = lab.ask(&["explain", "172.20.0.0/16", "to", "10.0.0.4"])["cause"].clone();
    assert!(
        cause.as_str().unwrap().contains("suppressed: the aggregate 172.16.0.0/12 (summary-only)"),
        "{cause}"
    );
    // A contributor of another origin comes and goes.
    control(&lab, "enable incomplete");
    same(AGGREGATE, &["BGP.origin: Incomplete"]);
    control(&lab, "disable incomplete");
    same(AGGREGATE, &["BGP.origin: IGP"]);
    // A contributor that flaps beside others changes nothing for the observer.
    let before = updates(&lab);
    let changes =
        || lab.ask(&["show", "bgp", "aggregates"])["aggregates"][0]["changes"].as_str().map(String::from);
    let changed = changes();
    for n in 0..20 {
        let contributors = if n % 2 == 0 { 2 } else { 3 };
        control(&lab, if n % 2 == 0 { "disable longer" } else { "enable longer" });
        lab.until("the contributor went or came", |lab| {
            lab.ask(&["show", "bgp", "routes", "172.20.0.0/16"])["routes"].as_array().map(Vec::len)
                == Some(contributors - 2)
        });
    }
    lab.until("the sum is up to date", |lab| {
        lab.ask(&["show", "bgp", "aggregates"])["aggregates"][0]["contributors"] == 3
    });
    assert_eq!((updates(&lab), changes()), (before, changed));
    // Without contributors there is no aggregate.
    control(&lab, "disable steady");
    control(&lab, "disable longer");
    for router in [1, 2] {
        lab.until("the aggregate is gone", |lab| prefixes(lab, router) == summaries[1..]);
    }
    assert_eq!(lab.ask(&["show", "bgp", "aggregates"])["aggregates"][0]["originated"], false);
    let words = ["configure", "delete protocols bgp aggregate 2001:db8:8000::/34", "commit"];
    assert!(lab.cli(&words).status.success());
    lab.until("the contributor is announced", |lab| {
        prefixes(lab, 1).contains(&"2001:db8:8001::/48".to_owned())
    });
}

/// X is announced while Y is there, Z while Y is not.
#[test]
fn routes_depend_on_another_route() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let (x, y, z) = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24");
    let policies = format!(
        "policy {{ policy-statement watch {{\n\
         term x {{ from {{ prefix {x}; route-present {y}; }} then {{ accept; }} }}\n\
         term z {{ from {{ prefix {z}; }} except {{ route-present {y}; }} then {{ accept; }} }}\n\
         term rest {{ then {{ reject; }} }} }} }}\n"
    );
    let list = |name: &str, prefix: &str| format!("ip prefix-list {name} seq 5 permit {prefix}\n");
    let map =
        |name: &str| format!("route-map {name} permit 10\n match ip address prefix-list {name}\nexit\n");
    let names = [("X", x), ("Y", y), ("Z", z)];
    let mut more = names.iter().map(|(name, prefix)| list(name, prefix) + &map(name)).collect::<String>();
    more += "ip prefix-list XZ seq 5 permit 192.0.2.0/24\nip prefix-list XZ seq 10 permit 203.0.113.0/24\n";
    let of_frr = |condition: &str| {
        frr(
            " bgp conditional-advertisement timer 5\n",
            &format!(
                "  neighbor 10.0.0.4 prefix-list XZ out\n  neighbor 10.0.0.4 advertise-map {condition}\n"
            ),
            "",
            &more,
        )
    };
    let feed = format!(
        "protocol static stay {{ ipv4; route {x} blackhole; route {z} blackhole; }}\n\
         protocol static come {{ disabled; ipv4; route {y} blackhole; }}\n"
    );
    // FRR has one condition for each neighbor: X while Y is there.
    let lab = lab(&sluice("", &policies), &of_frr("X exist-map Y"), &feed);
    let are = |ours: &[&str], theirs: &[&str]| {
        lab.until("the observer has the routes of the condition", |lab| {
            prefixes(lab, 1) == ours && prefixes(lab, 2) == theirs
        });
    };
    are(&[z], &[z]);
    control(&lab, "enable come");
    // FRR's map for X leaves Z alone.
    are(&[x], &[x, z]);
    control(&lab, "disable come");
    are(&[z], &[z]);
    let cause = lab.ask(&["explain", x, "to", "10.0.0.4"])["cause"].clone();
    assert!(cause.as_str().unwrap().contains("policy watch, term rest"), "{cause}");
    // The other condition of FRR: Z while Y is not there.
    let words = "conf t\nrouter bgp 64510\naddress-family ipv4 unicast\nno neighbor 10.0.0.4 advertise-map X exist-map Y\n\
                 neighbor 10.0.0.4 advertise-map Z non-exist-map Y";
    let words: Vec<&str> = words.lines().collect();
    let mut vtysh = vec!["--vty_socket".to_owned(), lab.lab.dir("frr").display().to_string()];
    vtysh.extend(words.iter().flat_map(|word| ["-c".to_owned(), (*word).to_owned()]));
    lab.lab.output("frr", "vtysh", &vtysh).unwrap();
    are(&[z], &[x, z]);
    control(&lab, "enable come");
    are(&[x], &[x]);
}
