//! The state that BGP and the RIB hand over: a router with two neighbors of a LAN.

use crate::write;
use serde_json::{Value, json};
use sluice_lab::Topology;
use sluice_load::bird::Feed;
use sluice_router_lab::table::internet_table;
use sluice_router_lab::{RouterLab, executable, recorder};
use std::collections::BTreeMap;
use std::path::Path;

/// The routes of the Internet's table that the feed announces, by family. A second neighbor of the LAN announces
/// half of them on another path.
const ROUTES: (usize, usize) = (2000, 500);

const CONFIGURATION: &str = "
policy {
    damping slow { half-life 15; suppress 3000; reuse 750; max-suppress-time 60; }
    community own { member [ 64500:1 ]; }
    prefix-list low { prefix [ \"0.0.0.0/2 orlonger\" ]; }
    policy-statement marked {
        term invalid { from { validation invalid; } then { reject; } }
        term low { from { prefix-list low; } then { local-preference 200; community-add own; accept; } }
        term rest { then { damping slow; accept; } }
    }
}
rpki { roa 192.0.2.0/24 64500; roa 2001:db8:a::/48 64500 { max-length 56; } }
protocols {
    static { route 192.0.2.0/24 { discard; } route 198.51.100.0/24 { next-hop 10.1.0.3; } route 2001:db8:a::/48 { discard; } }
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        default-policy accept;
        network [ 192.0.2.0/24 2001:db8:a::/48 ];
        redistribute static;
        aggregate 100.0.0.0/8;
        neighbor 10.1.0.2 { peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; damping; import marked; }
        group dynamic;
        listen-range 10.1.0.0/29 { group dynamic; peer-as 64502; }
    }
}
";

/// A feed of the LAN with its own address, AS and table.
fn feed(table: &sluice_load::RoutingTable, host: u8, asn: u32) -> String {
    let (four, six) = (format!("10.1.0.{host}"), format!("2001:db8:1::{host}"));
    let local = (four.as_str(), six.as_str());
    Feed { router_id: &four, local_as: asn, local, neighbor: ("10.1.0.1", 64500), table }.config()
}

/// A router with two neighbors on a LAN.
fn topology(table: &sluice_load::RoutingTable) -> Topology {
    let first = table.thinned(ROUTES.0, ROUTES.1);
    let second = first.thinned(ROUTES.0 / 2, ROUTES.1 / 2);
    let mut text = format!(
        "[nodes.lan]\ndaemon = 'switch'\n[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''{CONFIGURATION}'''\n"
    );
    for (name, host) in [("sluice", 1), ("feed", 2), ("other", 3)] {
        text.push_str(&format!(
            "[[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.1.0.{host}/24', '2001:db8:1::{host}/64']\n"
        ));
    }
    text.push_str("[nodes.feed]\ndaemon = 'bird'\n[nodes.other]\ndaemon = 'bird'\n");
    let mut topology: Topology = text.parse().unwrap();
    topology.nodes.get_mut("feed").unwrap().config = Some(feed(&first, 2, 64501));
    topology.nodes.get_mut("other").unwrap().config = Some(feed(&second, 3, 64502));
    topology
}

/// Records the state of a component in a folder, with what a reader must find.
pub fn record(component: &str, folder: &Path) {
    let table = internet_table().expect("the shared data");
    let lab = RouterLab::up(&topology(&table), executable());
    lab.until("both neighbors have announced their routes", |lab| {
        let of = |neighbor: &str, families: &[usize]| {
            let shown = lab.neighbor(neighbor)["families"].to_string();
            families.iter().all(|count| shown.contains(&format!("\"prefixes_received\":\"{count}\"")))
        };
        of("10.1.0.2", &[ROUTES.0, ROUTES.1]) && of("10.1.0.3", &[ROUTES.0 / 2])
    });
    lab.until("routes of all kinds are there", |lab| {
        ["100.0.0.0/8", "192.0.2.0/24", "198.51.100.0/24"]
            .iter()
            .all(|prefix| lab.ask(&["show", "bgp", "routes", prefix])["routes"][0]["paths"].is_array())
    });
    lab.until("the RIB has them", |lab| lab.ask(&["show", "summary"])["idle"] == true);
    let expected = if component == "bgp" { of_bgp(&lab) } else { of_rib(&lab) };
    write(&folder.join("state"), &recorder::record(&lab, component));
    let text = serde_json::to_string_pretty(&expected).unwrap();
    write(&folder.join("expected.json"), (text + "\n").as_bytes());
}

/// One of this many routes is named in what a reader of a recording must find.
const EACH: usize = 50;

/// Returns what a reader of the recording of BGP must find: sessions, the numbers of prefixes and paths, and some paths.
fn of_bgp(lab: &RouterLab) -> Value {
    let routes = |option: &[&str]| -> Vec<Value> {
        let shown = lab.ask(&[&["show", "bgp", "routes"], option].concat());
        shown["routes"].as_array().unwrap().clone()
    };
    let family = |routes: Vec<Value>| {
        let paths = |route: &Value| route["paths"].as_array().unwrap().clone();
        let count: usize = routes.iter().map(|route| paths(route).len()).sum();
        let some = routes.iter().step_by(EACH).map(|route| {
            let paths: Vec<String> = paths(route)
                .iter()
                .map(|path| {
                    let text = |key: &str| path[key].as_str().unwrap_or_default().to_owned();
                    format!("{} {} {}", text("neighbor"), path["local_pref"], text("as_path"))
                })
                .collect();
            (route["prefix"].as_str().unwrap().to_owned(), json!(paths))
        });
        let some: serde_json::Map<String, Value> = some.collect();
        json!({ "prefixes": routes.len(), "paths": count, "some": some })
    };
    let sessions = lab.ask(&["show", "bgp", "summary"])["sessions"].as_array().unwrap().clone();
    let sessions: Vec<Value> = sessions
        .iter()
        .map(|session| json!({ "address": session["address"], "state": session["state"] }))
        .collect();
    json!({ "sessions": sessions, "ipv4": family(routes(&[])), "ipv6": family(routes(&["--v6"])) })
}

/// Returns what a reader of the recording of the RIB must find: the numbers of routes by origin, and some routes.
fn of_rib(lab: &RouterLab) -> Value {
    let shown = lab.ask(&["show", "routes"])["routes"].as_array().unwrap().clone();
    let mut origins: BTreeMap<String, usize> = BTreeMap::new();
    for route in &shown {
        *origins.entry(route["origin"].as_str().unwrap().into()).or_default() += 1;
    }
    let some = shown.iter().step_by(EACH).map(|route| {
        let first = &route["next_hops"][0]["gateway"];
        json!({ "prefix": route["prefix"], "origin": route["origin"], "distance": route["distance"], "gateway": first })
    });
    let some: Vec<Value> = some.collect();
    json!({ "origins": origins, "some": some })
}
