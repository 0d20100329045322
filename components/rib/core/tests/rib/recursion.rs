//! Next hops that routes of any origin resolve, external ones too (RFC 4271, section 9.1.2.1).

use crate::bench::policies::{policies, policy};
use crate::bench::{self, Bench, Net};
use sluice_base::interest::InterestAnswer;
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{Forwarding, Ipv4Prefix, Ipv6Prefix, Metric, Prefix};
use sluice_rib::RibPolicies;
use std::collections::BTreeMap;

fn bench() -> Bench {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin("ospf", 110, false);
    b.origin("bgp", 20, true);
    b
}

fn ask(b: &mut Bench, addr: &str) -> InterestAnswer<Ipv4Prefix> {
    Ipv4Prefix::ask(&mut b.rib, V4Addr(addr.parse().unwrap()))
}

/// The links of a chain: each next hop is covered by the following route only.
const CHAIN: [(&str, &str); 4] = [
    ("203.0.113.0/24", "172.16.1.1"),
    ("172.16.1.0/24", "172.16.2.1"),
    ("172.16.2.0/24", "172.16.3.1"),
    ("172.16.3.0/24", "10.0.0.2"),
];

/// Returns all orders of four things.
fn orders() -> Vec<[usize; 4]> {
    let mut orders = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| *c != a && *c != b) {
                orders.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    orders
}

#[test]
fn a_chain_of_external_routes_resolves_in_each_order_and_ends_in_each_order() {
    for order in orders() {
        let mut b = bench();
        for link in order {
            assert_eq!(b.engine(CHAIN[0].0), "-", "{order:?}");
            b.set("bgp", CHAIN[link].0, CHAIN[link].1);
        }
        for (prefix, _) in CHAIN {
            assert_eq!(b.engine(prefix), "10.0.0.2@1", "{order:?}");
        }
        for link in order {
            b.delete("bgp", CHAIN[link].0);
            for (n, (prefix, _)) in CHAIN.iter().enumerate().take(link + 1) {
                assert_eq!(b.engine(prefix), "-", "{n} of {order:?}");
            }
        }
    }
}

#[test]
fn a_default_route_resolves_next_hops_in_both_families() {
    let mut b = bench();
    b.set("bgp", "203.0.113.0/24", "172.16.0.9");
    b.set6("bgp", "2001:db8:c::/48", "2001:db8:ffff::9");
    b.set("bgp", "0.0.0.0/0", "10.0.0.2");
    b.set6("bgp", "::/0", "2001:db8::2");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(b.engine6("2001:db8:c::/48"), "2001:db8::2@1");
    b.interface(1, false);
    assert_eq!((b.engine("203.0.113.0/24"), b.engine6("2001:db8:c::/48")), ("-".into(), "-".into()));
    b.interface(1, true);
    b.delete("bgp", "0.0.0.0/0");
    b.delete6("bgp", "::/0");
    assert_eq!((b.engine("203.0.113.0/24"), b.engine6("2001:db8:c::/48")), ("-".into(), "-".into()));
}

#[test]
fn a_route_does_not_resolve_its_own_next_hop_nor_two_routes_each_others() {
    let mut b = bench();
    b.set("bgp", "172.16.0.0/16", "172.16.0.9");
    assert_eq!(b.engine("172.16.0.0/16"), "-");
    // A less specific route would resolve the next hop until the route itself took the next hop over.
    b.set("bgp", "0.0.0.0/0", "10.0.0.2");
    assert_eq!(b.engine("172.16.0.0/16"), "-");
    b.set("ospf", "172.16.0.0/24", "10.0.1.2");
    assert_eq!(b.engine("172.16.0.0/16"), "10.0.1.2@2", "a more specific route keeps it");
    b.delete("ospf", "172.16.0.0/24");
    assert_eq!(b.engine("172.16.0.0/16"), "-");
    b.delete("bgp", "0.0.0.0/0");
    // The subnet of a link, and a part of it, are reached without a route.
    b.set("bgp", "10.0.0.0/25", "10.0.0.2");
    assert_eq!(b.engine("10.0.0.0/25"), "10.0.0.2@1");

    b.set("bgp", "20.0.0.0/8", "30.0.0.1");
    b.set("bgp", "30.0.0.0/8", "20.0.0.1");
    assert_eq!((b.engine("20.0.0.0/8"), b.engine("30.0.0.0/8")), ("-".into(), "-".into()));
    b.set("ospf", "20.0.0.0/24", "10.0.0.3");
    assert_eq!((b.engine("20.0.0.0/8"), b.engine("30.0.0.0/8")), ("10.0.0.3@1".into(), "10.0.0.3@1".into()));
}

/// A discarded next hop: a static route to nowhere, as for remotely triggered filtering.
#[test]
fn a_next_hop_behind_a_discard_route_discards() {
    let mut b = bench();
    let mut nowhere = bench::batch::<Ipv4Prefix>("192.0.2.1/32".parse().unwrap(), Some("10.0.0.2"));
    nowhere.sets[0].forwarding = Forwarding::Discard;
    b.set("bgp", "203.0.113.7/32", "192.0.2.1");
    assert_eq!(b.engine("203.0.113.7/32"), "-");
    b.update("static", nowhere.clone());
    assert_eq!(b.engine("203.0.113.7/32"), "discard");
    b.delete("static", "192.0.2.1/32");
    // An aggregate of the origin itself is no way.
    b.update("bgp", nowhere);
    assert_eq!(b.engine("203.0.113.7/32"), "-");
}

