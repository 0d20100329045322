//! Scenarios of the RIB, event by event.

use crate::bench;
use crate::bench::Bench;
use sluice_base::ip::V4Addr;
use sluice_base::{
    Address, AnyPrefix, Distance, Duration, FamilyId, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Metric,
    RouteKind, TableId, Tag,
};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use sluice_rib::subscriber::SubscribedOrigin;
use sluice_rib::view::PageQuery;
use sluice_rib::{Input, OriginSettings, Output, Scope, WatcherId};

fn any(prefix: &str) -> AnyPrefix {
    AnyPrefix::from(prefix.parse::<IpPrefix>().expect("a prefix"))
}

/// Figure 8 of the XORP paper, through the RIB: the answer is the largest subnet without a more specific route, and
/// only a change inside the subnet invalidates the answer.
#[test]
fn interest_figure_8() {
    let mut b = Bench::new();
    b.origin("ospf", 110, false);
    for prefix in ["128.16.0.0/16", "128.16.0.0/18", "128.16.128.0/17", "128.16.192.0/18"] {
        b.set("ospf", prefix, "10.0.0.2");
    }
    let watcher = WatcherId(1);
    let ask = |b: &mut Bench, addr: &str, route: &str, valid: &str| {
        let a = b.rib.interest::<Ipv4Prefix>(
            TableId::MAIN,
            watcher,
            V4Addr(addr.parse().unwrap()),
            Scope::NextHop,
        );
        assert_eq!((a.valid.to_string(), a.route.unwrap().prefix.to_string()), (valid.into(), route.into()));
    };
    ask(&mut b, "128.16.32.1", "128.16.0.0/18", "128.16.0.0/18");
    ask(&mut b, "128.16.160.1", "128.16.128.0/17", "128.16.128.0/18");
    assert_eq!(b.invalidated(), Vec::<String>::new());

    // Elsewhere: nothing to say. Inside an answer's range, or the route itself: that answer is gone.
    b.set("ospf", "128.16.200.0/24", "10.0.0.2");
    b.set("ospf", "128.0.0.0/8", "10.0.0.2");
    assert_eq!(b.invalidated(), Vec::<String>::new());
    b.set("ospf", "128.16.130.0/24", "10.0.0.2");
    assert_eq!(b.invalidated(), ["128.16.128.0/18"]);
    ask(&mut b, "128.16.160.1", "128.16.128.0/17", "128.16.160.0/19");
    b.delete("ospf", "128.16.0.0/18");
    assert_eq!(b.invalidated(), ["128.16.0.0/18"]);
    b.delete("ospf", "128.16.128.0/17");
    assert_eq!(b.invalidated(), ["128.16.160.0/19"]);
}

#[test]
fn the_smallest_distance_wins_and_the_next_takes_over() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("rip", 120, false);
    b.origin("ospf", 110, false);
    b.set("rip", "192.0.2.0/24", "10.0.0.3");
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.3@1");
    b.set("static", "192.0.2.0/24", "10.0.0.9");
    b.set("ospf", "192.0.2.0/24", "10.0.0.2");
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.9@1");
    b.delete("static", "192.0.2.0/24");
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1");
    b.delete("ospf", "192.0.2.0/24");
    b.delete("rip", "192.0.2.0/24");
    assert_eq!(b.engine("192.0.2.0/24"), "-");
}

#[test]
fn a_prefix_is_shown_with_its_routes_in_the_order_of_preference_whichever_came_first() {
    for order in [["ospf", "rip", "static"], ["static", "ospf", "rip"], ["rip", "static", "ospf"]] {
        let mut b = Bench::new();
        b.origin("static", 1, false);
        b.origin("rip", 120, false);
        b.origin("ospf", 110, false);
        for origin in order {
            // What cannot be reached is not used, and comes behind what is.
            b.set(origin, "192.0.2.0/24", if origin == "static" { "172.16.0.9" } else { "10.0.0.2" });
            b.set(origin, "198.51.100.0/24", "10.0.0.2");
        }
        let shown = |prefix: &str| -> Vec<String> {
            let query = PageQuery { exact: Some(any(prefix)), limit: 1, ..PageQuery::default() };
            let (routes, more) = b.rib.routes(TableId::MAIN, FamilyId::IPV4, &query);
            assert!(!more);
            routes.into_iter().map(|r| r.origin).collect()
        };
        assert_eq!(shown("192.0.2.0/24"), ["ospf", "static", "rip"]);
        assert_eq!(shown("198.51.100.0/24"), ["static", "ospf", "rip"]);
    }
}

