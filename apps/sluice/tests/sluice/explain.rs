//! Why a route is not used, and why it is not sent: the first line of `explain`, on a router with real neighbors. A prefix for each
//! cause; the words of the causes that no neighbor here brings about are tested with BGP's core and with the command.

use crate::SLUICE;
use sluice_lab::Topology;
use sluice_router_lab::{RouterLab, possible, share};
use std::fmt::Write as _;
use std::path::Path;

const AS: u32 = 65001;
const FEED: &str = "10.1.0.2";
const OTHER: &str = "10.2.0.2";
const INSIDE: &str = "10.3.0.2";
const STRANGER: &str = "10.4.0.2";
const CUSTOMER: &str = "10.5.0.2";
const LIMITED: &str = "10.6.0.2";
const RECEIVER: &str = "10.7.0.2";
const ALSO_INSIDE: &str = "10.8.0.2";

/// A neighbor that announces routes: its name, its AS, and ExaBGP's words for each route.
struct Announcer {
    name: &'static str,
    asn: u32,
    routes: &'static [&'static str],
    /// Announced when all sessions are up.
    later: &'static [&'static str],
}

/// In the order of their addresses.
const ANNOUNCERS: [Announcer; 6] = [
    Announcer {
        name: "feed",
        asn: 65002,
        routes: &[
            "20.0.1.0/24 next-hop self",
            "20.0.2.0/24 next-hop self as-path [ 65002 65001 7 ]",
            // A MED of 3 octets.
            "20.0.3.0/24 next-hop self attribute [ 0x04 0x80 0x000001 ]",
            "20.0.4.0/24 next-hop self community [ 65002:666 ]",
            "20.0.5.0/24 next-hop 192.0.3.1",
            "20.0.6.0/24 next-hop 192.0.2.1",
            "20.0.7.0/24 next-hop self community [ no-export ]",
            "20.0.8.0/24 next-hop self",
            "20.0.9.0/24 next-hop self",
            "20.0.11.0/24 next-hop self as-path [ 65002 7 8 9 ]",
            "20.0.12.0/24 next-hop self as-path [ 65002 7 ] med 20",
            "20.0.13.0/24 next-hop self",
            "20.0.18.0/24 next-hop self",
        ],
        later: &[],
    },
    Announcer {
        name: "other",
        asn: 65003,
        routes: &["20.0.11.0/24 next-hop self", "20.0.13.0/24 next-hop self", "20.0.18.0/24 next-hop self"],
        later: &[],
    },
    Announcer {
        name: "inside",
        asn: AS,
        routes: &[
            "20.0.12.0/24 next-hop self as-path [ 65002 7 ] med 10 local-preference 100",
            "20.0.13.0/24 next-hop self as-path [ 7 8 9 ] local-preference 200",
            "20.0.14.0/24 next-hop self as-path [ 7 ] local-preference 100",
            "20.0.16.0/24 next-hop self as-path [ 7 ] local-preference 100",
            "20.0.15.0/24 next-hop self as-path [ 7 ] local-preference 100 originator-id 10.0.0.1 cluster-list [ 9.9.9.9 ]",
        ],
        later: &[],
    },
    Announcer { name: "stranger", asn: 65005, routes: &["20.0.19.0/24 next-hop self"], later: &[] },
    Announcer {
        name: "customer",
        asn: 65006,
        // ONLY_TO_CUSTOMER with another AS.
        routes: &["20.0.20.0/24 next-hop self attribute [ 0x23 0xc0 0x00000007 ]"],
        later: &[],
    },
    Announcer {
        name: "limited",
        asn: 65007,
        routes: &["20.0.21.0/24 next-hop self", "20.0.22.0/24 next-hop self"],
        // Limits are judged between batches of what arrived.
        later: &["20.0.23.0/24 next-hop self"],
    },
];

