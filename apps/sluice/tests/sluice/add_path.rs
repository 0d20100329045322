//! Several paths of a prefix (ADD-PATH, RFC 7911) from and to BIRD, FRR, GoBGP and ExaBGP on a LAN.

use crate::SLUICE;
use crate::interop_matrix::proved;
use serde_json::Value;
use sluice_router_lab::lan::{FAMILIES, Family, node, topology};
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::fmt::Write as _;
use std::path::Path;

/// The prefix that several routers announce.
const fn prefix(family: Family) -> &'static str {
    family.pick("203.0.113.0/24", "2001:db8:203::/48")
}

/// The name of BIRD's session with a neighbor.
fn session(family: Family, neighbor: u8) -> String {
    format!("n{neighbor}{}", family.pick("", "v6"))
}

/// The name of BIRD's own routes of a family.
const fn own(family: Family) -> &'static str {
    family.pick("own", "ownv6")
}

/// A BIRD of the AS 64500 that announces the [`prefix`] of each family; `to` are the hosts of its neighbors, with more words for each.
fn bird(host: u8, to: &[(u8, &str)]) -> String {
    let mut text = format!("router id 10.0.0.{host};\nprotocol device {{ }}\n");
    for family in FAMILIES {
        let (name, own, local) = (family.name(), own(family), family.address(host));
        write!(
            text,
            "protocol direct {{ {name}; }}\nprotocol static {own} {{ {name}; route {} blackhole; }}\n",
            prefix(family)
        )
        .unwrap();
        for (neighbor, more) in to {
            writeln!(
                text,
                "protocol bgp {} {{ local {local} as 64500; neighbor {} as 64500;\n\
                 connect delay time 1; connect retry time 1; error wait time 1, 2; {more}\n\
                 {name} {{ add paths on; import all;\n\
                 export filter {{ if source = RTS_BGP || proto = \"{own}\" then accept; reject; }}; }}; }}",
                session(family, *neighbor),
                family.address(*neighbor)
            )
            .unwrap();
        }
    }
    text
}

/// An FRR of the AS 64500 with these hosts as clients, which are sent all paths. It announces the [`prefix`] of each family if
/// `announces`.
fn frr(clients: &[u8], announces: bool) -> String {
    let mut text = "router bgp 64500\n bgp router-id 10.0.0.2\n no bgp network import-check\n\
                    \x20no bgp default ipv4-unicast\n"
        .to_owned();
    for family in FAMILIES {
        for address in clients.iter().map(|host| family.address(*host)) {
            write!(
                text,
                " neighbor {address} remote-as 64500\n neighbor {address} timers connect 1\n\
                 \x20neighbor {address} advertisement-interval 0\n"
            )
            .unwrap();
        }
    }
    for family in FAMILIES {
        writeln!(text, " address-family {} unicast", family.name()).unwrap();
        if announces {
            writeln!(text, "  network {}", prefix(family)).unwrap();
        }
        for address in clients.iter().map(|host| family.address(*host)) {
            write!(
                text,
                "  neighbor {address} activate\n  neighbor {address} route-reflector-client\n\
                 \x20 neighbor {address} addpath-tx-all-paths\n"
            )
            .unwrap();
        }
        text.push_str(" exit-address-family\n");
    }
    text
}

/// A Sluice whose neighbors are these hosts, by both families; `group` is the configuration that all of them have, and the words of a
/// host only that host's.
fn sluice(group: &str, hosts: &[(u8, &str)]) -> String {
    let mut text = format!(
        "protocols {{ bgp {{\nlocal-as 64500; router-id 10.0.0.1;\n\
         group all {{ peer-as 64500; connect-retry-time 1; {group} }}\n"
    );
    for family in FAMILIES {
        for (host, more) in hosts {
            writeln!(text, "neighbor {} {{ group all; {more} }}", family.address(*host)).unwrap();
        }
    }
    text + "} }\n"
}

fn up(nodes: &[String]) -> RouterLab {
    RouterLab::up(&topology(nodes), Path::new(SLUICE))
}

