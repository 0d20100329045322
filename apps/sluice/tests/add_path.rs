//! Several paths of a prefix (ADD-PATH, RFC 7911) from and to BIRD, FRR, GoBGP and ExaBGP on a LAN.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::{RouterLab, SLUICE, possible_with_frr, share};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// The prefix that several routers announce.
const PREFIX: &str = "203.0.113.0/24";

/// A router on the LAN 10.0.0.0/24, whose address ends in `host`.
fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.0.0.{host}/24']\n"
    )
}

/// A BIRD of the AS 64500 that announces [`PREFIX`]; `to` are the hosts of its neighbors, with more words for each.
fn bird(host: u8, to: &[(u8, &str)]) -> String {
    let mut text = format!(
        "router id 10.0.0.{host};\nprotocol device {{ }}\nprotocol direct {{ ipv4; }}\n\
         protocol static own {{ ipv4; route {PREFIX} blackhole; }}\n"
    );
    for (neighbor, more) in to {
        writeln!(
            text,
            "protocol bgp n{neighbor} {{ local 10.0.0.{host} as 64500; neighbor 10.0.0.{neighbor} as 64500;\n\
             connect delay time 1; connect retry time 1; error wait time 1, 2; {more}\n\
             ipv4 {{ add paths on; import all;\n\
             export filter {{ if source = RTS_BGP || proto = \"own\" then accept; reject; }}; }}; }}"
        )
        .unwrap();
    }
    text
}

/// An FRR of the AS 64500 with these hosts as clients, which are sent all paths.
fn frr(clients: &[u8], networks: &str) -> String {
    let mut text = "router bgp 64500\n bgp router-id 10.0.0.2\n no bgp network import-check\n".to_owned();
    for host in clients {
        write!(
            text,
            " neighbor 10.0.0.{host} remote-as 64500\n neighbor 10.0.0.{host} timers connect 1\n\
             \x20neighbor 10.0.0.{host} advertisement-interval 0\n"
        )
        .unwrap();
    }
    text.push_str(" address-family ipv4 unicast\n");
    text.push_str(networks);
    for host in clients {
        write!(
            text,
            "  neighbor 10.0.0.{host} route-reflector-client\n  neighbor 10.0.0.{host} addpath-tx-all-paths\n"
        )
        .unwrap();
    }
    text + " exit-address-family\n"
}

fn up(nodes: &[String]) -> RouterLab {
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned() + &nodes.concat();
    RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE))
}

/// The next hops that a router has of [`PREFIX`] from the neighbor 10.0.0.1 or others, in order.
fn hops_of_bird(lab: &RouterLab, node: &str) -> Vec<String> {
    let said = lab.lab.control(node, &format!("show route all {PREFIX}")).unwrap_or_default();
    let hops = said.lines().filter_map(|line| line.trim().strip_prefix("BGP.next_hop: "));
    let mut hops: Vec<String> = hops.map(String::from).collect();
    hops.sort_unstable();
    hops
}