#[test]
fn external_routes_resolve_through_internal_ones_and_follow_them() {
    let mut b = Bench::new();
    b.origin("bgp", 200, true);
    b.origin("ospf", 110, false);
    b.set("bgp", "203.0.113.0/24", "172.16.0.9");
    assert_eq!(b.engine("203.0.113.0/24"), "-", "nothing leads to the next hop yet");
    b.set("ospf", "172.16.0.0/16", "10.0.0.2");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    // ECMP in the internal route carries over; one message for the group, none for the route.
    let routes_sent = b.routes_sent;
    b.set("ospf", "172.16.0.0/16", "10.0.0.2 10.0.1.2");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1 10.0.1.2@2");
    assert_eq!(b.routes_sent, routes_sent + 1, "only the internal route itself changed its group");
    // A more specific internal route takes the next hop over.
    b.set("ospf", "172.16.0.0/24", "10.0.1.7");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.1.7@2");
    // So does a more specific external route.
    b.set("bgp", "172.16.0.9/32", "172.16.5.5");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1 10.0.1.2@2");
    b.delete("bgp", "172.16.0.9/32");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.1.7@2");
    b.delete("ospf", "172.16.0.0/24");
    b.delete("ospf", "172.16.0.0/16");
    assert_eq!(b.engine("203.0.113.0/24"), "-");
}

/// The engine knows whether a route's origin is external, also when the origin changes and the group stays.
#[test]
fn the_engine_knows_external_routes() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.origin("static", 1, false);
    let is_external = |b: &Bench| b.externals["203.0.113.0/24"];
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    assert!(is_external(&b));
    let (routes_sent, groups) = (b.routes_sent, b.engine_groups());
    b.set("static", "203.0.113.0/24", "10.0.0.2");
    assert_eq!((b.engine("203.0.113.0/24"), b.engine_groups()), ("10.0.0.2@1".into(), groups));
    assert!(!is_external(&b));
    b.delete("static", "203.0.113.0/24");
    assert!(is_external(&b));
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    assert_eq!(b.routes_sent, routes_sent + 2, "nothing new is not sent");
    // An engine that is busy in between gets the difference to what it has.
    b.engine_busy(true);
    b.set("static", "203.0.113.0/24", "10.0.0.2");
    b.delete("static", "203.0.113.0/24");
    b.engine_busy(false);
    assert_eq!((b.routes_sent, is_external(&b)), (routes_sent + 2, true));
}

/// IPv6 through the same changes: a next hop that becomes reachable, moves, and is lost; an interface that goes down.
#[test]
fn external_ipv6_routes_resolve_through_internal_ones_and_follow_them() {
    let mut b = Bench::new();
    b.origin("bgp", 200, true);
    b.origin("ospf", 110, false);
    b.origin("rip", 220, false);
    b.set6("rip", "2001:db8:b::/48", "2001:db8::3");
    b.set6("bgp", "2001:db8:b::/48", "2001:db8:a::9");
    b.set6("bgp", "2001:db8:c::/48", "2001:db8:a::9");
    assert_eq!(
        (b.engine6("2001:db8:b::/48").as_str(), b.engine6("2001:db8:c::/48").as_str()),
        ("2001:db8::3@1", "-")
    );
    b.set6("ospf", "2001:db8:a::/48", "2001:db8::2");
    assert_eq!(b.engine6("2001:db8:b::/48"), "2001:db8::2@1");
    assert_eq!(b.engine6("2001:db8:c::/48"), "2001:db8::2@1");
    b.set6("ospf", "2001:db8:a::/64", "2001:db8:0:1::7");
    assert_eq!(b.engine6("2001:db8:c::/48"), "2001:db8:0:1::7@2");
    b.interface(2, false);
    assert_eq!(b.engine6("2001:db8:c::/48"), "2001:db8::2@1");
    b.interface(2, true);
    assert_eq!(b.engine6("2001:db8:c::/48"), "2001:db8:0:1::7@2");
    b.delete6("ospf", "2001:db8:a::/64");
    b.delete6("ospf", "2001:db8:a::/48");
    assert_eq!(
        (b.engine6("2001:db8:b::/48").as_str(), b.engine6("2001:db8:c::/48").as_str()),
        ("2001:db8::3@1", "-")
    );
}

