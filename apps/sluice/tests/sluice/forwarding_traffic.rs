//! Traffic of hosts through a router that forwards by XDP: TCP in both directions, path MTU discovery, packets at the end of
//! their TTL, and a packet filter that turns the fast path off.

use sluice_router_lab::xdp::{FAR, Network, counted, off, ping_with as ping};
use sluice_router_lab::{RouterLab, possible, share};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

/// Hosts with addresses behind them, so that answers to either host are routed by Sluice too.
const BOTH_SIDES: Network<'static> = Network {
    near: "loopback = ['198.51.100.1/32', '2001:db8:98::1/128']
routes = ['default via 10.1.0.1 src 198.51.100.1', 'default via 2001:db8:1::1 src 2001:db8:98::1']",
    far: (
        "b",
        "loopback = ['203.0.113.1/32', '2001:db8:99::1/128']
routes = ['default via 10.2.0.1 advmss 1460', 'default via 2001:db8:2::1 advmss 1440']",
    ),
    config: "
interfaces { forwarding { engine both; } }
protocols {
    static {
        route 198.51.100.0/24 { next-hop 10.1.0.2; }
        route 203.0.113.0/24 { next-hop 10.2.0.2; }
        route 2001:db8:98::/48 { next-hop 2001:db8:1::2; }
        route 2001:db8:99::/48 { next-hop 2001:db8:2::2; }
    }
}
",
    routes: 4,
};

/// The hosts' program.
const BOTH_WAYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sluice/both_ways.py");

/// Octets in each direction.
const OCTETS: u64 = 4 << 20;

/// Transfers octets in both directions over a connection from `a` to `b`, and compares each end's hash with the other's
/// program run alone.
fn transfer(lab: &RouterLab, address: &str) {
    let octets = OCTETS.to_string();
    let run = |node: &str, role: &str| {
        let mut command = lab.lab.command(node, "python3").unwrap();
        command.args([BOTH_WAYS, role, address, "7000", &octets]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut server = run("b", "listen");
    let mut server_output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    server_output.read_line(&mut line).unwrap();
    assert_eq!(line, "listening\n");
    let client = run("a", "connect").wait_with_output().unwrap();
    let mut at_server = String::new();
    server_output.read_to_string(&mut at_server).unwrap();
    assert!(server.wait().unwrap().success() && client.status.success());
    assert_eq!(at_server.trim(), expected("connect"));
    assert_eq!(String::from_utf8(client.stdout).unwrap().trim(), expected("listen"));
}

/// Returns the line that an end prints if exactly the octets of the other end's role arrived.
fn expected(role: &str) -> String {
    let script = "import hashlib, sys\n\
        role, octets = sys.argv[1].encode(), int(sys.argv[2])\n\
        block = b''.join(hashlib.sha256(role + n.to_bytes(4, 'big')).digest() for n in range(2048))\n\
        print(octets, hashlib.sha256((block * (octets // len(block) + 1))[:octets]).hexdigest())";
    let output =
        std::process::Command::new("python3").args(["-c", script, role, &OCTETS.to_string()]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn tcp_flows_in_both_directions() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = BOTH_SIDES.up();
    for (address, reason) in FAR {
        let before = ["eth0", "eth1"].map(|interface| counted(&lab, interface, reason));
        transfer(&lab, address);
        for (interface, before) in ["eth0", "eth1"].into_iter().zip(before) {
            let packets = counted(&lab, interface, reason) - before;
            // A frame has 1,460 octets of data at most.
            assert!(packets >= OCTETS / 1460, "{interface} forwarded only {packets} packets");
        }
    }
}

/// The kernel answers packets that XDP may not forward, beside packets that XDP forwards.
#[test]
fn the_kernel_reports_errors_to_hosts() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = BOTH_SIDES.up();
    let before = counted(&lab, "eth0", "ttl");
    let said = ping(&lab, &["-c", "1", "-W", "5", "-t", "1", FAR[0].0]);
    assert!(said.contains("From 10.1.0.1 icmp_seq=1 Time to live exceeded"), "{said}");
    let said = ping(&lab, &["-c", "1", "-W", "5", "-t", "1", FAR[1].0]);
    assert!(said.contains("From 2001:db8:1::1 icmp_seq=1 Time exceeded: Hop limit"), "{said}");
    assert!(counted(&lab, "eth0", "ttl") >= before + 2);
    let said = ping(&lab, &["-c", "1", "-W", "5", "-t", "2", FAR[0].0]);
    assert!(said.contains(" 0% packet loss"), "{said}");

    // The link behind the router becomes narrower; `b` still announces the segment size of the wide link.
    for (node, interface) in [("sluice", "eth1"), ("b", "eth0")] {
        lab.lab.exec(node, "ip", ["link", "set", interface, "mtu", "1400"]).unwrap();
    }
    let is_too_large = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "size");
        ping(lab, &["-c", "1", "-W", "1", "-s", "1430", FAR[0].0]);
        counted(lab, "eth0", "size") > before
    };
    lab.until("the fast path knows the MTU", is_too_large);
    for (address, reason) in FAR {
        lab.lab
            .exec("a", "ip", [if address.contains(':') { "-6" } else { "-4" }, "route", "flush", "cache"])
            .unwrap();
        let (large, forwarded) = (counted(&lab, "eth0", "size"), counted(&lab, "eth0", reason));
        transfer(&lab, address);
        assert!(counted(&lab, "eth0", "size") > large, "no packet was too large");
        assert!(counted(&lab, "eth0", reason) >= forwarded + OCTETS / 1360);
        let learned = lab.lab.exec("a", "ip", ["route", "get", address]).unwrap();
        assert!(learned.contains("mtu 1400"), "{learned}");
    }
}

