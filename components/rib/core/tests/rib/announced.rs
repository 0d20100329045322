//! Subscriptions before the decision.

use crate::bench::policies::{compiled, policies, policy};
use crate::bench::{Bench, batch};
use sluice_base::{
    Distance, Duration, FamilyId, Ipv4Prefix, Ipv6Prefix, Metric, Provenance, RouteAction, RouteKind,
    TableId, Tag,
};
use sluice_rib::{Input, SubscriptionId};
use std::collections::BTreeMap;

type Received = BTreeMap<(String, Ipv4Prefix), String>;

fn bench() -> Bench {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin_with_kinds("bgp", 20, true, &["ibgp"]);
    b.set("static", "192.0.2.0/24", "10.0.0.2");
    b.set("bgp", "192.0.2.0/24", "172.16.0.9");
    b.set("bgp", "198.51.100.0/24", "10.0.0.3");
    b
}

fn subscribe(b: &mut Bench, origins: &[&str]) -> SubscriptionId {
    let origins = origins.iter().map(ToString::to_string).collect();
    let id = b.rib.subscribe_announced::<Ipv4Prefix>(TableId::MAIN, origins);
    b.idle();
    id
}

fn shown(received: &Received) -> Vec<String> {
    received.iter().map(|((origin, prefix), gateways)| format!("{origin} {prefix} {gateways}")).collect()
}

#[test]
fn losing_and_unresolved_routes_arrive_too() {
    let mut b = bench();
    let id = subscribe(&mut b, &[]);
    let mut received = Received::new();
    assert!(b.receive_announced(id, 1, &mut received));
    let all = ["bgp 192.0.2.0/24 172.16.0.9", "bgp 198.51.100.0/24 10.0.0.3", "static 192.0.2.0/24 10.0.0.2"];
    assert_eq!(shown(&received), all, "and no subnets of interfaces");
    b.delete("static", "192.0.2.0/24");
    b.set("bgp", "192.0.2.0/24", "10.0.0.4");
    assert!(!b.receive_announced(id, 100, &mut received));
    assert_eq!(shown(&received), ["bgp 192.0.2.0/24 10.0.0.4", "bgp 198.51.100.0/24 10.0.0.3"]);
    // The same announcement again is no change.
    b.set("bgp", "192.0.2.0/24", "10.0.0.4");
    assert!(b.rib.ready_subscriptions::<Ipv4Prefix>().is_empty());
}

#[test]
fn a_route_arrives_as_its_origin_announced_it() {
    let mut b = bench();
    let id = subscribe(&mut b, &["bgp"]);
    let mut received = Received::new();
    b.receive_announced(id, 100, &mut received);
    let import = compiled(policies(vec![policy("in", "", "reject")], Vec::new()), &[("bgp", "in")]);
    b.set_policies(import, 0);
    assert!(b.rib.ready_subscriptions::<Ipv4Prefix>().is_empty(), "a policy changes no announcement");
    let mut routes = batch::<Ipv4Prefix>("203.0.113.0/24".parse().unwrap(), Some("10.0.0.3"));
    let set = &mut routes.sets[0];
    (set.metric, set.distance, set.kind) = (Metric(9), Some(Distance(200)), RouteKind(1));
    set.tags = [Tag(7)].into_iter().collect();
    let announced = set.clone();
    b.update("bgp", routes);
    let (taken, _) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, 100).unwrap();
    assert_eq!((&taken.routes.sets, taken.set_origins), (&vec![announced], vec![0]));
    assert_eq!(taken.routes.updates[0].provenance, Provenance::new(9, 1));
    let origin = &taken.origins[0];
    assert_eq!((origin.name.as_str(), origin.distance, origin.external), ("bgp", Distance(20), true));
    assert_eq!((&origin.kinds[..], origin.grace), (&["ibgp".to_string()][..], Duration::from_secs(60)));
    // A deletion names its origin.
    b.delete("bgp", "203.0.113.0/24");
    let (taken, _) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, 100).unwrap();
    assert_eq!((taken.routes.updates[0].action, &*taken.origins[0].name), (RouteAction::Delete, "bgp"));
}

#[test]
fn origins_take_turns_and_a_prefix_waits_once() {
    let mut b = bench();
    let id = subscribe(&mut b, &["static", "bgp", "later"]);
    let mut received = Received::new();
    b.receive_announced(id, 100, &mut received);
    b.origin("later", 5, false);
    for number in 0..10 {
        for origin in ["static", "bgp", "later"] {
            b.set(origin, "203.0.113.0/24", &format!("10.0.0.{}", 20 + number));
            b.set(origin, &format!("100.64.{number}.0/24"), "10.0.0.2");
        }
    }
    let mut order = Vec::new();
    while b.rib.ready_subscriptions::<Ipv4Prefix>().contains(&(TableId::MAIN, id)) {
        let (taken, done) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, 6).unwrap();
        assert!(!done, "the first dump ends once");
        order.push((taken.origins[0].name.clone(), taken.routes.updates.len()));
    }
    let of = |size| ["static", "bgp", "later"].map(|name| (name.to_string(), size));
    let mut expected = of(6).to_vec();
    expected.extend(of(5));
    let rotated = |list: &[(String, usize)]| list.iter().map(|(_, size)| *size).collect::<Vec<_>>();
    assert_eq!(rotated(&order), rotated(&expected), "{order:?}");
}

#[test]
fn an_origin_that_restarts_sends_the_subscriber_only_what_differs() {
    let mut b = bench();
    let id = subscribe(&mut b, &["bgp"]);
    let mut received = Received::new();
    b.receive_announced(id, 100, &mut received);
    b.input(Input::OriginDied(TableId::MAIN, "bgp".into()));
    b.origin("bgp", 20, true);
    b.set("bgp", "198.51.100.0/24", "10.0.0.3");
    assert!(b.rib.ready_subscriptions::<Ipv4Prefix>().is_empty());
    b.input(Input::EndOfRefresh(TableId::MAIN, "bgp".into()));
    b.receive_announced(id, 100, &mut received);
    assert_eq!(shown(&received), ["bgp 198.51.100.0/24 10.0.0.3"]);
    // While somebody waits for the routes, the origin gathers none.
    b.engine_gone();
    let gathers = |b: &Bench| b.rib.gather_time(TableId::MAIN, FamilyId::IPV4, "bgp") > Duration::ZERO;
    assert!(!gathers(&b));
    b.input(Input::Unsubscribe(id));
    assert!(gathers(&b) && !b.rib.has_subscription(id));
    assert!(b.rib.ready_subscriptions::<Ipv6Prefix>().is_empty());
}