#[test]
fn stale_ipv6_routes_are_swept_and_the_others_stay() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.origin("rip", 120, false);
    for n in 0..20 {
        b.set6("bgp", &format!("2001:db8:{n:x}00::/40"), "2001:db8::2");
    }
    b.set6("rip", "2001:db8:300::/40", "2001:db8::3");
    b.input(Input::OriginDied(TableId::MAIN, "bgp".into()));
    b.origin("bgp", 20, true);
    b.set6("bgp", "2001:db8:100::/40", "2001:db8::2");
    b.input(Input::EndOfRefresh(TableId::MAIN, "bgp".into()));
    assert_eq!(b.engine6("2001:db8:100::/40"), "2001:db8::2@1");
    assert_eq!(b.engine6("2001:db8:300::/40"), "2001:db8::3@1");
    assert_eq!(b.engine6("2001:db8:400::/40"), "-");
    let connected = 2;
    assert_eq!(
        b.rib.table(TableId::MAIN).unwrap().family::<Ipv6Prefix>().unwrap().selected_count(),
        2 + connected
    );
}

/// Among routes of equal distance the smallest metric wins; a route's own distance of 255 keeps the route unused.
#[test]
fn metrics_decide_and_an_unusable_distance_does_not_forward() {
    let mut b = Bench::new();
    b.origin("ospf", 110, false);
    b.origin("isis", 110, false);
    let set = |b: &mut Bench, origin: &str, gateway: &str, metric: u32, distance: Option<u8>| {
        let mut routes = bench::batch::<Ipv4Prefix>("192.0.2.0/24".parse().unwrap(), Some(gateway));
        routes.sets[0].metric = Metric(metric);
        routes.sets[0].distance = distance.map(Distance);
        b.update(origin, routes);
    };
    set(&mut b, "ospf", "10.0.0.2", 20, None);
    set(&mut b, "isis", "10.0.0.3", 10, None);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.3@1");
    set(&mut b, "isis", "10.0.0.3", 30, None);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1");
    set(&mut b, "ospf", "10.0.0.2", 20, Some(255));
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.3@1");
    set(&mut b, "isis", "10.0.0.3", 30, Some(255));
    assert_eq!(b.engine("192.0.2.0/24"), "-");
}

/// Added and removed routes leave no trace in the count of selected routes or in the ranges of answers.
#[test]
fn withdrawn_routes_leave_no_trace() {
    let mut b = Bench::new();
    b.origin("ospf", 110, false);
    let ask = |b: &mut Bench| {
        let (main, watcher, addr) = (TableId::MAIN, WatcherId(1), V4Addr("172.16.0.1".parse().unwrap()));
        let answer = b.rib.interest::<Ipv4Prefix>(main, watcher, addr, Scope::NextHop);
        b.input(Input::DeregisterInterest(main, watcher, AnyPrefix::of(answer.valid)));
        (answer.valid, b.rib.table(main).unwrap().family::<Ipv4Prefix>().unwrap().selected_count())
    };
    let before = ask(&mut b);
    b.set("ospf", "172.16.64.0/24", "10.0.0.2");
    assert_ne!(ask(&mut b), before);
    b.delete("ospf", "172.16.64.0/24");
    assert_eq!(ask(&mut b), before);
    assert_eq!(b.engine_groups(), 0, "the engine was not notified that a group is unused");
}

