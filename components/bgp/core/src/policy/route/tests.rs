//! Tests of routes under policies.

use super::super::vocabulary::VOCABULARY;
use super::*;
use crate::attributes::canonical::local;
use crate::attributes::private;
use alloc::vec;
use sluice_policy::PolicySet;
use sluice_policy::source::Damping;

/// Returns the context of a route of an external neighbor, whose AS path and origin are not verified.
fn context(local_as: Asn, neighbor: IpAddr) -> Context<'static> {
    let route_type = RouteType::External;
    Context { route_type, protocol: "bgp", local_as, neighbor, origins: None, path_check: None }
}

fn run(terms: &str, canonical: &[u8]) -> Edited {
    let text = alloc::format!(
        r#"{{"community": [{{"name": "a", "member": ["1:1", "1:2:3"]}}, {{"name": "all", "member": ["*:*"]}}],
            "damping": [{{"name": "quick", "half-life": 2, "suppress": 3000}}],
            "policy-statement": [{{"name": "p", "term": [{{"name": "t", {terms}}}]}}]}}"#
    );
    let policies = serde_json::from_str(&text).expect("policies");
    let set = PolicySet::compile(&policies, VOCABULARY).expect("valid");
    let local_as = Asn(65000);
    let view = canonical::view(canonical, local_as);
    let neighbor = "192.0.2.1".parse().expect("an address");
    let prefix = "10.0.0.0/8".parse().expect("a prefix");
    let hop = NextHop::new(neighbor);
    let mut route = PolicyRoute::new(prefix, canonical, &view, hop, context(local_as, neighbor));
    set.get("p").expect("the policy").run(&mut route);
    let edited = route.edited();
    assert_eq!(edited.view, canonical::view(&edited.octets, local_as), "the view is of the octets");
    edited
}

#[test]
fn changes_are_in_the_octets_in_the_order_of_codes() {
    let (octets, _) = local(Asn(65000));
    let edited = run(
        r#""then": {"med": "5", "local-preference": "+100", "origin": "egp", "community-add": "a",
            "as-path-prepend": "1 2", "weight": 7, "tag": 9}"#,
        &octets,
    );
    let codes: Vec<u8> = canonical::attributes(&edited.octets).map(|a| a.code).collect();
    let in_order = [code::ORIGIN, code::AS_PATH, code::MULTI_EXIT_DISC, code::LOCAL_PREF, code::COMMUNITIES];
    assert_eq!(codes[..5], in_order);
    assert_eq!(codes[5..], [code::LARGE_COMMUNITY]);
    let view = edited.view;
    assert_eq!((view.local_pref, view.med, view.origin, view.path_length), (200, Some(5), Origin::Egp, 2));
    assert_eq!((view.neighbor_as, view.weight), (Asn(1), 7));
    assert_eq!(Private::of(&edited.octets).tags[..], [9]);
    // And back to the octets that it began with, but for what cannot be unset.
    let without = run(r#""then": {"community-delete": "all"}"#, &edited.octets);
    assert_eq!(canonical::find(&without.octets, code::COMMUNITIES), None);
    assert_eq!(without.view.weight, 7);
}

