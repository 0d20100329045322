//! Elements that leave and come while packets flow: drained, removed, and replaced by another machine.

use crate::SLUICE;
use crate::cluster::network::{NEAR, Network, Shape, Traffic, inner, more_of_bird, more_of_frr};
use crate::cluster::own_store::pid;
use crate::cluster::stream::possible_with_store;
use serde_json::Value;
use sluice_router_lab::xip::{at, run};
use sluice_router_lab::{alone, share};

impl Network {
    /// Changes an element's administrative state at a node, and returns the reply.
    fn change(&self, node: &str, words: &[&str]) -> Value {
        let reply = at(&self.lab, node, &[&["cluster"], words].concat());
        assert!(reply["state"].is_string(), "{words:?}: {reply}");
        reply
    }

    /// Checks that a change is refused for a reason.
    fn refuses(&self, node: &str, words: &[&str], reason: &str) {
        let output = run(&self.lab, node, &[&["cluster"], words].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && said.contains(reason), "{words:?}: {said}");
    }

    /// Returns the state of an element, as a node knows it.
    fn state_of(&self, node: &str, element: u16) -> String {
        let numbers = self.elements(node, "number");
        let place = numbers.iter().position(|number| *number == element.to_string());
        place.and_then(|place| self.states(node).get(place).cloned()).unwrap_or_default()
    }

    /// Waits until all nodes know a state of an element.
    fn until_state(&self, element: u16, state: &str) {
        self.until("all elements know the state", |network| {
            network.shape.nodes().iter().all(|node| network.state_of(node, element) == state)
        });
    }

    /// Stops the traffic, of which nothing may be lost.
    pub fn without_loss(&self, traffic: Traffic, what: &str) {
        let outcomes = traffic.stop(self);
        println!("{what}: {outcomes:?}");
        assert!(
            outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0),
            "{what}: {outcomes:?}"
        );
    }
}

/// Checks that any element adds up the counters of all.
fn check_totals(network: &Network) {
    let shown = at(&network.lab, "r2", &["show", "cluster", "totals"]);
    let elements = network.shape.nodes().len();
    assert!(shown["answered"] == elements && shown["missing"] == serde_json::json!([]), "{shown:#}");
    let sum = |rows: &str, is_of: &dyn Fn(&Value) -> bool, field: &str| -> u64 {
        let rows = shown[rows].as_array().unwrap().iter().filter(|row| is_of(row));
        rows.filter_map(|row| sluice_load::wide(&row[field])).sum()
    };
    let balanced = sum("counters", &|row| row["reason"] == "balanced", "count");
    assert!((1..=network.counted("b1", "program", "balanced")).contains(&balanced), "{balanced}: {shown:#}");
    for port in ["port 1", "port 2"] {
        let received = sum("forwarding", &|row| row["place"] == port, "packets");
        assert!(received >= 100, "{port}: {shown:#}");
    }
}

