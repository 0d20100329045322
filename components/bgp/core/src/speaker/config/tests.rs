//! The effects of a change of configuration.

use super::maximum_prefixes::{LimitAction, MaximumPrefixes};
use crate::local_as::LocalAs;
use crate::speaker::{Config, DefaultPolicy, NeighborConfig, Touched};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use core::net::IpAddr;
use sluice_base::{Asn, Xid};

#[test]
fn figures_of_flap_damping_are_checked() {
    let settings = |damping: serde_json::Value| {
        let tree = serde_json::json!({"local-as": 1, "router-id": "10.0.0.1", "damping": damping});
        let settings: crate::speaker::Settings = serde_json::from_value(tree).expect("settings");
        settings.check().map_err(|error| error.to_string()).map(|()| settings.config().damping)
    };
    let rules = settings(serde_json::json!({"half-life": 5, "histories": 7})).expect("valid");
    assert_eq!((rules.half_life, rules.suppress, rules.reuse, rules.histories), (5, 6000, 750, 7));
    let refused = |damping, expected: &str| {
        let error = settings(damping).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    };
    refused(serde_json::json!({"reuse": 6000}), "damping reuse: 6000 must be less than suppress (6000)");
    refused(serde_json::json!({"half-life": 45}), "damping suppress: no penalty exceeds 18");
    let of_policy = |damping: serde_json::Value| {
        let policy = serde_json::json!({"damping": [damping]});
        let tree = serde_json::json!({"local-as": 1, "router-id": "10.0.0.1", "policy": policy});
        let settings: crate::speaker::Settings = serde_json::from_value(tree).expect("settings");
        settings.check().map_err(|error| error.to_string())
    };
    assert_eq!(of_policy(serde_json::json!({"name": "quick", "half-life": 5})), Ok(()));
    let error = of_policy(serde_json::json!({"name": "quick", "suppress": 700})).expect_err("it is refused");
    assert_eq!(error, "policy damping quick reuse: 750 must be less than suppress (700)");
    let error = of_policy(serde_json::json!({"name": "slow", "half-life": 45})).expect_err("it is refused");
    assert!(error.starts_with("policy damping slow suppress: no penalty exceeds 18"), "{error}");
    let neighbor = serde_json::json!([{"address": "10.0.0.2", "peer-as": 1, "damping": true}]);
    let tree = serde_json::json!({"local-as": 1, "router-id": "10.0.0.1", "neighbor": neighbor});
    let internal: crate::speaker::Settings = serde_json::from_value(tree).expect("settings");
    let error = internal.check().expect_err("it is internal").to_string();
    assert!(error.contains("damping is for external neighbors"), "{error}");
}

#[test]
fn ttl_security_counts_hops() {
    let of = |multihop, ttl_security| {
        let address = "10.0.0.1".parse().unwrap();
        let config = NeighborConfig { multihop, ttl_security, ..NeighborConfig::new(address, Asn(1)) };
        (config.ttl(false), config.ttl(true), config.min_ttl())
    };
    assert_eq!(of(None, true), (Some(255), Some(255), Some(255)));
    assert_eq!(of(Some(1), true).2, Some(255));
    assert_eq!((of(Some(2), true).2, of(Some(255), true).2), (Some(254), Some(1)));
    assert_eq!(of(None, false), (Some(1), None, None));
    assert_eq!(of(Some(2), false), (Some(2), Some(2), None));
}

fn check(change: impl Fn(&mut NeighborConfig), expected: &str) {
    check_in(Asn(1), change, expected);
}

fn check_in(local_as: Asn, change: impl Fn(&mut NeighborConfig), expected: &str) {
    let address = "10.0.0.1".parse().unwrap();
    let before = NeighborConfig::new(address, Asn(1));
    let mut after = before.clone();
    change(&mut after);
    let config = |n: NeighborConfig| Config { neighbors: vec![n], ..Config::default() };
    let touched = config(before).touched(&config(after), local_as);
    let count = |all: &[IpAddr]| all.len();
    let Touched { reset, refiltered, started, stopped, .. } = &touched;
    let got = format!("{} {} {} {}", count(reset), count(refiltered), count(started), count(stopped));
    assert_eq!(got, expected, "{touched:?}");
}

