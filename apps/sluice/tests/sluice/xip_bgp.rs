//! Domains of XIA whose routes travel by BGP: sessions and packets cross a core of routers that know IP only.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::xip::{at, commit_at, config, node, ping};
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::path::Path;

const ALICE: &str = "hid-1111111111111111111111111111111111111111";
const NEAR: &str = "hid-2222222222222222222222222222222222222222";
const MIDDLE: &str = "hid-3333333333333333333333333333333333333333";
const FAR: &str = "hid-4444444444444444444444444444444444444444";
const BOB: &str = "hid-5555555555555555555555555555555555555555";
const NEAR_DOMAIN: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const MIDDLE_DOMAIN: &str = "ad-a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2";
const FAR_DOMAIN: &str = "ad-a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3";

/// The XID of port 13781 of the router of a domain: 10.N.0.2.
fn tunnel(domain: u8) -> String {
    format!("u4id-0a{domain:02x}000235d5{}", "0".repeat(28))
}

/// A router of a domain, its AS 6450N, with these neighbors for XIDs and this origination. Its neighbor in the core is asked for XIDs too.
fn domain(number: u8, own: &[&str], interfaces: &[&str], neighbors: &[u8], origination: &str) -> String {
    let (xid, core) = (tunnel(number), 64600 + u32::from(number > 2));
    let wants = format!("xid {{ enabled true; next-hop {xid}; }}");
    let session = |domain: &u8| {
        format!(
            "neighbor 10.{domain}.0.2 {{ peer-as {}; multihop 8; connect-retry-time 1; ipv4-unicast {{ enabled false; }} {wants} }}\n",
            64500 + u32::from(*domain)
        )
    };
    let sessions: String = neighbors.iter().map(session).collect();
    let more = format!("tunnel {{ local 10.{number}.0.2; }}");
    let xip = config("kernel", interfaces, own, &[], &more);
    let bgp = format!(
        "policy {{ policy-statement domains {{ term domains {{ from {{ principal ad; prefix \"ad-0000000000000000000000000000000000000000/0 orlonger\"; }} then {{ accept; }} }} term rest {{ then {{ reject; }} }} }} }}\n\
         protocols {{\n static {{ route 0.0.0.0/0 {{ next-hop 10.{number}.0.1; }} }}\n\
         bgp {{ local-as {}; router-id 10.{number}.0.2; default-policy accept; {origination}\n\
         neighbor 10.{number}.0.1 {{ peer-as {core}; connect-retry-time 1; {wants} }}\n{sessions} }} }}\n",
        64500 + u32::from(number)
    );
    xip + &bgp
}

/// Three domains around a core of FRR and BIRD, with a host in the first and in the last.
fn domains() -> String {
    let host = |own, domain, far, router| config("kernel", &["eth0"], &[own, domain], &[(far, router)], "");
    let frr = "daemon = 'frr'\nconfig = '''\nrouter bgp 64600\n bgp router-id 10.1.0.1\n no bgp ebgp-requires-policy\n\
         \x20neighbor 10.1.0.2 remote-as 64501\n neighbor 10.2.0.2 remote-as 64502\n neighbor 10.9.0.2 remote-as 64601\n\
         \x20address-family ipv4 unicast\n  redistribute connected\n exit-address-family\n'''\n";
    let bird = "daemon = 'bird'\nconfig = '''\nrouter id 10.3.0.1;\nprotocol device { }\nprotocol direct { ipv4; }\n\
         protocol kernel { ipv4 { export all; }; }\n\
         protocol bgp frr { local 10.9.0.2 as 64601; neighbor 10.9.0.1 as 64600; ipv4 { import all; export all; }; }\n\
         protocol bgp far { local 10.3.0.1 as 64601; neighbor 10.3.0.2 as 64503; ipv4 { import all; export all; }; }\n'''\n";
    let link = |a: &str, b: &str, subnet: u8| {
        format!(
            "[[links]]\na = '{a}'\nb = '{b}'\na_addresses = ['10.{subnet}.0.1/24']\nb_addresses = ['10.{subnet}.0.2/24']\n"
        )
    };
    node("alice", &host(ALICE, NEAR_DOMAIN, FAR_DOMAIN, NEAR))
        + &node("near", &domain(1, &[NEAR, NEAR_DOMAIN], &["eth1"], &[2], &format!("network {NEAR_DOMAIN};")))
        + &node(
            "sluice",
            &domain(2, &[MIDDLE, MIDDLE_DOMAIN], &[], &[1, 3], "redistribute static { policy domains; }"),
        )
        + &node(
            "far",
            &domain(3, &[FAR, FAR_DOMAIN], &["eth1"], &[2], "redistribute static { policy domains; }"),
        )
        + &node("bob", &host(BOB, FAR_DOMAIN, NEAR_DOMAIN, FAR))
        + &format!("[nodes.frr]\n{frr}[nodes.bird]\n{bird}")
        + &link("frr:eth0", "near:eth0", 1)
        + &link("frr:eth1", "sluice:eth0", 2)
        + &link("bird:eth0", "far:eth0", 3)
        + &link("frr:eth2", "bird:eth1", 9)
        + "[[links]]\na = 'alice:eth0'\nb = 'near:eth1'\n[[links]]\na = 'bob:eth0'\nb = 'far:eth1'\n"
}

