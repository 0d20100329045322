//! Packets to many hosts of a connected network that do not exist: the FEA's memory stays bounded, and packets to others are forwarded
//! by XDP as before. The long test takes 100,000 hosts. And a neighbor whose address an operator has set stays as it is.

use crate::SLUICE;
use sluice_pktgen::{Generator, Spec, destinations::in_turn};
use sluice_router_lab::xdp::{FAR, Network, counted, forwarding, is_forwarded, station};
use sluice_router_lab::{alone, possible, share};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::path::Path;

/// The router between two hosts; the network of the far host has 131,072 addresses.
const WIDE: Network<'static> = Network {
    near: "routes = ['default via 10.1.0.1', 'default via 2001:db8:1::1']",
    far: (
        "b",
        "loopback = ['203.0.113.1/32', '2001:db8:99::1/128']\n\
         routes = ['default via 10.2.0.1', 'default via 2001:db8:2::1']",
    ),
    config: "
interfaces {
    forwarding { engine both; }
    interface eth1 { address 10.128.0.1/15; }
}
protocols {
    static {
        route 203.0.113.0/24 { next-hop 10.2.0.2; }
        route 2001:db8:99::/48 { next-hop 2001:db8:2::2; }
    }
}
",
    routes: 2,
};

/// Hosts that do not exist. The kernel has 1,024 neighbors by default, for all networks of the machine together.
const FEW: u32 = 256;
const MANY: u32 = 100_000;
/// Packets a second to hosts that do not exist.
const RATE: u64 = 20_000;
/// Packets to each host.
const EACH: u64 = 2;
/// The octets that the FEA's resident memory may grow by: far less than the kernel's answers about all neighbors take.
const GROWTH: u64 = 8 << 20;

#[test]
fn hosts_that_do_not_answer_cost_nothing() {
    let _machine = share();
    if possible() {
        flood(Path::new(SLUICE), FEW);
    }
}

#[test]
fn many_hosts_that_do_not_answer_cost_nothing() {
    let program = sluice_testkit::long!("forwarding");
    let _machine = alone();
    if possible() {
        flood(&program, MANY);
    }
}

/// Sends packets to hosts that do not exist.
fn flood(program: &Path, hosts: u32) {
    let lab = WIDE.up_with(program);
    for (address, reason) in FAR {
        assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    }
    let before = (lab.memory("fea").unwrap(), counted(&lab, "eth0", "kernel"));

    let first = u32::from(Ipv4Addr::new(10, 128, 1, 0));
    let all: Vec<IpAddr> = (0..hosts).map(|n| Ipv4Addr::from_bits(first + n).into()).collect();
    let mut spec = Spec::udp("eth0", station(&lab, "eth0"), "10.1.0.2".parse().unwrap(), in_turn(&all));
    spec.rate = NonZeroU64::new(RATE);
    spec.limit = NonZeroU64::new(u64::from(hosts) * EACH);
    let running = lab.lab.inside("a", || Generator::new(spec).start()).unwrap().unwrap();
    let mut most = before.0;
    loop {
        for (address, reason) in FAR {
            assert!(is_forwarded(&lab, address, reason), "{address}: {}", forwarding(&lab));
        }
        most = most.max(lab.memory("fea").unwrap());
        if running.wait(Some(std::time::Duration::ZERO)) {
            break;
        }
    }
    let sent = running.stop().unwrap().packets;
    assert!(sent >= u64::from(hosts) * EACH, "{sent}");
    lab.until("the kernel got the packets", |lab| counted(lab, "eth0", "kernel") >= before.1 + sent / 2);
    for (address, reason) in FAR {
        assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    }
    most = most.max(lab.memory("fea").unwrap());
    println!("{sent} packets to {hosts} hosts; the FEA's memory grew from {} to {most} octets", before.0);
    assert!(most < before.0 + GROWTH, "the FEA's memory grew from {} to {most} octets", before.0);
}

/// A gateway that does not answer: the operator configures where it is.
const SET: &str = "10.2.0.77";

#[test]
fn a_neighbor_that_an_operator_set_stays() {
    let _machine = share();
    if !possible() {
        return;
    }
    let lab = WIDE.up();
    let (address, reason) = FAR[0];
    assert!(is_forwarded(&lab, address, reason), "{}", forwarding(&lab));
    let neighbor = |of: &str| {
        let output = lab.lab.output("sluice", "ip", ["neigh", "show", of]).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let known = neighbor("10.2.0.2");
    let mac = known.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap().to_owned();
    let add = ["neigh", "add", SET, "lladdr", &mac, "dev", "eth1", "nud", "permanent"];
    assert!(lab.lab.output("sluice", "ip", add).unwrap().status.success());
    let route = format!("set protocols static route 198.51.100.0/24 next-hop {SET}");
    assert!(lab.cli(&["configure", &route, "commit"]).status.success());
    lab.until("the fast path has the route", |lab| forwarding(lab)["routes"] == "3");
    lab.until("the gateway is known", |lab| forwarding(lab)["unresolved"] == "0");
    assert!(neighbor(SET).contains("PERMANENT"), "{}", neighbor(SET));
}
