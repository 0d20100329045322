//! The routers that are compared: the same network, the same neighbours, the same job.

use crate::processes;
use anyhow::{Context, Result, ensure};
use sluice_lab::Lab;
use std::fmt::Write;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A router under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// The whole Sluice router, by `sluice start`.
    Sluice,
    /// BIRD 2 with its kernel protocol.
    Bird,
    /// FRRouting: zebra and bgpd.
    Frr,
}

/// A neighbour of the router under test, which waits for its connection.
#[derive(Clone, Copy, Debug)]
pub struct Neighbor<'a> {
    /// Its address.
    pub address: &'a str,
    /// Its AS.
    pub asn: u32,
}

/// How long a router or a link may take to come up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The router's own AS.
pub const LOCAL_AS: u32 = 64500;

impl Device {
    /// The name of its node in the lab, and of its daemon in a topology.
    pub const fn node(self) -> &'static str {
        match self {
            Device::Sluice => "sluice",
            Device::Bird => "bird",
            Device::Frr => "frr",
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Device::Sluice => "Sluice",
            Device::Bird => "BIRD 2",
            Device::Frr => "FRR",
        }
    }

    /// A configuration: everything that any neighbour says is learned, installed and said to the others, in both families.
    pub fn config(self, router_id: &str, neighbors: &[Neighbor<'_>]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Device::Sluice => sluice(&mut text, router_id, neighbors),
            Device::Bird => bird(&mut text, router_id, neighbors),
            Device::Frr => frr(&mut text, router_id, neighbors),
        };
        text
    }

    /// Ends the router and empties its kernel's tables: the links go down, which takes every route with it, and up again.
    /// Addresses stay, if the node keeps those of IPv6 (`keep_addr_on_down`).
    pub fn reset(self, lab: &mut Lab, interfaces: &[&str]) -> Result<()> {
        let node = self.node();
        let left = processes::of_node(lab, node);
        lab.stop(node, true)?;
        processes::end(&left);
        for direction in ["down", "up"] {
            for interface in interfaces {
                lab.exec(node, "ip", ["link", "set", interface, direction])?;
            }
        }
        for interface in interfaces {
            await_link(lab, node, interface)?;
        }
        // Whatever a router says of its earlier life is of no interest to the next.
        let run = lab.dir(node).join("run");
        if run.exists() {
            fs::remove_dir_all(&run).with_context(|| format!("cannot remove {}", run.display()))?;
        }
        Ok(())
    }

    /// Starts the router; returns when it answers and has its BGP port open. The number of one of its processes.
    pub fn start(self, lab: &mut Lab) -> Result<u32> {
        lab.start(self.node())?;
        let processes = processes::of_node(lab, self.node());
        let pid = processes.first().map(|p| p.id.pid);
        let pid = pid.with_context(|| format!("{} does not run", self.name()))?;
        let begin = Instant::now();
        while !listens(pid)? {
            ensure!(begin.elapsed() < PATIENCE, "{} does not listen to BGP", self.name());
            sleep(Duration::from_millis(5));
        }
        Ok(pid)
    }
}

/// Waits until a link is up for IPv6 too: the kernel tells itself of a link's carrier up to a second later.
fn await_link(lab: &Lab, node: &str, interface: &str) -> Result<()> {
    let begin = Instant::now();
    loop {
        let addresses = lab.exec(node, "ip", ["-6", "address", "show", "dev", interface, "scope", "link"])?;
        if addresses.contains("fe80:") && !addresses.contains("tentative") {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{interface} of {node} does not come up");
        sleep(Duration::from_millis(20));
    }
}

/// Whether somebody in the namespace of `pid` waits for BGP's connections over TCP.
fn listens(pid: u32) -> Result<bool> {
    // Local address and port in hexadecimal, then the remote one, then the state: 0A is LISTEN.
    let is_bgp = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(":00B3")) && words.nth(1) == Some("0A")
    };
    for file in ["tcp", "tcp6"] {
        if fs::read_to_string(format!("/proc/{pid}/net/{file}"))?.lines().any(is_bgp) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn sluice(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>]) -> std::fmt::Result {
    writeln!(text, "protocols {{\n  bgp {{\n    local-as {LOCAL_AS};\n    router-id {router_id};")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "    neighbor {address} {{ peer-as {asn}; passive true; ipv6-unicast {{ enabled true; }} }}"
        )?;
    }
    writeln!(text, "  }}\n}}")
}

fn bird(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>]) -> std::fmt::Result {
    writeln!(text, "router id {router_id};\nprotocol device {{}}")?;
    writeln!(text, "protocol kernel {{ ipv4 {{ export all; }}; }}")?;
    writeln!(text, "protocol kernel {{ ipv6 {{ export all; }}; }}")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(
            text,
            "protocol bgp {{\n  local as {LOCAL_AS};\n  neighbor {address} as {asn};\n  passive;\n  \
             ipv4 {{ import all; export all; }};\n  ipv6 {{ import all; export all; }};\n}}"
        )?;
    }
    Ok(())
}

fn frr(text: &mut String, router_id: &str, neighbors: &[Neighbor<'_>]) -> std::fmt::Result {
    writeln!(text, "frr defaults datacenter\nrouter bgp {LOCAL_AS}\n bgp router-id {router_id}")?;
    writeln!(text, " no bgp ebgp-requires-policy")?;
    for Neighbor { address, asn } in neighbors {
        writeln!(text, " neighbor {address} remote-as {asn}\n neighbor {address} passive")?;
    }
    writeln!(text, " address-family ipv6 unicast")?;
    for Neighbor { address, .. } in neighbors {
        writeln!(text, "  neighbor {address} activate")?;
    }
    writeln!(text, " exit-address-family")
}
