//! A dump of the table as MRT (RFC 6396), read by bgpdump: routes as they came, of both families, with path identifiers too.

use crate::SLUICE;
use sluice_router_lab::bgpdump::{self, routes};
use sluice_router_lab::{RouterLab, possible, share};
use std::collections::BTreeSet;
use std::path::Path;

const LAB: &str = "
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4;
    route 198.51.100.0/24 blackhole;
    route 203.0.113.0/24 blackhole { bgp_community.add((64501, 7)); };
    route 203.0.113.128/25 blackhole; }
protocol static { ipv6; route 2001:db8:7::/48 blackhole; }
template bgp sluice {
    local as 64501; neighbor as 64500; connect delay time 1; connect retry time 1;
    ipv4 { import all; export all; add paths tx; }; ipv6 { import all; export all; };
}
protocol bgp over4 from sluice { local 10.1.0.2; neighbor 10.1.0.1; ipv6 { import none; export none; }; }
protocol bgp over6 from sluice { local fd00:1::2; neighbor fd00:1::1; ipv4 { import none; export none; }; }
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { bgp {
    local-as 64500; router-id 10.1.0.1; default-policy accept; network [ 192.0.2.0/24 ];
    neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; import [ changed ]; add-path { receive true; } }
    neighbor fd00:1::2 { peer-as 64501; connect-retry-time 1; }
} }
policy {
    prefix-list longer { prefix [ 203.0.113.128/25 ]; }
    community mark { member [ 64500:1 ]; }
    policy-statement changed {
        term some { from { prefix-list longer; } then { reject; } }
        term rest { then { local-preference 300; community-add mark; accept; } }
    }
}
'''
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24', 'fd00:1::1/64']
b_addresses = ['10.1.0.2/24', 'fd00:1::2/64']
";

#[test]
fn bgpdump_reads_the_routes_as_they_came() {
    let _share = share();
    if !possible() || !bgpdump::is_installed() {
        return;
    }
    let lab = RouterLab::up(&LAB.parse().unwrap(), Path::new(SLUICE));
    lab.until("all routes have come", |lab| {
        let received = |neighbor: &str| lab.neighbor(neighbor)["families"].to_string();
        received("10.1.0.2").contains("\"prefixes_received\":\"3\"")
            && received("fd00:1::2").contains("\"prefixes_received\":\"1\"")
    });
    let file = lab.lab.dir("sluice").join("table.mrt");
    let words = ["request", "bgp", "dump-table", file.to_str().unwrap()];
    let reply = lab.ask(&words);
    assert_eq!(reply["routes"], "5", "{reply}");
    let route = |neighbor: &str, asn: &str, prefix: &str, path: &str, hop: &str, communities: &str| {
        [neighbor, asn, prefix, path, hop, communities].map(String::from).to_vec()
    };
    let of_bird = |prefix, communities| route("10.1.0.2", "64501", prefix, "64501", "10.1.0.2", communities);
    let expected = [
        of_bird("198.51.100.0/24", ""),
        of_bird("203.0.113.0/24", "64501:7"),
        of_bird("203.0.113.128/25", ""),
        route("fd00:1::2", "64501", "2001:db8:7::/48", "64501", "fd00:1::2", ""),
        route("0.0.0.0", "64500", "192.0.2.0/24", "", "0.0.0.0", ""),
    ];
    assert_eq!(routes(&file), BTreeSet::from(expected));
    // No file is overwritten.
    let before = std::fs::read(&file).unwrap();
    let output = lab.cli(&words);
    assert!(!output.status.success());
    assert_eq!(std::fs::read(&file).unwrap(), before);
}
