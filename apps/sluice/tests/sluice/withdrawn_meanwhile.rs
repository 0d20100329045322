//! BGP is killed, and every neighbor withdraws a route meanwhile: the kernel loses the route as soon as the session is
//! up again and the neighbor has fallen quiet, for any daemon, with and without End-of-RIB. Another configured neighbor is never there.

use crate::SLUICE;
use crate::interop_matrix::proved;
use sluice_lab::{Topology, available};
use sluice_router_lab::{RouterLab, share};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time that a withdrawn route may stay in the kernel once the session is up again, on a busy machine. The wait for a quiet
/// neighbor is 3 s, that for neighbors none of which is back 120 s.
const BOUND: Duration = Duration::from_secs(60);

/// A kind of neighbor, at 10.1.0.2 and 2001:db8:1::2, with a session of each family.
struct Neighbor {
    daemon: &'static str,
    program: &'static str,
    node: &'static str,
    /// Withdraws [`GOES`].
    withdraw: fn(&RouterLab),
}

/// The neighbor's addresses.
const ADDRESSES: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
/// The prefixes that stay, of IPv4 and of IPv6.
const STAYS: [&str; 2] = ["198.51.100.0/24", "2001:db8:198::/48"];
/// The prefixes that the neighbor withdraws.
const GOES: [&str; 2] = ["203.0.113.0/24", "2001:db8:203::/48"];