#[test]
fn a_policy_restricts_the_routes_that_resolve_next_hops() {
    let mut b = bench();
    b.set("bgp", "0.0.0.0/0", "10.0.0.2");
    b.set("bgp", "203.0.113.0/24", "172.16.0.9");
    ask(&mut b, "172.16.0.9");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    let no_default = policies(vec![policy("no-default", "prefix-length 0", "reject")], Vec::new());
    let set = RibPolicies::compile(no_default, BTreeMap::new(), vec!["no-default".into()]).unwrap();
    b.set_policies(set, 0);
    b.idle();
    assert_eq!((b.engine("203.0.113.0/24"), b.engine("0.0.0.0/0")), ("-".into(), "10.0.0.2@1".into()));
    assert_eq!(b.invalidated().len(), 1, "the answer holds no more");
    assert!(ask(&mut b, "172.16.0.9").route.is_none());
    b.set("ospf", "172.16.0.0/16", "10.0.1.2");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.1.2@2");
    b.delete("ospf", "172.16.0.0/16");
    // Not even a policy that rejects all routes keeps next hops on a subnet from being reached.
    let nothing = policies(vec![policy("nothing", "", "reject")], Vec::new());
    b.set_policies(RibPolicies::compile(nothing, BTreeMap::new(), vec!["nothing".into()]).unwrap(), 0);
    b.idle();
    assert_eq!((b.engine("203.0.113.0/24"), b.engine("0.0.0.0/0")), ("-".into(), "10.0.0.2@1".into()));
    b.set_policies(RibPolicies::default(), 0);
    b.idle();
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
}

/// Many routes on a few recursive next hops move by a message for each next hop, and none for a route.
#[test]
fn routes_on_recursive_next_hops_move_by_one_message_each() {
    let mut b = bench();
    b.set("bgp", "172.16.0.0/16", "10.0.0.2");
    for n in 0..1000 {
        b.set("bgp", &format!("20.{}.{}.0/24", n / 250, n % 250), &format!("172.16.0.{}", n % 10));
    }
    let (routes, groups) = (b.routes_sent, b.groups_sent);
    b.set("bgp", "172.16.0.0/16", "10.0.1.7");
    assert_eq!((b.routes_sent - routes, b.groups_sent - groups), (1, 1 + 10));
    assert_eq!(b.engine("20.3.249.0/24"), "10.0.1.7@2");
}

/// A gateway that its origin declares unusable is none for the next hops behind the origin's routes either.
#[test]
fn an_unusable_gateway_counts_behind_recursive_next_hops() {
    let mut b = bench();
    b.set("bgp", "172.16.0.0/16", "10.0.0.2 10.0.1.2");
    b.set("bgp", "203.0.113.0/24", "172.16.0.9");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1 10.0.1.2@2");
    b.usable("bgp", "10.0.0.2", false);
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.1.2@2");
    b.usable("bgp", "10.0.0.2", true);
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1 10.0.1.2@2");
}

/// The answer for a next hop names the route, its interior cost, and a range without the next hops of the route itself.
#[test]
fn answers_name_the_resolving_route_and_end_with_it() {
    let mut b = bench();
    let mut far = bench::batch::<Ipv4Prefix>("172.31.0.0/16".parse().unwrap(), Some("10.0.0.2"));
    far.sets[0].metric = Metric(30);
    b.update("ospf", far);
    b.set("bgp", "172.16.0.0/16", "172.31.0.1");
    let answer = ask(&mut b, "172.16.5.9");
    let route = answer.route.unwrap();
    assert_eq!(
        (route.prefix.to_string(), route.metric, route.connected),
        ("172.16.0.0/16".into(), Metric(30), false)
    );
    assert_eq!(answer.valid.to_string(), "172.16.0.0/16");
    b.invalidated();
    b.interface(1, false);
    assert_eq!(b.invalidated().len(), 1);
    assert!(ask(&mut b, "172.16.5.9").route.is_none());
    b.interface(1, true);
    assert_eq!(b.invalidated().len(), 1);
    // The route's own next hop is not reached through the route, but its neighbors are.
    b.set("bgp", "0.0.0.0/0", "10.0.1.2");
    b.set("bgp", "172.20.0.0/16", "172.20.0.1");
    b.set("ospf", "172.20.0.0/24", "10.0.1.3");
    let neighbor = ask(&mut b, "172.20.5.1");
    assert_eq!(neighbor.route.map(|route| route.prefix.to_string()), Some("172.20.0.0/16".into()));
    assert!(!neighbor.valid.contains(V4Addr("172.20.0.1".parse().unwrap())));
    let own = ask(&mut b, "172.20.0.1");
    assert_eq!(own.route.map(|route| route.prefix.to_string()), Some("172.20.0.0/24".into()));
}

/// The address of an IPv6 next hop is asked for as that of an IPv4 one.
#[test]
fn answers_for_ipv6_follow_external_routes() {
    let mut b = bench();
    let addr = V6Addr("2001:db8:ffff::9".parse().unwrap());
    assert!(Ipv6Prefix::ask(&mut b.rib, addr).route.is_none());
    b.set6("bgp", "2001:db8:ffff::/48", "2001:db8::2");
    assert_eq!(b.invalidated().len(), 1);
    assert!(Ipv6Prefix::ask(&mut b.rib, addr).route.is_some());
    b.delete6("bgp", "2001:db8:ffff::/48");
    assert_eq!(b.invalidated().len(), 1);
}
