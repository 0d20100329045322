//! A LAN with other people's daemons: FRR has no global IPv6 address there and names its link-local one as next hop, and what FRR
//! announces goes from BIRD to FRR directly.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use sluice_lab::{Lab, LabOptions, Topology, available};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");

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

/// Waits until what a command on a node prints has all of `parts`.
fn until(lab: &Lab, what: &str, parts: &[&str], output: impl Fn() -> String) {
    let mut last = String::new();
    let came = sluice_lab::until(Duration::from_secs(60), || {
        last = output();
        parts.iter().all(|part| last.contains(part))
    });
    assert!(came, "never: {what}\n{last}\n{}", lab.log("sluice", "sluice"));
}

#[test]
fn next_hops_on_a_lan_with_bird_and_frr() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let bird = Command::new("bird").arg("--version").output().is_ok();
    if !bird || !Path::new("/usr/lib/frr/bgpd").exists() {
        return sluice_testkit::skipped("BIRD or FRR is not installed");
    }
    let topology: Topology = TOPOLOGY.parse().unwrap();
    let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique("lan") };
    let lab = Lab::up(&topology, options).unwrap();
    let ip = |words: &[&str]| {
        let output = lab.output("sluice", "ip", words).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    until(&lab, "FRR's route is in the kernel", &["2001:db8:f::/48"], || {
        ip(&["-6", "route", "show", "proto", "83"])
    });
    until(&lab, "FRR's link-local address is its next hop", &["via fe80::", "dev lan"], || {
        ip(&["-6", "nexthop", "show"])
    });
    let bird = |prefix: &str| lab.control("bird", &format!("show route all {prefix}")).unwrap_or_default();
    // Of IPv4 FRR itself is the next hop. Of IPv6 it cannot be, as FRR has no address that BIRD knows of: it is Sluice.
    until(&lab, "BIRD hears of FRR", &["BGP.next_hop: 10.0.0.2\n"], || bird("198.51.100.0/24"));
    until(&lab, "BIRD hears of Sluice", &["BGP.next_hop: 2001:db8::1"], || bird("2001:db8:f::/48"));
}