/// The route of an answer stays, but leads elsewhere: the answer no longer holds.
#[test]
fn an_answer_is_taken_back_when_its_route_leads_elsewhere() {
    let mut b = Bench::new();
    b.origin("ospf", 110, false);
    b.set("ospf", "172.16.0.0/16", "10.0.0.2");
    b.set("ospf", "192.168.0.0/16", "172.16.0.1");
    let addr = V4Addr("192.168.1.1".parse().unwrap());
    let answer = b.rib.interest::<Ipv4Prefix>(TableId::MAIN, WatcherId(1), addr, Scope::NextHop);
    assert_eq!(answer.valid.to_string(), "192.168.0.0/16");
    assert_eq!(b.invalidated(), Vec::<String>::new());
    b.set("ospf", "172.16.0.0/16", "10.0.1.2");
    assert_eq!(b.invalidated(), ["192.168.0.0/16"]);
}

/// A gateway becomes reachable while the table is being decided again for a different gateway: prefixes behind the
/// walk are decided once more.
#[test]
fn a_pass_over_the_table_is_repeated_for_what_changes_meanwhile() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.origin("ospf", 110, false);
    b.set("bgp", "20.0.0.0/24", "172.17.0.1");
    for n in 1..20 {
        b.set("bgp", &format!("20.0.{n}.0/24"), "172.16.0.1");
    }
    b.set_in_slices("ospf", "172.16.0.0/16", "10.0.0.2", 4);
    b.set_in_slices("ospf", "172.17.0.0/16", "10.0.0.2", 0);
    b.idle();
    assert_eq!(b.engine("20.0.0.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine("20.0.19.0/24"), "10.0.0.2@1");
}

/// A number that the engine still has is not given to a new group, however slow the engine is.
#[test]
fn a_groups_number_is_free_when_the_engine_has_forgotten_it() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.set("static", "192.0.2.0/24", "10.0.0.2");
    b.engine_busy(true);
    b.delete("static", "192.0.2.0/24");
    b.set("static", "198.51.100.0/24", "10.0.0.3");
    b.set6("static", "2001:db8:5::/48", "2001:db8::3");
    b.engine_busy(false);
    assert_eq!((b.engine("192.0.2.0/24"), b.engine("198.51.100.0/24")), ("-".into(), "10.0.0.3@1".into()));
    assert_eq!((b.engine6("2001:db8:5::/48"), b.engine_groups()), ("2001:db8::3@1".into(), 2));
}

/// A table created after the interfaces has their subnets too.
#[test]
fn a_new_table_resolves_through_the_interfaces_that_are_known() {
    let mut b = Bench::new();
    let table = TableId(100);
    let settings = OriginSettings {
        name: "static".into(),
        distance: Distance(1),
        external: false,
        grace: Duration::from_secs(60),
        kinds: Vec::new(),
    };
    b.input(Input::RegisterOrigin(table, settings));
    let addr = Address::Ip("10.0.0.2".parse().unwrap());
    assert_eq!(b.rib.lookup(table, addr).map(|route| route.origin), Some("connected".into()));
}

#[test]
fn an_unresolvable_route_does_not_hide_a_worse_one_that_works() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.origin("rip", 120, false);
    b.set("rip", "203.0.113.0/24", "10.0.0.3");
    b.set("bgp", "203.0.113.0/24", "172.16.0.9");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.3@1");
    b.set("rip", "172.16.0.0/24", "10.0.1.3");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.1.3@2");
}

#[test]
fn routes_that_lead_back_to_themselves_resolve_through_what_is_left() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.set("static", "10.0.0.0/8", "10.99.0.1");
    assert_eq!(b.engine("10.0.0.0/8"), "-");
    b.set("static", "0.0.0.0/0", "10.0.0.2");
    assert_eq!(b.engine("10.0.0.0/8"), "10.0.0.2@1");
    b.delete("static", "0.0.0.0/0");
    assert_eq!(b.engine("10.0.0.0/8"), "-");
    b.set("static", "20.0.0.0/8", "30.0.0.1");
    b.set("static", "30.0.0.0/8", "20.0.0.1");
    assert_eq!((b.engine("20.0.0.0/8"), b.engine("30.0.0.0/8")), ("-".into(), "-".into()));
}