#[test]
fn routes_have_the_damping_that_policy_chooses() {
    let (octets, _) = local(Asn(65000));
    let quick = run(r#""then": {"damping": "quick", "tag": 9}"#, &octets);
    let private = Private::of(&quick.octets);
    let expected = Damping { name: "quick".into(), half_life: 2, suppress: 3000, ..Damping::default() };
    assert_eq!((private.damping, &private.tags[..]), (Some(RouteDamping::By(expected)), &[9][..]));
    let none = run(r#""then": {"damping": "none"}"#, &quick.octets);
    assert_eq!(Private::of(&none.octets).damping, Some(RouteDamping::Off));
    assert_eq!(private::split(&quick.octets).1, octets, "no neighbor is sent the property");
}

#[test]
fn routes_of_xids_know_their_principal() {
    let (octets, view) = local(Asn(65000));
    let runs = |condition: &str, prefix: &str| {
        let source = alloc::format!(
            r#"{{"policy-statement": [{{"name": "p", "term": [{{"name": "t", "from": {{{condition}}}, "then": {{"reject": [null]}}}}]}}],
                 "prefix-list": [{{"name": "all", "prefix": ["0.0.0.0/0 orlonger"]}}]}}"#
        );
        let set =
            PolicySet::compile(&serde_json::from_str(&source).expect("policies"), VOCABULARY).expect("valid");
        let neighbor = "192.0.2.1".parse().expect("an address");
        let context = context(Asn(65000), neighbor);
        let prefix = prefix.parse().expect("a prefix");
        let mut route = PolicyRoute::new(prefix, &octets, &view, NextHop::new(neighbor), context);
        set.get("p").expect("the policy").run(&mut route).decision != sluice_policy::Decision::Default
    };
    let (ad, lpm) =
        ("ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", "lpm-0a00000000000000000000000000000000000000/8");
    for (condition, expected) in [
        (r#""principal": ["ad", "hid"]"#, [true, false, false]),
        (r#""prefix-length": ["8"]"#, [false, true, true]),
        (r#""prefix-length": ["160"]"#, [true, false, false]),
        // No XID is in a prefix list.
        (r#""prefix-list": ["all"]"#, [false, false, true]),
    ] {
        let met = [ad, lpm, "10.0.0.0/8"].map(|prefix| runs(condition, prefix));
        assert_eq!(met, expected, "{condition}");
    }
}

#[test]
fn a_next_hop_is_for_routes_of_its_family() {
    let (octets, _) = local(Asn(65000));
    let hop = |action: &str, prefix: &str| {
        let source = alloc::format!(
            r#"{{"policy-statement": [{{"name": "p", "term": [{{"name": "t", "then": {{"next-hop": {action}}}}}]}}]}}"#
        );
        let set =
            PolicySet::compile(&serde_json::from_str(&source).expect("policies"), VOCABULARY).expect("valid");
        let neighbor = "192.0.2.1".parse().expect("an address");
        let view = canonical::view(&octets, Asn(65000));
        let received = NextHop::new("198.51.100.7".parse::<IpAddr>().expect("an address"));
        let context = context(Asn(65000), neighbor);
        let mut route =
            PolicyRoute::new(prefix.parse().expect("a prefix"), &octets, &view, received, context);
        set.get("p").expect("the policy").run(&mut route);
        let edited = route.edited();
        let is_changed = edited.next_hop != received;
        assert_eq!(is_changed, edited.rule != NextHopRule::Session, "wire and table agree");
        is_changed.then(|| alloc::format!("{}", edited.next_hop.address))
    };
    let xid = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
    for (action, ipv4, ipv6) in [
        (r#""203.0.113.1""#, Some("203.0.113.1"), None),
        (r#""2001:db8::1""#, None, Some("2001:db8::1")),
        (r#"["203.0.113.1", "2001:db8::1"]"#, Some("203.0.113.1"), Some("2001:db8::1")),
        // The neighbor's address.
        (r#""peer""#, Some("192.0.2.1"), None),
    ] {
        assert_eq!(hop(action, "10.0.0.0/8").as_deref(), ipv4, "{action}");
        assert_eq!(hop(action, "2001:db8:1::/48").as_deref(), ipv6, "{action}");
        assert_eq!(hop(action, xid), None, "{action}");
    }
}

#[test]
fn routes_know_their_path() {
    let mut octets = vec![];
    let path = [2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea];
    canonical::put_with(&local(Asn(65000)).0, 0, code::AS_PATH, Some(&path), &mut octets);
    let check = |condition: &str, is_met: bool| {
        let terms = alloc::format!(r#""from": {{{condition}}}, "then": {{"med": 1}}"#);
        assert_eq!(run(&terms, &octets).view.med.is_some(), is_met, "{condition}");
    };
    check(r#""origin-as": ["65002"]"#, true);
    check(r#""path-neighbor-as": ["65001"]"#, true);
    check(r#""origin-as": ["65001"]"#, false);
    check(r#""as-path-length": ["2-3"]"#, true);
    check(r#""prefix-length": ["8"]"#, true);
    check(r#""protocol": ["bgp"]"#, true);
    check(r#""route-type": ["external"]"#, true);
    check(r#""route-type": ["local"]"#, false);
    check(r#""next-hop": ["192.0.2.0/24"]"#, true);
    check(r#""validation": ["valid"]"#, false);
    let terms = r#""then": {"as-path-remove-private": []}"#;
    assert_eq!(run(terms, &octets).view.path_length, 0);
}
