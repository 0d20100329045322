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

    let metrics = lab.cli(&["show", "metrics", "fea"]);
    let metrics = String::from_utf8_lossy(&metrics.stdout);
    let counter = metrics.lines().find(|line| line.contains("reason=\"forwarded-ipv4\""));
    assert!(counter.is_some_and(|line| line.contains("interface=\"eth0\"")), "{metrics}");

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
