//! Whether a value that was committed is the one that holds, by what the kernel and the wire say.

use crate::network::{Network, OUTER4};
use crate::wire::What;
use std::collections::BTreeSet;

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

/// The next session is one that the neighbour connects for.
pub fn waits_for_the_neighbor(network: &Network) -> bool {
    let before = network.packets().len();
    let cleared = network.lab.cli(&["clear", "bgp", "neighbor", OUTER4]).status.success();
    let settled = network.settle(&BTreeSet::new());
    let packets = network.packets();
    let connects = |ours: bool| {
        let end = |p: &crate::wire::Packet| if ours { p.to } else { p.from }.to_string();
        packets[before..].iter().any(|p| p.what == What::Connect && end(p) == OUTER4)
    };
    cleared && settled && connects(false) && !connects(true)
}