/// A field of each path of [`PREFIX`] from a neighbor that the router explains.
fn explained(lab: &RouterLab, neighbor: &str, field: &str) -> Vec<String> {
    let paths = lab.ask(&["explain", PREFIX])["paths"].as_array().cloned().unwrap_or_default();
    let of_neighbor = paths.iter().filter(|path| path["neighbor"] == neighbor);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let mut all: Vec<String> = of_neighbor.map(|path| text(&path[field])).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_reflector_sends_all_paths_to_bird_and_frr() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1;
        group clients { peer-as 64500; connect-retry-time 1; route-reflector-client true;
            add-path { receive true; send all; } }
        neighbor 10.0.0.2 { group clients; }
        neighbor 10.0.0.3 { group clients; }
        neighbor 10.0.0.4 { group clients; }
        neighbor 10.0.0.5 { group clients; add-path { send best; } }
    } }\n";
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", &frr(&[1], &format!("  network {PREFIX}\n"))),
        node("first", 3, "bird", &bird(3, &[(1, "")])),
        node("second", 4, "bird", &bird(4, &[(1, "")])),
        node("third", 5, "bird", &bird(5, &[(1, "")])),
    ]);
    let others = |own: u8| -> Vec<String> {
        [2, 3, 4, 5].into_iter().filter(|host| *host != own).map(|host| format!("10.0.0.{host}")).collect()
    };
    for (name, host) in [("first", 3), ("second", 4)] {
        lab.until("a client has the paths of all others", |lab| hops_of_bird(lab, name) == others(host));
    }
    // The two best paths: those of the lowest router identifiers.
    lab.until("a client has the best paths", |lab| hops_of_bird(lab, "third") == ["10.0.0.2", "10.0.0.3"]);
    lab.until("FRR has the paths of all others", |lab| {
        let said = lab.lab.control("frr", &format!("show bgp ipv4 unicast {PREFIX}")).unwrap_or_default();
        let has = |host: u8| said.contains(&format!("10.0.0.{host} from 10.0.0.1 (10.0.0.{host})"));
        said.contains("Paths: (4 available") && has(3) && has(4) && has(5) && said.contains("AddPath ID: RX")
    });
    let export = lab.ask(&["explain", PREFIX, "to", "10.0.0.3"])["exports"][0].clone();
    assert_eq!((export["sent"].as_bool(), export["others"].as_array().map(Vec::len)), (Some(true), Some(2)));
    // Identifiers go with the paths: FRR's goes, the others stay.
    let words = "configure terminal\nrouter bgp 64500\naddress-family ipv4 unicast\n";
    lab.lab.control("frr", &format!("{words}no network {PREFIX}")).unwrap();
    lab.until("one path is withdrawn", |lab| hops_of_bird(lab, "first") == ["10.0.0.4", "10.0.0.5"]);
    lab.until("the next best path follows", |lab| hops_of_bird(lab, "third") == ["10.0.0.3", "10.0.0.4"]);
    lab.birdc("second", "disable own");
    lab.until("another path is withdrawn", |lab| hops_of_bird(lab, "first") == ["10.0.0.5"]);
    lab.birdc("second", "enable own");
    lab.until("the path is sent again", |lab| hops_of_bird(lab, "first") == ["10.0.0.4", "10.0.0.5"]);
    // All routes again, and after a session that was lost.
    lab.birdc("first", "reload in n1");
    lab.birdc("third", "restart n1");
    lab.until("all is as before", |lab| {
        hops_of_bird(lab, "first") == ["10.0.0.4", "10.0.0.5"]
            && hops_of_bird(lab, "third") == ["10.0.0.3", "10.0.0.4"]
    });
}

#[test]
fn all_paths_of_reflectors_are_received() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1;
        group reflectors { peer-as 64500; connect-retry-time 1; add-path { receive true; } }
        neighbor 10.0.0.2 { group reflectors; }
        neighbor 10.0.0.5 { group reflectors; }
    } }\n";
    let client = |host: u8| bird(host, &[(2, ""), (5, "")]);
    let of_reflector = [(1, "rr client;"), (3, "rr client;"), (4, "rr client;")];
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", &frr(&[1, 3, 4], "")),
        node("first", 3, "bird", &client(3)),
        node("second", 4, "bird", &client(4)),
        node("reflector", 5, "bird", &bird(5, &of_reflector)),
    ]);
    lab.birdc("reflector", "disable own");
    let both = ["10.0.0.3", "10.0.0.4"];
    for reflector in ["10.0.0.2", "10.0.0.5"] {
        lab.until("two paths from a reflector", |lab| explained(lab, reflector, "next_hop") == both);
        let ids = explained(&lab, reflector, "path_id");
        assert!(ids.len() == 2 && ids[0] != ids[1] && !ids.contains(&"null".into()), "{ids:?}");
    }
    lab.until("the kernel's route is that of the best path", |lab| {
        lab.kernel_text("-4").starts_with(&format!("{PREFIX} "))
    });
    lab.birdc("first", "disable own");
    for reflector in ["10.0.0.2", "10.0.0.5"] {
        lab.until("one path is withdrawn", |lab| explained(lab, reflector, "next_hop") == ["10.0.0.4"]);
    }
    lab.birdc("first", "enable own");
    for reflector in ["10.0.0.2", "10.0.0.5"] {
        lab.until("the path is announced again", |lab| explained(lab, reflector, "next_hop") == both);
    }
    // The neighbor may send one path only: the session begins anew without the capability.
    let words = ["configure", "set protocols bgp neighbor 10.0.0.2 add-path receive false", "commit"];
    assert!(lab.cli(&words).status.success());
    lab.until("one path without an identifier", |lab| explained(lab, "10.0.0.2", "path_id") == ["null"]);
    assert_eq!(explained(&lab, "10.0.0.5", "next_hop"), both);
}

const GOBGP: &str = "[global.config]
as = 64500
router-id = \"10.0.0.6\"
[[neighbors]]
[neighbors.config]
neighbor-address = \"10.0.0.1\"
peer-as = 64500
[neighbors.timers.config]
connect-retry = 1
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = \"ipv4-unicast\"
[neighbors.afi-safis.add-paths.config]
receive = true
send-max = 8
";

