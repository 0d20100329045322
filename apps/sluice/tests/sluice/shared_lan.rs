//! A LAN with foreign daemons: FRR has no global IPv6 address there and names its link-local address as next hop, and
//! BIRD sends traffic for FRR's routes to FRR directly.

use crate::SLUICE;
use crate::interop_matrix::proved;
use sluice_router_lab::{RouterLab, has_all, possible_with_frr};
use std::path::Path;

const TOPOLOGY: &str = r#"
[nodes.lan]
daemon = "switch"
[nodes.sluice]
daemon = "sluice"
config = '''
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.0.0.2 { peer-as 64501; connect-retry-time 1; ipv6-unicast { enabled true; } }
        neighbor 10.0.0.3 { peer-as 64502; connect-retry-time 1; ipv6-unicast { enabled true; } }
    }
}
'''
[nodes.frr]
daemon = "frr"
config = '''
ip route 198.51.100.0/24 Null0
ipv6 route 2001:db8:f::/48 Null0
router bgp 64501
 bgp router-id 10.0.0.2
 no bgp ebgp-requires-policy
 neighbor 10.0.0.1 remote-as 64500
 neighbor 10.0.0.1 timers connect 1
 address-family ipv4 unicast
  redistribute static
 exit-address-family
 address-family ipv6 unicast
  neighbor 10.0.0.1 activate
  redistribute static
 exit-address-family
'''
[nodes.bird]
daemon = "bird"
config = '''
router id 10.0.0.3;
protocol device { }
protocol bgp sluice {
    local as 64502; neighbor 10.0.0.1 as 64500; connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import all; export none; };
    ipv6 { import all; export none; };
}
'''
[[links]]
a = "lan:sluice"
b = "sluice:lan"
b_addresses = ["10.0.0.1/24", "2001:db8::1/64"]
[[links]]
a = "lan:frr"
b = "frr:lan"
b_addresses = ["10.0.0.2/24"]
[[links]]
a = "lan:bird"
b = "bird:lan"
b_addresses = ["10.0.0.3/24", "2001:db8::3/64"]
"#;

#[test]
fn next_hops_on_a_lan_with_bird_and_frr() {
    if !possible_with_frr() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("FRR's route is in the kernel", |l| l.kernel_text("-6").contains("2001:db8:f::/48"));
    lab.until("FRR's link-local address is its next hop", |l| {
        has_all(&l.lab.exec("sluice", "ip", ["-6", "nexthop", "show"]).unwrap(), &["via fe80::", "dev lan"])
    });
    let until_bird_has = |what: &str, prefix: &str, part: &str| {
        let question = format!("show route all {prefix}");
        lab.until(what, |l| l.lab.control("bird", &question).unwrap_or_default().contains(part));
    };
    // Of IPv4 FRR itself is the next hop. Of IPv6 it cannot be, as FRR has no address that BIRD knows of: it is Sluice.
    until_bird_has("BIRD receives FRR's route", "198.51.100.0/24", "BGP.next_hop: 10.0.0.2\n");
    until_bird_has("BIRD receives Sluice's route", "2001:db8:f::/48", "BGP.next_hop: 2001:db8::1");
    proved("next hops on a LAN (RFC 4271, 5.1.3; RFC 2545)", &["BIRD", "FRR"]);
}
