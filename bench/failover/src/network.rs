//! The network: two or three feeds of one table, each better than the next one, a router under test, and a host that sends.

use anyhow::{Context, Result};
use bench_lab::{Device, Neighbor};
use sluice_lab::{Lab, Topology};
use sluice_load::RoutingTable;
use sluice_load::bird::Feed;

/// The feeds' nodes, which are also the names of the router's interfaces to them.
pub const FEEDS: [&str; 3] = ["feed1", "feed2", "feed3"];
/// The feed of the next best paths.
pub const BACKUP: usize = 1;
/// The host's node.
pub const HOST: &str = "host";

/// The number of the table on feeds that takes every packet from the router in.
const ALL_LOCAL: &str = "100";

const fn asn(feed: usize) -> u32 {
    64501 + feed as u32
}

/// The hold time of the sessions, in seconds.
pub const HOLD_TIME: u64 = 30;

/// A feed's configuration. The paths of each feed are longer than those of the feed before, so that the router prefers the first one.
fn feed_config(feed: usize, table: &RoutingTable) -> String {
    let number = feed + 1;
    let own = [format!("10.{number}.0.2"), format!("2001:db8:{number}::2")];
    let text = Feed {
        router_id: &own[0],
        local_as: asn(feed),
        local: (&own[0], &own[1]),
        neighbor: (&format!("10.{number}.0.1"), bench_lab::LOCAL_AS),
        table,
    }
    .config();
    let prepend = format!("bgp_path.prepend({});", asn(feed)).repeat(feed * 2);
    let text = text.replace("hold time 90;", &format!("hold time {HOLD_TIME};"));
    text.replace(
        "if source = RTS_STATIC then accept;",
        &format!("if source = RTS_STATIC then {{ {prepend} accept; }}"),
    )
}

/// The topology for a router under test.
pub fn topology(device: Device, feeds: &[&str], table: &RoutingTable) -> Result<Topology> {
    let node = device.node();
    let mut text = format!(
        "[nodes.{HOST}]\n[nodes.{node}]\ndaemon = '{node}'\nforwarding = true\n\
         sysctls = {{ 'net.ipv4.nexthop_compat_mode' = '0', 'net.ipv6.route.max_size' = '2147483647' }}\n\
         [[links]]\na = '{node}:{HOST}'\nb = '{HOST}:router'\na_addresses = ['10.9.0.1/24']\nb_addresses = ['10.9.0.2/24']\n"
    );
    for (index, feed) in feeds.iter().enumerate() {
        let number = index + 1;
        text.push_str(&format!(
            "[nodes.{feed}]\ndaemon = 'bird'\nforwarding = false\n\
             sysctls = {{ 'net.ipv4.conf.all.rp_filter' = '0', 'net.ipv4.conf.default.rp_filter' = '0' }}\n\
             [[links]]\na = '{node}:{feed}'\nb = '{feed}:router'\n\
             a_addresses = ['10.{number}.0.1/24', '2001:db8:{number}::1/64']\n\
             b_addresses = ['10.{number}.0.2/24', '2001:db8:{number}::2/64']\n"
        ));
    }
    let mut topology: Topology = text.parse()?;
    let addresses: Vec<String> = (0..feeds.len()).map(|feed| format!("10.{}.0.2", feed + 1)).collect();
    let neighbors: Vec<Neighbor<'_>> =
        addresses.iter().enumerate().map(|(feed, address)| Neighbor { address, asn: asn(feed) }).collect();
    let mut configure = |node: &str, config| -> Result<()> {
        topology.nodes.get_mut(node).context("every node is there")?.config = Some(config);
        Ok(())
    };
    configure(node, device.config("10.9.0.1", &neighbors))?;
    for (index, feed) in feeds.iter().enumerate() {
        configure(feed, feed_config(index, table))?;
    }
    Ok(topology)
}

/// Has feeds take in whatever the router forwards, and the host send everything to the router.
pub fn open_to_traffic(lab: &Lab, feeds: &[&str]) -> Result<()> {
    for feed in feeds {
        lab.exec(feed, "ip", ["route", "add", "local", "default", "dev", "lo", "table", ALL_LOCAL])?;
        lab.exec(feed, "ip", ["rule", "add", "pref", "0", "iif", "router", "lookup", ALL_LOCAL])?;
        for interface in ["all", "router"] {
            let file = format!("net.ipv4.conf.{interface}.rp_filter=0");
            lab.exec(feed, "sysctl", ["-qw", &file])?;
        }
    }
    lab.exec(HOST, "ip", ["route", "add", "default", "via", "10.9.0.1"])?;
    Ok(())
}
