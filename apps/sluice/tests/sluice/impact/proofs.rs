//! Proofs that a committed value is in force, from the kernel and the wire.

use crate::impact::network::{Network, OUTER4};
use crate::impact::wire::{Packet, What};
use std::collections::BTreeSet;
use std::net::IpAddr;

fn link(network: &Network, expected: &str) -> bool {
    let output = network.lab.lab.output("sluice", "ip", ["-o", "address", "show", "dev", "extra"]).unwrap();
    let more = network.lab.lab.output("sluice", "ip", ["-o", "link", "show", "dev", "extra"]).unwrap();
    [output.stdout, more.stdout].iter().any(|text| String::from_utf8_lossy(text).contains(expected))
}

pub fn link_is_down(network: &Network) -> bool {
    !link(network, ",UP")
}

pub fn mtu_is_1279(network: &Network) -> bool {
    link(network, "mtu 1279 ")
}

pub fn address_is_there(network: &Network) -> bool {
    link(network, "10.9.1.1/24")
}

fn setting(network: &Network, name: &str) -> String {
    network.lab.lab.exec("sluice", "sysctl", ["-n", name]).unwrap().trim().into()
}

pub fn ipv4_is_not_forwarded(network: &Network) -> bool {
    setting(network, "net.ipv4.ip_forward") == "0"
}

pub fn ipv6_is_not_forwarded(network: &Network) -> bool {
    setting(network, "net.ipv6.conf.all.forwarding") == "0"
}

pub fn hold_time_is_10(network: &Network) -> bool {
    network.lab.neighbor(OUTER4)["hold_time"] == 10
}

/// Begins a session anew; returns whether the router connected, and whether the neighbor did.
fn next_session(network: &Network) -> (bool, bool) {
    let before = network.packets().len();
    assert!(network.lab.cli(&["clear", "bgp", "neighbor", OUTER4]).status.success());
    assert!(
        network.settle(&BTreeSet::new()),
        "no session any more: {}\n{}",
        network.summary(),
        network.log()
    );
    let packets = network.packets();
    let connects = |end: fn(&Packet) -> IpAddr| {
        packets[before..].iter().any(|p| p.what == What::Connect && end(p).to_string() == OUTER4)
    };
    (connects(|p| p.to), connects(|p| p.from))
}

/// Returns true if the neighbor connects for the next session.
pub fn waits_for_the_neighbor(network: &Network) -> bool {
    next_session(network) == (false, true)
}

/// The FEA still opens sockets for BGP.
pub fn sockets_are_opened(network: &Network) -> bool {
    next_session(network).0
}
