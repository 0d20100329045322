//! Policies from the configuration's JSON to verdicts.

use crate::PolicySet;
use crate::community::Kind;
use crate::draft::Draft;
use crate::machine::{Answers, Changes, Decision, Step};
use crate::program::{Constants, Instruction, NextHop, Program, Test};
use crate::source::Policies;
use crate::test_model::{Outcome, Path, VARIABLES, evaluate};
use crate::vocabulary::Reads;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::string::{String, ToString};
use std::vec::Vec;

fn policies(statements: Value) -> Policies {
    let lists = json!({
        "prefix-list": [{"name": "customers", "prefix": ["192.0.2.0/24", "10.0.0.0/8 orlonger"]},
                        {"name": "bogons", "prefix": ["127.0.0.0/8 orlonger"]}],
        "as-path": [{"name": "short", "expression": ". .?"}, {"name": "from-two", "expression": "2 .*"}],
        "community": [{"name": "prefer", "member": ["1:1", "1:2:3"]}, {"name": "internal", "member": ["1:*", "no-export"]},
                      {"name": "of-peer", "member": ["1:peer-as", "0:0:peer-as"]}, {"name": "any-of-peer", "member": ["*:peer-as"]}],
        "policy-statement": statements,
    });
    serde_json::from_value(lists).expect("policies")
}

fn refused(statements: Value, expected: &str) {
    let error = PolicySet::compile(&policies(statements), VARIABLES).expect_err(expected).to_string();
    assert!(error.contains(expected), "expected {expected}: {error}");
}

fn one_term(from: Value, then: Value) -> Value {
    json!([{"name": "p", "term": [{"name": "t", "from": from, "then": then}]}])
}

fn route() -> Draft {
    let mut route = Draft::new("10.1.0.0/16".parse().expect("a prefix"));
    route.as_path = Path::sequence(&[2, 3]).octets();
    route.communities.insert(Kind::Standard, Vec::from([0, 1, 0, 1, 0, 9, 0, 9]));
    route.numbers.extend([(0, 100), (3, 2)]);
    route.texts.insert(4, "upstreams".into());
    route.addresses.insert(5, "192.0.2.1".parse().expect("an address"));
    route
}

/// Runs the policy `p` and returns the outcome in the model's form.
fn outcome(policies: &Policies, route: &mut Draft) -> Outcome {
    let set = PolicySet::compile(policies, VARIABLES).expect("valid");
    let program = set.get("p").expect("the policy");
    let program = program.with_peer(&route.clone());
    match program.run(route).decision {
        Decision::Accept => Outcome::Accept,
        Decision::Reject(reason) => {
            Outcome::Reject(reason.and_then(|r| program.reason(r)).map(ToString::to_string))
        }
        Decision::Default => Outcome::Default,
    }
}

fn check(from: Value, is_met: bool) {
    let policies = policies(one_term(from.clone(), json!({"accept": [null]})));
    let expected = if is_met { Outcome::Accept } else { Outcome::Default };
    assert_eq!(outcome(&policies, &mut route()), expected, "{from}");
    assert_eq!(evaluate(&policies, "p", &mut route()), expected, "the model: {from}");
}

#[test]
fn conditions() {
    check(json!({}), true);
    check(json!({"prefix-list": ["customers"]}), true);
    check(json!({"prefix-list": ["bogons"]}), false);
    check(json!({"prefix-list": ["bogons", "customers"]}), true);
    check(json!({"prefix": ["10.0.0.0/8"]}), false);
    check(json!({"prefix": ["172.16.0.0/12", "10.0.0.0/8 upto /16"]}), true);
    check(json!({"as-path": ["short"]}), true);
    check(json!({"as-path": ["from-two"], "prefix-list": ["bogons"]}), false);
    check(json!({"community": ["prefer"]}), true);
    check(json!({"community-all": ["prefer"]}), false);
    check(json!({"community": ["internal"]}), true);
    check(json!({"preference": ["100"]}), true);
    check(json!({"preference": [7, "90-110"]}), true);
    check(json!({"metric": ["0-4294967295"]}), false);
    check(json!({"group": ["upstreams"]}), true);
    check(json!({"group": ["customers"]}), false);
    check(json!({"neighbor": ["192.0.2.1"]}), true);
    check(json!({"neighbor": ["192.0.2.2"]}), false);
}

