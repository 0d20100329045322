//! A store that is full, compacted under a reader, without most of its servers, or wiped: routes stay, packets go on, and changes arrive when the
//! store serves again.

use crate::cluster::network::{Network, Shape, Store, Traffic, more_of_bird, more_of_frr, server};
use crate::cluster::own_store::pid;
use crate::cluster::stream::possible_with_store;
use sluice_router_lab::share;

/// Calls a method of etcd's JSON gateway.
const CALL: &str = "
import json, sys, urllib.request
address, method, body = sys.argv[1:]
request = urllib.request.Request(f'http://{address}:2379/v3/{method}', body.encode())
print(urllib.request.urlopen(request, timeout=5).read().decode())
";

const SHAPE: Shape = Shape { store: 3, more: [100; 2], ..Shape::of(1, 1) };

fn call(network: &Network, method: &str, body: &str) -> serde_json::Value {
    let said = network.lab.lab.exec("e", "python3", ["-c", CALL, &server(0), method, body]).unwrap();
    serde_json::from_str(&said).unwrap()
}

fn alarm(network: &Network, action: &str) {
    let body = format!("{{\"action\":\"{action}\",\"memberID\":\"0\",\"alarm\":\"NOSPACE\"}}");
    call(network, "maintenance/alarm", &body);
}

#[test]
fn routes_stay_whatever_becomes_of_the_store() {
    let _share = share();
    if !possible_with_store() {
        return;
    }
    let mut network = Network::up(SHAPE);
    let kept = more_of_bird(99);
    let has_kept = |network: &Network| assert!(network.has_route("r1", &kept), "the routes stay");
    network.until("the router has the routes", |network| network.has_route("r1", &kept));
    network.until_equal_to("r1", "sluice");
    let traffic = Traffic::start(&network);

    // Full: nothing can be written, the leader keeps the change, and writes it when there is room.
    alarm(&network, "ACTIVATE");
    network.frr("no ip route 20.0.0.0/29 blackhole");
    network.until("the leader waits for the store", |network| {
        has_kept(network);
        network.stored("sluice", "waiting") != "0" || !network.stored("sluice", "problem").is_empty()
    });
    assert!(network.has_route("r1", &more_of_frr(0)));
    alarm(&network, "DEACTIVATE");
    network.until("the change arrives", |network| !network.has_route("r1", &more_of_frr(0)));
    network.until_equal_to("r1", "sluice");

    // Compacted under a reader: the router reads all routes anew.
    let reader = pid(&network.lab, "r1", "cluster").unwrap();
    network.lab.signal("-STOP", reader);
    let entry = network.stored("sluice", "entry");
    network.frr("no ip route 20.0.0.8/29 blackhole");
    network.until("the leader has written", |network| network.stored("sluice", "entry") != entry);
    let revision = call(&network, "kv/range", "{\"key\":\"AA==\"}")["header"]["revision"].clone();
    let body = format!("{{\"revision\":{revision},\"physical\":true}}");
    call(&network, "kv/compaction", &body);
    network.lab.signal("-CONT", reader);
    network.until("the change arrives", |network| !network.has_route("r1", &more_of_frr(1)));
    network.until_equal_to("r1", "sluice");

    // Without most servers: nothing is decided until they are back.
    for number in [0, 1] {
        network.store.as_mut().unwrap().kill(&network.lab, number);
    }
    network.until("the elements say so", |network| {
        ["r1", "sluice"].iter().all(|node| network.stored(node, "state") == "lost")
    });
    has_kept(&network);
    network.frr("no ip route 20.0.0.16/29 blackhole");
    network.store.as_mut().unwrap().kill(&network.lab, 2);
    network.store = Some(Store::start(&network.lab, SHAPE.store));
    network.until("the change arrives", |network| {
        has_kept(network);
        !network.has_route("r1", &more_of_frr(2))
    });
    network.until_equal_to("r1", "sluice");

    // Wiped: the leader writes all routes anew, and the router keeps its own until then.
    for number in 0..SHAPE.store {
        network.store.as_mut().unwrap().kill(&network.lab, number);
        std::fs::remove_dir_all(network.lab.lab.dir("e").join(format!("e{number}"))).unwrap();
    }
    network.store = Some(Store::start(&network.lab, SHAPE.store));
    network.frr("no ip route 20.0.0.24/29 blackhole");
    network.until("the change arrives", |network| {
        has_kept(network);
        !network.has_route("r1", &more_of_frr(3))
    });
    network.until_equal_to("r1", "sluice");
    let outcomes = traffic.stop(&network);
    println!("the store was full, compacted, without servers, and wiped: {outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0), "{outcomes:?}");
}