const NEIGHBORS: [Neighbor; 5] = [
    Neighbor {
        daemon: "bird",
        program: "/usr/sbin/bird",
        node: r#"
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:198::/48 blackhole; }
protocol static goes { ipv4; route 203.0.113.0/24 blackhole; }
protocol static goes6 { ipv6; route 2001:db8:203::/48 blackhole; }
template bgp sluice {
    graceful restart off; connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp four from sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; ipv4 { import all; export all; };
}
protocol bgp six from sluice {
    local 2001:db8:1::2 as 64501; neighbor 2001:db8:1::1 as 64500; ipv6 { import all; export all; };
}
'''"#,
        withdraw: |lab| {
            for protocol in ["goes", "goes6"] {
                lab.birdc("neighbor", &format!("disable {protocol}"));
            }
        },
    },
    Neighbor {
        daemon: "frr",
        program: "/usr/lib/frr/bgpd",
        node: r#"
config = '''
router bgp 64501
 bgp router-id 10.1.0.2
 bgp graceful-restart-disable
 no bgp ebgp-requires-policy
 no bgp network import-check
 no bgp default ipv4-unicast
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
 neighbor 2001:db8:1::1 remote-as 64500
 neighbor 2001:db8:1::1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  network 203.0.113.0/24
  neighbor 10.1.0.1 activate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:198::/48
  network 2001:db8:203::/48
  neighbor 2001:db8:1::1 activate
 exit-address-family
'''"#,
        withdraw: |lab| {
            let dir = lab.lab.dir("neighbor").display().to_string();
            let words = [
                "configure",
                "router bgp 64501",
                "address-family ipv4",
                "no network 203.0.113.0/24",
                "exit-address-family",
                "address-family ipv6",
                "no network 2001:db8:203::/48",
            ];
            let args = ["--vty_socket", &dir].into_iter().chain(words.into_iter().flat_map(|w| ["-c", w]));
            lab.lab.exec("neighbor", "vtysh", args).unwrap();
        },
    },
    Neighbor {
        daemon: "openbgpd",
        program: "/usr/sbin/bgpctl",
        node: r#"
config = '''
AS 64501
router-id 10.1.0.2
fib-update no
neighbor 10.1.0.1 { remote-as 64500 }
neighbor 2001:db8:1::1 { remote-as 64500 }
allow to any
allow from any
'''"#,
        withdraw: |lab| {
            for prefix in GOES {
                lab.lab.control("neighbor", &format!("network delete {prefix}")).unwrap();
            }
        },
    },
    Neighbor {
        daemon: "gobgp",
        program: "/usr/bin/gobgp",
        node: r#"
config = '''
[global.config]
as = 64501
router-id = "10.1.0.2"
[[neighbors]]
[neighbors.config]
neighbor-address = "10.1.0.1"
peer-as = 64500
[neighbors.timers.config]
connect-retry = 1
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = "ipv4-unicast"
[[neighbors]]
[neighbors.config]
neighbor-address = "2001:db8:1::1"
peer-as = 64500
[neighbors.timers.config]
connect-retry = 1
[[neighbors.afi-safis]]
[neighbors.afi-safis.config]
afi-safi-name = "ipv6-unicast"
'''"#,
        withdraw: |lab| {
            for (prefix, family) in GOES.into_iter().zip(["ipv4", "ipv6"]) {
                lab.lab.control("neighbor", &format!("global rib del {prefix} -a {family}")).unwrap();
            }
        },
    },
    Neighbor {
        daemon: "exabgp",
        program: "/usr/bin/exabgp",
        node: r#"
config = '''
process routes { run @DIR@/routes.sh; encoder text; }
neighbor 10.1.0.1 {
    router-id 10.1.0.2; local-address 10.1.0.2; local-as 64501; peer-as 64500;
    family { ipv4 unicast; }
    api { processes [ routes ]; }
}
neighbor 2001:db8:1::1 {
    router-id 10.1.0.2; local-address 2001:db8:1::2; local-as 64501; peer-as 64500;
    family { ipv6 unicast; }
    api { processes [ routes ]; }
}
'''
files = { 'routes.sh' = '''
#!/bin/sh
mkfifo @DIR@/withdraw
echo neighbor 10.1.0.1 announce route 198.51.100.0/24 next-hop self
echo neighbor 10.1.0.1 announce route 203.0.113.0/24 next-hop self
echo neighbor 2001:db8:1::1 announce route 2001:db8:198::/48 next-hop self
echo neighbor 2001:db8:1::1 announce route 2001:db8:203::/48 next-hop self
read order < @DIR@/withdraw
echo neighbor 10.1.0.1 withdraw route 203.0.113.0/24 next-hop self
echo neighbor 2001:db8:1::1 withdraw route 2001:db8:203::/48 next-hop self
read order < @DIR@/withdraw
''' }"#,
        withdraw: |lab| std::fs::write(lab.lab.dir("neighbor").join("withdraw"), "").unwrap(),
    },
];

fn topology(neighbor: &Neighbor) -> Topology {
    let (daemon, node) = (neighbor.daemon, neighbor.node.replace("'''\n#!", "'''#!"));
    let [v4, v6] = ADDRESSES;
    format!(
        "[nodes.neighbor]\ndaemon = '{daemon}'{node}
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {{ bgp {{ local-as 64500; router-id 10.0.0.1; default-policy accept;
    neighbor {v4} {{ peer-as 64501; connect-retry-time 1; }}
    neighbor {v6} {{ peer-as 64501; connect-retry-time 1; }}
    neighbor 10.1.0.9 {{ peer-as 64509; connect-retry-time 1; }}
}} }}
'''
[[links]]
a = 'sluice:neighbor'
b = 'neighbor:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['{v4}/24', '{v6}/64']
"
    )
    .parse()
    .unwrap()
}

/// Returns true if the kernel has the prefixes of both families.
fn in_kernel(lab: &RouterLab, prefixes: [&str; 2]) -> bool {
    let families = ["-4", "-6"].into_iter().zip(prefixes);
    families.into_iter().all(|(family, prefix)| lab.kernel_text(family).contains(prefix))
}

/// Returns true if the kernel has a prefix of neither family.
fn gone(lab: &RouterLab, prefixes: [&str; 2]) -> bool {
    !prefixes.into_iter().zip(["-4", "-6"]).any(|(prefix, family)| lab.kernel_text(family).contains(prefix))
}

fn check(neighbor: &Neighbor) {
    let name = neighbor.daemon;
    let lab = RouterLab::up(&topology(neighbor), Path::new(SLUICE));
    let add = match name {
        "openbgpd" => Some("network add"),
        "gobgp" => Some("global rib add"),
        _ => None,
    };
    for (add, prefix) in
        add.into_iter().flat_map(|add| [STAYS, GOES].concat().into_iter().map(move |p| (add, p)))
    {
        let family = if name != "gobgp" {
            ""
        } else if prefix.contains(':') {
            "-a ipv6"
        } else {
            "-a ipv4"
        };
        lab.lab.control("neighbor", &format!("{add} {prefix} {family}")).unwrap();
    }
    lab.until("all routes are in the kernel", |l| in_kernel(l, STAYS) && in_kernel(l, GOES));
    let pid = lab.pid("bgp").unwrap();
    lab.signal("-9", pid);
    (neighbor.withdraw)(&lab);
    lab.until("another BGP runs", |l| l.pid("bgp").is_some_and(|new| new != pid));
    lab.until("the sessions are up again", |l| ADDRESSES.iter().all(|address| l.established(address)));
    let up = Instant::now();
    lab.until("the withdrawn routes are gone", |l| gone(l, GOES));
    let took = up.elapsed();
    assert!(took < BOUND, "{name}: {took:?}");
    assert!(in_kernel(&lab, STAYS), "{name}: the other routes stay");
    println!("{name}: gone {took:?} after the sessions were seen to be up");
}

/// Returns true if the neighbor's daemon can run here; records a skipped test if not.
fn possible(neighbor: &Neighbor) -> bool {
    let name = neighbor.daemon;
    if let Err(reason) = available() {
        sluice_testkit::skipped(format_args!("{name}: {reason}"));
        return false;
    }
    let is_installed =
        Path::new(neighbor.program).exists() || Command::new(name).arg("--version").output().is_ok();
    if !is_installed {
        sluice_testkit::skipped(format_args!("{name} is not installed"));
    }
    is_installed
}

#[test]
fn a_route_that_was_withdrawn_while_bgp_was_dead_goes() {
    for neighbor in &NEIGHBORS {
        let _share = share();
        if possible(neighbor) {
            check(neighbor);
            let peer = match neighbor.daemon {
                "bird" => "BIRD",
                "frr" => "FRR",
                "openbgpd" => "OpenBGPD",
                "gobgp" => "GoBGP",
                _ => "ExaBGP",
            };
            proved("routes withdrawn while BGP was dead", &[peer]);
        }
    }
}
