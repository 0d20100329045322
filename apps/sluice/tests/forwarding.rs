//! The fast path of a whole router: configured, looked at, switched off by obstacles, and forwarding whoever dies.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod router_lab;

use router_lab::bird::{commit, kill};
use router_lab::{RouterLab, SLUICE, possible, share};
use serde_json::Value;
use std::path::Path;

const TOPOLOGY: &str = r#"
[nodes.a]
routes = ['default via 10.1.0.1', 'default via 2001:db8:1::1']
[nodes.b]
loopback = ['203.0.113.1/32', '2001:db8:99::1/128']
routes = ['default via 10.2.0.1', 'default via 2001:db8:2::1']
[nodes.sluice]
daemon = 'sluice'
config = '''
interfaces { forwarding { engine both; } }
protocols {
    static {
        route 203.0.113.0/24 { next-hop 10.2.0.2; }
        route 2001:db8:99::/48 { next-hop 2001:db8:2::2; }
    }
}
'''
[[links]]
a = 'a:eth0'
b = 'sluice:eth0'
a_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
b_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
xdp = true
[[links]]
a = 'b:eth0'
b = 'sluice:eth1'
a_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']
b_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']
xdp = true
"#;

fn forwarding(lab: &RouterLab) -> Value {
    lab.ask(&["show", "forwarding"])
}

fn is_live(lab: &RouterLab) -> bool {
    forwarding(lab)["live"] == true
}

/// Returns the packets of an interface that were counted under a reason.
fn counted(lab: &RouterLab, interface: &str, reason: &str) -> u64 {
    let shown = forwarding(lab);
    let ports = shown["ports"].as_array().unwrap();
    let port = ports.iter().find(|port| port["name"] == interface).unwrap();
    let counts = port["counts"].as_array().unwrap().iter().filter(|count| count["reason"] == reason);
    counts.map(|count| count["packets"].as_str().unwrap().parse::<u64>().unwrap()).sum()
}

/// Sends echo requests from `a`; panics if an answer is missing.
fn ping(lab: &RouterLab, address: &str) {
    let said = lab.lab.exec("a", "ping", ["-q", "-c", "20", "-i", "0.01", "-W", "5", address]).unwrap();
    assert!(said.contains(" 0% packet loss"), "{said}");
}

/// The reasons for which the kernel forwards IPv4 that the first interface receives.
fn off(lab: &RouterLab) -> String {
    forwarding(lab)["ports"].as_array().unwrap().iter().find(|port| port["name"] == "eth0").unwrap()
        ["received_ipv4"]
        .to_string()
}

#[test]
fn a_router_forwards_by_xdp() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the fast path forwards", is_live);
    lab.until("neighbors are resolved", |lab| forwarding(lab)["unresolved"] == "0");
    for (address, reason) in [("203.0.113.1", "forwarded-ipv4"), ("2001:db8:99::1", "forwarded-ipv6")] {
        let before = counted(&lab, "eth0", reason);
        ping(&lab, address);
        assert!(counted(&lab, "eth0", reason) >= before + 20, "{}", forwarding(&lab));
    }

    let metrics = lab.ask(&["show", "metrics", "fea"]).to_string();
    for part in ["fea_forwarding_packets", "forwarded-ipv4", "eth0"] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }

    // The router's own addresses and what has no route are the kernel's.
    ping(&lab, "10.1.0.1");
    assert!(counted(&lab, "eth0", "kernel") >= 20);

    // A rule that the program does not know turns IPv4 off, and IPv6 stays on.
    let ip = |words: &[&str]| lab.lab.exec("sluice", "ip", words.iter().copied()).unwrap();
    ip(&["rule", "add", "from", "192.0.2.1", "table", "100"]);
    lab.until("IPv4 is off", |lab| off(lab).contains("policy rule"));
    let before = counted(&lab, "eth0", "forwarded-ipv4");
    ping(&lab, "203.0.113.1");
    assert_eq!(counted(&lab, "eth0", "forwarded-ipv4"), before);
    ip(&["rule", "del", "from", "192.0.2.1", "table", "100"]);
    lab.until("IPv4 is on", |lab| off(lab) == "[]");
    // So does a route of another program that precedes: its prefix goes to the kernel.
    ip(&["route", "add", "203.0.113.1/32", "via", "10.2.0.2", "proto", "static"]);
    let kernel = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "kernel");
        ping(lab, "203.0.113.1");
        counted(lab, "eth0", "kernel") >= before + 20
    };
    lab.until("the other program's route is the kernel's", kernel);
    ip(&["route", "del", "203.0.113.1/32"]);
    lab.until("Sluice's route forwards again", |lab| !kernel(lab));

    commit(&lab, "set interfaces forwarding engine kernel");
    lab.until("the kernel forwards alone", |lab| forwarding(lab)["configured"] == "kernel" && !is_live(lab));
    let attached = ip(&["link", "show", "eth0"]);
    assert!(!attached.contains("xdp"), "{attached}");
    ping(&lab, "203.0.113.1");
}

