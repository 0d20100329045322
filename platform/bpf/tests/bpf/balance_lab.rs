//! The balancer's program before kernels: two hosts, an ordinary switch, a router and a control plane with an interface for each
//! port. Hosts see one router.
#![cfg(feature = "xdp")]

use crate::support::balancer::{Bed, CONTROL, NEIGHBORS, ROUTERS, VIRTUAL, VIRTUAL2, id, index, port};
use crate::support::{in_node, usable};
use sluice_bpf::Link;
use sluice_bpf::attach::interface_index;
use sluice_cluster::balancer::Input;
use sluice_cluster::policy::Policy;
use sluice_cluster::reason::Reason;
use sluice_lab::{Lab, LabOptions};

/// The hosts `h1` and `h2`, the balancer `b`, the switch `s`, the router `r` and the control plane `c`.
const NODES: &str = "
[nodes.h1]
[nodes.h2]
[nodes.b]
[nodes.s]
[nodes.r]
[nodes.c]
[[links]]
a = 'h1:eth0'
b = 'b:out1'
xdp = true
[[links]]
a = 'h2:eth0'
b = 'b:out2'
xdp = true
[[links]]
a = 'b:in0'
b = 's:eth0'
xdp = true
[[links]]
a = 'r:eth0'
b = 's:eth1'
xdp = true
[[links]]
a = 'c:eth0'
b = 's:eth2'
xdp = true
";

fn ip(lab: &Lab, node: &str, commands: &str) {
    for command in commands.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lab.exec(node, "ip", command.split_whitespace()).unwrap();
    }
}

/// Makes the macvlan interfaces of an element, with the addresses of the router.
fn ports(lab: &Lab, node: &str, element: u16, more: &str) {
    for number in 1..=2 {
        let mac = format!("02:5c:00:{element:02x}:00:{number:02x}");
        let commands = format!(
            "link add p{number} link eth0 address {mac} type macvlan mode private
            {more}
            address add 10.0.{number}.1/24 dev p{number}
            address add fd0{number}::1/64 dev p{number} nodad
            link set dev p{number} up"
        );
        ip(lab, node, &commands.replace("PORT", &format!("p{number}")));
    }
}

fn host(lab: &Lab, number: u8) {
    let mac = NEIGHBORS[usize::from(number) - 1];
    let commands = format!(
        "link set dev eth0 address {mac}
        address add 10.0.{number}.2/24 dev eth0
        address add fd0{number}::2/64 dev eth0 nodad
        route add default via 10.0.{number}.1
        route add default via fd0{number}::1"
    );
    ip(lab, &format!("h{number}"), &commands);
}

fn ping(lab: &Lab, node: &str, arguments: &str) -> String {
    let output = lab.output(node, "ping", arguments.split_whitespace());
    let output = output.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn hosts_behind_two_ports_see_one_router() {
    if !usable() {
        return;
    }
    let lab = Lab::up(&NODES.parse().unwrap(), LabOptions::unique("bpf-multistage")).unwrap();
    ip(&lab, "s", "link add br0 type bridge\nlink set dev br0 up");
    for link in ["eth0", "eth1", "eth2"] {
        ip(&lab, "s", &format!("link set dev {link} master br0"));
    }
    host(&lab, 1);
    host(&lab, 2);
    // Routers neither receive nor send ARP: the control plane announces the neighbors to them.
    ports(&lab, "r", ROUTERS[0], "link set dev PORT arp off");
    for (number, mac) in (1..=2).zip(NEIGHBORS) {
        let to = format!("lladdr {mac} dev p{number} nud permanent");
        ip(&lab, "r", &format!("neigh replace 10.0.{number}.2 {to}\nneigh replace fd0{number}::2 {to}"));
    }
    ports(&lab, "c", CONTROL, "");
    let settings = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
    lab.exec("r", "sysctl", ["-q", "-w"].iter().chain(&settings)).unwrap();

    let mut policy = Policy::default();
    policy.silence = None;
    let (bed, _links) = in_node(&lab, "b", || {
        let mut bed = Bed::new(policy);
        let of = |name: &str| index(interface_index(name).unwrap());
        bed.input(Input::InService([ROUTERS[0], CONTROL].map(id).into()));
        bed.input(Input::Outer(port(1), Some(of("out1"))));
        bed.input(Input::Outer(port(2), Some(of("out2"))));
        bed.input(Input::Inner(vec![of("in0")]));
        let own = ["10.0.1.1", "10.0.2.1", "fd01::1", "fd02::1"];
        bed.input(Input::Addresses(own.iter().map(|address| address.parse().unwrap()).collect()));
        let attach = |name: &&str| Link::attach(name, bed.program.program()).unwrap();
        let links: Vec<Link> = ["out1", "out2", "in0"].iter().map(attach).collect();
        (bed, links)
    });

    for to in ["10.0.1.1", "fd01::1", "10.0.2.2", "fd02::2"] {
        let said = ping(&lab, "h1", &format!("-n -c 3 -i 0.2 -W 5 {to}"));
        assert!(said.contains(" 3 received"), "{to}: {said}");
        // One hop: the router's own addresses answer with 64.
        let ttl = if to.ends_with(".2") || to.ends_with("::2") { "ttl=63" } else { "ttl=64" };
        assert!(said.contains(ttl), "{to}: {said}");
    }
    let said = ping(&lab, "h1", "-n -c 1 -t 1 -W 5 10.0.2.2");
    assert!(said.contains("From 10.0.1.1") && said.contains("Time to live exceeded"), "{said}");
    for (host, mac) in [("h1", VIRTUAL), ("h2", VIRTUAL2)] {
        let output = lab.output(host, "ip", ["neigh", "show"]).unwrap();
        let known = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(known.contains(&mac.to_string()) && !known.contains("02:5c"), "{known}");
    }
    let counted = |reason| bed.count(reason) > 0;
    assert!(
        [Reason::Balanced, Reason::Control, Reason::Returned, Reason::FromControl].into_iter().all(counted)
    );
}