const CONFIG: &str = "
policy {
    community bad { member 65002:666; }
    prefix-list secret { prefix 20.0.8.0/24; }
    policy-statement in { term bad { from { community bad; } then { reject; reason marked; } } term rest { then { accept; } } }
    policy-statement out {
        term secret { from { prefix-list secret; } then { reject; reason kept-here; } }
        term rest { then { accept; } }
    }
    policy-statement all { term all { then { accept; } } }
}
protocols {
    static { route 20.0.9.0/24 discard; route 192.0.3.0/24 next-hop 10.2.0.2; }
    bgp {
        local-as 65001; router-id 10.0.0.1;
        neighbor 10.1.0.2 { peer-as 65002; import in; export out; }
        neighbor 10.2.0.2 { peer-as 65003; import all; export all; }
        neighbor 10.3.0.2 { peer-as 65001; import all; export all; }
        neighbor 10.4.0.2 { peer-as 65005; }
        neighbor 10.5.0.2 { peer-as 65006; import all; export all; relationship customer; }
        neighbor 10.6.0.2 { peer-as 65007; import all; export all;
            ipv4-unicast { maximum-prefixes { received 1; action discard; } } }
        neighbor 10.7.0.2 { peer-as 65004; import all; export out; }
        neighbor 10.8.0.2 { peer-as 65001; import all; export all; }
    }
}
";

fn topology() -> Topology {
    // Another program's route of the same prefix and preference: the kernel refuses this router's.
    let mut text = format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nroutes = ['20.0.16.0/24 via 10.7.0.2 metric 20']\n\
         config = '''{CONFIG}'''\n"
    );
    let link = |place: usize, name: &str| {
        format!(
            "[[links]]\na = 'sluice:{name}'\nb = '{name}:sluice'\n\
             a_addresses = ['10.{place}.0.1/24']\nb_addresses = ['10.{place}.0.2/24']\n"
        )
    };
    let mut links = String::new();
    for (place, Announcer { name, asn, routes, later }) in (1..).zip(ANNOUNCERS) {
        let announce = |route| format!("echo announce route {route}\n");
        let routes: String = routes.iter().map(announce).collect();
        let later: String = later.iter().map(announce).collect();
        write!(
            text,
            "[nodes.{name}]\ndaemon = 'exabgp'\nconfig = '''\n\
             process routes {{ run @DIR@/routes.sh; encoder text; }}\nneighbor 10.{place}.0.1 {{\n\
             router-id 10.{place}.0.2; local-address 10.{place}.0.2; local-as {asn}; peer-as {AS};\n\
             family {{ ipv4 unicast; }}\napi {{ processes [ routes ]; }}\n}}\n'''\n\
             files = {{ 'routes.sh' = '''#!/bin/sh\nmkfifo @DIR@/later\n{routes}read order < @DIR@/later\n{later}while read answer; do :; done\n''' }}\n"
        )
        .unwrap();
        links += &link(place, name);
    }
    for (place, name, asn) in [(7, "receiver", 65004), (8, "also", AS)] {
        write!(
            text,
            "[nodes.{name}]\ndaemon = 'bird'\nconfig = '''\nrouter id 10.{place}.0.2;\nprotocol device {{ }}\n\
             protocol bgp sluice {{ local 10.{place}.0.2 as {asn}; \
             neighbor 10.{place}.0.1 as {AS}; ipv4 {{ import all; export all; }}; }}\n'''\n"
        )
        .unwrap();
        links += &link(place, name);
    }
    (text + &links).parse().unwrap()
}

