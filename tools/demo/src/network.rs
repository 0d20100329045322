//! The network of the demo, as a topology.
//!
//! ```text
//!            ┌─ feed1 (BIRD, AS 64501) ─┐
//! internet ──┤                          ├── sluice (AS 64500) ── frr (AS 64502) ── host
//!            └─ feed2 (BIRD, AS 64503) ─┘        │
//!                                             probe (ExaBGP, AS 64504): single routes at full table
//! ```

use anyhow::Result;
use sluice_lab::Topology;
use sluice_load::RoutingTable;
use sluice_load::bird::Feed;

/// Single routes that are introduced at full table.
pub const PROBES: usize = 200;
/// Milliseconds between two of them.
const PROBE_PAUSE_MS: u32 = 25;

/// The router's configuration, as a user would write it.
pub const SLUICE_CONF: &str = "\
# A border router: two upstreams, one customer, one route of its own.
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        neighbor 10.1.0.2 { peer-as 64501; description \"feed 1\"; ipv6-unicast enabled; }
        neighbor 10.2.0.2 { peer-as 64503; description \"feed 2\"; ipv6-unicast enabled; }
        neighbor 10.3.0.2 { peer-as 64502; description \"customer\"; ipv6-unicast enabled; }
        neighbor 10.4.0.2 { peer-as 64504; description \"probe\"; }
    }
    static {
        route 192.0.2.0/24 discard;
    }
}
";

const FRR_CONF: &str = "\
frr defaults traditional
router bgp 64502
 bgp router-id 10.3.0.2
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 10.3.0.1 remote-as 64500
 neighbor 10.3.0.1 timers connect 1
 address-family ipv4 unicast
  network 198.51.100.0/24
  neighbor 10.3.0.1 activate
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:51::/48
  neighbor 10.3.0.1 activate
  neighbor 10.3.0.1 route-map v6out out
 exit-address-family
route-map v6out permit 10
 set ipv6 next-hop global 2001:db8:3::2
";

/// ExaBGP announces and withdraws single routes when the file `go` appears in its folder. A first route is announced
/// from the start, so that the router knows the next hop, as in the paper.
fn exabgp_script() -> String {
    format!(
        "#!/usr/bin/env python3\n\
         import os, sys, time\n\
         sys.stdout.write('announce route 198.18.255.0/24 next-hop 10.4.0.2\\n')\nsys.stdout.flush()\n\
         while not os.path.exists('@DIR@/go'):\n    time.sleep(0.02)\n\
         for i in range({PROBES}):\n    \
         sys.stdout.write('announce route 198.18.%d.0/24 next-hop 10.4.0.2\\n' % i)\n    sys.stdout.flush()\n    \
         time.sleep({PROBE_PAUSE_MS} / 1000)\n\
         open('@DIR@/announced', 'w').close()\n\
         while not os.path.exists('@DIR@/stop'):\n    time.sleep(0.05)\n\
         for i in range({PROBES}):\n    \
         sys.stdout.write('withdraw route 198.18.%d.0/24 next-hop 10.4.0.2\\n' % i)\n    sys.stdout.flush()\n\
         while True:\n    time.sleep(1)\n"
    )
}

const EXABGP_CONF: &str = "\
process probe {
    run @DIR@/probe.py;
    encoder text;
}
neighbor 10.4.0.1 {
    router-id 10.4.0.2;
    local-address 10.4.0.2;
    local-as 64504;
    peer-as 64500;
    api { processes [ probe ]; }
}
";

/// The topology with the feeds' tables in it.
pub fn topology(first: &RoutingTable, second: &RoutingTable) -> Result<Topology> {
    let feed = |number: u8, local_as: u32, table| {
        let (v4, v6) = (format!("10.{number}.0.2"), format!("2001:db8:{number}::2"));
        let gateway = format!("10.{number}.0.1");
        Feed { router_id: &v4.clone(), local_as, local: (&v4, &v6), neighbor: (&gateway, 64500), table }
            .config()
    };
    let toml_text = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = String::new();
    // The feeds' kernels know the customer behind the router, and hand everything else to the host `internet`.
    text.push_str(&format!(
        "name = 'demo'\n\
         [nodes.feed1]\ndaemon = 'bird'\nroutes = ['198.51.100.0/24 via 10.1.0.1', '2001:db8:51::/48 via 2001:db8:1::1', \
         'default via 10.11.0.2', '::/0 via 2001:db8:11::2']\n\
         [nodes.feed2]\ndaemon = 'bird'\nroutes = ['198.51.100.0/24 via 10.2.0.1', '2001:db8:51::/48 via 2001:db8:2::1', \
         'default via 10.12.0.2', '::/0 via 2001:db8:12::2']\n\
         [nodes.sluice]\ndaemon = 'sluice'\nsysctls = {{ 'net.ipv4.nexthop_compat_mode' = '0', 'net.ipv6.route.max_size' = '2147483647' }}\nconfig = \"\"\"\n{}\"\"\"\n\
         [nodes.frr]\ndaemon = 'frr'\nroutes = ['default via 10.3.0.1', '::/0 via 2001:db8:3::1']\nconfig = \"\"\"\n{FRR_CONF}\"\"\"\n\
         [nodes.probe]\ndaemon = 'exabgp'\nconfig = \"\"\"\n{EXABGP_CONF}\"\"\"\nfiles = {{ 'probe.py' = '''\n{}''' }}\n\
         [nodes.internet]\nroutes = ['198.51.100.0/24 via 10.11.0.1', '2001:db8:51::/48 via 2001:db8:11::1', 'local default dev lo', 'local ::/0 dev lo']\n\
         [nodes.host]\nroutes = ['default via 198.51.100.1', '::/0 via 2001:db8:51::1']\n",
        toml_text(SLUICE_CONF),
        exabgp_script().trim_start_matches('\n'),
    ));
    for (a, b, v4, v6) in [
        ("sluice:feed1", "feed1:sluice", "10.1.0", "2001:db8:1"),
        ("sluice:feed2", "feed2:sluice", "10.2.0", "2001:db8:2"),
        ("sluice:frr", "frr:sluice", "10.3.0", "2001:db8:3"),
        ("sluice:probe", "probe:sluice", "10.4.0", "2001:db8:4"),
        ("feed1:net", "internet:feed1", "10.11.0", "2001:db8:11"),
        ("feed2:net", "internet:feed2", "10.12.0", "2001:db8:12"),
        ("frr:host", "host:frr", "198.51.100", "2001:db8:51"),
    ] {
        text.push_str(&format!(
            "[[links]]\na = '{a}'\nb = '{b}'\na_addresses = ['{v4}.1/24', '{v6}::1/64']\n\
             b_addresses = ['{v4}.2/24', '{v6}::2/64']\n"
        ));
    }
    let mut topology: Topology = text.parse()?;
    for (name, local_as, number, table) in [("feed1", 64501, 1, first), ("feed2", 64503, 2, second)] {
        if let Some(node) = topology.nodes.get_mut(name) {
            node.config = Some(feed(number, local_as, table));
        }
    }
    Ok(topology)
}
