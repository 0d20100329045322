//! Policies in the RIB: for routes of origins and for routes on their way to subscribers.

use crate::bench;
use crate::bench::Bench;
use crate::bench::policies::{compiled, policies, policy};
use sluice_base::{
    Address, AnyPrefix, Distance, FamilyId, Instant, Ipv4Prefix, Metric, RouteAction, RouteKind, TableId, Tag,
};
use sluice_clients::EXTERNAL_TAG;
use sluice_machine::{Machine, Outbox, Request};
use sluice_policy::source::{Policies, Statement};
use sluice_rib::request::{SetPolicies, Subscribe};
use sluice_rib::view::{PageQuery, RouteView};
use sluice_rib::{Input, Rib, RibPolicies, SubscriptionId};
use std::collections::BTreeMap;

const NET: &str = "192.0.2.0/24";

/// A RIB with a static and an OSPF route of [`NET`], and an OSPF route beside.
fn bench() -> Bench {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.origin_with_kinds("ospf", 110, false, &["intra-area", "external"]);
    b.set("static", NET, "10.0.0.2");
    b.set("ospf", NET, "10.0.1.2");
    let mut other = bench::batch::<Ipv4Prefix>("198.51.100.0/24".parse().unwrap(), Some("10.0.1.3"));
    other.sets[0].kind = RouteKind(2);
    other.sets[0].metric = Metric(20);
    other.sets[0].tags = [Tag(7), Tag(8)].into_iter().collect();
    b.update("ospf", other);
    b
}

/// Sets one policy for an origin.
fn import(b: &mut Bench, origin: &str, from: &str, then: &str) {
    let source = policies(vec![policy("p", from, then)], vec![NET.into()]);
    b.set_policies(compiled(source, &[(origin, "p")]), 0);
    b.idle();
}

fn routes(rib: &Rib, origin: &str) -> Vec<RouteView> {
    let query = PageQuery { origin: Some(origin.into()), limit: 100, ..PageQuery::default() };
    rib.routes(TableId::MAIN, FamilyId::IPV4, &query).0
}

/// The route of an origin, by its prefix.
fn route(b: &Bench, origin: &str, prefix: &str) -> RouteView {
    let prefix = AnyPrefix::of(prefix.parse::<Ipv4Prefix>().unwrap());
    routes(&b.rib, origin).into_iter().find(|route| route.prefix == prefix).unwrap()
}

fn tags(route: &RouteView) -> Vec<u32> {
    route.tags.as_slice().iter().map(|tag| tag.0).collect()
}

#[test]
fn a_rejected_route_is_shown_with_the_reason_and_comes_back() {
    let mut b = bench();
    let sets = b.rib.table(TableId::MAIN).unwrap().shared.sets.len();
    let source = policies(vec![policy("p", "prefix-list list", "reject; reason unwanted")], vec![NET.into()]);
    b.set_policies(compiled(source, &[("static", "p")]), 0);
    b.idle();
    let rejected = route(&b, "static", NET);
    assert_eq!(rejected.rejected_by_policy.as_deref(), Some("unwanted (policy p, term only)"));
    assert!(!rejected.selected);
    assert_eq!((b.engine(NET), route(&b, "ospf", NET).selected), ("10.0.1.2@2".into(), true));
    // The same at once for what the origin sends now.
    b.set("static", NET, "10.0.0.3");
    assert_eq!(b.engine(NET), "10.0.1.2@2");
    b.set("static", "203.0.113.0/24", "10.0.0.3");
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.3@1");
    b.set_policies(RibPolicies::default(), 0);
    b.idle();
    assert_eq!((b.engine(NET), route(&b, "static", NET).rejected_by_policy), ("10.0.0.3@1".into(), None));
    b.delete("static", "203.0.113.0/24");
    assert_eq!(b.rib.table(TableId::MAIN).unwrap().shared.sets.len(), sets, "no derived set stays");
}

