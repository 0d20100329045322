//! Three peers, each linked to every router under test in the same way.

use crate::message::NextHops;
use crate::speaker::{Identity, Speaker};
use anyhow::{Context, Result};
use bench_lab::{Device, Neighbor};
use sluice_lab::{Lab, Topology};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The routers to measure, in order; routers that are not installed are left out.
const DEVICES: [Device; 5] = [Device::Sluice, Device::Bird, Device::Frr, Device::Openbgpd, Device::Gobgp];

/// Returns the installed routers, and prints the missing ones as skipped.
pub fn devices() -> Vec<Device> {
    let (here, missing): (Vec<_>, Vec<_>) = DEVICES.into_iter().partition(|d| d.is_here());
    missing.iter().for_each(|d| println!("skipped: {} is not installed", d.name()));
    here
}

/// The peers' nodes: the peer with the table, the peer with further routes, the receiving peer.
const PEERS: [&str; 3] = ["peer1", "peer2", "peer3"];

/// A number for each router's links.
fn number(device: Device) -> u8 {
    DEVICES.iter().position(|d| *d == device).map_or(0, |place| place as u8 + 1)
}

const fn asn(peer: usize) -> u32 {
    64501 + peer as u32
}

fn identity(device: Device, peer: usize) -> Identity {
    let (router, link) = (number(device), peer as u8 + 1);
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, router.into(), link.into(), 0, 0, 0, 2);
    Identity {
        asn: asn(peer),
        local: NextHops { v4: Ipv4Addr::new(10, router, link, 2), v6 },
        router: Ipv4Addr::new(10, router, link, 1),
        with_v6: peer == 0,
        hold_time: device.hold_time(),
    }
}

/// The address of a peer at its link to a router.
pub fn address(device: Device, peer: usize) -> Ipv4Addr {
    identity(device, peer).local.v4
}

/// The sessions of a router under test.
pub struct Peers {
    /// Has the table.
    pub a: Speaker,
    /// Has further routes.
    pub b: Speaker,
    /// The router that receives.
    pub c: Speaker,
}

impl Peers {
    /// Connects all peers to a router.
    pub fn connect(lab: &Lab, device: Device) -> Result<Self> {
        let connect = |peer: usize| {
            Speaker::connect(lab, PEERS[peer], identity(device, peer))
                .with_context(|| format!("no session of {} with {}", PEERS[peer], device.name()))
        };
        Ok(Peers { a: connect(0)?, b: connect(1)?, c: connect(2)? })
    }
}

/// The topology.
pub fn topology(devices: &[Device]) -> Result<Topology> {
    let mut text = String::new();
    PEERS.iter().for_each(|peer| text.push_str(&format!("[nodes.{peer}]\n")));
    for device in devices.iter().copied() {
        let node = device.node();
        text.push_str(&format!(
            "[nodes.{node}]\ndaemon = '{node}'\nsysctls = {{ 'net.ipv4.nexthop_compat_mode' = '0', \
             'net.ipv6.route.max_size' = '2147483647' }}\n"
        ));
        for (index, peer) in PEERS.iter().enumerate() {
            let (router, link) = (number(device), index + 1);
            text.push_str(&format!(
                "[[links]]\na = '{node}:{peer}'\nb = '{peer}:{node}'\n\
                 a_addresses = ['10.{router}.{link}.1/24', '2001:db8:{router}:{link}::1/64']\n\
                 b_addresses = ['10.{router}.{link}.2/24', '2001:db8:{router}:{link}::2/64']\n"
            ));
        }
    }
    let mut topology: Topology = text.parse()?;
    for device in devices.iter().copied() {
        let addresses: Vec<String> = (0..PEERS.len()).map(|peer| address(device, peer).to_string()).collect();
        let neighbors: Vec<Neighbor<'_>> = addresses
            .iter()
            .enumerate()
            .map(|(peer, address)| Neighbor { address, asn: asn(peer) })
            .collect();
        let config = device.config(&format!("10.{}.0.1", number(device)), &neighbors);
        topology.nodes.get_mut(device.node()).context("every router has a node")?.config = Some(config);
    }
    Ok(topology)
}
