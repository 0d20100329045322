//! Route reflection, route servers and AS options beside BIRD and FRR on a LAN.

use crate::SLUICE;
use crate::interop_matrix::proved;
use sluice_router_lab::lan::{FAMILIES, Family, node, topology};
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::fmt::Write as _;
use std::path::Path;

/// The prefix that FRR announces.
const fn of_frr(family: Family) -> &'static str {
    family.pick("198.51.100.0/24", "2001:db8:198::/48")
}

/// The prefix that one BIRD announces.
const fn of_bird(family: Family) -> &'static str {
    family.pick("203.0.113.0/24", "2001:db8:203::/48")
}

/// The prefix that another BIRD announces.
const fn of_mesh(family: Family) -> &'static str {
    family.pick("192.0.2.0/24", "2001:db8:192::/48")
}

/// The name of BIRD's own routes of a family.
const fn own(family: Family) -> &'static str {
    family.pick("own", "ownv6")
}

/// A BIRD that announces its prefix of each family to its neighbors; `to` are their hosts and ASes, with more words for each.
fn bird(asn: u32, host: u8, prefix: fn(Family) -> &'static str, to: &[(u8, u32, &str)]) -> String {
    let mut text = format!("router id 10.0.0.{host};\nprotocol device {{ }}\n");
    for family in FAMILIES {
        let (name, own) = (family.name(), own(family));
        writeln!(text, "protocol static {own} {{ {name}; route {} blackhole; }}", prefix(family)).unwrap();
        for (neighbor, neighbor_as, more) in to {
            writeln!(
                text,
                "protocol bgp n{neighbor}{name} {{ local as {asn}; neighbor {} as {neighbor_as}; {more}\n\
                 connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
                 {name} {{ import all; export filter {{ if source = RTS_BGP || proto = \"{own}\" then accept; reject; }}; }}; }}",
                family.address(*neighbor)
            )
            .unwrap();
        }
    }
    text
}

/// An FRR that announces [`of_frr`] of each family. Its neighbors are hosts, each with its AS; `more` are words for each neighbor.
fn frr(asn: u32, neighbors: &[(u8, u32)], more: &str) -> String {
    let mut text = format!(
        "router bgp {asn}\n bgp router-id 10.0.0.2\n no bgp ebgp-requires-policy\n no bgp network import-check\n\
         \x20no bgp default ipv4-unicast\n"
    );
    let all = |family: Family| neighbors.iter().map(move |(host, asn)| (family.address(*host), asn));
    for (address, asn) in FAMILIES.into_iter().flat_map(all) {
        write!(text, " neighbor {address} remote-as {asn}\n neighbor {address} timers connect 1\n").unwrap();
    }
    for family in FAMILIES {
        writeln!(text, " address-family {} unicast\n  network {}", family.name(), of_frr(family)).unwrap();
        for (address, _) in all(family) {
            writeln!(text, "  neighbor {address} activate").unwrap();
            if !more.is_empty() {
                writeln!(text, "  neighbor {address} {more}").unwrap();
            }
        }
        text.push_str(" exit-address-family\n");
    }
    text
}

/// A Sluice with neighbors of both families: hosts, each with its configuration.
fn sluice(bgp: &str, neighbors: &[(u8, &str)]) -> String {
    let mut text = format!("protocols {{ bgp {{\nlocal-as 64500; router-id 10.0.0.1; {bgp}\n");
    for family in FAMILIES {
        for (host, words) in neighbors {
            writeln!(text, "neighbor {} {{ connect-retry-time 1; {words} }}", family.address(*host)).unwrap();
        }
    }
    text + "} }\n"
}

fn up(nodes: &[String]) -> RouterLab {
    RouterLab::up(&topology(nodes), Path::new(SLUICE))
}

/// The output of a BIRD about a prefix.
fn at_bird(lab: &RouterLab, node: &str, prefix: &str) -> String {
    lab.lab.control(node, &format!("show route all {prefix}")).unwrap_or_default()
}

/// The output of FRR about a prefix.
fn at_frr(lab: &RouterLab, prefix: &str) -> String {
    let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
    lab.lab.control("frr", &format!("show bgp {family} unicast {prefix}")).unwrap_or_default()
}

#[test]
fn bird_and_frr_are_clients() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let client = "peer-as 64500; route-reflector-client true;";
    let neighbors = [(2, client), (3, client), (4, "peer-as 64500;")];
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice("cluster-id 9.9.9.9;", &neighbors)),
        node("frr", 2, "frr", &frr(64500, &[(1, 64500)], "")),
        node("bird", 3, "bird", &bird(64500, 3, of_bird, &[(1, 64500, "")])),
        node("mesh", 4, "bird", &bird(64500, 4, of_mesh, &[(1, 64500, "")])),
    ]);
    let has = |family: Family, node: &str, prefix: &str, host: u8| {
        let parts = [
            format!("BGP.originator_id: 10.0.0.{host}\n"),
            "BGP.cluster_list: 9.9.9.9\n".to_owned(),
            format!("BGP.next_hop: {}", family.address(host)),
        ];
        lab.until("a reflected route", |lab| {
            let said = at_bird(lab, node, prefix);
            parts.iter().all(|part| said.contains(part))
        });
    };
    for family in FAMILIES {
        has(family, "bird", of_frr(family), 2);
        has(family, "bird", of_mesh(family), 4);
        has(family, "mesh", of_frr(family), 2);
        has(family, "mesh", of_bird(family), 3);
        lab.until("FRR has what is reflected to it", |lab| {
            [(of_bird(family), 3), (of_mesh(family), 4)].iter().all(|(prefix, host)| {
                let said = at_frr(lab, prefix);
                said.contains(&format!("Originator: 10.0.0.{host}")) && said.contains("Cluster list: 9.9.9.9")
            })
        });
    }
    // Clients with sessions of their own need no reflection between them.
    let words = ["configure", "set protocols bgp client-to-client-reflection false", "commit"];
    assert!(lab.cli(&words).status.success());
    for family in FAMILIES {
        let prefix = of_frr(family);
        lab.until("the client loses the other's route", |lab| {
            !at_bird(lab, "bird", prefix).contains(&family.address(2))
        });
        has(family, "mesh", prefix, 2);
        let cause = lab.ask(&["explain", prefix, "to", &family.address(3)])["cause"].clone();
        assert!(cause.as_str().unwrap().contains("client-to-client-reflection is off"), "{cause}");
    }
    proved("route reflection (RFC 4456)", &["BIRD", "FRR"]);
}

