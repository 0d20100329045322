//! The RIB's treatment of next hops: backups, weights, encapsulations, gateways of different families.

use crate::bench;
use crate::bench::{Bench, Label, Net};
use sluice_base::{
    Address, Encapsulation, Forwarding, InterfaceIndex, Ipv4Prefix, Ipv6Prefix, NextHop, TableId,
};

/// An outer next hop's share is divided among the next hops of its resolving route, by their weights.
#[test]
fn weights_of_inner_routes_count() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("bgp", 20, true);
    let via =
        |gateway: &str, weight| NextHop { weight, ..NextHop::via(Address::Ip(gateway.parse().unwrap())) };
    let announce = |b: &mut Bench, origin: &str, prefix: &str, hops: &[NextHop<Address>]| {
        let mut routes = bench::batch::<Ipv4Prefix>(prefix.parse().unwrap(), Some("10.0.0.2"));
        routes.sets[0].forwarding = Forwarding::many(hops.iter().copied()).unwrap();
        b.update(origin, routes);
    };
    let weights = |b: &Bench| {
        let route = b.rib.lookup(TableId::MAIN, Address::Ip("192.0.2.1".parse().unwrap())).unwrap();
        let hops = route.resolved.unwrap();
        let text = |hop: &NextHop<Address>| format!("{} {}", hop.gateway.unwrap(), hop.weight);
        hops.next_hops().iter().map(text).collect::<Vec<_>>().join(", ")
    };
    announce(&mut b, "static", "172.16.0.0/16", &[via("10.0.0.2", 1), via("10.0.1.2", 3)]);
    announce(&mut b, "bgp", "192.0.2.0/24", &[via("172.16.0.1", 2), via("10.0.0.9", 1)]);
    assert_eq!(weights(&b), "10.0.0.2 1, 10.0.0.9 2, 10.0.1.2 3");
    // Two ways to the same neighbor add up.
    announce(&mut b, "bgp", "192.0.2.0/24", &[via("172.16.0.1", 1), via("10.0.0.2", 1)]);
    assert_eq!(weights(&b), "10.0.0.2 5, 10.0.1.2 3");
    // Where each leads to one, weights are as announced.
    announce(&mut b, "bgp", "192.0.2.0/24", &[via("10.0.1.7", 4), via("10.0.0.9", 6)]);
    assert_eq!(weights(&b), "10.0.0.9 6, 10.0.1.7 4");
    // An inner backup serves the outer primary before the outer backup does.
    announce(&mut b, "static", "172.16.0.0/16", &[via("10.0.0.2", 1), via("10.0.1.2", 1).as_backup()]);
    announce(&mut b, "bgp", "192.0.2.0/24", &[via("172.16.0.1", 1), via("10.0.1.9", 1).as_backup()]);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1 backup 10.0.1.2@2 backup 10.0.1.9@2");
    b.interface(1, false);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.1.2@2 backup 10.0.1.9@2");
}

/// Next hops of both families that lose their interface at once are decided again in both.
#[test]
fn an_interface_that_goes_down_is_noticed_in_every_family() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    let on = |gateway: &str| {
        let gateway = Address::Ip(gateway.parse().unwrap());
        Forwarding::one(NextHop::via_on(gateway, InterfaceIndex::new(2).unwrap()))
    };
    let mut routes = bench::batch::<Ipv4Prefix>("192.0.2.0/24".parse().unwrap(), Some("172.16.0.1"));
    routes.sets[0].forwarding = on("172.16.0.1");
    b.update("bgp", routes);
    let mut routes = bench::batch::<Ipv6Prefix>("2001:db8:5::/48".parse().unwrap(), Some("2001:db8:9::1"));
    routes.sets[0].forwarding = on("2001:db8:9::1");
    b.update("bgp", routes);
    assert_eq!(
        (b.engine("192.0.2.0/24"), b.engine6("2001:db8:5::/48")),
        ("172.16.0.1@2".into(), "2001:db8:9::1@2".into())
    );
    b.interface(2, false);
    assert_eq!((b.engine("192.0.2.0/24"), b.engine6("2001:db8:5::/48")), ("-".into(), "-".into()));
    b.interface(2, true);
    assert_eq!(
        (b.engine("192.0.2.0/24"), b.engine6("2001:db8:5::/48")),
        ("172.16.0.1@2".into(), "2001:db8:9::1@2".into())
    );
}

