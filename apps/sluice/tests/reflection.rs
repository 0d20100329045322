//! Route reflection, route servers and AS options beside BIRD and FRR on a LAN.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::{RouterLab, SLUICE, possible_with_frr, share};
use std::fmt::Write as _;
use std::path::Path;

const OF_FRR: &str = "198.51.100.0/24";
const OF_BIRD: &str = "203.0.113.0/24";
const OF_MESH: &str = "192.0.2.0/24";

/// A router on the LAN 10.0.0.0/24, whose address ends in `host`.
fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.0.0.{host}/24']\n"
    )
}

/// A BIRD that announces a prefix to its neighbors; `to` are their addresses with more words for each.
fn bird(asn: u32, host: u8, prefix: &str, to: &[(u8, u32, &str)]) -> String {
    let mut text = format!(
        "router id 10.0.0.{host};\nprotocol device {{ }}\n\
         protocol static own {{ ipv4; route {prefix} blackhole; }}\n"
    );
    for (neighbor, neighbor_as, more) in to {
        writeln!(
            text,
            "protocol bgp n{neighbor} {{ local as {asn}; neighbor 10.0.0.{neighbor} as {neighbor_as}; {more}\n\
             connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
             ipv4 {{ import all; export filter {{ if source = RTS_BGP || proto = \"own\" then accept; reject; }}; }}; }}"
        )
        .unwrap();
    }
    text
}

/// An FRR that announces [`OF_FRR`].
fn frr(asn: u32, of_process: &str, of_family: &str) -> String {
    format!(
        "router bgp {asn}\n bgp router-id 10.0.0.2\n no bgp ebgp-requires-policy\n no bgp network import-check\n\
         {of_process} address-family ipv4 unicast\n  network {OF_FRR}\n{of_family} exit-address-family\n"
    )
}

fn up(nodes: &[String]) -> RouterLab {
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned() + &nodes.concat();
    RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE))
}

/// What a BIRD says of a prefix.
fn of_bird(lab: &RouterLab, node: &str, prefix: &str) -> String {
    lab.lab.control(node, &format!("show route all {prefix}")).unwrap_or_default()
}

/// What FRR says of a prefix.
fn of_frr(lab: &RouterLab, prefix: &str) -> String {
    lab.lab.control("frr", &format!("show bgp ipv4 unicast {prefix}")).unwrap_or_default()
}

#[test]
fn bird_and_frr_are_clients() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1; cluster-id 9.9.9.9;
        group clients { peer-as 64500; connect-retry-time 1; route-reflector-client true; }
        neighbor 10.0.0.2 { group clients; }
        neighbor 10.0.0.3 { group clients; }
        neighbor 10.0.0.4 { peer-as 64500; connect-retry-time 1; }
    } }\n";
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node(
            "frr",
            2,
            "frr",
            &frr(64500, " neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n", ""),
        ),
        node("bird", 3, "bird", &bird(64500, 3, OF_BIRD, &[(1, 64500, "")])),
        node("mesh", 4, "bird", &bird(64500, 4, OF_MESH, &[(1, 64500, "")])),
    ]);
    let has = |node: &str, prefix: &str, host: u8| {
        let parts = [
            format!("BGP.originator_id: 10.0.0.{host}\n"),
            "BGP.cluster_list: 9.9.9.9\n".to_owned(),
            format!("BGP.next_hop: 10.0.0.{host}\n"),
        ];
        lab.until("a reflected route", |lab| {
            let said = of_bird(lab, node, prefix);
            parts.iter().all(|part| said.contains(part))
        });
    };
    has("bird", OF_FRR, 2);
    has("bird", OF_MESH, 4);
    has("mesh", OF_FRR, 2);
    has("mesh", OF_BIRD, 3);
    lab.until("FRR has what is reflected to it", |lab| {
        [(OF_BIRD, 3), (OF_MESH, 4)].iter().all(|(prefix, host)| {
            let said = of_frr(lab, prefix);
            said.contains(&format!("Originator: 10.0.0.{host}")) && said.contains("Cluster list: 9.9.9.9")
        })
    });
    // Clients with sessions of their own need no reflection between them.
    let words = ["configure", "set protocols bgp client-to-client-reflection false", "commit"];
    assert!(lab.cli(&words).status.success());
    lab.until("the client loses the other's route", |lab| !of_bird(lab, "bird", OF_FRR).contains("10.0.0.2"));
    has("mesh", OF_FRR, 2);
    let cause = lab.ask(&["explain", OF_FRR, "to", "10.0.0.3"])["cause"].clone();
    assert!(cause.as_str().unwrap().contains("client-to-client-reflection is off"), "{cause}");
}