/// Checks that any element shows the whole router: ports, engines, and the routes of the control plane.
fn check_whole(network: &Network) {
    let ask = |words: &[&str]| at(&network.lab, "r2", words);
    let shown = ask(&["show", "interfaces"]);
    let ports: Vec<_> = shown["interfaces"].as_array().unwrap().iter().collect();
    let names: Vec<_> = ports.iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1:out1", "1:out2"], "{shown:#}");
    for port in ports {
        let count = |field: &str| sluice_load::wide(&port[field]).unwrap();
        assert!(port["state"] == "up" && count("rx_packets") > 0 && count("tx_packets") > 0, "{port:#}");
        assert!(port["addresses"].to_string().contains("10.0."), "{port:#}");
    }
    let one = ask(&["show", "interfaces", "element", "1"]);
    assert!(one["interfaces"].to_string().contains("\"in0\"") && one["missing"].is_null(), "{one:#}");
    let shown = ask(&["show", "forwarding"]);
    let engines = shown["elements"].as_array().unwrap();
    assert!(
        engines.len() == network.shape.nodes().len() && shown["missing"] == serde_json::json!([]),
        "{shown:#}"
    );
    let port = shown["ports"].as_array().unwrap().iter().find(|port| port["name"] == "1:out1").unwrap();
    assert!(port["counts"].as_array().is_some_and(|counts| !counts.is_empty()), "{shown:#}");
    assert!(ask(&["show", "forwarding", "element", "1"])["live"] == true);

    check_routes(network);
}

/// Checks that the routes of all elements are compared.
fn check_routes(network: &Network) {
    let (leader, _) = network.leading();
    ["r1", "r2"].iter().for_each(|node| network.until_equal_to(node, leader));
    // An element that is an entry of the stream behind has other checksums for a moment.
    network.until("all elements have the same routes", |network| {
        let text = run_text(network, "b1", &["show", "routes"]);
        text.contains("all elements that answered have the same") && !text.contains("missing on")
    });
    // Either candidate may lead, and the routes are compared with the leader's.
    let number = if leader == "sluice" { 21 } else { 22 };
    let net = more_of_frr(5);
    let of_route = || at(&network.lab, "b1", &["show", "routes", &net]);
    let shown = of_route();
    assert!(shown["missing"] == serde_json::json!([]) && shown["source"] == number, "{shown:#}");
    // A router without the store has no routes.
    network.commit(&["r2".into()], &["delete cluster store"]);
    network.until("the route is missing on the router", |_| {
        let differences = of_route()["routes"][0]["differences"].clone();
        differences[0]["element"] == 12 && differences[0]["kind"] == "missing"
    });
    let text = run_text(network, "b1", &["show", "routes"]);
    assert!(text.contains("[missing on 12]") && text.contains("other checksums: element 12"), "{text}");
    let members = ["11", "21", "22"].map(|element| format!("set cluster store member {element}"));
    network.commit(&["r2".into()], &members.each_ref().map(String::as_str));
    network.until("the router has the route again", |_| {
        of_route()["routes"][0]["differences"] == serde_json::json!([])
    });
    network.until("its kernel has the routes", |network| have_routes(network, &["r2"]));
}

/// Returns the output of a command as text.
fn run_text(network: &Network, node: &str, words: &[&str]) -> String {
    let mut command = network.lab.lab.command(node, SLUICE).unwrap();
    command.args(words).arg("--run-dir").arg(network.lab.lab.dir(node).join("run"));
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

/// A balancer, two routers and two candidates, whose servers of the store are on the first router and on the candidates.
const SHAPE: Shape = Shape { own_store: true, second: true, more: [100; 2], ..Shape::of(1, 2) };

/// Routes that the neighbors announce.
fn routes() -> [String; 2] {
    [more_of_frr(0), more_of_bird(99)]
}

fn have_routes(network: &Network, nodes: &[&str]) -> bool {
    nodes.iter().all(|node| routes().iter().all(|net| network.has_route(node, net)))
}

#[test]
fn a_router_is_drained_and_removed_without_a_lost_packet() {
    let _share = share();
    if !possible_with_store() {
        return;
    }
    let network = Network::up(SHAPE);
    network.until("the routers have the routes", |network| have_routes(network, &["r1", "r2"]));
    drain_and_remove(&network);
}

#[test]
fn elements_of_each_role_leave_and_come_without_a_lost_packet() {
    let program = sluice_testkit::long!("cluster leave");
    let _alone = alone();
    if !possible_with_store() {
        return;
    }
    let network = Network::up_with(SHAPE, &program);
    network.until("the routers have the routes", |network| have_routes(network, &["r1", "r2"]));
    drain_and_remove(&network);
    replace(&network);
    let candidate = drain_leader(&network);
    network.until("hosts reach each other again", |network| {
        NEAR.iter().all(|from| network.ping(from, 1, "64").contains(" 1 received"))
    });
    // The other candidate leaves under traffic; the leader, and two of three servers of the store, serve on.
    let traffic = Traffic::start(&network);
    network.change("b1", &["drain", candidate]);
    network.change("b1", &["remove", candidate]);
    network.until_state(candidate.parse().unwrap(), "removed");
    network.frr("no ip route 20.0.0.16/29 blackhole");
    network.until("a change arrives", |network| !network.has_route("r1", &more_of_frr(2)));
    network.without_loss(traffic, "a candidate was drained and removed");
}

/// Reads from and writes to a server of the store, with the certificate in a folder.
const CLIENT: &str = "
import base64, json, ssl, sys, urllib.request
address, folder = sys.argv[1:]
context = ssl._create_unverified_context()
context.load_cert_chain(f'{folder}/element.crt', f'{folder}/element.key')
def call(method, body):
    try:
        request = urllib.request.Request(f'https://{address}:2379/v3/kv/{method}', json.dumps(body).encode())
        return 'done' if urllib.request.urlopen(request, timeout=5, context=context).status == 200 else 'failed'
    except Exception as error:
        return f'refused: {error}'
key = base64.b64encode(b'/stranger').decode()
print('read', call('range', {'key': key}))
print('write', call('put', {'key': key, 'value': key}))
";

/// Returns the answer of a server of the store to the certificate of a node, asked from the balancer.
fn asked_with(network: &Network, address: &str, node: &str) -> String {
    let folder = network.lab.lab.dir(node).join("run/state/credentials/cluster").display().to_string();
    network.lab.lab.exec("b1", "python3", ["-c", CLIENT, address, &folder]).unwrap()
}

/// Checks that the store refuses the certificate of a removed element, and that the element leaves although it reads from no store.
fn check_revoked(network: &Network) {
    for server in [21, 22] {
        network.until("the server refuses the certificate", |network| {
            asked_with(network, &inner(server), "r1").matches("refused").count() == 2
        });
        let other = asked_with(network, &inner(server), "r2");
        assert_eq!(other.matches("done").count(), 2, "{other}");
    }
    network.kill("r1", "cluster");
    network.until("a process that begins anew learns from others that it is no element", |network| {
        network.state_of("r1", 11) == "removed"
            && !network.lab.lab.exec("r1", "ip", ["link", "show"]).unwrap().contains("port1")
    });
}

/// The first router is drained and removed, with its server of the store, under traffic.
fn drain_and_remove(network: &Network) {
    // Changes by which packets would be lost are refused.
    network.refuses("b1", &["remove", "11"], "is in service");
    network.refuses("b1", &["replace", "11"], "is in service");
    network.refuses("b1", &["drain", "1"], "outer ports");
    network.refuses("b1", &["drain", "99"], "there is no element 99");

    // A router is drained and removed, with its server of the store, and the other one forwards.
    check_whole(network);
    let traffic = Traffic::start(network);
    let reply = network.change("b1", &["drain", "11"]);
    assert_eq!((&reply["element"], &reply["state"]), (&11.into(), &"drained".into()), "{reply}");
    network.until_state(11, "drained");
    network.refuses("r2", &["drain", "12"], "no other element in service");
    check_totals(network);
    let server = pid(&network.lab, "r1", "cluster.store");
    assert!(server.is_some());
    let said = asked_with(network, &inner(21), "r1");
    assert_eq!(said.matches("done").count(), 2, "{said}");
    network.change("sluice", &["remove", "11"]);
    network.until_state(11, "removed");
    network.until("the element has left", |network| {
        let links = network.lab.lab.exec("r1", "ip", ["link", "show"]).unwrap();
        !links.contains("port1") && pid(&network.lab, "r1", "cluster.store").is_none()
    });
    network.frr("no ip route 20.0.0.8/29 blackhole");
    network.until("a change arrives", |network| !network.has_route("r2", &more_of_frr(1)));
    network.without_loss(traffic, "a router was drained and removed");
    network.refuses("b1", &["undrain", "11"], "was removed");
    let said = run(&network.lab, "r1", &["show", "processes", "--element", "21"]);
    assert!(!said.status.success(), "a removed element reads from others");
    check_revoked(network);
}

/// Another machine takes the place of the removed router: the certificate of the machine before is of no use.
fn replace(network: &Network) {
    let reply = network.change("b1", &["replace", "11"]);
    assert_eq!((&reply["state"], &reply["machine"]), (&"drained".into(), &2.into()), "{reply}");
    network.until("the machine before is no element", |network| network.state_of("r1", 11) == "removed");
    let file = network.lab.lab.dir("r1").join("again").display().to_string();
    let invite = ["cluster", "invite", "11", "--address", &inner(11), "--machine", "2", "--into", &file];
    for (node, words) in [("sluice", &invite[..]), ("r1", &["cluster", "join", &file])] {
        assert!(run(&network.lab, node, words).status.success(), "{words:?}");
    }
    network.kill("r1", "cluster");
    network.until("the machine runs a server of the store", |network| {
        pid(&network.lab, "r1", "cluster.store").is_some()
    });
    let (leader, other) = network.leading();
    network.until_equal_to("r1", leader);
    // Its server serves: without it, one of three servers would be left.
    let killed = pid(&network.lab, other, "cluster.store").unwrap();
    network.lab.signal("-STOP", killed);
    network.frr("no ip route 20.0.0.24/29 blackhole");
    network.until("a change arrives", |network| !network.has_route("r2", &more_of_frr(3)));
    network.lab.signal("-CONT", killed);
    network.until("the machine is ready", |network| {
        let known = network.lab.lab.exec("r1", "ip", ["neigh", "show"]).unwrap();
        have_routes(network, &["r1"]) && known.contains("PERMANENT")
    });
    let before = network.forwarded("r1");
    let traffic = Traffic::start(network);
    network.change("r1", &["undrain", "11"]);
    network.until("the machine forwards", |network| network.forwarded("r1") > before + 100);
    network.without_loss(traffic, "another machine came");
    assert_eq!(network.elements("b1", "machine").iter().filter(|machine| *machine == "2").count(), 1);
}

/// The leader is drained: the other candidate leads, and the routers keep the routes while neighbors open their sessions anew. Returns the number
/// of the element that led.
fn drain_leader(network: &Network) -> &'static str {
    let (leader, other) = network.leading();
    let drained = if leader == "sluice" { "21" } else { "22" };
    network.change("b1", &["drain", drained]);
    network.until("the other element leads", |network| network.stored(other, "state") == "leads");
    network.until("neighbors open their sessions with it", |network| {
        assert!(have_routes(network, &["r1", "r2"]), "the routes stay");
        network.has_sessions(other)
    });
    network.change(other, &["undrain", drained]);
    network.until("the element has no state of its own", |network| {
        ["up", "own"].contains(&network.state_of(leader, drained.parse().unwrap()).as_str())
    });
    drained
}