/// A backup counts only while no primary next hop is usable; the engine knows both before.
#[test]
fn a_backup_is_used_while_no_primary_next_hop_is_usable() {
    let mut b = Bench::new();
    b.origin("bgp", 20, true);
    let mut routes = bench::batch::<Ipv4Prefix>("192.0.2.0/24".parse().unwrap(), Some("10.0.0.2"));
    let via = |gateway: &str| NextHop::via(Address::Ip(gateway.parse().unwrap()));
    routes.sets[0].forwarding = Forwarding::many([via("10.0.0.2"), via("10.0.1.2").as_backup()]).unwrap();
    b.update("bgp", routes);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
    b.interface(1, false);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.1.2@2");
    b.interface(2, false);
    assert_eq!(b.engine("192.0.2.0/24"), "-");
    b.interface(1, true);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1");
    b.interface(2, true);
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
}

/// The loss of the way to a gateway, and of an interface: a single change of the group, for any number of its routes.
#[test]
fn a_backup_takes_over_without_a_change_of_routes() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("bgp", 20, true);
    b.set("static", "172.16.0.0/16", "10.0.0.2");
    let via = |gateway: &str| NextHop::via(Address::Ip(gateway.parse().unwrap()));
    for n in 0..50 {
        let prefix = format!("192.0.{n}.0/24").parse().unwrap();
        let mut routes = bench::batch::<Ipv4Prefix>(prefix, Some("172.16.0.1"));
        let hops = [via("172.16.0.1"), via("10.0.1.2").as_backup()];
        routes.sets[0].forwarding = Forwarding::many(hops).unwrap();
        b.update("bgp", routes);
    }
    let sent = b.routes_sent;
    b.delete("static", "172.16.0.0/16");
    assert_eq!(b.engine("192.0.49.0/24"), "10.0.1.2@2");
    assert_eq!(b.routes_sent - sent, 1, "the static route itself");
    b.set("static", "172.16.0.0/16", "10.0.0.2");
    assert_eq!(b.engine("192.0.49.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
    let sent = b.routes_sent;
    b.interface(1, false);
    assert_eq!(b.engine("192.0.49.0/24"), "10.0.1.2@2");
    assert_eq!(b.routes_sent - sent, 1, "the static route itself");
}

/// An IP engine cannot represent a gateway of a foreign family: such a route is unusable, and hides no worse usable
/// route.
#[test]
fn a_gateway_that_the_engine_cannot_have_is_never_announced_to_it() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("ospf", 110, false);
    b.changes::<Label>("static", &[("family-200:140000/8".parse().unwrap(), Some("10.0.0.2"))]);
    let mut routes = bench::batch::<Ipv4Prefix>("192.0.2.0/24".parse().unwrap(), Some("10.0.0.2"));
    routes.sets[0].forwarding = Forwarding::one(NextHop::via(Label::gateway("family-200:141000")));
    b.update("static", routes);
    assert_eq!(b.engine("192.0.2.0/24"), "-");
    b.set("ospf", "192.0.2.0/24", "10.0.0.3");
    assert_eq!(b.engine("192.0.2.0/24"), "10.0.0.3@1");
}