#[test]
fn policies_set_distance_and_metric_and_add_tags() {
    let mut b = bench();
    import(&mut b, "static", "protocol static; distance 0-1", "distance 200; metric 5");
    let changed = route(&b, "static", NET);
    assert_eq!((changed.distance, changed.metric, changed.selected), (Distance(200), Metric(5), false));
    assert_eq!(b.engine(NET), "10.0.1.2@2");
    import(&mut b, "ospf", "route-type external; tag 8; metric 20; next-hop 10.0.1.0/24", "tag 9; metric +1");
    let other = route(&b, "ospf", "198.51.100.0/24");
    assert_eq!((tags(&other), other.metric), (vec![7, 8, 9], Metric(21)));
    assert_eq!(tags(&route(&b, "ospf", NET)), [] as [u32; 0]);
    assert_eq!(route(&b, "static", NET).distance, Distance(1), "its policy is gone");
    import(&mut b, "ospf", "table 1-253", "reject");
    assert_eq!(route(&b, "ospf", NET).rejected_by_policy, None, "the main table is 254");
    import(&mut b, "ospf", "family ipv4; prefix-length 24", "distance 255");
    assert!(!route(&b, "ospf", "198.51.100.0/24").selected, "a route of distance 255 is not used");
}

#[test]
fn the_first_policy_that_decides_is_the_last() {
    let mut b = bench();
    let statements = vec![
        policy("first", "tag 8", "metric 1; accept"),
        policy("second", "", "metric 2"),
        policy("third", "prefix-list list", "tag 3; reject"),
    ];
    let names = ["first", "second", "third"].map(String::from).to_vec();
    let imports = BTreeMap::from([("ospf".to_string(), names)]);
    let policies = RibPolicies::compile(policies(statements, vec![NET.into()]), imports, Vec::new()).unwrap();
    b.set_policies(policies, 0);
    b.set("ospf", "203.0.113.0/24", "10.0.1.2");
    assert_eq!(route(&b, "ospf", "198.51.100.0/24").metric, Metric(1), "the others are not asked");
    assert_eq!(route(&b, "ospf", "203.0.113.0/24").metric, Metric(2), "none of them has decided");
    let rejected = route(&b, "ospf", NET);
    assert_eq!(rejected.rejected_by_policy.as_deref(), Some("policy third, term only"));
    assert_eq!((rejected.metric, tags(&rejected)), (Metric(0), vec![]), "it is shown as it was announced");
}

#[test]
fn interfaces_are_known_by_their_names() {
    let mut b = bench();
    import(&mut b, "connected", "interface eth2", "metric 3");
    assert_eq!(route(&b, "connected", "10.0.1.0/24").metric, Metric(3));
    assert_eq!(route(&b, "connected", "10.0.0.0/24").metric, Metric(0));
    let renamed = |name: &str| {
        let mut interface = b.rib.interfaces().all().find(|i| i.index.number() == 2).unwrap().clone();
        interface.name = name.into();
        Input::Interface(sluice_base::InterfaceEvent::Changed(interface))
    };
    let input = renamed("uplink");
    b.input(input);
    assert_eq!(route(&b, "connected", "10.0.1.0/24").metric, Metric(0));
}

#[test]
fn stale_routes_stay_stale_whatever_policies_do() {
    let mut b = bench();
    b.input(Input::OriginDied(TableId::MAIN, "ospf".into()));
    import(&mut b, "ospf", "", "distance 5");
    let shown = route(&b, "ospf", NET);
    assert_eq!((shown.stale, shown.distance), (true, Distance(5)));
    b.origin("ospf", 110, false);
    b.set("ospf", NET, "10.0.1.2");
    b.input(Input::EndOfRefresh(TableId::MAIN, "ospf".into()));
    let left: Vec<String> = routes(&b.rib, "ospf").iter().map(|route| route.prefix.to_string()).collect();
    assert_eq!(left, [NET]);
    let summary = b.rib.summary();
    let counts: Vec<_> =
        summary[0].origins.iter().map(|(name, _, routes, stale)| (&**name, *routes, *stale)).collect();
    assert_eq!(counts, [("connected", 2, 0), ("static", 1, 0), ("ospf", 1, 0)]);
}

