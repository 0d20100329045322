//! A cluster as one router: BGP through balancers, one hop for hosts, a router that dies under traffic and one that joins, forged frames.

mod bad_store;
mod classes;
mod commit_steps;
mod configuration;
mod kills;
mod leave;
mod losses;
mod network;
mod own_store;
mod packets;
mod rates;
mod stream;

use network::{INTERVAL, NEAR, Network, Shape, Traffic};
use own_store::pid;
use sluice_router_lab::xip::{at, run};
use sluice_router_lab::{has_all, possible_with_frr, share};

/// Sends a hello frame and an announcement of router 11 with wrong tags and the largest epoch, by the interface that is named.
const FORGER: &str = "
import socket, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind((sys.argv[1], 0))
for kind in (1, 2):
    head = bytes([1, kind, 0, 11]) + bytes(4) + b'\\xff' * 16
    link.send(bytes.fromhex('035c00000000' '025c000b0000' '88b5') + head + bytes(32))
";

/// Names of ports that the router does not have, and of ports by the names that people read, are refused with the ports there are.
fn check_names_of_ports(network: &Network) {
    for (name, reason) in [
        ("port9", "the router has no port `port9`; expected one of port1 (1:out1), port2 (1:out2)"),
        ("1:out9", "the router has no port `1:out9`; expected one of port1 (1:out1), port2 (1:out2)"),
        ("1:out2", "expected `port2`"),
    ] {
        let statement = format!("set protocols static route 192.0.2.0/24 next-hop 10.0.1.2 interface {name}");
        let output = run(&network.lab, "b1", &["configure", &statement, "commit check"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && said.contains(reason), "{name}: {said}");
    }
}

/// A balancer's interfaces are promiscuous while its program is there, whoever of its processes dies.
fn check_promiscuity(network: &Network) {
    let is_promiscuous = |interface: &str| {
        let shown = network.lab.lab.exec("b1", "ip", ["link", "show", "dev", interface]).unwrap();
        shown.contains("PROMISC")
    };
    assert!(["in0", "out1", "out2"].into_iter().all(is_promiscuous));
    let before = pid(&network.lab, "b1", "fea").unwrap();
    network.lab.kill(before);
    assert!(["in0", "out1", "out2"].into_iter().all(is_promiscuous));
    network.until("the next FEA has the program", |network| {
        let shown = at(&network.lab, "b1", &["show", "forwarding", "element", "1"]);
        let is_put = shown["programs"][0]["component"] == "cluster";
        is_put && pid(&network.lab, "b1", "fea").is_some_and(|new| new != before)
    });
    // A flag that somebody takes away comes back.
    network.lab.lab.exec("b1", "ip", ["link", "set", "dev", "out2", "promisc", "off"]).unwrap();
    network.until("the interface is promiscuous again", |_| is_promiscuous("out2"));
    network.commit(&["b1".into()], &["delete cluster", "delete interfaces forwarding"]);
    network
        .until("the interfaces are as before", |_| !["in0", "out1", "out2"].into_iter().any(is_promiscuous));
    let back = run(&network.lab, "b1", &["configure", "rollback 1", "commit"]);
    assert!(back.status.success(), "{}", String::from_utf8_lossy(&back.stdout));
    network.until("the balancer has its program again", |network| {
        at(&network.lab, "b1", &["show", "cluster"])["balances"] == true
            && ["in0", "out1", "out2"].into_iter().all(is_promiscuous)
    });
}

/// A balancer keeps its program under the engines that run it, without a loss, and refuses the engine that does not.
fn check_engines(network: &Network) {
    let traffic = Traffic::start(network);
    for engine in ["xdp", "both"] {
        network.commit(&["b1".into()], &[&format!("set interfaces forwarding engine {engine}")]);
    }
    network.without_loss(traffic, "the engines changed");
    let statement = "set interfaces forwarding engine kernel";
    let output = run(&network.lab, "b1", &["configure", statement, "commit check"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("this element is a balancer"), "{said}");
}

#[test]
fn neighbors_see_one_router_made_of_a_balancer_a_router_and_a_control_plane() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let network = Network::up(Shape::of(1, 1));
    // One hop for each family, which answers with the port's own address.
    for (from, router) in [(NEAR[0], "10.0.1.1"), (NEAR[4], "fd01::1")] {
        let said = network.ping(from, 1, "1");
        assert!(said.to_lowercase().contains(&format!("from {router}")), "{said}");
        let said = network.ping(from, 3, "64");
        assert!(has_all(&said, &[" 3 received", "ttl=63"]), "{said}");
    }
    // The router's own machines forward, and the control plane does not.
    assert!(network.forwarded("r1") > 0 && network.forwarded("sluice") == 0);
    for node in ["frr", "bird"] {
        let known = network.lab.lab.exec(node, "ip", ["neigh", "show"]).unwrap();
        assert!(known.contains("02:00:00:00:01:0") && !known.contains("02:5c"), "{known}");
    }
    for reason in ["balanced", "control", "returned", "from-control", "hello", "announced"] {
        assert!(network.counted("b1", "program", reason) > 0, "{reason}");
    }
    // Frames that nobody with the key has made change nothing.
    let _sent = network.lab.lab.exec("s", "python3", ["-c", FORGER, "b1"]).unwrap();
    network.until("forged frames are counted", |network| {
        network.counted("b1", "program", "forged") >= 1 && network.counted("b1", "process", "forged") >= 1
    });
    assert!(network.states("b1").iter().all(|state| state == "up" || state == "own"));
    // The routers' links have the neighbors that the control plane knows, and ask nobody.
    let known = network.lab.lab.exec("r1", "ip", ["neigh", "show", "dev", "port2"]).unwrap();
    assert!(has_all(&known, &["10.0.2.2", "fd02::2", "PERMANENT"]), "{known}");
    // A link that somebody removes is made again, with addresses and neighbors.
    network.lab.lab.exec("r1", "ip", ["link", "del", "port2"]).unwrap();
    network.until("the link is back", |network| {
        NEAR.iter().all(|from| network.ping(from, 1, "64").contains(" 1 received"))
    });
    check_engines(&network);
    // Without the cluster in its configuration, a machine has no links.
    network.commit(&["r1".into()], &["delete cluster"]);
    network.until("the links are gone", |network| {
        !network.lab.lab.exec("r1", "ip", ["link", "show"]).unwrap().contains("port1")
    });
    check_names_of_ports(&network);
    check_promiscuity(&network);
}

#[test]
fn routers_die_and_join_under_traffic() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let shape = Shape::of(2, 2);
    let network = Network::up(shape);
    let shares = network.elements("b1", "share");
    assert!(shares.iter().filter(|rows| **rows != "0").count() == 2, "{shares:?}");

    // A machine that is cut off: its flows go on by the other one.
    let traffic = Traffic::start(&network);
    network.lab.lab.exec("r1", "ip", ["link", "set", "dev", "eth0", "down"]).unwrap();
    network.until("the router is lost", |network| {
        shape.balancer_nodes().iter().all(|node| network.states(node).contains(&"silent".to_owned()))
    });
    let outcomes = traffic.stop(&network);
    println!("a router was cut off: {outcomes:?}");
    // On a busy machine a router counts as silent late.
    let lost = outcomes.iter().map(|outcome| outcome.lost).max().unwrap_or_default();
    println!("a flow lost at most {lost} requests: {} ms", (INTERVAL * lost).as_millis());
    assert!(outcomes.iter().all(|outcome| outcome.lost < outcome.sent / 4), "{outcomes:?}");
    assert!(
        network.counted("b1", "program", "passed-over") + network.counted("b2", "program", "passed-over") > 0
    );

    // The machine comes back while it is drained, and takes flows when it is not any more.
    network.commit(&shape.nodes(), &["set cluster member 11 drained true"]);
    network.lab.lab.exec("r1", "ip", ["link", "set", "dev", "eth0", "up"]).unwrap();
    network.until("the router is present", |network| {
        shape.balancer_nodes().iter().all(|node| !network.states(node).contains(&"silent".to_owned()))
            && network
                .lab
                .lab
                .exec("r1", "ip", ["neigh", "show", "dev", "port2"])
                .unwrap()
                .contains("PERMANENT")
            && network.lab.lab.exec("r1", "ip", ["route"]).unwrap().contains("203.0.113.0/24")
    });
    let before = network.forwarded("r1");
    let traffic = Traffic::start(&network);
    network.commit(&shape.nodes(), &["delete cluster member 11 drained"]);
    network.until("the router forwards", |network| network.forwarded("r1") > before + 100);
    let outcomes = traffic.stop(&network);
    println!("a router joined: {outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0), "{outcomes:?}");

    // Packets go on while processes die and come back.
    let traffic = Traffic::start(&network);
    for (node, component) in
        [("b1", "cluster"), ("r2", "cluster"), ("b2", "fea"), ("r1", "fea"), ("sluice", "cluster")]
    {
        network.kill(node, component);
    }
    network.until("all elements are present", |network| {
        shape
            .nodes()
            .iter()
            .all(|node| network.states(node).iter().all(|state| state == "up" || state == "own"))
    });
    let outcomes = traffic.stop(&network);
    println!("processes were killed: {outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0), "{outcomes:?}");
}
