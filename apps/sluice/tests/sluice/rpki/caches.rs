//! Caches that die: data stay, another cache takes over, and in the end data expire.

use crate::SLUICE;
use crate::rpki::network::{self, Cache, PORT, Plan};
use serde_json::Value;
use sluice_base::{Asn, IpPrefix};
use sluice_load::table::{Announcement, RoutingTable};
use sluice_router_lab::{RouterLab, share};
use sluice_validation::AnyVrp;
use std::path::Path;
use std::time::Duration;

const POLICY: &str =
    "policy { policy-statement rov { term invalid { from { validation invalid; } then { reject; } } } }";

const PATIENCE: Duration = Duration::from_secs(60);

/// The cache whose data are in effect, and the states of all caches.
fn caches(lab: &RouterLab) -> (String, Vec<String>) {
    let shown = lab.ask(&["show", "rpki", "cache"]);
    let all: Vec<&Value> = shown["caches"].as_array().into_iter().flatten().collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let source = all.iter().find(|cache| cache["source"] == true).map(|cache| text(&cache["name"]));
    (source.unwrap_or_default(), all.iter().map(|cache| text(&cache["state"])).collect())
}

fn routes(lab: &RouterLab) -> usize {
    let (count, _) = lab.rib("bgp");
    count.v4 + count.v6
}

/// Three prefixes that the feed announces.
fn prefixes() -> Vec<IpPrefix> {
    ["192.0.2.0/24", "198.51.100.0/24", "2001:db8:77::/48"].iter().map(|text| text.parse().unwrap()).collect()
}

fn table() -> RoutingTable {
    RoutingTable::new(prefixes().into_iter().map(|prefix| Announcement { prefix, path: vec![Asn(65001)] }))
}

/// A payload that makes the route of a prefix invalid.
fn vrp(n: usize) -> AnyVrp {
    let prefix = prefixes()[n];
    AnyVrp::new(prefix, prefix.len(), Asn(65002)).unwrap()
}

/// A cache restarts with another session, and other data that the router can learn by a Reset Query alone.
pub fn run_with_a_restart() {
    let _share = share();
    let router = format!(
        "{POLICY}\nrpki {{ cache near {{ address 10.9.0.11; port {PORT}; retry-interval 1; refresh-interval 1; }} }}"
    );
    let table = table();
    let plan = Plan { router: &router, bgp: "", table: &table, has_others: false };
    let (mut lab, mut cache) = network::up(&plan, Path::new(SLUICE), &[vrp(0)]);
    lab.until("the cache serves", |lab| caches(lab).0 == "near" && routes(lab) == 2);
    cache.kill();
    cache.set([&vrp(1), &vrp(2)]);
    cache.start(&mut lab);
    lab.until("the data of the new session are in effect", |lab| routes(lab) == 1);
    assert_eq!(caches(&lab), ("near".into(), vec!["ready".into()]));
}

pub fn run() {
    let _share = share();
    let table = table();
    let router = format!(
        "{POLICY}\nrpki {{\n    cache near {{ address 10.9.0.11; port {PORT}; preference 1; retry-interval 1; expire-interval 20; refresh-interval 2; }}\n    \
         cache far {{ address 2001:db8:9::12; port {PORT}; preference 2; retry-interval 1; expire-interval 6; refresh-interval 2; }}\n}}"
    );
    let plan = Plan { router: &router, bgp: "", table: &table, has_others: false };
    let mut lab = RouterLab::up(&plan.topology(), Path::new(SLUICE));
    lab.until("the routes are there", |lab| routes(lab) == 3);
    // No cache runs: nothing is validated, and the status reports that after a while.
    assert_eq!(lab.ask(&["show", "rpki"])["has_data"], false);
    let (mut near, mut far) = (Cache::new(&lab, "cache1"), Cache::new(&lab, "cache2"));
    near.set([&vrp(0)]);
    far.set([&vrp(0), &vrp(2)]);
    far.start(&mut lab);
    lab.until("the only cache serves", |lab| caches(lab).0 == "far" && routes(lab) == 1);
    near.start(&mut lab);
    lab.until("the preferred cache serves", |lab| {
        caches(lab) == ("near".into(), vec!["ready".into(), "idle".into()])
    });
    lab.until("by its data", |lab| routes(lab) == 2);
    near.kill();
    lab.until("the second cache takes over", |lab| caches(lab).0 == "far" && routes(lab) == 1);
    far.kill();
    // The data stay: those of the cache that served last.
    lab.until("the loss is seen", |lab| caches(lab).1.iter().all(|state| state != "ready"));
    assert!(lab.whole_log().contains("rpki.cache.lost"));
    network::until_payloads(&lab, PATIENCE, None);
    lab.until("nothing is validated any more", |lab| routes(lab) == 3);
    let log = lab.whole_log();
    assert!(log.contains("rpki.cache.expired") && log.contains("rpki.data.none"), "{log}");
    assert!(log.contains("bgp.validation.ends"));
    near.start(&mut lab);
    lab.until("a cache that is back serves again", |lab| caches(lab).0 == "near" && routes(lab) == 2);
}