/// The addresses of hosts.
fn addresses(family: Family, hosts: &[u8]) -> Vec<String> {
    hosts.iter().map(|host| family.address(*host)).collect()
}

/// The next hops that a router has of the [`prefix`], in order. A link-local address may follow the global one.
fn hops_of_bird(lab: &RouterLab, node: &str, family: Family) -> Vec<String> {
    let said = lab.lab.control(node, &format!("show route all {}", prefix(family))).unwrap_or_default();
    let hops = said.lines().filter_map(|line| line.trim().strip_prefix("BGP.next_hop: "));
    let mut hops: Vec<String> =
        hops.filter_map(|hops| hops.split_whitespace().next()).map(String::from).collect();
    hops.sort_unstable();
    hops
}

/// A field of each path of the [`prefix`] from a neighbor that the router explains.
fn explained(lab: &RouterLab, family: Family, neighbor: u8, field: &str) -> Vec<String> {
    let paths = lab.ask(&["explain", prefix(family)])["paths"].as_array().cloned().unwrap_or_default();
    let of_neighbor = paths.iter().filter(|path| path["neighbor"] == family.address(neighbor));
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
    let clients = "route-reflector-client true; add-path { receive true; send all; }";
    let hosts = [(2, ""), (3, ""), (4, ""), (5, "add-path { send best; }")];
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice(clients, &hosts)),
        node("frr", 2, "frr", &frr(&[1], true)),
        node("first", 3, "bird", &bird(3, &[(1, "")])),
        node("second", 4, "bird", &bird(4, &[(1, "")])),
        node("third", 5, "bird", &bird(5, &[(1, "")])),
    ]);
    for family in FAMILIES {
        all_paths_are_sent(&lab, family);
    }
    proved("several paths sent (ADD-PATH, RFC 7911)", &["BIRD", "FRR"]);
}

/// Every client has the paths that it should have, while paths come and go.
fn all_paths_are_sent(lab: &RouterLab, family: Family) {
    let has = |what: &str, node: &str, hosts: &[u8]| {
        lab.until(what, |lab| hops_of_bird(lab, node, family) == addresses(family, hosts));
    };
    has("a client has the paths of all others", "first", &[2, 4, 5]);
    has("a client has the paths of all others", "second", &[2, 3, 5]);
    // The two best paths: those of the lowest router identifiers.
    has("a client has the best paths", "third", &[2, 3]);
    let (name, prefix) = (family.name(), prefix(family));
    lab.until("FRR has the paths of all others", |lab| {
        let said = lab.lab.control("frr", &format!("show bgp {name} unicast {prefix}")).unwrap_or_default();
        let router = family.address(1);
        let has =
            |host: u8| said.contains(&format!("{} from {router} (10.0.0.{host})", family.address(host)));
        said.contains("Paths: (4 available") && has(3) && has(4) && has(5) && said.contains("AddPath ID: RX")
    });
    let export = lab.ask(&["explain", prefix, "to", &family.address(3)])["exports"][0].clone();
    assert_eq!((export["sent"].as_bool(), export["others"].as_array().map(Vec::len)), (Some(true), Some(2)));
    // Identifiers go with the paths: FRR's goes, the others stay.
    let words = format!("configure terminal\nrouter bgp 64500\naddress-family {name} unicast\n");
    lab.lab.control("frr", &format!("{words}no network {prefix}")).unwrap();
    has("one path is withdrawn", "first", &[4, 5]);
    has("the next best path follows", "third", &[3, 4]);
    lab.birdc("second", &format!("disable {}", own(family)));
    has("another path is withdrawn", "first", &[5]);
    lab.birdc("second", &format!("enable {}", own(family)));
    has("the path is sent again", "first", &[4, 5]);
    // All routes again, and after a session that was lost.
    let session = session(family, 1);
    lab.birdc("first", &format!("reload in {session}"));
    lab.birdc("third", &format!("restart {session}"));
    has("all is as before", "first", &[4, 5]);
    has("all is as before", "third", &[3, 4]);
}

