//! Routes of XIDs: redirects, neighbors, tunnels, and this host itself.

use crate::bench::{Bench, batch};
use sluice_base::{
    Address, AnyPrefix, FamilyId, Forwarding, InterfaceIndex, Ipv4Prefix, NextHop, Prefix, Provenance,
    RouteAction, RouteBatch, RouteSet, RouteUpdate, TableId, Xid, XidPrefix,
};
use sluice_rib::{Input, Output, Rib, Scope, WatcherId};
use std::collections::BTreeMap;

const AD: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const HID: &str = "hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2";
/// UDP port 13781 of 192.0.2.1.
const U4ID: &str = "u4id-c000020135d50000000000000000000000000000";

fn xid(text: &str) -> XidPrefix {
    text.parse().unwrap()
}

/// A batch with a route that is forwarded so.
fn forwarded(prefix: &str, forwarding: Forwarding<Address>) -> RouteBatch<XidPrefix> {
    let update =
        RouteUpdate { prefix: xid(prefix), action: RouteAction::Set(0), provenance: Provenance::new(9, 1) };
    RouteBatch { sets: vec![RouteSet::plain(forwarding)], updates: vec![update] }
}

fn neighbor(index: u32) -> Forwarding<Address> {
    let address = Xid::of_link_address([2, 0, 0, 0, 0, 1]);
    Forwarding::one(NextHop::via_on(address.into(), InterfaceIndex::new(index).unwrap()))
}

/// The forwarding of a whole XID: the resolved one, as the engine and subscribers of the family have it.
fn lookup(b: &Bench, text: &str) -> Option<Forwarding<Address>> {
    let addr = text.parse::<Xid>().unwrap().into();
    b.rib.lookup(TableId::MAIN, addr)?.resolved
}

fn redirect(text: &str) -> Option<Forwarding<Address>> {
    Some(Forwarding::one(NextHop::via(text.parse::<Xid>().unwrap().into())))
}

#[test]
fn a_redirect_is_used_while_there_is_a_route_to_its_gateway() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.update("static", batch(xid(AD), Some(HID)));
    assert_eq!(lookup(&b, AD), None);
    b.update("static", forwarded(HID, neighbor(1)));
    assert_eq!(lookup(&b, AD), redirect(HID), "the gateway stays as it was given");
    b.interface(1, false);
    assert_eq!((lookup(&b, AD), lookup(&b, HID)), (None, None));
    b.interface(1, true);
    for ended in [Forwarding::Local, Forwarding::Discard] {
        b.update("static", forwarded(HID, ended.clone()));
        assert_eq!((lookup(&b, AD), lookup(&b, HID)), (redirect(HID), Some(ended)));
    }
    b.changes::<XidPrefix>("static", &[(xid(HID), None)]);
    assert_eq!(lookup(&b, AD), None);
}

#[test]
fn redirects_in_a_circle_reach_nothing() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.changes::<XidPrefix>("static", &[(xid(AD), Some(HID)), (xid(HID), Some(AD))]);
    assert_eq!((lookup(&b, AD), lookup(&b, HID)), (None, None));
}

#[test]
fn a_tunnel_is_reached_through_routes_of_ip() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.update("static", batch(xid(AD), Some(U4ID)));
    assert_eq!(lookup(&b, AD), None);
    b.changes::<Ipv4Prefix>("static", &[("192.0.2.0/24".parse().unwrap(), Some("10.0.0.2"))]);
    assert_eq!(lookup(&b, AD), redirect(U4ID));
    b.delete("static", "192.0.2.0/24");
    assert_eq!(lookup(&b, AD), None);
    // A route of the XID itself comes first.
    b.update("static", forwarded(U4ID, Forwarding::Local));
    assert_eq!(lookup(&b, AD), redirect(U4ID));
}

