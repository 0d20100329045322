//! The neighbor that feeds the router under test: BIRD behind a link of its own.

use sluice_lab::Topology;
use sluice_load::RoutingTable;
use sluice_load::bird::Feed;

/// Its address toward the router, which is AS 64500 at 10.1.0.1.
pub const FEED: &str = "10.1.0.2";

/// The node, and the router's link to it.
const NODE: &str = "
[nodes.feed]
daemon = 'bird'
[[links]]
a = 'sluice:feed'
b = 'feed:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
";

/// Returns the announcements of the feed, and their receiver.
pub fn feed_of(table: &RoutingTable) -> Feed<'_> {
    Feed {
        router_id: FEED,
        local_as: 64501,
        local: (FEED, "2001:db8:1::2"),
        neighbor: ("10.1.0.1", 64500),
        table,
    }
}

/// Returns a topology with the feed added, configured with `configuration`.
pub fn fed(topology: &str, configuration: String) -> Topology {
    let mut topology: Topology = format!("{NODE}{topology}").parse().unwrap();
    topology.nodes.get_mut("feed").unwrap().config = Some(configuration);
    topology
}