#[test]
fn routes_that_are_not_stored_are_asked_for() {
    let address = "10.0.0.1".parse().unwrap();
    let neighbor = |keep_rejected, default_policy| NeighborConfig {
        keep_rejected,
        default_policy: Some(default_policy),
        ..NeighborConfig::new(address, Asn(2))
    };
    let check = |before: &NeighborConfig, after: &NeighborConfig, refiltered: usize, refreshed: usize| {
        let config = |n: &NeighborConfig| Config { neighbors: vec![n.clone()], ..Config::default() };
        let touched = config(before).touched(&config(after), Asn(1));
        assert_eq!((touched.refiltered.len(), touched.refreshed.len()), (refiltered, refreshed));
        assert!(touched.reset.is_empty());
    };
    use DefaultPolicy::{Accept, Reject};
    check(&neighbor(true, Reject), &neighbor(true, Accept), 1, 0);
    check(&neighbor(true, Reject), &neighbor(false, Reject), 0, 0);
    check(&neighbor(true, Reject), &neighbor(false, Accept), 1, 0);
    check(&neighbor(false, Reject), &neighbor(false, Reject), 0, 0);
    check(&neighbor(false, Reject), &neighbor(false, Accept), 1, 1);
    check(&neighbor(false, Reject), &neighbor(true, Reject), 0, 1);
}

#[test]
fn who_is_touched() {
    check(|_| {}, "0 0 0 0");
    check(|n| n.description = "x".into(), "0 0 0 0");
    check(|n| n.next_hop_self = true, "0 1 0 0");
    check_in(Asn(2), |n| n.next_hop_self = true, "0 1 0 0");
    check_in(Asn(2), |n| n.graceful_shutdown = true, "0 1 0 0");
    check(|n| n.default_policy = Some(DefaultPolicy::Reject), "0 1 0 0");
    check(|n| n.default_policy = Some(DefaultPolicy::Accept), "0 0 0 0");
    check_in(Asn(2), |n| n.default_policy = Some(DefaultPolicy::Reject), "0 0 0 0");
    check(|n| n.import = vec!["unknown".into()], "0 1 0 0");
    check(|n| n.send_community.large = false, "0 1 0 0");
    check(|n| n.send_community.standard = false, "0 1 0 0");
    check(|n| n.send_community.extended = false, "0 1 0 0");
    check_in(Asn(2), |n| n.as_override = true, "0 1 0 0");
    check(
        |n| n.local_as = Some(LocalAs { number: Asn(7), mode: Default::default(), dual: false }),
        "1 0 0 0",
    );
    let families: [fn(&mut NeighborConfig) -> &mut MaximumPrefixes; 3] = [
        |n| &mut n.ipv4_unicast.maximum_prefixes,
        |n| &mut n.ipv6_unicast.maximum_prefixes,
        |n| &mut n.xid.maximum_prefixes,
    ];
    for of in families {
        check(|n| of(n).received = Some(9), "0 0 0 0");
        check(|n| of(n).accepted = Some(9), "0 0 0 0");
        check(|n| of(n).warn_percent = Some(9), "0 0 0 0");
        check(|n| of(n).action = Some(LimitAction::Warn), "0 0 0 0");
        check(|n| of(n).restart_after = Some(9), "0 0 0 0");
    }
    check(|n| n.connect_retry_time = 9, "0 0 0 0");
    check(|n| n.delay_open_time = Some(9), "0 0 0 0");
    check(|n| n.xid.next_hop = Some(Xid::of_link_address([2; 6])), "1 0 0 0");
    check(|n| n.ipv4_unicast.enabled = Some(false), "1 0 0 0");
    check(|n| n.hold_time = 9, "1 0 0 0");
    check(|n| n.send_hold_time = Some(600), "0 0 0 0");
    check(|n| (n.hold_time, n.next_hop_self) = (9, true), "1 0 0 0");
    check(|n| n.enabled = false, "1 0 0 0");
    check(|n| n.address = "10.0.0.2".parse().unwrap(), "0 0 1 1");
}