#[test]
fn interest_in_a_tunnel_is_interest_in_its_end() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    let ask = |b: &mut Bench, text: &str| {
        let addr = text.parse::<Xid>().unwrap();
        b.rib.interest::<XidPrefix>(TableId::MAIN, WatcherId(1), addr, Scope::NextHop)
    };
    // The answer about a domain holds for no tunnel.
    let other = ask(&mut b, AD);
    assert!(other.route.is_none() && !other.valid.contains(U4ID.parse().unwrap()));
    assert!(ask(&mut b, U4ID).route.is_none());
    b.changes::<Ipv4Prefix>("static", &[("192.0.2.0/24".parse().unwrap(), Some("10.0.0.2"))]);
    assert_eq!(b.invalidated(), [U4ID]);
    let answer = ask(&mut b, U4ID);
    let route = answer.route.unwrap();
    assert_eq!((answer.valid, route.prefix, route.connected), (xid(U4ID), xid(U4ID), false));
    // Routes elsewhere do not matter, the end's do.
    b.changes::<Ipv4Prefix>("static", &[("198.51.100.0/24".parse().unwrap(), Some("10.0.0.2"))]);
    assert_eq!(b.invalidated(), Vec::<String>::new());
    b.delete("static", "192.0.2.0/24");
    assert_eq!(b.invalidated(), [U4ID]);
    assert!(ask(&mut b, U4ID).route.is_none());
    // A route of the XID itself comes first.
    b.update("static", forwarded(U4ID, Forwarding::Local));
    assert_eq!(b.invalidated(), [U4ID]);
    assert_eq!(ask(&mut b, U4ID).route.unwrap().forwarding, Forwarding::Local);
}

#[test]
fn a_prefix_of_a_type_holds_what_no_longer_one_does() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.update("static", forwarded("lpm-0a00000000000000000000000000000000000000/8", neighbor(1)));
    b.update("static", forwarded("lpm-0a01000000000000000000000000000000000000/16", Forwarding::Local));
    let within = |octets: &str| lookup(&b, &format!("lpm-{octets}{}", "7".repeat(40 - octets.len())));
    assert_eq!(within("0a02"), Some(neighbor(1)));
    assert_eq!(within("0a01"), Some(Forwarding::Local));
    assert_eq!(within("0b"), None);
    assert_eq!(lookup(&b, AD), None);
}

#[test]
fn an_ip_route_is_never_local() {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    let mut routes = batch::<Ipv4Prefix>("192.0.2.1/32".parse().unwrap(), Some("10.0.0.2"));
    routes.sets[0].forwarding = Forwarding::Local;
    b.update("static", routes);
    assert_eq!(b.engine("192.0.2.1/32"), "-");
}

#[test]
fn the_engine_of_ip_gets_no_routes_of_xids_and_subscribers_do() {
    let mut b = Bench::new();
    b.rib = Rib::new(1, 2);
    b.interface(1, true);
    let id = b.rib.subscribe::<XidPrefix>(TableId::MAIN, Vec::new());
    b.origin("static", 1, false);
    b.update("static", forwarded(HID, neighbor(1)));
    b.update("static", batch(xid(AD), Some(HID)));
    assert!(b.rib.fib_work().all(|(_, family)| family != FamilyId::XID));
    let mut received = BTreeMap::<XidPrefix, String>::new();
    b.receive(id, &mut received);
    assert_eq!(received.remove(&xid(AD)).as_deref(), Some(HID));
}

#[test]
fn what_a_subscriber_cannot_take_is_reported_to_the_origin_and_shown() {
    let mut b = Bench::new();
    b.rib = Rib::new(1, 2);
    b.interface(1, true);
    b.origin("static", 1, false);
    b.update("static", forwarded(HID, Forwarding::Local));
    let refused = vec![(AnyPrefix::of(xid(HID)), Provenance::new(9, 1), "no such principal".to_owned())];
    b.outputs.clear();
    b.input(Input::FibRejected(TableId::MAIN, refused.clone()));
    assert_eq!(b.outputs, [Output::Rejected(TableId::MAIN, "static".into(), refused.clone())]);
    let shown = |b: &Bench| {
        b.rib.lookup(TableId::MAIN, HID.parse::<Xid>().unwrap().into()).and_then(|route| route.rejected)
    };
    assert_eq!(shown(&b).as_deref(), Some("no such principal"));
    b.input(Input::FibAccepted(TableId::MAIN, vec![AnyPrefix::of(xid(HID))]));
    assert_eq!(shown(&b), None, "the subscriber takes the route after all");
    b.input(Input::FibRejected(TableId::MAIN, refused));
    assert!(shown(&b).is_some());
    b.update("static", forwarded(HID, neighbor(1)));
    assert_eq!(shown(&b), None, "another route of the same XID has not been refused");
}
