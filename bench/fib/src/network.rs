//! The network of the full table: one feed, and both routers linked to it in the same way.

use anyhow::{Context, Result};
use bench_lab::{Device, Neighbor};
use sluice_lab::Topology;
use sluice_load::RoutingTable;
use sluice_load::bird::Feed;

/// The feed's AS.
const FEED_AS: u32 = 64501;

/// Every router's interface to the feed.
pub const INTERFACE: &str = "feed";

/// The routers, with the number of their link.
pub const DEVICES: [(Device, u8); 2] = [(Device::Sluice, 1), (Device::Bird, 2)];

/// The feed's session with a router (`bird` is a word of BIRD's own language).
pub fn session(device: Device) -> &'static str {
    if device == Device::Sluice { "sluice" } else { "to_bird" }
}

/// The feed announces the same table to whichever session is enabled.
fn feed_config(table: &RoutingTable) -> Result<String> {
    let feed = Feed {
        router_id: "10.1.0.2",
        local_as: FEED_AS,
        local: ("10.1.0.2", "2001:db8:1::2"),
        neighbor: ("10.1.0.1", bench_lab::LOCAL_AS),
        table,
    };
    let mut text = feed.config();
    let (_, session) = text.rsplit_once("protocol bgp sluice").context("the feed has a session")?;
    let other = session.replace("10.1.0.", "10.2.0.").replace("2001:db8:1::", "2001:db8:2::");
    text.push_str(&format!("protocol bgp to_bird{other}"));
    Ok(text)
}

/// The topology.
pub fn topology(table: &RoutingTable) -> Result<Topology> {
    let mut text = String::from("[nodes.feed]\ndaemon = 'bird'\nforwarding = false\n");
    for (device, link) in DEVICES {
        let node = device.node();
        text.push_str(&format!(
            "[nodes.{node}]\ndaemon = '{node}'\nsysctls = {{ 'net.ipv4.nexthop_compat_mode' = '0', \
             'net.ipv6.route.max_size' = '2147483647', 'net.ipv6.conf.all.keep_addr_on_down' = '1' }}\n\
             [[links]]\na = '{node}:{INTERFACE}'\nb = 'feed:{node}'\n\
             a_addresses = ['10.{link}.0.1/24', '2001:db8:{link}::1/64']\n\
             b_addresses = ['10.{link}.0.2/24', '2001:db8:{link}::2/64']\n"
        ));
    }
    let mut topology: Topology = text.parse()?;
    let mut configure = |node: &str, config| {
        if let Some(spec) = topology.nodes.get_mut(node) {
            spec.config = Some(config);
        }
    };
    configure("feed", feed_config(table)?);
    for (device, link) in DEVICES {
        let feed = Neighbor { address: &format!("10.{link}.0.2"), asn: FEED_AS };
        configure(device.node(), device.config(&format!("10.{link}.0.1"), &[feed]));
    }
    Ok(topology)
}