/// Three reflectors in a triangle, each a client of both others: a withdrawn route is not kept alive by the copies of the others.
#[test]
fn nothing_circles_between_clusters() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let client = "peer-as 64500; route-reflector-client true;";
    let others = [(1, 64500, "rr client;"), (2, 64500, "rr client;")];
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice("", &[(2, client), (3, client), (4, client)])),
        node("frr", 2, "frr", &frr(64500, &[(1, 64500), (3, 64500)], "route-reflector-client")),
        node("bird", 3, "bird", &bird(64500, 3, of_bird, &others)),
        node("leaf", 4, "bird", &bird(64500, 4, of_mesh, &[(1, 64500, "")])),
    ]);
    for family in FAMILIES {
        let prefix = of_mesh(family);
        lab.until("all have the leaf's route", |lab| {
            at_frr(lab, prefix).contains("Originator: 10.0.0.4")
                && at_bird(lab, "bird", prefix).contains("BGP.originator_id: 10.0.0.4")
        });
        lab.birdc("leaf", &format!("disable {}", own(family)));
        lab.until("nobody has it any more", |lab| {
            !at_frr(lab, prefix).contains("10.0.0.4")
                && !at_bird(lab, "bird", prefix).contains("10.0.0.4")
                && lab.ask(&["explain", prefix])["paths"].as_array().is_some_and(Vec::is_empty)
        });
    }
}

/// Members of an exchange, and two sites of one AS.
#[test]
fn a_route_server_stays_out_of_the_way() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let neighbors = [
        (2, "transparent true; peer-as 64501;"),
        (3, "transparent true; peer-as 64502; relationship route-server-client;"),
        (4, "peer-as 64501; as-override true;"),
    ];
    let role = "default bgp_med 7; local role rs_client; require roles on;";
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice("default-policy accept;", &neighbors)),
        node("frr", 2, "frr", &frr(64501, &[(1, 64500)], "")),
        node("bird", 3, "bird", &bird(64502, 3, of_bird, &[(1, 64500, role)])),
        node("site", 4, "bird", &bird(64501, 4, of_mesh, &[(1, 64500, "")])),
    ]);
    for family in FAMILIES {
        let [router, frr, member] = [1, 2, 3].map(|host| family.address(host));
        lab.until("a member has FRR's route as FRR announced it", |lab| {
            let said = at_bird(lab, "bird", of_frr(family));
            said.contains("BGP.as_path: 64501\n") && said.contains(&format!("BGP.next_hop: {frr}"))
        });
        lab.until("FRR has the member's route", |lab| {
            let said = at_frr(lab, of_bird(family));
            said.contains("\n  64502\n") && said.contains(&format!("{member} from {router}"))
        });
        // The other site of FRR's AS accepts FRR's route, with another AS in the path.
        lab.until("the other site has FRR's route", |lab| {
            at_bird(lab, "site", of_frr(family)).contains("BGP.as_path: 64500 64500\n")
        });
    }
}

/// Neighbors that know the router by the AS of before, in each mode, and one that knows it by its own AS already.
#[test]
fn neighbors_know_the_router_by_another_as() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let neighbors = [
        (2, "peer-as 64501; local-as { number 64999; }"),
        (3, "peer-as 64502; local-as { number 64999; mode replace-as; }"),
        (4, "peer-as 64503; local-as { number 64999; dual; }"),
    ];
    let lab = up(&[
        node("sluice", 1, "sluice", &sluice("default-policy accept;", &neighbors)),
        node("frr", 2, "frr", &frr(64501, &[(1, 64999)], "")),
        node("replaced", 3, "bird", &bird(64502, 3, of_bird, &[(1, 64999, "")])),
        node("changed", 4, "bird", &bird(64503, 4, of_mesh, &[(1, 64500, "")])),
    ]);
    let has = |node: &str, prefix: &str, path: &str| {
        lab.until("a route with the AS path", |lab| {
            at_bird(lab, node, prefix).contains(&format!("BGP.as_path: {path}\n"))
        });
    };
    for family in FAMILIES {
        // FRR's routes get the other AS, this router's own is not hidden from the neighbor that has changed already.
        has("changed", of_frr(family), "64500 64999 64501");
        has("changed", of_bird(family), "64500 64502");
        has("replaced", of_frr(family), "64999 64999 64501");
        has("replaced", of_mesh(family), "64999 64503");
        lab.until("FRR has the routes of the others", |lab| {
            at_frr(lab, of_mesh(family)).contains("64999 64500 64503")
                && at_frr(lab, of_bird(family)).contains("64999 64500 64502")
        });
    }
    proved("local AS of before", &["BIRD", "FRR"]);
}