/// Packets flow while each process is killed and replaced, and while the router stops: the programs stay.
#[test]
fn the_programs_forward_whoever_dies() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the fast path forwards", is_live);
    lab.until("neighbors are resolved", |lab| forwarding(lab)["unresolved"] == "0");
    ping(&lab, "203.0.113.1");
    let mut flood = lab.lab.command("a", "ping").unwrap();
    let mut flood = flood
        .args(["-q", "-i", "0.002", "-W", "5", "203.0.113.1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    for component in ["fea", "rib"] {
        kill(&lab, component);
        lab.until("the fast path forwards by the new tables", is_live);
    }
    let done = lab.cli(&["restart", "fea"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("the fast path forwards by the new tables", is_live);
    let before = counted(&lab, "eth0", "forwarded-ipv4");
    lab.until("packets are counted on", |lab| counted(lab, "eth0", "forwarded-ipv4") > before);
    let stopped = lab.cli(&["stop"]);
    assert!(stopped.status.success());
    let attached = lab.lab.exec("sluice", "ip", ["link", "show", "eth0"]).unwrap();
    assert!(attached.contains("xdp"), "{attached}");
    ping(&lab, "203.0.113.1");
    lab.signal("-INT", flood.id().into());
    let said = std::io::read_to_string(flood.stdout.take().unwrap()).unwrap();
    flood.wait().unwrap();
    assert!(said.contains(" 0% packet loss"), "{said}");
}

fn port(lab: &RouterLab, interface: &str) -> Value {
    let shown = forwarding(lab);
    let ports = shown["ports"].as_array().cloned().unwrap_or_default();
    ports.into_iter().find(|port| port["name"] == interface).unwrap_or_default()
}

/// Interfaces go down, get another MTU and another name and are removed; another program is attached before Sluice's.
#[test]
fn ports_follow_their_interfaces() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the fast path forwards", is_live);
    let ip = |words: &[&str]| lab.lab.exec("sluice", "ip", words.iter().copied()).unwrap();
    let is_fast = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "forwarded-ipv4");
        ping(lab, "203.0.113.1");
        counted(lab, "eth0", "forwarded-ipv4") > before
    };
    lab.until("packets are forwarded by XDP", is_fast);

    ip(&["link", "set", "eth1", "down"]);
    lab.until("the port is down", |lab| port(lab, "eth1")["refusal"] == "it is down");
    ip(&["link", "set", "eth1", "up"]);
    ip(&["-6", "address", "replace", "2001:db8:2::1/64", "dev", "eth1", "nodad"]);
    lab.until("the port is back", |lab| port(lab, "eth1")["refusal"] == "");
    lab.until("the route is back", |lab| lab.kernel_text("-4").contains("203.0.113.0/24"));
    lab.until("packets are forwarded by XDP", is_fast);

    // Larger packets than the new MTU are the kernel's, which fragments them.
    ip(&["link", "set", "eth1", "mtu", "1400"]);
    lab.lab.exec("b", "ip", ["link", "set", "eth0", "mtu", "1400"]).unwrap();
    let large = |lab: &RouterLab| {
        let before = counted(lab, "eth0", "size");
        let words = ["-q", "-c", "3", "-i", "0.01", "-W", "5", "-M", "dont", "-s", "1450", "203.0.113.1"];
        let said = lab.lab.exec("a", "ping", words).unwrap();
        assert!(said.contains(" 0% packet loss"), "{said}");
        counted(lab, "eth0", "size") >= before + 3
    };
    lab.until("large packets are the kernel's", large);

    ip(&["link", "set", "eth1", "down"]);
    ip(&["link", "set", "eth1", "name", "uplink"]);
    ip(&["link", "set", "uplink", "up"]);
    lab.until("the port has its new name", |lab| port(lab, "uplink")["refusal"] == "");
    assert_eq!(port(&lab, "eth1"), Value::Null);
    lab.until("the route is back", |lab| lab.kernel_text("-4").contains("203.0.113.0/24"));
    lab.until("packets are forwarded by XDP", is_fast);

    // A new interface on which a program of somebody else is attached, until that program goes.
    ip(&["link", "add", "spare", "type", "veth", "peer", "name", "other"]);
    lab.lab
        .inside("sluice", || {
            let program = sluice_bpf::Loader::new(sluice_bpf::Embedded::Drop).load().unwrap();
            let link = sluice_bpf::Link::attach("spare", program.program()).unwrap();
            ip(&["link", "set", "spare", "up"]);
            lab.until("the other program is left alone", |lab| {
                port(lab, "spare")["refusal"].as_str().is_some_and(|why| why.contains("another XDP program"))
            });
            drop(link);
        })
        .unwrap();
    ip(&["link", "set", "spare", "mtu", "1450"]);
    lab.until("the interface is a port", |lab| port(lab, "spare")["refusal"] == "");
    ip(&["link", "del", "spare"]);
    lab.until("the interface is gone", |lab| port(lab, "spare") == Value::Null);
    lab.until("packets are forwarded by XDP", is_fast);
}

