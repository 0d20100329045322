//! Several paths of a prefix that share the packets, beside FRR: the same next hops and weights in both kernels.

use crate::SLUICE;
use sluice_load::wide;
use sluice_router_lab::bird::commit;
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::path::Path;

/// The prefix that all routers announce.
const PREFIX: &str = "203.0.113.0/24";

/// A router on the LAN 10.0.0.0/24, whose address ends in `host`.
fn node(name: &str, host: u8, daemon: &str, config: &str) -> String {
    format!(
        "[nodes.{name}]\ndaemon = '{daemon}'\nconfig = '''\n{config}'''\n\
         [[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.0.0.{host}/24']\n"
    )
}

/// A BIRD that announces [`PREFIX`] with a link bandwidth, as the bits of the number, to Sluice and to FRR. The protocol `bad`, which is
/// disabled at first, announces the prefix with a bandwidth of zero.
fn bird(asn: u32, host: u8, bandwidth: u32) -> String {
    let mut text = format!(
        "router id 10.0.0.{host};\nprotocol device {{ }}\n\
         protocol static own {{ ipv4 {{ import filter {{ bgp_ext_community.add((generic, 0x4fde9, {bandwidth:#x})); accept; }}; }};\n\
         route {PREFIX} blackhole; }}\n\
         protocol static bad {{ disabled; ipv4 {{ preference 300; import filter {{ bgp_ext_community.add((generic, 0x4fde9, 0)); accept; }}; }};\n\
         route {PREFIX} blackhole; }}\n"
    );
    for (neighbor, neighbor_as) in [(1, 64500), (2, 64509)] {
        text += &format!(
            "protocol bgp n{neighbor} {{ local 10.0.0.{host} as {asn}; neighbor 10.0.0.{neighbor} as {neighbor_as};\n\
             connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
             ipv4 {{ import none; export all; }}; }}\n"
        );
    }
    text
}

fn frr() -> String {
    let mut text = "router bgp 64509\n bgp router-id 10.0.0.2\n no bgp ebgp-requires-policy\n bgp bestpath compare-routerid\n".to_owned();
    for (host, asn) in [(3, 64501), (4, 64501), (5, 64502)] {
        text +=
            &format!(" neighbor 10.0.0.{host} remote-as {asn}\n neighbor 10.0.0.{host} timers connect 1\n");
    }
    text + " address-family ipv4 unicast\n  maximum-paths 4\n exit-address-family\n"
}

/// The lines that `ip` prints in a router, as words.
fn ip(lab: &RouterLab, node: &str, words: &[&str]) -> Vec<Vec<String>> {
    let output = lab.lab.output(node, "ip", words).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split_whitespace().map(String::from).collect()).collect()
}

fn after<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).map(String::as_str)
}

/// The next hops of [`PREFIX`] in a router's kernel, in order: address and weight. A next hop alone has the weight 1.
fn kernel_hops(lab: &RouterLab, node: &str) -> Vec<(String, u32)> {
    let routes = ip(lab, node, &["-4", "route", "show", PREFIX]);
    let Some(id) = routes.first().and_then(|route| after(route, "nhid")) else { return vec![] };
    let objects = ip(lab, node, &["nexthop", "show"]);
    let object = |id: &str| objects.iter().find(|words| after(words, "id") == Some(id));
    let Some(object_of_route) = object(id) else { return vec![] };
    let members = after(object_of_route, "group").unwrap_or(id);
    let hop = |member: &str| {
        let (id, weight) = member.split_once(',').unwrap_or((member, "1"));
        Some((after(object(id)?, "via")?.to_owned(), weight.parse().ok()?))
    };
    let mut hops: Vec<(String, u32)> = members.split('/').filter_map(hop).collect();
    hops.sort_unstable();
    hops
}

fn hops(of: &[(u8, u32)]) -> Vec<(String, u32)> {
    of.iter().map(|(host, weight)| (format!("10.0.0.{host}"), *weight)).collect()
}

/// A field of the path of a neighbor that the router explains.
fn explained(lab: &RouterLab, host: u8, field: &str) -> serde_json::Value {
    let paths = lab.ask(&["explain", PREFIX])["paths"].as_array().cloned().unwrap_or_default();
    let neighbor = format!("10.0.0.{host}");
    paths
        .into_iter()
        .find(|path| path["neighbor"] == neighbor)
        .map(|path| path[field].clone())
        .unwrap_or_default()
}

#[test]
fn next_hops_and_weights_are_those_of_frr() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let sluice = "protocols { bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        multipath { external 4; }
        neighbor 10.0.0.3 { peer-as 64501; connect-retry-time 1; }
        neighbor 10.0.0.4 { peer-as 64501; connect-retry-time 1; }
        neighbor 10.0.0.5 { peer-as 64502; connect-retry-time 1; }
    } }\n";
    let text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned()
        + &node("sluice", 1, "sluice", sluice)
        + &node("frr", 2, "frr", &frr())
        + &node("first", 3, "bird", &bird(64501, 3, 1.25e8_f32.to_bits()))
        + &node("second", 4, "bird", &bird(64501, 4, 5.0e8_f32.to_bits()))
        + &node("third", 5, "bird", &bird(64502, 5, 3.75e8_f32.to_bits()));
    let lab = RouterLab::up(&text.parse().unwrap(), Path::new(SLUICE));
    let both = |what: &str, expected: &[(u8, u32)]| {
        for node in ["frr", "sluice"] {
            lab.until(&format!("{what}: {node}"), |lab| kernel_hops(lab, node) == hops(expected));
        }
    };
    both("two paths of one AS path", &[(3, 20), (4, 80)]);
    assert_eq!(
        (explained(&lab, 3, "best"), explained(&lab, 3, "multipath_weight")),
        (true.into(), 20.into())
    );
    assert_eq!(
        (explained(&lab, 4, "best"), explained(&lab, 4, "multipath_weight")),
        (false.into(), 80.into())
    );
    lab.until("the third neighbor's path is left out", |lab| {
        explained(lab, 5, "left_out") == "other AS path (relax-as-path is off)"
    });
    // A bandwidth of zero leaves the least share. The path is used and is not the best one.
    lab.birdc("second", "enable bad");
    lab.birdc("second", "disable own");
    both("a bandwidth of zero", &[(3, 100), (4, 1)]);
    lab.birdc("second", "enable own");
    lab.birdc("second", "disable bad");
    both("the bandwidth again", &[(3, 20), (4, 80)]);
    lab.birdc("second", "disable own");
    both("the best path alone", &[(3, 1)]);
    lab.birdc("second", "enable own");
    both("the second path again", &[(3, 20), (4, 80)]);
    // The best path goes.
    lab.birdc("first", "disable own");
    both("the second path alone", &[(4, 1)]);
    lab.birdc("first", "enable own");
    both("both paths", &[(3, 20), (4, 80)]);
    // Paths of other ASes share too.
    commit(&lab, "set protocols bgp multipath relax-as-path true");
    let words = "configure terminal\nrouter bgp 64509\nbgp bestpath as-path multipath-relax\n";
    lab.lab.control("frr", words).unwrap();
    both("all paths", &[(3, 12), (4, 50), (5, 37)]);
    let tables = lab.ask(&["show", "bgp", "summary"])["tables"].clone();
    assert_eq!(wide(&tables[0]["multipath"]), Some(1), "{tables}");
}