/// ExaBGP announces two paths of a prefix of its own, and writes down what it receives. The shell of the script stays: ExaBGP takes the
/// end of the script's output for the script's death.
const EXABGP: &str = "process sink { run @DIR@/sink.sh; encoder json; }
neighbor 10.0.0.1 {
    router-id 10.0.0.7; local-address 10.0.0.7; local-as 64500; peer-as 64500;
    capability { add-path send/receive; }
    family { ipv4 unicast; }
    api { processes [ sink ]; receive { parsed; update; } }
    static {
        route 198.51.100.0/24 next-hop 10.0.0.8 path-information 0.0.0.1 local-preference 100;
        route 198.51.100.0/24 next-hop 10.0.0.9 path-information 0.0.0.2 local-preference 100;
    }
}
";

/// GoBGP and ExaBGP send several paths of a prefix, and are sent several.
#[test]
fn several_paths_from_and_to_gobgp_and_exabgp() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    for program in ["gobgpd", "exabgp"] {
        if std::process::Command::new(program).arg("--version").output().is_err() {
            return sluice_testkit::skipped(format_args!("{program} is not installed"));
        }
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1;
        group clients { peer-as 64500; connect-retry-time 1; route-reflector-client true;
            add-path { receive true; send all; } }
        neighbor 10.0.0.3 { group clients; }
        neighbor 10.0.0.4 { group clients; }
        neighbor 10.0.0.6 { group clients; }
        neighbor 10.0.0.7 { group clients; }
    } }\n";
    let sink = "files = { 'sink.sh' = '''#!/bin/sh\ncat > @DIR@/received; exit 0\n''' }\n[[links]]";
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("first", 3, "bird", &bird(3, &[(1, "")])),
        node("second", 4, "bird", &bird(4, &[(1, "")])),
        node("gobgp", 6, "gobgp", GOBGP),
        node("exabgp", 7, "exabgp", EXABGP).replace("[[links]]", sink),
    ]);
    let received =
        |lab: &RouterLab| std::fs::read_to_string(lab.lab.dir("exabgp").join("received")).unwrap_or_default();
    // The lines of the last update of each next hop, with their path identifiers.
    lab.until("ExaBGP has the paths of both BIRDs", |lab| {
        let said = received(lab);
        let paths = said.lines().filter(|line| line.contains(PREFIX) && line.contains("path-information"));
        let paths: Vec<&str> = paths.collect();
        ["10.0.0.3", "10.0.0.4"]
            .iter()
            .all(|hop| paths.iter().any(|line| line.contains(&format!("\"{hop}\""))))
    });
    let of_gobgp = |lab: &RouterLab, prefix: &str| -> Vec<String> {
        let said = lab.lab.control("gobgp", "global rib").unwrap_or_default();
        let lines = said.lines().filter(|line| line.contains(prefix));
        let words = lines.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("10.0.0.")));
        let mut hops: Vec<String> = words.map(String::from).collect();
        hops.sort_unstable();
        hops
    };
    let both = |hops: [&str; 2]| hops.map(String::from).to_vec();
    lab.until("GoBGP has the paths of both BIRDs", |lab| {
        of_gobgp(lab, PREFIX) == both(["10.0.0.3", "10.0.0.4"])
    });
    lab.until("GoBGP has both paths of ExaBGP", |lab| {
        of_gobgp(lab, "198.51.100.0/24") == both(["10.0.0.8", "10.0.0.9"])
    });
    // Two paths of GoBGP's own, one of which goes again.
    let add = |n: u8| format!("global rib add {PREFIX} identifier {n} nexthop 10.0.0.{n}");
    for n in [11, 12] {
        lab.lab.control("gobgp", &add(n)).unwrap();
    }
    let of_gobgp = |hops: &[&str]| {
        lab.until("paths of GoBGP", |lab| explained(lab, "10.0.0.6", "next_hop") == hops);
        let mut all: Vec<&str> = [&["10.0.0.4"], hops].concat();
        all.sort_unstable();
        lab.until("BIRD has the paths of GoBGP", |lab| hops_of_bird(lab, "first") == all);
    };
    of_gobgp(&["10.0.0.11", "10.0.0.12"]);
    lab.lab.control("gobgp", &add(11).replace(" add ", " del ")).unwrap();
    of_gobgp(&["10.0.0.12"]);
    let ids = explained(&lab, "10.0.0.6", "path_id");
    assert!(ids.len() == 1 && ids[0] != "null", "{ids:?}");
    lab.birdc("second", "disable own");
    lab.until("ExaBGP is told that a path goes", |lab| {
        received(lab).lines().any(|line| line.contains("\"withdraw\"") && line.contains(PREFIX))
    });
}