/// The session of a router with a neighbor, and its family of XIDs.
fn session(lab: &RouterLab, node: &str, neighbor: &str) -> (Value, Value) {
    let shown = at(lab, node, &["show", "bgp", "neighbor", neighbor])["neighbors"][0].clone();
    let families = shown["families"].as_array().cloned().unwrap_or_default();
    let xid = families.into_iter().find(|family| family["family"] == "xid").unwrap_or_default();
    (shown, xid)
}

/// The XIDs of BGP's table on a router, with the next hop of the best path.
fn table(lab: &RouterLab, node: &str) -> Vec<(String, String)> {
    let routes = at(lab, node, &["show", "bgp", "routes", "--xid"])["routes"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let best = |route: &Value| {
        let paths = route["paths"].as_array()?;
        let best = paths.iter().find(|path| path["best"] == true)?;
        Some((text(&route["prefix"]), text(&best["next_hop"])))
    };
    routes.as_array().into_iter().flatten().filter_map(best).collect()
}

#[test]
fn domains_reach_each_other_across_a_core_of_ip() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let lab = RouterLab::up(&domains().parse().unwrap(), Path::new(SLUICE));
    let (bob, alice) = (format!("{FAR_DOMAIN}-1:{BOB}-0"), format!("{NEAR_DOMAIN}-1:{ALICE}-0"));
    let known = |lab: &RouterLab| {
        let of = |xid: &str, hop: &str| (xid.to_owned(), hop.to_owned());
        let via = tunnel(2);
        table(lab, "near").contains(&of(FAR_DOMAIN, &via))
            && table(lab, "far").contains(&of(NEAR_DOMAIN, &via))
    };
    lab.until("each domain is known to the others", known);
    lab.until("a host answers from the other side", |lab| ping(lab, "alice", &bob) == "reply");
    lab.until("and in the other direction", |lab| ping(lab, "bob", &alice) == "reply");
    // Only domains go through the policy of redistribution; what is next to the router's own stays there.
    let at_near: Vec<String> = table(&lab, "near").into_iter().map(|(xid, _)| xid).collect();
    assert_eq!(at_near, [NEAR_DOMAIN, MIDDLE_DOMAIN, FAR_DOMAIN]);

    // Routers that know IP only agree on that, and receive nothing else.
    for (router, neighbor) in [("near", "10.1.0.1"), ("sluice", "10.2.0.1"), ("far", "10.3.0.1")] {
        lab.until("the session with the core is up", |lab| {
            session(lab, router, neighbor).0["state"] == "Established"
        });
        let (_, xid) = session(&lab, router, neighbor);
        assert_eq!((&xid["negotiated"], &xid["prefixes_sent"]), (&false.into(), &"0".into()), "{xid}");
        let explained = at(&lab, router, &["explain", MIDDLE_DOMAIN, "to", neighbor]);
        let cause = explained["exports"][0]["cause"].as_str().unwrap_or_default().to_owned();
        assert!(cause.contains("did not agree on the address family"), "{cause}");
    }
    let (_, agreed) = session(&lab, "sluice", "10.3.0.2");
    assert_eq!(agreed["negotiated"], true, "{agreed}");

    // The RIB has the route of BGP, and reports it.
    let explained = at(&lab, "near", &["explain", FAR_DOMAIN]);
    assert_eq!(explained["rib"][0]["origin"], "bgp", "{explained}");

    // Another process takes over in the middle: no session ends, and packets go on.
    let flaps = |lab: &RouterLab| session(lab, "near", "10.2.0.2").0["flaps"].clone();
    let (before, pid) = (flaps(&lab), lab.pid("bgp"));
    assert!(lab.cli(&["restart", "bgp"]).status.success());
    assert_eq!(ping(&lab, "alice", &bob), "reply");
    lab.until("another process has BGP", |lab| lab.pid("bgp").is_some_and(|next| Some(next) != pid));
    lab.until("its routes are those of before", |lab| table(lab, "sluice").len() == 3 && known(lab));
    assert_eq!((flaps(&lab), ping(&lab, "alice", &bob)), (before, "reply".to_owned()));

    // What is withdrawn is unreachable, until it is announced again.
    commit_at(&lab, "far", &["delete protocols bgp redistribute static".to_owned()]);
    lab.until("the domain is unreachable", |lab| ping(lab, "alice", &bob) == "unreachable");
    commit_at(&lab, "far", &[format!("set protocols bgp network {FAR_DOMAIN}")]);
    lab.until("the domain is back", |lab| ping(lab, "alice", &bob) == "reply");
}
