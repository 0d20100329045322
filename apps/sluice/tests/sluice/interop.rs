//! Protected sessions with foreign daemons: TCP MD5 signatures (RFC 2385) and GTSM (RFC 5082), over IPv4 and IPv6,
//! whichever side connects; and neighbors without the protection, which get no session.

use crate::SLUICE;
use crate::interop_matrix::proved;
use sluice_router_lab::{RouterLab, has_all, possible_with_frr};
use std::path::Path;

/// Sluice is passive over IPv4, the honest neighbors over IPv6, so that each side's listener and connector is used. The
/// neighbors at the node `liar` have a wrong password (10.3), or send with a TTL too small (10.4).
const TOPOLOGY: &str = r#"
[nodes.sluice]
daemon = "sluice"
config = '''
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        network 192.0.2.0/24;
        neighbor 10.1.0.2 { peer-as 64501; password "between us"; ttl-security; passive; }
        neighbor 2001:db8:1::2 { peer-as 64501; password "between us"; ttl-security; connect-retry-time 1; }
        neighbor 10.2.0.2 { peer-as 64502; password "another-one"; ttl-security; passive; }
        neighbor 2001:db8:2::2 { peer-as 64502; password "another-one"; ttl-security; connect-retry-time 1; }
        neighbor 10.3.0.2 { peer-as 64503; password "the right one"; connect-retry-time 1; }
        neighbor 2001:db8:3::2 { peer-as 64503; password "the right one"; connect-retry-time 1; }
        neighbor 10.4.0.2 { peer-as 64503; ttl-security; passive; }
        neighbor 2001:db8:4::2 { peer-as 64503; ttl-security; passive; }
    }
}
'''
[nodes.bird]
daemon = "bird"
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:b::/48 blackhole; }
template bgp sluice {
    password "between us"; ttl security on; connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp four from sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:1::2 as 64501; neighbor 2001:db8:1::1 as 64500; passive on; ipv6 { import all; export all; };
}
'''
[nodes.frr]
daemon = "frr"
config = '''
router bgp 64502
 bgp router-id 10.2.0.2
 no bgp ebgp-requires-policy
 neighbor 10.2.0.1 remote-as 64500
 neighbor 10.2.0.1 password another-one
 neighbor 10.2.0.1 ttl-security hops 1
 neighbor 10.2.0.1 timers connect 1
 neighbor 2001:db8:2::1 remote-as 64500
 neighbor 2001:db8:2::1 password another-one
 neighbor 2001:db8:2::1 ttl-security hops 1
 neighbor 2001:db8:2::1 passive
 address-family ipv4 unicast
  network 203.0.113.0/24
  no neighbor 2001:db8:2::1 activate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:f::/48
  neighbor 2001:db8:2::1 activate
 exit-address-family
ip route 203.0.113.0/24 blackhole
ipv6 route 2001:db8:f::/48 blackhole
'''
[nodes.liar]
daemon = "bird"
config = '''
router id 10.3.0.2;
protocol device { }
template bgp sluice { connect delay time 1; connect retry time 1; error wait time 1, 2; }
protocol bgp a from sluice {
    local 10.3.0.2 as 64503; neighbor 10.3.0.1 as 64500; password "a wrong one"; ipv4 { import all; export none; };
}
protocol bgp b from sluice {
    local 2001:db8:3::2 as 64503; neighbor 2001:db8:3::1 as 64500; password "a wrong one"; ipv6 { import all; export none; };
}
protocol bgp c from sluice {
    local 10.4.0.2 as 64503; neighbor 10.4.0.1 as 64500; ipv4 { import all; export none; };
}
protocol bgp d from sluice {
    local 2001:db8:4::2 as 64503; neighbor 2001:db8:4::1 as 64500; ipv6 { import all; export none; };
}
'''
[[links]]
a = "sluice:bird"
b = "bird:sluice"
a_addresses = ["10.1.0.1/24", "2001:db8:1::1/64"]
b_addresses = ["10.1.0.2/24", "2001:db8:1::2/64"]
[[links]]
a = "sluice:frr"
b = "frr:sluice"
a_addresses = ["10.2.0.1/24", "2001:db8:2::1/64"]
b_addresses = ["10.2.0.2/24", "2001:db8:2::2/64"]
[[links]]
a = "sluice:liar"
b = "liar:sluice"
a_addresses = ["10.3.0.1/24", "2001:db8:3::1/64", "10.4.0.1/24", "2001:db8:4::1/64"]
b_addresses = ["10.3.0.2/24", "2001:db8:3::2/64", "10.4.0.2/24", "2001:db8:4::2/64"]
"#;

const HONEST: [&str; 4] = ["10.1.0.2", "2001:db8:1::2", "10.2.0.2", "2001:db8:2::2"];
const LIARS: [&str; 4] = ["10.3.0.2", "2001:db8:3::2", "10.4.0.2", "2001:db8:4::2"];

/// Returns a counter of Sluice's kernel.
fn counted(lab: &RouterLab, name: &str) -> u64 {
    let text = lab.lab.exec("sluice", "cat", ["/proc/net/netstat"]).unwrap();
    // Lines come in pairs: names, then numbers.
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split(' ').zip(pair[1].split(' ')));
    pairs.filter(|(n, _)| *n == name).filter_map(|(_, v)| v.parse::<u64>().ok()).sum()
}

#[test]
fn passwords_and_ttl_security_with_bird_and_frr() {
    if !possible_with_frr() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("all honest sessions are up", |l| HONEST.iter().all(|a| l.established(a)));
    for (family, routes) in
        [("-4", ["198.51.100.0/24", "203.0.113.0/24"]), ("-6", ["2001:db8:b::/48", "2001:db8:f::/48"])]
    {
        lab.until("what they announce is in the kernel", |l| has_all(&l.kernel_text(family), &routes));
    }
    // The liars have tried, and nothing that they sent was processed.
    lab.until("wrong passwords are seen", |l| counted(l, "TCPMD5Failure") > 0);
    for liar in LIARS {
        assert!(!lab.established(liar), "{liar}");
        assert_eq!(lab.neighbor(liar)["received"]["open"], "0", "{liar}");
    }
    assert!(HONEST.iter().all(|a| lab.established(a)));
    // No message reports that a password is wrong: the connection finds no answer, which is what the router can say.
    let reports = |address: &str, reason: &str| {
        lab.until(reason, |l| l.neighbor(address)["reason"] == reason);
    };
    reports("10.3.0.2", "no answer to the attempt to connect (another password looks the same)");
    reports("10.4.0.2", "the neighbor has not connected yet (ttl-security that does not fit looks the same)");
    proved("TCP MD5 signatures (RFC 2385)", &["BIRD", "FRR"]);
    proved("GTSM (RFC 5082)", &["BIRD", "FRR"]);
}