/// A next hop inside a header leaves with the header, by any route to the gateway; there is room for a single header.
#[test]
fn an_encapsulation_stays_with_its_next_hop() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("bgp", 20, true);
    let label = Encapsulation::new(1, &[0, 1, 0x81]);
    let announce = |b: &mut Bench, origin: &str, prefix: &str, gateway: &str, encapsulation| {
        let mut routes = bench::batch::<Ipv4Prefix>(prefix.parse().unwrap(), Some(gateway));
        let hop = NextHop::via(Address::Ip(gateway.parse().unwrap()));
        routes.sets[0].forwarding = Forwarding::one(NextHop { encapsulation, ..hop });
        b.update(origin, routes);
    };
    let resolved = |b: &Bench| {
        let route = b.rib.lookup(TableId::MAIN, Address::Ip("192.0.2.1".parse().unwrap())).unwrap();
        route.resolved.unwrap().next_hops()[0].encapsulation
    };
    announce(&mut b, "static", "172.16.0.0/16", "10.0.0.2", None);
    announce(&mut b, "bgp", "192.0.2.0/24", "172.16.0.1", label);
    assert_eq!(resolved(&b), label);
    announce(&mut b, "static", "172.16.0.0/16", "10.0.0.2", label);
    assert_eq!(b.engine("192.0.2.0/24"), "-", "two headers");
    announce(&mut b, "bgp", "192.0.2.0/24", "172.16.0.1", None);
    assert_eq!(resolved(&b), label);
}

/// A next hop with an interface needs no connected route, but a running interface.
#[test]
fn a_next_hop_with_an_interface_is_used_while_the_interface_runs() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    let mut routes = bench::batch::<Ipv4Prefix>("192.0.2.0/24".parse().unwrap(), Some("172.16.0.1"));
    let hop = NextHop::via_on(Address::Ip("172.16.0.1".parse().unwrap()), InterfaceIndex::new(2).unwrap());
    routes.sets[0].forwarding = Forwarding::one(hop);
    b.update("static", routes);
    assert_eq!(b.engine("192.0.2.0/24"), "172.16.0.1@2");
    b.interface(2, false);
    assert_eq!(b.engine("192.0.2.0/24"), "-");
    b.interface(2, true);
    assert_eq!(b.engine("192.0.2.0/24"), "172.16.0.1@2");
}

/// An origin's declaration of an unusable gateway moves every group of the origin, and no foreign group, with a
/// message each.
#[test]
fn routes_leave_a_gateway_that_their_origin_calls_unusable() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("bgp", 20, true);
    let announce = |b: &mut Bench, origin: &str, prefix: &str, hops: &[NextHop<Address>]| {
        let mut routes = bench::batch::<Ipv4Prefix>(prefix.parse().unwrap(), Some("10.0.0.2"));
        routes.sets[0].forwarding = Forwarding::many(hops.iter().copied()).unwrap();
        b.update(origin, routes);
    };
    let via = |gateway: &str| NextHop::via(Address::Ip(gateway.parse().unwrap()));
    let pair = [via("10.0.0.2"), via("10.0.1.2").as_backup()];
    for number in 0..100 {
        announce(&mut b, "bgp", &format!("192.0.{number}.0/24"), &pair);
    }
    announce(&mut b, "bgp", "198.51.100.0/24", &[via("10.0.0.2")]);
    announce(&mut b, "static", "203.0.113.0/24", &[via("10.0.0.2")]);
    assert_eq!(b.engine("192.0.7.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
    b.routes_sent = 0;
    b.usable("bgp", "10.0.0.2", false);
    assert_eq!(b.engine("192.0.7.0/24"), "10.0.1.2@2");
    // What has nothing else stays: its origin will withdraw it.
    assert_eq!(b.engine("198.51.100.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(b.routes_sent, 0, "groups are sent, not routes");
    // A route that comes meanwhile does not use it either.
    announce(&mut b, "bgp", "192.0.200.0/24", &[via("10.0.0.2"), via("10.0.1.7").as_backup()]);
    assert_eq!(b.engine("192.0.200.0/24"), "10.0.1.7@2");
    b.usable("bgp", "10.0.0.2", true);
    assert_eq!(b.engine("192.0.7.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
    // The next life of the origin has not said anything yet.
    b.usable("bgp", "10.0.0.2", false);
    b.origin("bgp", 20, true);
    assert_eq!(b.engine("192.0.7.0/24"), "10.0.0.2@1 backup 10.0.1.2@2");
}