#[test]
fn the_neighbor_is_a_value() {
    let run = |from: Value, then: Value, asn: u32, next_hop: &str, communities: &[u8]| {
        let mut route = route();
        route.numbers.insert(3, asn);
        route.addresses.insert(6, next_hop.parse().expect("an address"));
        route.communities.insert(Kind::Standard, communities.to_vec());
        let policies = policies(one_term(from, then));
        let set = PolicySet::compile(&policies, VARIABLES).expect("valid");
        let bound = set.get("p").expect("the policy").bind(&route);
        let (mut by_model, mut unbound) = (route.clone(), route.clone());
        let is_met = bound.run(&mut route).decision == Decision::Accept;
        assert_eq!(evaluate(&policies, "p", &mut by_model) == Outcome::Accept, is_met, "the model");
        assert_eq!(outcome(&policies, &mut unbound) == Outcome::Accept, is_met, "not bound");
        assert_eq!((&by_model, &unbound), (&route, &route));
        (is_met, route.communities)
    };
    let accept = || json!({"accept": [null]});
    let peer = |next_hop: &str| run(json!({"next-hop": ["peer", "10.1.1.1"]}), accept(), 7, next_hop, &[]).0;
    assert!(peer("192.0.2.1") && peer("10.1.1.1"));
    assert!(!peer("192.0.2.2"));
    let has = |name: &str, asn: u32, community: [u8; 4]| {
        run(json!({ name: ["of-peer"] }), accept(), asn, "192.0.2.1", &community).0
    };
    assert!(has("community", 7, [0, 1, 0, 7]));
    assert!(!has("community", 8, [0, 1, 0, 7]));
    // An AS above 65535 fits no field of a standard community: no route has that community.
    assert!(!has("community", 65536 + 7, [0, 1, 0, 7]));
    assert!(!has("community-all", 65536 + 7, [0, 1, 0, 7]));
    let add = |asn: u32| {
        run(json!({}), json!({"community-add": "of-peer", "accept": [null]}), asn, "192.0.2.1", &[]).1
    };
    assert_eq!(add(7)[&Kind::Standard], [0, 1, 0, 7]);
    assert_eq!(add(7)[&Kind::Large], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(add(65536)[&Kind::Standard], [0u8; 0]);
    assert_eq!(add(65536)[&Kind::Large], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    let left = |asn: u32| {
        run(
            json!({}),
            json!({"community-delete": "any-of-peer", "accept": [null]}),
            asn,
            "192.0.2.1",
            &[0, 9, 0, 7],
        )
        .1
    };
    assert_eq!((left(7)[&Kind::Standard].len(), left(8)[&Kind::Standard].len()), (0, 4));
}

#[test]
fn programs_with_values_of_different_neighbors_differ() {
    let program = |from: Value, asn: u32, address: &str| {
        let set = PolicySet::compile(&policies(one_term(from, json!({"accept": [null]}))), VARIABLES)
            .expect("valid");
        let mut neighbor = route();
        neighbor.numbers.insert(3, asn);
        neighbor.addresses.insert(5, address.parse().expect("an address"));
        set.get("p").expect("the policy").bind(&neighbor)
    };
    let hop = || json!({"next-hop": ["peer"]});
    assert_eq!(program(hop(), 1, "10.0.0.1"), program(hop(), 2, "10.0.0.1"));
    assert_ne!(program(hop(), 1, "10.0.0.1"), program(hop(), 1, "10.0.0.2"));
    let community = || json!({"community": ["of-peer"]});
    assert_eq!(program(community(), 1, "10.0.0.1"), program(community(), 1, "10.0.0.2"));
    assert_ne!(program(community(), 1, "10.0.0.1"), program(community(), 2, "10.0.0.1"));
    let plain = || json!({"community": ["prefer"]});
    assert_eq!(program(plain(), 1, "10.0.0.1"), program(plain(), 2, "10.0.0.2"));
}

#[test]
fn exceptions_and_order() {
    let policies = policies(json!([{"name": "p", "term": [
        {"name": "1", "except": {"prefix-list": ["customers"], "group": ["peers"]}, "then": {"reject": [null], "reason": "no customer"}},
        {"name": "2", "from": {"as-path": "from-two"}, "then": {"preference": "+50", "metric": "-1", "origin": "egp", "next-term": [null]}},
        {"name": "3", "from": {"preference": "150"}, "then": {"community-delete": "internal", "community-add": "prefer", "as-path-prepend": "7 7", "next-hop": "self", "accept": [null]}},
    ]}]));
    let mut changed = route();
    assert_eq!(outcome(&policies, &mut changed), Outcome::Accept);
    assert_eq!((changed.numbers[&0], changed.numbers[&1], changed.numbers[&2]), (150, 0, 1));
    assert_eq!(changed.as_path, Path::sequence(&[7, 7, 2, 3]).octets());
    assert_eq!(changed.communities[&Kind::Standard], [0, 9, 0, 9, 0, 1, 0, 1]);
    assert_eq!(changed.communities[&Kind::Large], [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
    assert_eq!(changed.next_hop, Some(NextHop::Own));
    let mut other = Draft::new("172.16.0.0/12".parse().expect("a prefix"));
    assert_eq!(outcome(&policies, &mut other), Outcome::Reject(Some("no customer".into())));
}

/// Returns the terms of the policy `p` whose conditions a route meets, in order, as `policy/term`.
fn met(program: &Program, mut route: Draft) -> Vec<String> {
    let mut met = Vec::new();
    program.run_met(&mut route, |number| {
        let name = &program.terms()[usize::from(number)];
        met.push(std::format!("{}/{}", name.policy, name.term));
    });
    met
}

#[test]
fn terms_are_met_by_their_conditions_with_or_without_actions() {
    let policies = policies(json!([
        {"name": "p", "term": [
            {"name": "other", "from": {"prefix-list": ["bogons", "bogons"]}, "then": {"reject": [null]}},
            {"name": "not", "except": {"prefix-list": ["bogons", "customers"]}},
            {"name": "seen", "from": {"prefix-list": ["bogons", "customers"]}, "then": {"next-term": [null]}},
            {"name": "group", "from": {"group": ["upstreams"]}, "then": {"call": "q"}},
            {"name": "no-group", "from": {"group": ["peers"]}, "then": {"call": "q"}},
            {"name": "all"},
            {"name": "end", "except": {"group": ["peers"]}, "then": {"accept": [null]}},
            {"name": "behind", "then": {"accept": [null]}},
        ]},
        {"name": "q", "term": [
            {"name": "1", "from": {"prefix-list": "bogons"}, "then": {"next-policy": [null]}},
            {"name": "2", "from": {"as-path": "from-two"}, "then": {"preference": 7}},
        ]},
    ]));
    let set = PolicySet::compile(&policies, VARIABLES).expect("valid");
    let program = set.get("p").expect("the policy");
    let expected = ["p/seen", "p/group", "q/2", "p/all", "p/end"];
    assert_eq!(met(program, route()), expected);
    // Bound, tests on the neighbor are jumps.
    assert_eq!(met(&program.bind(&route()), route()), expected);
    let mut peer = route();
    peer.texts.insert(4, "peers".into());
    let bogon = || Draft { prefix: "127.0.0.0/8".parse().expect("a prefix"), ..route() };
    assert_eq!(met(&program.bind(&peer), route()), ["p/seen", "p/no-group", "q/2", "p/all", "p/behind"]);
    assert_eq!(met(&program.bind(&peer), bogon()), ["p/other"]);
}

#[test]
fn calls_have_arguments() {
    let policies = policies(json!([
        {"name": "p", "term": [
            {"name": "1", "then": {"call": ["prefer value=300 list=bogons", "prefer value=200 list=customers"]}},
            {"name": "2", "then": {"accept": [null]}}]},
        {"name": "prefer", "parameter": ["value", "list"], "term": [
            {"name": "1", "from": {"prefix-list": "$list"}, "then": {"preference": "$value", "next-policy": [null]}},
            {"name": "2", "then": {"metric": 5}}]},
    ]));
    let mut changed = route();
    assert_eq!(outcome(&policies, &mut changed), Outcome::Accept);
    assert_eq!((changed.numbers[&0], changed.numbers[&1]), (200, 5));
}

#[test]
fn a_decision_behind_a_call_is_the_calling_terms() {
    let policies = policies(json!([
        {"name": "p", "term": [{"name": "calls", "then": {"call": "q", "accept": [null]}}]},
        {"name": "q", "term": [{"name": "called", "then": {"metric": 5}}]},
    ]));
    let set = PolicySet::compile(&policies, VARIABLES).expect("valid");
    let program = set.get("p").expect("the policy");
    let verdict = program.run(&mut route());
    let term = verdict.term.map(|term| program.terms()[usize::from(term)].term.clone());
    assert_eq!((verdict.decision, term.as_deref()), (Decision::Accept, Some("calls")));
}

#[test]
fn paths_are_edited() {
    let edited = |then: Value, path: &[u32]| {
        let mut draft = route();
        draft.as_path = Path::sequence(path).octets();
        outcome(&policies(one_term(json!({}), then)), &mut draft);
        draft.as_path
    };
    assert_eq!(
        edited(json!({"as-path-replace": "2-3 9 by 65000"}), &[1, 2, 3, 9]),
        Path::sequence(&[1, 65000, 65000, 65000]).octets()
    );
    assert_eq!(
        edited(json!({"as-path-remove-private": [null]}), &[1, 64512, 4_200_000_000, 2]),
        Path::sequence(&[1, 2]).octets()
    );
    assert_eq!(edited(json!({"as-path-remove-private": [null]}), &[64512]), [0u8; 0]);
    let long: Vec<u32> = (0..255).collect();
    let expected = Path([(2, [7].into()), (2, long.clone())].into()).octets();
    assert_eq!(edited(json!({"as-path-prepend": "7"}), &long), expected);
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let accept = json!({"accept": [null]});
    let check = |from: Value, expected: &str| refused(one_term(from, accept.clone()), expected);
    check(
        json!({"prefix-list": "custmers"}),
        "policy policy-statement p term t from prefix-list: there is no prefix-list `custmers`; did you mean `customers`?",
    );
    check(json!({"as-path": "x"}), "there are: from-two, short");
    check(json!({"preferense": "1"}), "there is no condition `preferense`; did you mean `preference`?");
    check(json!({"preference": "1001"}), "expected a number up to 1000");
    check(json!({"preference": "5-4"}), "range");
    check(json!({"origin": "bgp"}), "expected igp, egp, incomplete");
    check(json!({"prefix": "10.0.0.0/8 ge 9"}), "orlonger");
    check(json!({"neighbor": "peer"}), "`peer`: expected an address or a prefix");
    check(json!({"next-hop": "pear"}), "expected an address, a prefix or `peer`");
    check(json!({"prefix-list": []}), "expected a value");
    check(json!({"prefix-list": "$x"}), "no parameter of this policy");
    let check = |then: Value, expected: &str| refused(one_term(json!({}), then), expected);
    check(json!({"acept": [null]}), "there is no action `acept`; did you mean `accept`?");
    check(json!({"group": "x"}), "cannot be changed");
    check(json!({"accept": [null], "reject": [null]}), "one way");
    check(json!({"reason": "x"}), "for `reject`");
    check(json!({"community-add": "internal"}), "without wildcards");
    check(json!({"community-add": "any-of-peer"}), "`*:peer-as` describes several communities");
    check(json!({"preference": "+-1"}), "+N adds");
    check(json!({"as-path-prepend": ""}), "1 to 64");
    check(json!({"as-path-replace": "1 2"}), "by AS");
    check(json!({"next-hop": "me"}), "self, peer, unchanged, blackhole or an address");
    check(json!({"next-hop": ["192.0.2.1", "self"]}), "`self`: expected self, peer, unchanged");
    check(json!({"next-hop": ["192.0.2.1", "192.0.2.2"]}), "one address of each family");
    check(json!({"next-hop": []}), "expected a value");
    check(json!({"call": "p"}), "cannot call itself: p -> p");
    check(json!({"call": "q"}), "there is no policy `q`");
    let called = json!([{"name": "p", "term": [{"name": "t", "then": {"call": "q a=1"}}]}, {"name": "q", "parameter": ["b"]}]);
    refused(called, "there is no parameter of `q` `a`");
    let called = json!([{"name": "p", "term": [{"name": "t", "then": {"call": "q"}}]}, {"name": "q", "parameter": ["b"]}]);
    refused(called, "b=VALUE");
    let lists = |name: &str, entry: Value, expected: &str| {
        let policies: Policies = serde_json::from_value(json!({ name: [entry] })).expect("policies");
        let error = PolicySet::compile(&policies, VARIABLES).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected {expected}: {error}");
    };
    lists("prefix-list", json!({"name": "a", "prefix": ["10.0.0.1/8"]}), "policy prefix-list a prefix: ");
    lists(
        "as-path",
        json!({"name": "a", "expression": "1 _"}),
        "policy as-path a expression: at character 3",
    );
    lists("as-path", json!({"name": "a", "expression": "(.* 1 .{100})"}), "more states");
    lists("as-path", json!({"name": "a", "expression": "_65000_"}), "here it is written `.* 65000 .*`");
    lists(
        "community",
        json!({"name": "a", "member": ["1"]}),
        "policy community a member: `1` is no community",
    );
    lists("community", json!({"name": "a", "member": ["peer-as:1:2:3"]}), "`peer-as:1:2:3` is no community");
}

#[test]
fn programs_know_what_they_read() {
    let reads = |from: Value| {
        let set = PolicySet::compile(&policies(one_term(from, json!({"accept": [null]}))), VARIABLES)
            .expect("valid");
        set.get("p").map(|program| program.reads())
    };
    assert_eq!(reads(json!({})), Some(Reads::Neighbor));
    assert_eq!(reads(json!({"group": "x", "neighbor-as": "2"})), Some(Reads::Neighbor));
    assert_eq!(reads(json!({"community": "prefer"})), Some(Reads::Attributes));
    assert_eq!(reads(json!({"community": "prefer", "prefix": "10.0.0.0/8"})), Some(Reads::Prefix));
}

#[test]
fn steps_are_observed() {
    let set = PolicySet::compile(
        &policies(one_term(json!({"preference": "100"}), json!({"metric": "5", "accept": [null]}))),
        VARIABLES,
    );
    let set = set.expect("valid");
    let program = set.get("p").expect("the policy");
    let mut steps = Vec::new();
    program.run_observed(&mut route(), |_, step| {
        steps.push(match step {
            Step::Enter(term) => program.terms()[usize::from(term)].term.clone(),
            Step::Test(_, answer) => answer.to_string(),
            Step::Change(edit) => std::format!("{edit:?}"),
        });
    });
    assert_eq!(steps, ["t", "true", "Number(1, 5)"]);
}

#[test]
fn what_is_not_valid_is_not_verified() {
    let verified = |code: &[Instruction]| Program::verified(code.to_vec(), Constants::default(), VARIABLES);
    assert!(verified(&[Instruction::Accept]).is_ok());
    assert!(verified(&[Instruction::Jump(1)]).is_ok());
    for wrong in [
        Instruction::Jump(0),
        Instruction::Jump(2),
        Instruction::Enter(0),
        Instruction::Reject(Some(0)),
        Instruction::Check { test: Test::PathIs(0), expected: true, otherwise: 1 },
        Instruction::Check { test: Test::NumberIn(4, 0), expected: true, otherwise: 1 },
        Instruction::Change(crate::program::Change::Set(3, 1)),
        Instruction::Change(crate::program::Change::Set(0, 1001)),
        Instruction::Change(crate::program::Change::Set(99, 1)),
    ] {
        assert!(verified(&[wrong]).is_err(), "{wrong:?}");
    }
}

/// Texts of conditions by name.
fn any_condition() -> impl Strategy<Value = (String, Value)> {
    let row = |name: &'static str, values: &'static [&'static str]| {
        let values = proptest::sample::subsequence(values, 1..=values.len().min(2));
        values.prop_map(move |values| (String::from(name), json!(values)))
    };
    let lists = prop_oneof![
        row("prefix-list", &["customers", "bogons"]),
        row("prefix", &["10.0.0.0/8 upto /16", "0.0.0.0/0", "10.1.0.0/16"]),
        row("as-path", &["short", "from-two"]),
        row("community", &["prefer", "internal", "of-peer", "any-of-peer"]),
        row("community-all", &["prefer", "internal", "of-peer"]),
    ];
    let variables = prop_oneof![
        row("preference", &["100", "0-99", "150-1000"]),
        row("metric", &["0", "1-10"]),
        row("origin", &["igp", "egp"]),
        row("group", &["upstreams", "peers"]),
        row("neighbor", &["192.0.2.1"]),
        row("next-hop", &["peer", "10.0.0.1"]),
    ];
    prop_oneof![lists, variables]
}

fn any_action() -> impl Strategy<Value = (String, Value)> {
    let row = |name: &'static str, values: &'static [&'static str]| {
        proptest::sample::select(values).prop_map(move |value| (String::from(name), json!(value)))
    };
    prop_oneof![
        row("preference", &["100", "+50", "-70", "+1000"]),
        row("metric", &["5", "-4294967295", "+4294967295"]),
        row("origin", &["igp", "egp", "incomplete"]),
        row("community-delete", &["prefer", "internal", "any-of-peer"]),
        row("community-set", &["prefer", "of-peer"]),
        row("community-add", &["prefer", "of-peer"]),
        row("as-path-prepend", &["2", "1 2 3"]),
        row("next-hop", &["self", "192.0.2.9"]),
        row("call", &["helper value=7"]),
    ]
}

fn terms(most: usize) -> impl Strategy<Value = Vec<Value>> {
    let end = prop_oneof![Just(""), Just("accept"), Just("reject"), Just("next-term"), Just("next-policy")];
    let named = |all: Vec<(String, Value)>| all.into_iter().collect::<serde_json::Map<_, _>>();
    let term = (
        proptest::collection::vec(any_condition(), 0..3),
        proptest::collection::vec(any_condition(), 0..2),
        proptest::collection::vec(any_action(), 0..3),
        end,
    )
        .prop_map(move |(from, except, then, end)| {
            let mut then = named(then);
            if !end.is_empty() {
                then.insert(end.into(), json!([null]));
            }
            if end == "reject" {
                then.insert("reason".into(), json!("because"));
            }
            json!({"name": "t", "from": named(from), "except": named(except), "then": then})
        });
    proptest::collection::vec(term, 1..most)
}

fn routes() -> impl Strategy<Value = Draft> {
    const PREFIXES: [&str; 6] =
        ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.0/24", "127.1.0.0/16", "0.0.0.0/0", "2001:db8::/32"];
    let community =
        proptest::sample::select(&[[0u8, 1, 0, 1], [0, 1, 0, 9], [0xff, 0xff, 0xff, 1], [0, 7, 0, 7]][..]);
    (
        proptest::sample::select(&PREFIXES[..]),
        Path::any(6),
        proptest::collection::vec(community, 0..3),
        proptest::option::of(0..300u32),
        proptest::option::of(0..20u32),
        proptest::sample::select(&["upstreams", "customers"][..]),
        proptest::sample::select(&[1u32, 9, 70_000][..]),
        proptest::sample::select(&["192.0.2.1", "10.0.0.1"][..]),
    )
        .prop_map(|(prefix, path, communities, preference, metric, group, asn, next_hop)| {
            let mut route = route();
            route.prefix = prefix.parse().expect("a prefix");
            route.as_path = path.octets();
            route.communities.insert(Kind::Standard, communities.concat());
            route.numbers.clear();
            route.numbers.extend(preference.map(|n| (0, n)).into_iter().chain(metric.map(|n| (1, n))));
            route.texts.insert(4, group.into());
            route.numbers.insert(3, asn);
            route.addresses.insert(6, next_hop.parse().expect("an address"));
            route
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    /// The machine agrees with the naive evaluation on verdict, reason and every change.
    #[test]
    fn programs_agree_with_the_model(terms in terms(6), helper in terms(3), route in routes()) {
        let helper: Vec<Value> = helper.into_iter().map(|mut term| {
            // No recursion; the parameter is used.
            if let Some(then) = term["then"].as_object_mut() {
                then.remove("call");
                then.insert("metric".into(), json!("$value"));
            }
            term
        }).collect();
        let policies = policies(json!([
            {"name": "p", "term": terms},
            {"name": "helper", "parameter": ["value"], "term": helper},
        ]));
        let (mut by_program, mut by_model) = (route.clone(), route.clone());
        let got = outcome(&policies, &mut by_program);
        prop_assert_eq!(got, evaluate(&policies, "p", &mut by_model));
        prop_assert_eq!(&by_program, &by_model);

        // Remembered answers, changes that are made later, and a neighbor that is known before change nothing.
        let set = PolicySet::compile(&policies, VARIABLES).expect("valid");
        let program = set.get("p").expect("the policy");
        let bound = program.bind(&route);
        let mut answers = Answers::default();
        answers.reset(&bound);
        for prefix in [route.prefix, "127.1.0.0/16".parse().expect("a prefix"), route.prefix] {
            let (mut now, mut later) = (route.clone(), route.clone());
            (now.prefix, later.prefix) = (prefix, prefix);
            let mut changes = Changes::default();
            let verdict = bound.decide(&mut later, &mut answers, &mut changes);
            bound.make(&mut later, &mut changes);
            prop_assert_eq!(verdict, program.with_peer(&route).run(&mut now));
            prop_assert_eq!(later, now);
        }
    }
}

/// The program of `p` among policies with one list each, bound to a neighbor in a group.
fn bound(terms: Value, list: &str, group: &str) -> Program {
    let source = json!({
        "prefix-list": [{"name": "other", "prefix": ["10.0.0.0/8"]}, {"name": "list", "prefix": [list]}],
        "policy-statement": [{"name": "p", "term": terms}],
    });
    let policies: Policies = serde_json::from_value(source).expect("policies");
    let set = PolicySet::compile(&policies, VARIABLES).expect("valid");
    let mut neighbor = route();
    neighbor.texts.insert(4, group.into());
    set.get("p").expect("the policy").bind(&neighbor)
}

#[test]
fn programs_are_equal_if_they_decide_alike_for_their_neighbors() {
    let unnamed = json!([{"name": "t", "from": {"prefix-list": ["list"]}, "then": {"accept": [null]}}]);
    let named = json!([{"name": "t", "from": {"group": ["peers"]}, "then": {"accept": [null]}}]);
    assert_eq!(
        bound(unnamed.clone(), "1.0.0.0/8", "peers"),
        bound(unnamed.clone(), "1.0.0.0/8", "customers")
    );
    assert_ne!(bound(unnamed.clone(), "1.0.0.0/8", "peers"), bound(unnamed, "2.0.0.0/8", "peers"));
    assert_ne!(bound(named.clone(), "1.0.0.0/8", "peers"), bound(named.clone(), "1.0.0.0/8", "customers"));
    // Another list's change is no change.
    assert_eq!(bound(named.clone(), "1.0.0.0/8", "peers"), bound(named, "2.0.0.0/8", "peers"));
}

#[test]
fn policies_of_other_protocols_are_left_out() {
    let statements = json!([
        {"name": "ours", "term": [{"name": "t", "from": {"preference": "1"}, "then": {"accept": [null]}}]},
        {"name": "theirs", "term": [{"name": "t", "from": {"distance": "1"}, "then": {"accept": [null]}}]},
        {"name": "calls", "term": [{"name": "t", "then": {"call": "theirs"}}]},
        {"name": "changes", "term": [{"name": "t", "then": {"distance": "7"}}]},
        {"name": "called", "parameter": ["x"], "term": [{"name": "t", "then": {"preference": "$x"}}]},
    ]);
    let policies = policies(statements);
    let compiled = |used: &str| PolicySet::compile_used(&policies, VARIABLES, |name| name == used);
    let set = compiled("ours").expect("valid");
    assert_eq!(set.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["ours"]);
    let error = |used: &str| compiled(used).expect_err(used).to_string();
    assert!(
        error("theirs")
            .starts_with("policy policy-statement theirs term t from distance: there is no condition")
    );
    assert!(
        error("calls")
            .starts_with("policy policy-statement theirs term t from distance: there is no condition")
    );
    assert!(
        error("changes")
            .starts_with("policy policy-statement changes term t then distance: there is no action")
    );
    assert!(PolicySet::compile(&policies, VARIABLES).is_err());
    assert!(set.find("ours").is_ok());
    let found = |name: &str| set.find(name).expect_err(name).to_string();
    assert_eq!(found("our"), "there is no policy-statement `our`; did you mean `ours`?");
    assert!(found("called").contains("has parameters"));
}