#[test]
fn all_paths_of_reflectors_are_received() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let client = |host: u8| bird(host, &[(2, ""), (5, "")]);
    let of_reflector = [(1, "rr client;"), (3, "rr client;"), (4, "rr client;")];
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice("add-path { receive true; }", &[(2, ""), (5, "")])),
        node("frr", 2, "frr", &frr(&[1, 3, 4], false)),
        node("first", 3, "bird", &client(3)),
        node("second", 4, "bird", &client(4)),
        node("reflector", 5, "bird", &bird(5, &of_reflector)),
    ]);
    for family in FAMILIES {
        lab.birdc("reflector", &format!("disable {}", own(family)));
    }
    for family in FAMILIES {
        all_paths_are_received(&lab, family);
    }
    proved("several paths received (ADD-PATH, RFC 7911)", &["BIRD", "FRR"]);
}

/// Both reflectors advertise the paths of both clients, while one comes and goes, and one path where only one may come.
fn all_paths_are_received(lab: &RouterLab, family: Family) {
    let has = |what: &str, reflector: u8, hosts: &[u8]| {
        lab.until(what, |lab| explained(lab, family, reflector, "next_hop") == addresses(family, hosts));
    };
    for reflector in [2, 5] {
        has("two paths from a reflector", reflector, &[3, 4]);
        let ids = explained(lab, family, reflector, "path_id");
        assert!(ids.len() == 2 && ids[0] != ids[1] && !ids.contains(&"null".into()), "{ids:?}");
    }
    lab.until("the kernel's route is that of the best path", |lab| {
        lab.kernel_text(family.pick("-4", "-6")).starts_with(&format!("{} ", prefix(family)))
    });
    lab.birdc("first", &format!("disable {}", own(family)));
    for reflector in [2, 5] {
        has("one path is withdrawn", reflector, &[4]);
    }
    lab.birdc("first", &format!("enable {}", own(family)));
    for reflector in [2, 5] {
        has("the path is announced again", reflector, &[3, 4]);
    }
    // The neighbor may send one path only: the session begins anew without the capability.
    let set = format!("set protocols bgp neighbor {} add-path receive false", family.address(2));
    assert!(lab.cli(&["configure", &set, "commit"]).status.success());
    lab.until("one path without an identifier", |lab| explained(lab, family, 2, "path_id") == ["null"]);
    assert_eq!(explained(lab, family, 5, "next_hop"), addresses(family, &[3, 4]));
}

/// A GoBGP with a session of each family.
fn gobgp() -> String {
    let mut text = "[global.config]\nas = 64500\nrouter-id = \"10.0.0.6\"\n".to_owned();
    for family in FAMILIES {
        write!(
            text,
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{}\"\npeer-as = 64500\n\
             [neighbors.timers.config]\nconnect-retry = 1\n\
             [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{}-unicast\"\n\
             [neighbors.afi-safis.add-paths.config]\nreceive = true\nsend-max = 8\n",
            family.address(1),
            family.name()
        )
        .unwrap();
    }
    text
}

/// The prefix of which ExaBGP announces two paths.
const fn of_exabgp(family: Family) -> &'static str {
    family.pick("198.51.100.0/24", "2001:db8:198::/48")
}