/// Three reflectors in a triangle, each a client of both others: a withdrawn route is not kept alive by the copies of the others.
#[test]
fn nothing_circles_between_clusters() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1;
        group clients { peer-as 64500; connect-retry-time 1; route-reflector-client true; }
        neighbor 10.0.0.2 { group clients; }
        neighbor 10.0.0.3 { group clients; }
        neighbor 10.0.0.4 { group clients; }
    } }\n";
    let mut of_process = String::new();
    for host in [1, 3] {
        write!(
            of_process,
            " neighbor 10.0.0.{host} remote-as 64500\n neighbor 10.0.0.{host} timers connect 1\n"
        )
        .unwrap();
    }
    let of_family =
        "  neighbor 10.0.0.1 route-reflector-client\n  neighbor 10.0.0.3 route-reflector-client\n";
    let others = [(1, 64500, "rr client;"), (2, 64500, "rr client;")];
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", &frr(64500, &of_process, of_family)),
        node("bird", 3, "bird", &bird(64500, 3, OF_BIRD, &others)),
        node("leaf", 4, "bird", &bird(64500, 4, OF_MESH, &[(1, 64500, "")])),
    ]);
    lab.until("all have the leaf's route", |lab| {
        of_frr(lab, OF_MESH).contains("Originator: 10.0.0.4")
            && of_bird(lab, "bird", OF_MESH).contains("BGP.originator_id: 10.0.0.4")
    });
    lab.birdc("leaf", "disable own");
    lab.until("nobody has it any more", |lab| {
        !of_frr(lab, OF_MESH).contains("10.0.0.4")
            && !of_bird(lab, "bird", OF_MESH).contains("10.0.0.4")
            && lab.ask(&["explain", OF_MESH])["paths"].as_array().is_some_and(Vec::is_empty)
    });
}

/// Members of an exchange, and two sites of one AS.
#[test]
fn a_route_server_stays_out_of_the_way() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        group members { connect-retry-time 1; transparent true; }
        neighbor 10.0.0.2 { group members; peer-as 64501; }
        neighbor 10.0.0.3 { group members; peer-as 64502; relationship route-server-client; }
        neighbor 10.0.0.4 { peer-as 64501; connect-retry-time 1; as-override true; }
    } }\n";
    let of_process = " neighbor 10.0.0.1 remote-as 64500\n neighbor 10.0.0.1 timers connect 1\n";
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", &frr(64501, of_process, "")),
        node(
            "bird",
            3,
            "bird",
            &bird(
                64502,
                3,
                OF_BIRD,
                &[(1, 64500, "default bgp_med 7; local role rs_client; require roles on;")],
            ),
        ),
        node("site", 4, "bird", &bird(64501, 4, OF_MESH, &[(1, 64500, "")])),
    ]);
    lab.until("a member has FRR's route as FRR announced it", |lab| {
        let said = of_bird(lab, "bird", OF_FRR);
        said.contains("BGP.as_path: 64501\n") && said.contains("BGP.next_hop: 10.0.0.2\n")
    });
    lab.until("FRR has the member's route", |lab| {
        let said = of_frr(lab, OF_BIRD);
        said.contains("\n  64502\n") && said.contains("10.0.0.3 from 10.0.0.1")
    });
    // The other site of FRR's AS accepts FRR's route, with another AS in the path.
    lab.until("the other site has FRR's route", |lab| {
        of_bird(lab, "site", OF_FRR).contains("BGP.as_path: 64500 64500\n")
    });
}

/// Neighbors that know the router by the AS of before, in each mode, and one that knows it by its own AS already.
#[test]
fn neighbors_know_the_router_by_another_as() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        group old { connect-retry-time 1; local-as { number 64999; } }
        neighbor 10.0.0.2 { group old; peer-as 64501; }
        neighbor 10.0.0.3 { connect-retry-time 1; peer-as 64502; local-as { number 64999; mode replace-as; } }
        neighbor 10.0.0.4 { connect-retry-time 1; peer-as 64503; local-as { number 64999; dual; } }
    } }\n";
    let of_process = " neighbor 10.0.0.1 remote-as 64999\n neighbor 10.0.0.1 timers connect 1\n";
    let lab = up(&[
        node("sluice", 1, "sluice", sluice),
        node("frr", 2, "frr", &frr(64501, of_process, "")),
        node("replaced", 3, "bird", &bird(64502, 3, OF_BIRD, &[(1, 64999, "")])),
        node("changed", 4, "bird", &bird(64503, 4, OF_MESH, &[(1, 64500, "")])),
    ]);
    let has = |node: &str, prefix: &str, path: &str| {
        lab.until("a route with the AS path", |lab| {
            of_bird(lab, node, prefix).contains(&format!("BGP.as_path: {path}\n"))
        });
    };
    // FRR's routes get the other AS, this router's own is not hidden from the neighbor that has changed already.
    has("changed", OF_FRR, "64500 64999 64501");
    has("changed", OF_BIRD, "64500 64502");
    has("replaced", OF_FRR, "64999 64999 64501");
    has("replaced", OF_MESH, "64999 64503");
    lab.until("FRR has the routes of the others", |lab| {
        of_frr(lab, OF_MESH).contains("64999 64500 64503")
            && of_frr(lab, OF_BIRD).contains("64999 64500 64502")
    });
}
