//! The lab: a router, an announcing neighbor, and receivers.

use crate::policy::Lists;
use anyhow::Result;
use bench_lab::{Device, LOCAL_AS};
use sluice_base::Asn;
use sluice_bgpsim::session::{Features, Peer, Role};
use sluice_bgpsim::workload::Families;
use sluice_lab::{Lab, LabOptions, Topology};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// The node of the neighbors.
pub const PEERS: &str = "peers";
/// The announcing neighbor.
pub const FEED: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
/// The router.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The AS of the announcing neighbor; receivers have the next numbers.
pub const FIRST_AS: u32 = 65001;

/// The policies of a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies {
    /// The name of the policy at import; `None` without a policy.
    pub import: Option<&'static str>,
    /// The names of the policies at export; receivers take turns.
    pub export: &'static [&'static str],
    /// True if BIRD keeps received routes for `reload in`; without them, BIRD sends ROUTE-REFRESH.
    pub keeps: bool,
}

/// Starts a router with some receivers.
pub fn up(device: Device, lists: &Lists, policies: Policies, receivers: usize, sluice: &Path) -> Result<Lab> {
    let node = device.node();
    let addresses = (0..=receivers).map(|n| format!("'{}/24', '2001:db8:1::{:x}/64'", address(n), n + 2));
    let text = format!(
        "[nodes.{PEERS}]\n[nodes.{node}]\ndaemon = '{node}'\n\
         [[links]]\na = '{node}:peers'\nb = '{PEERS}:router'\n\
         a_addresses = ['{ROUTER}/24', '2001:db8:1::1/64']\nb_addresses = [{}]\n",
        addresses.collect::<Vec<_>>().join(", ")
    );
    let mut topology: Topology = text.parse()?;
    let config = match device {
        Device::Bird => bird(lists, policies, receivers),
        _ => ours(lists, policies, receivers),
    };
    topology.nodes.entry(node.into()).or_default().config = Some(config);
    let options = LabOptions { sluice: Some(sluice.into()), ..LabOptions::unique("bench-policy") };
    Ok(Lab::up(&topology, options)?)
}

/// Returns all neighbors, the announcing neighbor first.
pub fn peers(receivers: usize) -> Vec<Peer> {
    let peer = |n: usize| {
        let (role, number) = if n == 0 { (Role::Sender, 0) } else { (Role::Receiver, n - 1) };
        let families = Families { v4: true, v6: true };
        Peer {
            role,
            number,
            asn: asn(n),
            local: Some(IpAddr::V4(address(n))),
            families,
            hold_time: 0,
            features: Features::default(),
        }
    };
    (0..=receivers).map(peer).collect()
}

fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(FEED.to_bits() + number as u32)
}

const fn asn(number: usize) -> Asn {
    Asn(FIRST_AS + number as u32)
}

/// Returns the name of a neighbor's policy at export.
fn export_of(policies: Policies, number: usize) -> Option<&'static str> {
    let count = policies.export.len();
    (number > 0 && count > 0).then(|| policies.export[number % count])
}

fn ours(lists: &Lists, policies: Policies, receivers: usize) -> String {
    let mut text = lists.sluice();
    text += &format!(
        "interfaces {{ forwarding {{ install-routes false; }} }}\n\
         protocols {{ bgp {{ local-as {LOCAL_AS}; router-id {ROUTER}; default-policy accept;\n"
    );
    for number in 0..=receivers {
        let import = policies.import.filter(|_| number == 0).map(|name| format!("import {name}; "));
        let export = export_of(policies, number).map(|name| format!("export {name}; "));
        text += &format!(
            "neighbor {} {{ peer-as {}; passive; ipv6-unicast enabled; {}{}}}\n",
            address(number),
            asn(number).0,
            import.unwrap_or_default(),
            export.unwrap_or_default()
        );
    }
    text + "} }\n"
}

fn bird(lists: &Lists, policies: Policies, receivers: usize) -> String {
    let mut text = format!("router id {ROUTER};\nprotocol device {{ }}\n{}", lists.bird());
    for number in 0..=receivers {
        let import = policies.import.filter(|_| number == 0);
        let keeps = if policies.keeps && number == 0 { "import table; " } else { "" };
        let of = |name: Option<&str>| name.map_or("all".to_owned(), |name| format!("filter {name}"));
        let channel = format!("{keeps}import {}; export {};", of(import), of(export_of(policies, number)));
        text += &format!(
            "protocol bgp n{number} {{ local as {LOCAL_AS}; neighbor {} as {}; passive;\n\
             ipv4 {{ {channel} }};\nipv6 {{ {channel} }};\n}}\n",
            address(number),
            asn(number).0
        );
    }
    text
}