#[test]
fn a_replacing_process_gets_what_origins_announced() {
    let mut b = bench();
    import(&mut b, "ospf", "", "distance 5; tag 9");
    let state = b.rib.export();
    let (mut next, mut out) = (Rib::new(8, 2), Outbox::new());
    SetPolicies(compiled(policies(vec![policy("q", "tag 7", "reject")], vec![]), &[("ospf", "q")])).make(
        &mut next,
        Instant::ZERO,
        &mut out,
    );
    next.import(Instant::ZERO, state, &mut out);
    let shown: Vec<_> =
        routes(&next, "ospf").into_iter().map(|r| (r.distance, tags(&r), r.rejected_by_policy)).collect();
    let rejected = Some("policy q, term only".into());
    assert_eq!(shown, [(Distance(110), vec![], None), (Distance(110), vec![7, 8], rejected)]);
}

/// What a subscriber received: origin, metric and tags.
type Received = BTreeMap<String, (String, u32, Vec<u32>)>;

/// Takes a subscriber's changes; each deletion is of a received route.
fn receive(b: &mut Bench, id: SubscriptionId, received: &mut Received) {
    b.idle();
    let (batch, _) = b.rib.take_subscribed::<Ipv4Prefix>(TableId::MAIN, id, usize::MAX).unwrap();
    for update in batch.routes.updates {
        let prefix = update.prefix.to_string();
        match update.action {
            RouteAction::Delete => assert!(received.remove(&prefix).is_some(), "{prefix} was never sent"),
            RouteAction::Set(index) => {
                let set = &batch.routes.sets[index as usize];
                let origin = &batch.origins[batch.set_origins[index as usize] as usize];
                let tags = set.tags.as_slice().iter().map(|tag| tag.0).collect();
                received.insert(prefix, (origin.name.clone(), set.metric.0, tags));
            }
        }
    }
}

#[test]
fn a_subscription_through_a_policy() {
    let mut b = bench();
    let set = |b: &mut Bench, statement: Statement| {
        let importing = policy("in", "protocol static", "tag 1");
        let source = policies(vec![statement, importing], vec![NET.into()]);
        b.set_policies(compiled(source, &[("static", "in")]), 0);
    };
    set(&mut b, policy("out", "tag 1", "tag 2; metric 9; accept"));
    let out = b.rib.policies().for_subscriber("out").unwrap();
    let subscribe =
        Subscribe::<Ipv4Prefix>::new(TableId::MAIN, vec!["static".into(), "ospf".into()]).through(out);
    let id = subscribe.make(&mut b.rib, Instant::ZERO, &mut Outbox::new());
    let mut received = Received::new();
    receive(&mut b, id, &mut received);
    let of = |origin: &str, metric, tags: &[u32]| (origin.to_string(), metric, tags.to_vec());
    assert_eq!(received[NET], of("static", 9, &[1, 2]));
    assert_eq!(received["198.51.100.0/24"], of("ospf", 20, &[7, 8]));
    // The subscriber's changes are no changes of the table.
    assert_eq!(tags(&route(&b, "static", NET)), [1]);
    set(&mut b, policy("out", "tag 8", "reject"));
    receive(&mut b, id, &mut received);
    assert_eq!(received, Received::from([(NET.into(), of("static", 0, &[1]))]));
    b.delete("static", NET);
    receive(&mut b, id, &mut received);
    assert_eq!(received[NET], of("ospf", 0, &[]));
    // A policy that is gone lets nothing through; it comes back with all routes.
    b.set_policies(RibPolicies::default(), 0);
    receive(&mut b, id, &mut received);
    assert_eq!(received, Received::new());
    b.set("ospf", NET, "10.0.1.4");
    receive(&mut b, id, &mut received);
    set(&mut b, policy("out", "", "accept"));
    receive(&mut b, id, &mut received);
    assert_eq!(received.keys().map(String::as_str).collect::<Vec<_>>(), [NET, "198.51.100.0/24"]);
}