/// ExaBGP announces two paths of a prefix of its own, and writes down what it receives. The shell of the script stays: ExaBGP takes the
/// end of the script's output for the script's death.
fn exabgp() -> String {
    let mut text = "process sink { run @DIR@/sink.sh; encoder json; }\n".to_owned();
    for family in FAMILIES {
        let [router, local, first, second] = [1, 7, 8, 9].map(|host| family.address(host));
        let route = of_exabgp(family);
        write!(
            text,
            "neighbor {router} {{\n\
             router-id 10.0.0.7; local-address {local}; local-as 64500; peer-as 64500;\n\
             capability {{ add-path send/receive; }}\n\
             family {{ {} unicast; }}\n\
             api {{ processes [ sink ]; receive {{ parsed; update; }} }}\n\
             static {{\n\
             route {route} next-hop {first} path-information 0.0.0.1 local-preference 100;\n\
             route {route} next-hop {second} path-information 0.0.0.2 local-preference 100;\n}}\n}}\n",
            family.name()
        )
        .unwrap();
    }
    text
}

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
    let clients = "route-reflector-client true; add-path { receive true; send all; }";
    let sink = "files = { 'sink.sh' = '''#!/bin/sh\ncat > @DIR@/received; exit 0\n''' }\n[[links]]";
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice(clients, &[(3, ""), (4, ""), (6, ""), (7, "")])),
        node("first", 3, "bird", &bird(3, &[(1, "")])),
        node("second", 4, "bird", &bird(4, &[(1, "")])),
        node("gobgp", 6, "gobgp", &gobgp()),
        node("exabgp", 7, "exabgp", &exabgp()).replace("[[links]]", sink),
    ]);
    for family in FAMILIES {
        several_paths_go_both_ways(&lab, family);
    }
    proved("several paths sent (ADD-PATH, RFC 7911)", &["GoBGP", "ExaBGP"]);
    proved("several paths received (ADD-PATH, RFC 7911)", &["GoBGP", "ExaBGP"]);
}

/// GoBGP and ExaBGP have the paths of all others, and all others theirs.
fn several_paths_go_both_ways(lab: &RouterLab, family: Family) {
    let prefix = prefix(family);
    let received =
        |lab: &RouterLab| std::fs::read_to_string(lab.lab.dir("exabgp").join("received")).unwrap_or_default();
    // The lines of the last update of each next hop, with their path identifiers.
    lab.until("ExaBGP has the paths of both BIRDs", |lab| {
        let said = received(lab);
        let paths = said.lines().filter(|line| line.contains(prefix) && line.contains("path-information"));
        let paths: Vec<&str> = paths.collect();
        let has = |hop: &String| paths.iter().any(|line| line.contains(&format!("\"{hop}\"")));
        addresses(family, &[3, 4]).iter().all(has)
    });
    let of_gobgp = |lab: &RouterLab, prefix: &str| -> Vec<String> {
        let question = format!("global rib -a {}", family.name());
        let said = lab.lab.control("gobgp", &question).unwrap_or_default();
        let lines = said.lines().filter(|line| line.contains(prefix));
        let subnet = family.pick("10.0.0.", "2001:db8::");
        let is_hop = |word: &&str| word.starts_with(subnet) && !word.contains('/');
        let mut hops: Vec<String> =
            lines.filter_map(|line| line.split_whitespace().find(is_hop)).map(String::from).collect();
        hops.sort_unstable();
        hops
    };
    lab.until("GoBGP has the paths of both BIRDs", |lab| of_gobgp(lab, prefix) == addresses(family, &[3, 4]));
    lab.until("GoBGP has both paths of ExaBGP", |lab| {
        of_gobgp(lab, of_exabgp(family)) == addresses(family, &[8, 9])
    });
    // Two paths of GoBGP's own, one of which goes again.
    let words = |what: &str, n: u8| {
        let (hop, name) = (family.address(n), family.name());
        format!("global rib {what} {prefix} identifier {n} nexthop {hop} -a {name}")
    };
    for n in [11, 12] {
        lab.lab.control("gobgp", &words("add", n)).unwrap();
    }
    let of_gobgp = |hosts: &[u8]| {
        lab.until("paths of GoBGP", |lab| explained(lab, family, 6, "next_hop") == addresses(family, hosts));
        let mut all = addresses(family, &[&[4], hosts].concat());
        all.sort_unstable();
        lab.until("BIRD has the paths of GoBGP", |lab| hops_of_bird(lab, "first", family) == all);
    };
    of_gobgp(&[11, 12]);
    lab.lab.control("gobgp", &words("del", 11)).unwrap();
    of_gobgp(&[12]);
    let ids = explained(lab, family, 6, "path_id");
    assert!(ids.len() == 1 && ids[0] != "null", "{ids:?}");
    lab.birdc("second", &format!("disable {}", own(family)));
    lab.until("ExaBGP receives the withdrawal of a path", |lab| {
        received(lab).lines().any(|line| line.contains("\"withdraw\"") && line.contains(prefix))
    });
}