/// A rule on the way of forwarded packets turns its family off, by name; an empty chain that accepts does not.
#[test]
fn a_packet_filter_turns_the_fast_path_off() {
    let _share = share();
    if !possible() {
        return;
    }
    if std::process::Command::new("nft").arg("--version").output().is_err() {
        sluice_testkit::skipped("nftables is not installed");
        return;
    }
    let lab = BOTH_SIDES.up();
    let nft = |statement: &str| drop(lab.lab.exec("sluice", "nft", [statement]).unwrap());
    nft("add table ip guard");
    nft("add chain ip guard passing { type filter hook forward priority 0; policy accept; }");
    // IPv6 turns off by a later change: the FEA has read the chains since the first one, and left IPv4 on.
    nft("add table ip6 guard");
    nft("add chain ip6 guard passing { type filter hook forward priority 0; policy accept; }");
    nft("add rule ip6 guard passing counter");
    lab.until("IPv6 is off", |lab| off(lab, "ipv6").contains("guard"));
    assert_eq!(off(&lab, "ipv4"), "[]");
    nft("delete table ip6 guard");
    lab.until("IPv6 is on", |lab| off(lab, "ipv6") == "[]");

    nft("add rule ip guard passing ip daddr 203.0.113.7 drop");
    lab.until("IPv4 is off", |lab| off(lab, "ipv4") != "[]");
    let reason = off(&lab, "ipv4");
    assert!(reason.contains("guard") && reason.contains("passing"), "{reason}");
    assert_eq!(off(&lab, "ipv6"), "[]");
    let before = counted(&lab, "eth0", FAR[0].1);
    let said = ping(&lab, &["-c", "1", "-W", "5", FAR[0].0]);
    assert!(said.contains(" 0% packet loss"), "{said}");
    assert_eq!(counted(&lab, "eth0", FAR[0].1), before);
    nft("flush chain ip guard passing");
    lab.until("IPv4 is on", |lab| off(lab, "ipv4") == "[]");
    ping(&lab, &["-c", "1", "-W", "5", FAR[0].0]);
    assert!(counted(&lab, "eth0", FAR[0].1) > before);
}