#[test]
fn external_routes_are_marked_for_subscribers_of_named_origins() {
    let mut b = bench();
    b.origin("bgp", 20, true);
    b.set("bgp", "203.0.113.0/24", "10.0.0.2");
    for (origins, marked) in
        [(vec!["bgp".to_string(), "ospf".to_string()], vec![EXTERNAL_TAG.0]), (vec![], vec![])]
    {
        let id = b.rib.subscribe::<Ipv4Prefix>(TableId::MAIN, origins);
        let mut received = Received::new();
        receive(&mut b, id, &mut received);
        assert_eq!(received["203.0.113.0/24"].2, marked);
        assert_eq!(received["198.51.100.0/24"].2, [7, 8]);
    }
}

#[test]
fn a_policy_must_make_sense_in_the_rib() {
    let of = |statements: Vec<Statement>, name: &str| {
        let imports = BTreeMap::from([("static".to_string(), vec![name.to_string()])]);
        RibPolicies::compile(policies(statements, vec![NET.into()]), imports, Vec::new())
    };
    let check = |statements: Vec<Statement>, expected: &str| {
        assert_eq!(of(statements, "p").unwrap_err().to_string(), expected);
    };
    check(
        vec![policy("q", "", "accept")],
        "origin static import: there is no policy-statement `p`; there are: q",
    );
    let actions = "distance, metric, tag, accept, reject, next-term, next-policy, reason, call";
    let known =
        "distance, metric, tag, protocol, route-type, next-hop, interface, prefix-length, family, table";
    check(
        vec![policy("p", "as-path a", "accept")],
        &format!(
            "policy policy-statement p term only from as-path: the RIB's routes have no condition `as-path`; expected one of {known}, prefix, prefix-list"
        ),
    );
    check(
        vec![policy("p", "", "next-hop 10.0.0.1")],
        &format!(
            "policy policy-statement p term only then next-hop: the RIB's routes have no action `next-hop`; expected one of {actions}"
        ),
    );
    check(
        vec![policy("p", "", "call q"), policy("q", "", "community-add c")],
        &format!(
            "policy policy-statement q term only then community-add: the RIB's routes have no action `community-add`; expected one of {actions}"
        ),
    );
    check(
        vec![policy("p", "", "distance 256")],
        "policy policy-statement p term only then distance: `256`: expected a number up to 255; +N adds, -N subtracts",
    );
    let parameter = Statement { parameter: vec!["x".into()], ..policy("p", "tag $x", "reject") };
    check(
        vec![parameter.clone()],
        "origin static import: `p` has parameters; use a policy without parameters that calls `p`",
    );
    // Expressions are checked where they are defined, whether or not a policy uses them.
    let named = sluice_policy::source::AsPath { name: "cisco".into(), expression: "_65000_".into() };
    let unused = Policies { as_path: vec![named], ..Policies::default() };
    assert_eq!(
        RibPolicies::compile(unused, BTreeMap::new(), Vec::new()).unwrap_err().to_string(),
        "policy as-path cisco expression: at character 1: expected an AS number, `.`, `[`, `(`, `|` or the end; here it is written `.* 65000 .*`"
    );
    // Policies of other protocols beside are not looked at, and a policy with parameters can be called.
    let called = Statement { name: "q".into(), ..parameter };
    let mut caller = policy("p", "", "");
    caller.term[0].then.insert("call".into(), sluice_policy::source::Values(vec!["q x=7".into()]));
    let all = vec![caller, called, policy("bgp", "as-path a", "local-preference 5")];
    let imports = of(all, "p").unwrap();
    let mut b = bench();
    let renamed = RibPolicies::compile(Policies::default(), BTreeMap::new(), Vec::new()).unwrap();
    assert_eq!(renamed, RibPolicies::default());
    b.set_policies(imports, 0);
    b.set("static", "203.0.113.0/24", "10.0.0.2");
    let mut tagged = bench::batch::<Ipv4Prefix>(NET.parse().unwrap(), Some("10.0.0.2"));
    tagged.sets[0].tags = [Tag(7)].into_iter().collect();
    b.update("static", tagged);
    assert_eq!(b.engine("203.0.113.0/24"), "10.0.0.2@1");
    assert_eq!(route(&b, "static", NET).rejected_by_policy.as_deref(), Some("policy q, term only"));
    let lookup = b.rib.lookup(TableId::MAIN, Address::Ip("192.0.2.1".parse().unwrap())).unwrap();
    assert_eq!(lookup.origin, "ospf");
}
