//! BGP is killed, and every neighbor withdraws a route meanwhile: the kernel loses the route as soon as the session is
//! up again and the neighbor has fallen quiet, for any daemon, with and without End-of-RIB.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::{RouterLab, SLUICE, share};
use sluice_lab::{Topology, available};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time that a withdrawn route may stay in the kernel once the session is up again. The wait for a quiet neighbor is 3 s.
const BOUND: Duration = Duration::from_secs(5);

/// A kind of neighbor, at 10.1.0.2.
struct Neighbor {
    daemon: &'static str,
    program: &'static str,
    node: &'static str,
    /// Withdraws [`GOES`].
    withdraw: fn(&RouterLab),
}

const STAYS: &str = "198.51.100.0/24";
const GOES: &str = "203.0.113.0/24";

const NEIGHBORS: [Neighbor; 5] = [
    Neighbor {
        daemon: "bird",
        program: "/usr/sbin/bird",
        node: r#"
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static goes { ipv4; route 203.0.113.0/24 blackhole; }
protocol bgp sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; graceful restart off;
    connect delay time 1; connect retry time 1; error wait time 1, 2; ipv4 { import all; export all; };
}
'''"#,
        withdraw: |lab| drop(lab.birdc("neighbor", "disable goes")),
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
 neighbor 10.1.0.1 remote-as 64500
 neighbor 10.1.0.1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  network 203.0.113.0/24
 exit-address-family
'''"#,
        withdraw: |lab| {
            let dir = lab.lab.dir("neighbor").display().to_string();
            let words = ["configure", "router bgp 64501", "address-family ipv4", "no network 203.0.113.0/24"];
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
allow to any
allow from any
'''"#,
        withdraw: |lab| drop(lab.lab.control("neighbor", "network delete 203.0.113.0/24").unwrap()),
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
'''"#,
        withdraw: |lab| drop(lab.lab.control("neighbor", "global rib del 203.0.113.0/24").unwrap()),
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
'''
files = { 'routes.sh' = '''
#!/bin/sh
mkfifo @DIR@/withdraw
echo announce route 198.51.100.0/24 next-hop self
echo announce route 203.0.113.0/24 next-hop self
read order < @DIR@/withdraw
echo withdraw route 203.0.113.0/24 next-hop self
read order < @DIR@/withdraw
''' }"#,
        withdraw: |lab| std::fs::write(lab.lab.dir("neighbor").join("withdraw"), "").unwrap(),
    },
];

fn topology(neighbor: &Neighbor) -> Topology {
    let (daemon, node) = (neighbor.daemon, neighbor.node.replace("'''\n#!", "'''#!"));
    format!(
        "[nodes.neighbor]\ndaemon = '{daemon}'{node}
[nodes.sluice]
daemon = 'sluice'
config = 'protocols {{ bgp {{ local-as 64500; router-id 10.0.0.1; default-policy accept; neighbor 10.1.0.2 {{ peer-as 64501; connect-retry-time 1; }} }} }}'
[[links]]
a = 'sluice:neighbor'
b = 'neighbor:sluice'
a_addresses = ['10.1.0.1/24']
b_addresses = ['10.1.0.2/24']
"
    )
    .parse()
    .unwrap()
}

fn in_kernel(lab: &RouterLab, prefix: &str) -> bool {
    lab.kernel_text("-4").contains(prefix)
}

fn check(neighbor: &Neighbor) {
    let name = neighbor.daemon;
    let lab = RouterLab::up(&topology(neighbor), Path::new(SLUICE));
    match name {
        "openbgpd" => {
            for prefix in [STAYS, GOES] {
                lab.lab.control("neighbor", &format!("network add {prefix}")).unwrap();
            }
        }
        "gobgp" => {
            for prefix in [STAYS, GOES] {
                lab.lab.control("neighbor", &format!("global rib add {prefix}")).unwrap();
            }
        }
        _ => {}
    }
    lab.until("both routes are in the kernel", |l| in_kernel(l, STAYS) && in_kernel(l, GOES));
    let pid = lab.pid("bgp").unwrap();
    lab.signal("-9", pid);
    (neighbor.withdraw)(&lab);
    lab.until("another BGP runs", |l| l.pid("bgp").is_some_and(|new| new != pid));
    lab.until("the session is up again", |l| l.established("10.1.0.2"));
    let up = Instant::now();
    lab.until("the withdrawn route is gone", |l| !in_kernel(l, GOES));
    let took = up.elapsed();
    assert!(took < BOUND, "{name}: {took:?}");
    assert!(in_kernel(&lab, STAYS), "{name}: the other route stays");
    println!("{name}: gone {took:?} after the session was seen to be up");
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
        }
    }
}