#[test]
fn an_interface_that_goes_down_takes_its_routes_along_and_brings_them_back() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("bgp", 20, true);
    b.set("static", "198.51.100.0/24", "10.0.0.2");
    b.set("bgp", "203.0.113.0/24", "198.51.100.7");
    b.set6("bgp", "2001:db8:1::/48", "2001:db8::2");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine6("2001:db8:1::/48"), "2001:db8::2@1");
    b.interface(1, false);
    assert_eq!((b.engine("203.0.113.0/24"), b.engine6("2001:db8:1::/48")), ("-".into(), "-".into()));
    assert_eq!(b.engine("198.51.100.0/24"), "-");
    b.interface(1, true);
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine6("2001:db8:1::/48"), "2001:db8::2@1");
    assert_eq!(b.engine("10.0.0.0/24"), "-", "the engine has its own subnets by itself");
}

#[test]
fn a_dead_origin_is_kept_as_stale_and_swept_after_its_grace_time() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    b.set("bgp", "198.51.100.0/24", "10.0.0.2");
    b.input(Input::OriginDied(TableId::MAIN, "bgp".into()));
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "10.0.0.3");
    b.input(Input::EndOfRefresh(TableId::MAIN, "bgp".into()));
    assert_eq!((b.engine("203.0.113.0/24"), b.engine("198.51.100.0/24")), ("10.0.0.3@1".into(), "-".into()));
    b.input(Input::OriginDied(TableId::MAIN, "bgp".into()));
    b.pass_time(Duration::from_secs(59));
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.3@1");
    b.pass_time(Duration::from_secs(2));
    assert_eq!(b.engine("203.0.113.0/24"), "-");
}

/// Static routes send an end of refresh after every commit, which is no reason to walk over the whole table.
#[test]
fn an_end_of_refresh_without_anything_stale_makes_no_work() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.set("static", "192.0.2.0/24", "10.0.0.2");
    let mut out = Outbox::new();
    let mut after_the_end = |b: &mut Bench| {
        let now = Instant::ZERO;
        b.rib.handle(now, Input::EndOfRefresh(TableId::MAIN, "static".into()), &mut out);
        b.rib.run_slice(now, Budget::SLICE, &mut out)
    };
    assert_eq!(after_the_end(&mut b), Progress::Done);
    b.input(Input::OriginDied(TableId::MAIN, "static".into()));
    assert_eq!(after_the_end(&mut b), Progress::More);
}

#[test]
fn a_subscriber_hears_what_is_there_and_then_what_changes() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin_with_kinds("ospf", 110, false, &["intra-area"]);
    b.set("static", "192.0.2.0/24", "10.0.0.2");
    let mut routes = bench::batch::<Ipv4Prefix>("198.51.100.0/24".parse().unwrap(), Some("10.0.0.3"));
    routes.sets[0].kind = RouteKind(1);
    routes.sets[0].tags = [Tag(7)].into_iter().collect();
    b.update("ospf", routes);
    let id = b.rib.subscribe::<Ipv4Prefix>(TableId::MAIN, vec!["ospf".into()]);
    b.idle();
    let (batch, done) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, 100).unwrap();
    let received: Vec<String> = batch.routes.updates.iter().map(|u| u.prefix.to_string()).collect();
    assert_eq!((received, done), (vec!["198.51.100.0/24".into()], true));
    let origin = SubscribedOrigin {
        name: "ospf".into(),
        kinds: vec!["intra-area".into()],
        distance: Distance(110),
        external: false,
        grace: Duration::from_secs(60),
    };
    assert_eq!((batch.origins, batch.set_origins), (vec![origin], vec![0]));
    assert_eq!(
        (batch.routes.sets[0].kind, batch.routes.sets[0].tags.as_slice()),
        (RouteKind(1), &[Tag(7)][..])
    );
    let shown = b.rib.lookup(TableId::MAIN, Address::Ip("198.51.100.1".parse().unwrap())).unwrap();
    assert_eq!(shown.kind.as_deref(), Some("intra-area"));
    // A static route takes the prefix over: for this subscriber it is gone.
    b.set("static", "198.51.100.0/24", "10.0.0.9");
    let (batch, done) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, 100).unwrap();
    assert_eq!((batch.routes.updates.len(), batch.routes.sets.len(), done), (1, 0, false));
    b.input(Input::Unsubscribe(id));
    assert!(b.rib.ready_subscriptions::<Ipv4Prefix>().is_empty());
    assert!(b.rib.ready_subscriptions::<Ipv6Prefix>().is_empty());
}

