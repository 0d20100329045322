//! What is announced while the RIB has a route, beside BIRD as the neighbor: networks, routes of policies and the default route follow
//! static routes that come and go by configuration, and nothing follows the death of a process.

use crate::SLUICE;
use sluice_router_lab::bird::{commit, kill, until_at_bird, withdrawals};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

const TOPOLOGY: &str = r#"
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol bgp sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; graceful restart off;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import all; export none; };
    ipv6 { import all; export none; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
policy {
    policy-statement backup {
        term held { from { protocol network; prefix 203.0.113.0/24; route-present 100.64.0.0/24; } then { reject; } }
    }
    policy-statement costly { term all { then { med 7; } } }
}
protocols {
    static {
        route 198.51.100.0/24 { discard; }
        route 100.64.0.0/24 { discard; }
    }
    bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        network 203.0.113.0/24;
        network-while-present [ 198.51.100.0/24 2001:db8:77::/48 ];
        neighbor 10.1.0.2 {
            peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; export backup;
            default-originate { while-present 2001:db8:77::/48; policy costly; }
        }
    }
}
'''
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
"#;

#[test]
fn announcements_follow_routes_that_come_and_go() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the session is up", |l| l.established("10.1.0.2"));
    until_at_bird(&lab, "the network whose route is there", &["198.51.100.0/24"]);

    let (set, delete) = ("set protocols static route", "delete protocols static route");
    commit(&lab, &format!("{set} 2001:db8:77::/48 discard"));
    let defaults = ["198.51.100.0/24", "2001:db8:77::/48", "0.0.0.0/0", "::/0"];
    until_at_bird(&lab, "the IPv6 network, and the default routes", &defaults);
    let shown = lab.birdc("bird", "show route 0.0.0.0/0 all");
    assert!(shown.contains("BGP.med: 7"), "{shown}");
    let routes = lab.ask(&["show", "routes", "0.0.0.0/0"]);
    assert_eq!(
        routes["routes"].as_array().map(Vec::len),
        Some(0),
        "the table has no default route: {routes}"
    );
    commit(&lab, &format!("{delete} 100.64.0.0/24"));
    let all = [&defaults[..], &["203.0.113.0/24"]].concat();
    until_at_bird(&lab, "the network that a policy held back", &all);

    // A RIB or a BGP that hands over, and a RIB that is killed, cost the neighbor nothing.
    let before = withdrawals(&lab);
    kill(&lab, "rib");
    // Something that comes after all that the new RIB reports.
    commit(&lab, &format!("{set} 100.64.1.0/24 discard"));
    commit(&lab, "set protocols bgp network-while-present 100.64.1.0/24");
    let more = [&all[..], &["100.64.1.0/24"]].concat();
    until_at_bird(&lab, "one more network", &more);
    assert_eq!(withdrawals(&lab), before, "nothing was withdrawn for the RIB's sake");
    for component in ["rib", "bgp"] {
        let done = lab.cli(&["restart", component]);
        assert!(done.status.success(), "{component}: {}", String::from_utf8_lossy(&done.stdout));
        let before = withdrawals(&lab);
        commit(&lab, &format!("{delete} 100.64.1.0/24"));
        until_at_bird(&lab, "one network less", &all);
        assert_eq!(withdrawals(&lab), before + 1, "{component} restarted unnoticed");
        commit(&lab, &format!("{set} 100.64.1.0/24 discard"));
        until_at_bird(&lab, "the network again", &more);
    }
    commit(&lab, &format!("{delete} 2001:db8:77::/48"));
    until_at_bird(&lab, "no default route", &["198.51.100.0/24", "203.0.113.0/24", "100.64.1.0/24"]);
    commit(&lab, &format!("{delete} 198.51.100.0/24"));
    until_at_bird(&lab, "the first network is gone", &["203.0.113.0/24", "100.64.1.0/24"]);
}