const WITH_BGP: &str = r#"
[nodes.a]
routes = ['default via 10.1.0.1', 'default via 2001:db8:1::1']
[nodes.bird]
daemon = 'bird'
loopback = ['203.0.113.1/32', '198.51.100.1/32', '2001:db8:a::1/128']
routes = ['default via 10.2.0.1', 'default via 2001:db8:2::1']
config = '''
router id 10.2.0.2;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol static { ipv6; route 2001:db8:a::/48 blackhole; }
protocol bgp sluice {
    local 10.2.0.2 as 64501; neighbor 10.2.0.1 as 64500;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import none; export where source = RTS_STATIC; };
    ipv6 { import none; export where source = RTS_STATIC; next hop address 2001:db8:2::2; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
interfaces { forwarding { engine xdp; } }
protocols {
    static { route 203.0.113.0/24 { next-hop 10.2.0.2; } }
    bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        neighbor 10.2.0.2 { peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; }
    }
}
'''
[[links]]
a = 'a:eth0'
b = 'sluice:eth0'
a_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
b_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
xdp = true
[[links]]
a = 'bird:eth0'
b = 'sluice:eth1'
a_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']
b_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']
xdp = true
"#;

/// Sluice's routes in the kernel's table, by prefix.
fn in_kernel(lab: &RouterLab) -> Vec<String> {
    let of = |family| lab.lab.exec("sluice", "ip", [family, "route", "show", "proto", "83"]).unwrap();
    let text = of("-4") + &of("-6");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

const STATIC: [&str; 1] = ["203.0.113.0/24"];
const ALL: [&str; 3] = ["198.51.100.0/24", "203.0.113.0/24", "2001:db8:a::/48"];

/// The kernel has no route of BGP, and packets to these routes flow: while a new process fills new tables, and while the engine changes.
#[test]
fn routes_of_bgp_are_not_in_the_kernel() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&WITH_BGP.parse().unwrap(), Path::new(SLUICE));
    lab.until("BGP's routes are in the tables", |lab| is_live(lab) && forwarding(lab)["routes"] == "3");
    lab.until("neighbors are resolved", |lab| forwarding(lab)["unresolved"] == "0");
    assert_eq!(
        (forwarding(&lab)["configured"].as_str(), in_kernel(&lab)),
        (Some("xdp"), STATIC.map(String::from).to_vec())
    );
    for (address, reason) in [("198.51.100.1", "forwarded-ipv4"), ("2001:db8:a::1", "forwarded-ipv6")] {
        let before = counted(&lab, "eth0", reason);
        ping(&lab, address);
        assert!(counted(&lab, "eth0", reason) >= before + 20, "{}", forwarding(&lab));
    }

    let is_up = |lab: &RouterLab| is_live(lab) && forwarding(lab)["routes"] == "3";
    no_loss(&lab, "another FEA", || {
        kill(&lab, "fea");
        lab.until("the fast path forwards by the new tables", is_up);
        assert_eq!(in_kernel(&lab), STATIC);
        let before = counted(&lab, "eth0", "forwarded-ipv4");
        lab.until("packets are counted on", |lab| counted(lab, "eth0", "forwarded-ipv4") > before);
    });
    // The list names external routes that the kernel has too.
    no_loss(&lab, "another list", || {
        commit(&lab, "set interfaces forwarding kernel-prefix 198.51.0.0/16");
        lab.until("the kernel has the route of the list", |lab| in_kernel(lab) == ALL[..2]);
        commit(&lab, "delete interfaces forwarding kernel-prefix");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
    });
    no_loss(&lab, "both and back", || {
        commit(&lab, "set interfaces forwarding engine both");
        lab.until("the kernel has all routes", |lab| in_kernel(lab) == ALL);
        assert!(is_live(&lab));
        commit(&lab, "set interfaces forwarding engine xdp");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
    });
    no_loss(&lab, "the kernel", || {
        commit(&lab, "set interfaces forwarding engine kernel");
        lab.until("the kernel forwards alone", |lab| !is_live(lab));
        assert_eq!(in_kernel(&lab), ALL);
    });
    no_loss(&lab, "from the kernel", || {
        commit(&lab, "set interfaces forwarding engine xdp");
        lab.until("the kernel has internal routes only", |lab| in_kernel(lab) == STATIC);
        assert!(is_live(&lab));
    });
}

/// Sends echo requests from `a` to a destination of BGP while `act` runs; panics if an answer is missing.
fn no_loss(lab: &RouterLab, what: &str, act: impl FnOnce()) {
    let mut flood = lab.lab.command("a", "ping").unwrap();
    let mut flood = flood
        .args(["-q", "-i", "0.002", "-W", "5", "198.51.100.1"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    act();
    lab.signal("-INT", flood.id().into());
    let said = std::io::read_to_string(flood.stdout.take().unwrap()).unwrap();
    flood.wait().unwrap();
    assert!(said.contains(" 0% packet loss"), "{what}: {said}");
}
