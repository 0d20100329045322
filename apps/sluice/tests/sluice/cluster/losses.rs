//! Machines and links that are lost under traffic: sessions of neighbors behind other balancers stay up, and only ports of a lost balancer lose
//! packets.

use crate::cluster::network::{Network, Shape, Traffic};
use crate::cluster::stream::possible_with_store;
use serde_json::Value;
use sluice_router_lab::{alone, possible_with_frr};

/// Two balancers: FRR and a host are behind the first one, BIRD is behind the second one.
const SHAPE: Shape = Shape { own_store: true, second: true, third: true, more: [10; 2], ..Shape::of(2, 2) };

/// The inner and outer links of a machine of the router.
fn links(node: &str) -> &'static [&'static str] {
    match node {
        "b1" => &["in0", "out1", "out3"],
        "b2" => &["in0", "out2"],
        _ => &["eth0"],
    }
}

fn set_links(network: &Network, node: &str, state: &str) {
    for link in links(node) {
        network.lab.lab.exec(node, "ip", ["link", "set", "dev", link, state]).unwrap();
    }
}

/// Returns how often each of FRR's sessions was established, and whether all are up.
fn sessions(network: &Network) -> (Vec<u64>, bool) {
    let folder = network.lab.lab.dir("frr").display().to_string();
    let words = ["--vty_socket", &folder, "-c", "show bgp neighbors json"];
    let said = network.lab.lab.exec("frr", "vtysh", words).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap_or_default();
    let neighbors: Vec<&Value> =
        said.as_object().into_iter().flatten().map(|(_, neighbor)| neighbor).collect();
    let counts =
        neighbors.iter().filter_map(|neighbor| neighbor["connectionsEstablished"].as_u64()).collect();
    let is_up = neighbors.iter().all(|neighbor| neighbor["bgpState"] == "Established");
    (counts, is_up && neighbors.len() == 2)
}

/// Waits until all elements are present.
fn until_present(network: &Network) {
    network.until("all elements are present", |network| {
        network.shape.nodes().iter().all(|node| network.states(node).iter().all(|s| s == "up" || s == "own"))
    });
}

#[test]
fn losses_of_machines_and_links_cost_neighbors_of_other_balancers_no_session() {
    let program = sluice_testkit::long!("cluster losses");
    let _alone = alone();
    if !possible_with_frr() || !possible_with_store() {
        return;
    }
    let network = Network::up_with(SHAPE, &program);
    network.until("the host is reached", |network| network.reaches_third());
    network.until("FRR's sessions are up", |network| sessions(network).1);
    let before = sessions(&network);
    let (leader, other) = network.leading();
    // A router, the candidate that does not lead, and the balancer of another neighbor, each with all links: the machine lost its power.
    for node in ["r1", other, "b2"] {
        let traffic = Traffic::start_to_third(&network);
        set_links(&network, node, "down");
        let watcher = if node == "r1" { "r2" } else { "r1" };
        network
            .until("the machine is lost", |network| network.states(watcher).contains(&"silent".to_owned()));
        let outcomes = traffic.stop(&network);
        println!("{node} was lost: {outcomes:?}");
        // The flows of a router wait until the balancer passes it over; the loss of others costs nothing.
        let may_lose = if node == "r1" { 4 } else { u32::MAX };
        assert!(
            outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost <= outcome.sent / may_lose),
            "{node}: {outcomes:?}"
        );
        assert_eq!(sessions(&network), before, "FRR's sessions stay, {node} is lost");
        set_links(&network, node, "up");
        until_present(&network);
    }
    assert_eq!(network.stored(leader, "state"), "leads");
    network.until("BIRD's sessions are back", |network| network.has_sessions(leader));
    assert_eq!(sessions(&network), before, "FRR's sessions stay");
}
