//! Next hops that only a route of BGP covers, in both families, beside BIRD: the kernel has what leads through them, `explain` names the
//! route, and a policy restricts which routes resolve.

use crate::SLUICE;
use sluice_router_lab::bird::commit;
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

/// The prefix behind the recursive next hop, and the next hop's prefix.
const FAR: [&str; 2] = ["203.0.113.0/24", "2001:db8:f::/48"];
const WAY: [&str; 2] = ["172.16.0.0/16", "2001:db8:a::/48"];

/// `edge` announces the way to the next hop; `core`, in the router's own AS, announces what is behind the next hop.
fn topology() -> String {
    let bgp = |name: &str, asn: u32, own: &str, peer: &str, channels: &str| {
        format!(
            "protocol bgp {name} {{ local {own} as {asn}; neighbor {peer} as 64500; connect delay time 1; connect retry time 1;\n\
             {channels} }}\n"
        )
    };
    let edge = format!(
        "router id 10.1.0.2;\nprotocol device {{}}\n\
         protocol static way4 {{ ipv4; route {} blackhole; }}\nprotocol static way6 {{ ipv6; route {} blackhole; }}\n{}{}",
        WAY[0],
        WAY[1],
        bgp("four", 64501, "10.1.0.2", "10.1.0.1", "ipv4 { import none; export all; };"),
        bgp("six", 64501, "fd00:1::2", "fd00:1::1", "ipv6 { import none; export all; };"),
    );
    let far = |family: u8, next_hop: &str| {
        format!("ipv{family} {{ import none; export filter {{ bgp_next_hop = {next_hop}; accept; }}; }};")
    };
    let core = format!(
        "router id 10.2.0.2;\nprotocol device {{}}\n\
         protocol static far4 {{ ipv4; route {} blackhole; }}\nprotocol static far6 {{ ipv6; route {} blackhole; }}\n{}{}",
        FAR[0],
        FAR[1],
        bgp("four", 64500, "10.2.0.2", "10.2.0.1", &far(4, "172.16.0.9")),
        bgp("six", 64500, "fd00:2::2", "fd00:2::1", &far(6, "2001:db8:a::9")),
    );
    let neighbors: String =
        [("10.1.0.2", 64501), ("fd00:1::2", 64501), ("10.2.0.2", 64500), ("fd00:2::2", 64500)]
            .map(|(address, asn)| {
                format!("    neighbor {address} {{ peer-as {asn}; connect-retry-time 1; }}\n")
            })
            .concat();
    format!(
        "[nodes.edge]\ndaemon = 'bird'\nconfig = '''\n{edge}'''\n[nodes.core]\ndaemon = 'bird'\nconfig = '''\n{core}'''\n\
         [nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n\
         protocols bgp {{\n    local-as 64500;\n    router-id 10.0.0.1;\n    default-policy accept;\n{neighbors}}}\n'''\n\
         [[links]]\na = 'sluice:edge'\nb = 'edge:sluice'\na_addresses = ['10.1.0.1/24', 'fd00:1::1/64']\nb_addresses = ['10.1.0.2/24', 'fd00:1::2/64']\n\
         [[links]]\na = 'sluice:core'\nb = 'core:sluice'\na_addresses = ['10.2.0.1/24', 'fd00:2::1/64']\nb_addresses = ['10.2.0.2/24', 'fd00:2::2/64']\n"
    )
}

/// Returns the device through which the router's kernel forwards to an address; empty if the kernel has no route.
fn device(lab: &RouterLab, address: &str) -> String {
    let output = lab.lab.output("sluice", "ip", ["route", "get", address]).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().position(|word| *word == "dev").map(|at| words[at + 1].to_owned()).unwrap_or_default()
}

fn leads_to_edge(lab: &RouterLab) -> bool {
    ["203.0.113.7", "2001:db8:f::7"].iter().all(|address| device(lab, address) == "edge")
}

fn leads_nowhere(lab: &RouterLab) -> bool {
    ["203.0.113.7", "2001:db8:f::7"].iter().all(|address| device(lab, address).is_empty())
}

#[test]
fn a_next_hop_that_only_bgp_reaches_is_used() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    lab.until("the kernel has the routes", leads_to_edge);
    for (far, way) in FAR.into_iter().zip(WAY) {
        let explained = lab.ask(&["explain", far]);
        let path = &explained["paths"][0];
        assert_eq!(
            (path["resolution"].as_str(), path["resolved_by"].as_str()),
            (Some("reachable"), Some(way))
        );
    }
    lab.birdc("edge", "disable way4");
    lab.birdc("edge", "disable way6");
    lab.until("what led through the way is gone", leads_nowhere);
    lab.birdc("edge", "enable way4");
    lab.birdc("edge", "enable way6");
    lab.until("it is back", leads_to_edge);
    let term = "set policy policy-statement no-bgp term bgp";
    let (from, then) = (format!("{term} from protocol bgp"), format!("{term} then reject"));
    let restricted = lab.cli(&["configure", &from, &then, "set rib resolve-next-hops-by no-bgp", "commit"]);
    assert!(restricted.status.success(), "{restricted:?}");
    lab.until("no route of BGP resolves a next hop", leads_nowhere);
    commit(&lab, "delete rib");
    lab.until("each route does again", leads_to_edge);
    assert_eq!(lab.restarts(), 0);
}
