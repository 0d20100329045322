//! Routes from the control plane to the routers, through a store: joins, deaths of the leader's process and of the store.

use crate::cluster::network::{Network, Shape, Store, Traffic, more_of_bird, more_of_frr, server};
use sluice_router_lab::{has_all, possible_with_frr, share};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Routes that FRR and BIRD each announce besides those of their hosts.
const MORE_ROUTES: u32 = 2000;

/// Returns true if there is a server for the store; records a skip under the test's name if not.
pub fn possible_with_store() -> bool {
    has_store() && possible_with_frr()
}

/// Returns true if etcd is installed.
pub fn has_store() -> bool {
    let version = Command::new("etcd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if version.is_err() {
        sluice_testkit::skipped("etcd is not installed");
    }
    version.is_ok()
}

impl Network {
    /// Waits until a router has the leader's routes: the checksums and the entry are equal.
    pub fn until_equal(&self, node: &str) {
        self.until_equal_to(node, "sluice");
    }

    pub fn until_equal_to(&self, node: &str, leader: &str) {
        self.until("the router has the leader's routes", |network| {
            let of = |node: &str| ["sections", "entry", "waiting"].map(|field| network.stored(node, field));
            network.stored(node, "state") == "follows" && of(node) == of(leader)
        });
    }

    /// Waits until a candidate for the control plane leads, and returns its node and the node of the other candidate.
    pub fn leading(&self) -> (&'static str, &'static str) {
        let candidates = [("sluice", "c2"), ("c2", "sluice")];
        let mut leading = None;
        self.until("a candidate leads", |network| {
            leading = candidates.into_iter().find(|(node, _)| network.stored(node, "state") == "leads");
            leading.is_some()
        });
        leading.unwrap()
    }

    /// Returns true if a router's kernel has a route.
    pub fn has_route(&self, node: &str, prefix: &str) -> bool {
        !self.lab.lab.exec(node, "ip", ["route", "show", prefix]).unwrap().is_empty()
    }

    pub fn frr(&self, line: &str) {
        let folder = self.lab.lab.dir("frr").display().to_string();
        let words = ["--vty_socket", &folder, "-c", "configure", "-c", line];
        self.lab.lab.exec("frr", "vtysh", words).unwrap();
    }
}

#[test]
fn routers_follow_the_control_plane_through_a_store() {
    let _share = share();
    if !possible_with_store() {
        return;
    }
    let mut network = Network::up(Shape { store: 1, more: [MORE_ROUTES; 2], ..Shape::of(1, 2) });
    let last = MORE_ROUTES - 1;
    network.until("the leader has all routes", |network| {
        network.stored("sluice", "state") == "leads"
            && network.stored("sluice", "routes").parse::<u32>().unwrap() >= 2 * MORE_ROUTES + 4
    });
    network.until_equal("r1");
    network.until("the kernel has the routes", |network| {
        [more_of_frr(0), more_of_frr(last), more_of_bird(last)].iter().all(|net| network.has_route("r1", net))
    });
    assert!(network.forwarded("sluice") == 0, "the control plane does not forward");

    // A router leaves the stream, and joins.
    network.commit(&["r2".into()], &["delete cluster store"]);
    network.until("the routes are gone", |network| !network.has_route("r2", &more_of_bird(last)));
    assert_eq!(network.stored("r2", "state"), "none");
    network.commit(&["r2".into()], &["set cluster store endpoint 10.9.0.254"]);
    network.until_equal("r2");
    network.until("the kernel has the routes again", |network| network.has_route("r2", &more_of_bird(last)));

    // The leader's process is killed: the next one goes on with what the store has.
    let traffic = Traffic::start(&network);
    let epoch = network.stored("sluice", "epoch");
    network.kill("sluice", "cluster");
    network.until("the control plane leads again", |network| {
        network.stored("sluice", "state") == "leads" && network.stored("sluice", "epoch") != epoch
    });
    network.frr("no ip route 20.0.0.0/29 blackhole");
    network.until("the change arrives", |network| !network.has_route("r1", &more_of_frr(0)));
    network.until_equal("r1");

    // The processes of a router are killed: its kernel forwards meanwhile.
    network.kill("r1", "cluster");
    network.kill("r2", "rib");
    for node in ["r1", "r2"] {
        network.until_equal(node);
    }

    // The store dies and comes back: routes stay as they are, and changes follow.
    network.store.as_mut().unwrap().kill(&network.lab, 0);
    network.until("the elements say so", |network| {
        ["r1", "b1", "sluice"].iter().all(|node| network.stored(node, "state") == "lost")
    });
    network.until("the status reports it", |network| {
        has_all(&network.lab.ask(&["status"]).to_string(), &["no store", "packets are forwarded"])
    });
    assert!(network.has_route("r1", &more_of_bird(last)));
    network.frr("ip route 100.64.0.0/29 blackhole");
    network.store = Some(Store::start(&network.lab, 1));
    network.until("changes arrive again", |network| network.has_route("r1", "100.64.0.0/29"));
    for node in ["r1", "r2"] {
        network.until_equal(node);
    }
    let outcomes = traffic.stop(&network);
    println!("processes and the store were killed: {outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0), "{outcomes:?}");
}

#[test]
fn another_element_is_elected_and_the_routes_stay() {
    let _share = share();
    if !possible_with_store() {
        return;
    }
    let shape = Shape { store: 3, second: true, more: [100; 2], ..Shape::of(1, 1) };
    let mut network = Network::up(shape);
    let routes = [more_of_frr(0), more_of_bird(99)];
    let has_routes = |network: &Network| routes.iter().all(|net| network.has_route("r1", net));
    network.until("the kernel has the routes", |network| has_routes(network));
    // A server of three dies: all go on with another one.
    network.store.as_mut().unwrap().kill(&network.lab, 0);
    network.until("all elements have another server", |network| {
        ["r1", "b1", "sluice", "c2"].iter().all(|node| {
            let endpoint = network.stored(node, "endpoint");
            !endpoint.is_empty() && !endpoint.starts_with(&server(0))
        })
    });
    network.frr("no ip route 20.0.0.8/29 blackhole");
    network.until("a change arrives", |network| !network.has_route("r1", &more_of_frr(1)));
    let (node, other) = network.leading();
    let leader = network.stored(node, "leader");
    assert_eq!(network.stored(other, "state"), "watches");

    // The leader is cut off: the other one leads, and neighbors open their sessions with it.
    network.lab.lab.exec(node, "ip", ["link", "set", "dev", "eth0", "down"]).unwrap();
    let begun = Instant::now();
    network.until("the other element leads", |network| network.stored(other, "state") == "leads");
    println!("another element leads after {:.1} s", begun.elapsed().as_secs_f64());
    assert!(has_routes(&network), "the routes of the leader before stay");
    network.until("all elements know", |network| {
        ["r1", "b1"].iter().all(|node| network.stored(node, "leader") != leader)
    });
    network.until("neighbors announce their routes to the new leader", |network| network.has_sessions(other));
    assert!(has_routes(&network));
    network.until_equal_to("r1", other);

    // The former leader comes back, and does not write.
    network.lab.lab.exec(node, "ip", ["link", "set", "dev", "eth0", "up"]).unwrap();
    network.until("the former leader watches", |network| network.stored(node, "state") == "watches");
    network.until_equal_to("r1", other);

    // A drained leader gives the lease back.
    let drained = if other == "sluice" { "21" } else { "22" };
    network.commit(&shape.nodes(), &[&format!("set cluster member {drained} drained true")]);
    network.until("the first element leads again", |network| network.stored(node, "state") == "leads");
    assert!(has_routes(&network));
}
