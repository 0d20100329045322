//! A neighbor behind a second router, with TTL security, at a port other than 179.

use crate::SLUICE;
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

const FAR: &str = "10.2.0.2";

const TOPOLOGY: &str = r#"
[nodes.between]
forwarding = true
[nodes.bird]
daemon = "bird"
config = '''
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 10.1.0.0/24 via 10.2.0.1; }
protocol kernel { ipv4 { export all; }; }
protocol static announced { ipv4; route 198.51.100.0/24 blackhole; }
protocol bgp sluice {
    local 10.2.0.2 port 1790 as 64501; neighbor 10.1.0.1 as 64500;
    multihop 2; ttl security on; passive on; ipv4 { import all; export all; };
}
'''
[nodes.sluice]
daemon = "sluice"
config = '''
protocols {
    static { route 10.2.0.0/24 { next-hop 10.1.0.2; } }
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.2.0.2 { peer-as 64501; port 1790; multihop 2; ttl-security; connect-retry-time 1; }
    }
}
'''
[[links]]
a = "sluice:between"
b = "between:sluice"
a_addresses = ["10.1.0.1/24"]
b_addresses = ["10.1.0.2/24"]
[[links]]
a = "between:bird"
b = "bird:between"
a_addresses = ["10.2.0.1/24"]
b_addresses = ["10.2.0.2/24"]
"#;

#[test]
fn a_neighbor_two_hops_away_at_another_port() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the session is up", |l| l.established(FAR));
    lab.until("it announces", |l| l.received(FAR).v4 > 0);
    let configure = |statement: &str| {
        assert!(lab.cli(&["configure", statement, "commit"]).status.success(), "{statement}");
    };
    // One hop less than there are: what the neighbor sends is dropped.
    configure("set protocols bgp neighbor 10.2.0.2 multihop 1");
    lab.until("the session is down", |l| !l.established(FAR));
    configure("set protocols bgp neighbor 10.2.0.2 multihop 2");
    lab.until("the session is up again", |l| l.established(FAR));
}