/// Questions with the beginning of the answer's first line, behind the prefix.
const ANSWERS: &[(&str, &str)] = &[
    ("20.0.1.0/24 to 10.7.0.2", "best path from 10.1.0.2; sent to 10.7.0.2"),
    ("20.0.99.0/24", "no neighbor announces it, and this router does not originate it"),
    ("20.0.2.0/24", "not used: dropped from 10.1.0.2: this AS is in its AS path (RFC 4271, section 9.1.2)"),
    ("20.0.3.0/24", "not used: dropped from 10.1.0.2: malformed attributes (RFC 7606)"),
    ("20.0.4.0/24", "not used: rejected on import: policy in, term bad: marked"),
    ("20.0.5.0/24", "not used: not the best: next hop not on the peer's link"),
    ("20.0.6.0/24", "not used: not the best: next hop unreachable"),
    (
        "20.0.7.0/24 to 10.7.0.2",
        "best path from 10.1.0.2; not sent to 10.7.0.2: community no-export (RFC 1997)",
    ),
    (
        "20.0.8.0/24 to 10.7.0.2",
        "best path from 10.1.0.2; not sent to 10.7.0.2: rejected on export: policy out, term secret: kept-here",
    ),
    ("20.0.9.0/24", "best path from 10.1.0.2, but the RIB prefers static (distance 1, BGP's 20); sent to"),
    (
        "20.0.14.0/24 to 10.8.0.2",
        "best path from 10.3.0.2; not sent to 10.8.0.2: the best path came from an internal neighbor, as this one is",
    ),
    ("20.0.15.0/24", "not used: dropped from 10.3.0.2: reflected back"),
    ("20.0.16.0/24", "best path from 10.3.0.2, but the kernel refused it: "),
    (
        "20.0.19.0/24",
        "not used: rejected on import: no import policy (RFC 8212): configure `import`, or `default-policy accept`",
    ),
    ("20.0.1.0/24 to 10.4.0.2", "best path from 10.1.0.2; not sent to 10.4.0.2: no export policy (RFC 8212)"),
    ("20.0.20.0/24", "not used: dropped from 10.5.0.2: a leak by its ONLY_TO_CUSTOMER (RFC 9234, section 5)"),
    (
        "20.0.23.0/24",
        "not used: dropped from 10.6.0.2: maximum-prefixes is exceeded, and new prefixes are ignored",
    ),
    ("2001:db8::/32 to 10.7.0.2", "no neighbor announces it"),
];

/// Prefixes with several paths: who has the best one, who lost, and the step of the decision.
const LOST: &[(&str, &str, &str, &str)] = &[
    ("20.0.11.0/24", OTHER, FEED, "longer AS path"),
    ("20.0.12.0/24", INSIDE, FEED, "higher MED"),
    ("20.0.13.0/24", INSIDE, OTHER, "lower local preference"),
    ("20.0.18.0/24", FEED, OTHER, "higher router identifier"),
];

#[test]
fn the_first_line_is_the_cause() {
    let _share = share();
    if !possible() {
        return;
    }
    if std::process::Command::new("exabgp").arg("--version").output().is_err() {
        return sluice_testkit::skipped("ExaBGP is not installed");
    }
    let lab = RouterLab::up(&topology(), Path::new(SLUICE));
    for neighbor in [FEED, OTHER, INSIDE, STRANGER, CUSTOMER, LIMITED, RECEIVER, ALSO_INSIDE] {
        lab.until("all sessions are up", |lab| lab.established(neighbor));
    }
    for announcer in ANNOUNCERS {
        std::fs::write(lab.lab.dir(announcer.name).join("later"), "").unwrap();
    }
    let explain = |question: &str| {
        let words: Vec<&str> = ["explain"].into_iter().chain(question.split(' ')).collect();
        lab.ask(&words)
    };
    let cause = |question: &str| explain(question)["cause"].as_str().unwrap_or_default().to_owned();
    for (question, expected) in ANSWERS {
        let mut last = String::new();
        let is_said = sluice_lab::until(std::time::Duration::from_secs(20), || {
            last = cause(question);
            last.starts_with(expected)
        });
        assert!(is_said, "{question}: {last}");
    }
    for (prefix, best, loser, reason) in LOST {
        let answer = explain(prefix);
        let paths = answer["paths"].as_array().unwrap();
        let lost = paths.iter().find(|path| path["neighbor"] == *loser).unwrap();
        assert!(answer["cause"].as_str().unwrap().starts_with(&format!("best path from {best}")), "{answer}");
        assert_eq!(lost["reason"], *reason, "{answer}");
        // An address in the prefix has the same answer.
        let address = prefix.replace("0/24", "7");
        assert_eq!(explain(&address)["prefix"], *prefix, "{address}");
    }
}