#[test]
fn what_the_engine_refuses_is_reported_to_its_owner() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.set("static", "192.0.2.0/24", "10.0.0.2");
    let prefix = any("192.0.2.0/24");
    let refused = vec![(prefix, Default::default(), "no room".into())];
    b.input(Input::FibRejected(TableId::MAIN, refused.clone()));
    assert!(b.outputs.contains(&Output::Rejected(TableId::MAIN, "static".into(), refused)));
    assert_eq!(
        b.rib.lookup(TableId::MAIN, Address::Ip("192.0.2.1".parse().unwrap())).unwrap().rejected.unwrap(),
        "no room"
    );
}

#[test]
fn an_engine_that_restarts_receives_everything() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    b.set6("bgp", "2001:db8:1::/48", "2001:db8::2");
    b.restart_engine();
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine6("2001:db8:1::/48"), "2001:db8::2@1");
    b.delete("bgp", "203.0.113.0/24");
    assert_eq!(b.engine("203.0.113.0/24"), "-");
}

#[test]
fn an_engine_that_wants_no_routes_receives_nothing_until_it_does() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    b.engine_gone();
    b.set("bgp", "198.51.100.0/24", "10.0.0.2");
    b.delete("bgp", "203.0.113.0/24");
    assert_eq!((b.engine_table::<Ipv4Prefix>().len(), b.rib.fib_work().count()), (0, 0));
    b.restart_engine();
    assert_eq!((b.engine("203.0.113.0/24"), b.engine("198.51.100.0/24")), ("-".into(), "10.0.0.2@1".into()));
}

#[test]
fn routes_are_waited_for_by_the_engine_by_subscribers_and_by_who_asked() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.origin("static", 1, false);
    let waits =
        |b: &Bench, family, origin| b.rib.gather_time(TableId::MAIN, family, origin) == Duration::ZERO;
    let both = |b: &Bench| ["bgp", "static"].map(|origin| waits(b, FamilyId::IPV4, origin));
    assert_eq!(both(&b), [true, true], "by the engine");
    b.engine_gone();
    assert_eq!(both(&b), [false, false]);
    assert!(waits(&b, FamilyId::IPV4, "ospf"), "of whom nothing is known");

    let id = b.rib.subscribe::<Ipv4Prefix>(TableId::MAIN, Vec::new());
    assert_eq!(both(&b), [true, true], "by a subscriber");
    assert!(!waits(&b, FamilyId::IPV6, "bgp"));
    b.input(Input::Unsubscribe(id));
    assert_eq!(both(&b), [false, false]);
    let id = b.rib.subscribe::<Ipv4Prefix>(TableId::MAIN, vec!["static".into()]);
    assert_eq!(both(&b), [false, true], "by a subscriber to others");
    b.input(Input::Unsubscribe(id));

    let addr = "10.0.0.2".parse().unwrap();
    b.rib.interest::<Ipv4Prefix>(TableId::MAIN, WatcherId(1), V4Addr(addr), Scope::NextHop);
    assert_eq!(both(&b), [false, true], "by who resolves next hops, through internal routes at once");
    b.rib.interest::<Ipv4Prefix>(TableId::MAIN, WatcherId(2), V4Addr(addr), Scope::All);
    assert_eq!(both(&b), [true, true], "by who asked about all");
    b.restart_engine();
    assert_eq!(both(&b), [true, true]);
}

#[test]
fn ipv4_over_an_ipv6_next_hop() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "2001:db8::2");
    assert_eq!(b.engine("203.0.113.0/24"), "2001:db8::2@1");
}
