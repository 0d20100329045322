//! Answers about routes and traces.

use serde_json::{Value, json};
use sluice_base::{Asn, RouterId};
use sluice_mrt::{Entry, Peer, Writer};
use sluice_policy_test::{Question, Report, Trial, TrialError};

fn configuration() -> Value {
    json!({
        "policy": {
            "prefix-list": [{"name": "customers", "prefix": ["192.0.2.0/24", "10.0.0.0/8 orlonger"]},
                            {"name": "bogons", "prefix": ["127.0.0.0/8 orlonger"]}],
            "as-path": [{"name": "from-customer", "expression": "65010 .*"}],
            "community": [{"name": "prefer", "member": ["65000:100"]}, {"name": "came-from", "member": ["65000:peer-as"]}],
            "policy-statement": [
                {"name": "in", "term": [
                    {"name": "bogons", "from": {"prefix-list": ["bogons"]}, "then": {"reject": [null], "reason": "a bogon"}},
                    {"name": "ok", "from": {"prefix-list": ["bogons", "customers"], "as-path": ["from-customer"], "group": ["x"]},
                     "except": {"community": ["prefer"]},
                     "then": {"local-preference": "200", "community-add": ["prefer"], "as-path-prepend": "65000",
                              "next-hop": "self", "call": ["mark value=7"], "accept": [null]}},
                ]},
                {"name": "marked", "term": [{"name": "direct", "from": {"next-hop": ["peer"]}, "then": {"community-add": ["came-from"], "accept": [null]}}]},
                {"name": "all", "term": [{"name": "all", "then": {"accept": [null]}}]},
                {"name": "backup", "term": [
                    {"name": "up", "from": {"route-present": ["198.51.100.0/24", "203.0.113.0/24"]}, "then": {"call": ["only route=2001:db8::/32"]}},
                ]},
                {"name": "only", "parameter": ["route"], "term": [{"name": "without", "except": {"route-present": ["$route"]}, "then": {"accept": [null]}}]},
                {"name": "mark", "parameter": ["value"], "term": [{"name": "m", "then": {"tag": "$value"}}]},
            ],
        },
        "protocols": {"bgp": {
            "local-as": 65000, "router-id": "10.0.0.1",
            "group": [{"name": "x", "peer-as": 65010}],
            "neighbor": [{"address": "10.0.0.2", "group": "x"}, {"address": "10.0.0.3", "peer-as": 65011, "default-policy": "accept"}],
        }},
    })
}

fn ask(words: &str, trace: Option<&[u8]>) -> Result<Report, TrialError> {
    let words: Vec<String> = words.split(' ').map(String::from).collect();
    Trial::read(&configuration())?.answer(&Question::parse(&words)?, trace)
}

#[test]
fn a_route_is_explained_step_by_step() {
    let route =
        "in 10.1.0.0/16 as-path 65010 65020 community 65000:9 next-hop 192.0.2.1 as neighbor 10.0.0.2";
    let report = ask(route, None).unwrap();
    let expected = "\
10.1.0.0/16: as-path 65010 65020, community 65000:9, local-preference 100, next-hop 192.0.2.1, origin igp, weight 0
policy in
  term bogons: does not apply
    from prefix-list bogons: no (10.1.0.0/16)
  term ok
    from as-path from-customer: yes (65010 65020)
    from group x: yes (x)
    from prefix-list bogons customers: yes (10.1.0.0/16)
    except community prefer: no (65000:9)
    local-preference: 100 -> 200
    community: 65000:9 -> 65000:9 65000:100
    as-path: 65010 65020 -> 65000 65010 65020
    next-hop: 192.0.2.1 -> self
  term m of mark
    tag: none -> 7
  accepted by term ok of in
";
    assert_eq!(report.text, expected);
    assert_eq!(report.json["decision"], "accept");
    assert_eq!(report.json["after"]["local-preference"], "200");
    assert_eq!(report.json["terms"][1]["conditions"][0]["route"], "65010 65020");
    assert_eq!(report.json["terms"][0]["applies"], false);
}

#[test]
fn routes_of_xids_have_prefixes_too() {
    let (inside, outside) =
        ("ad-a1000000000000000000000000000000000000b2", "ad-a2000000000000000000000000000000000000b2");
    let mut configuration = configuration();
    let lists = configuration["policy"]["prefix-list"].as_array_mut().unwrap();
    lists.push(
        json!({"name": "domains", "prefix": ["ad-a100000000000000000000000000000000000000/8 orlonger"]}),
    );
    let from =
        json!({"prefix-list": ["domains"], "family": ["xid"], "principal": ["ad"], "prefix-length": ["160"]});
    let statements = configuration["policy"]["policy-statement"].as_array_mut().unwrap();
    statements
        .push(json!({"name": "xids", "term": [{"name": "ours", "from": from, "then": {"accept": [null]}}]}));
    let trial = Trial::read(&configuration).unwrap();
    let ask = |prefix: &str| {
        let words = ["xids", prefix].map(String::from);
        trial.answer(&Question::parse(&words).unwrap(), None).unwrap()
    };
    let report = ask(inside);
    assert_eq!(report.json["decision"], "accept", "{}", report.text);
    assert!(report.text.contains(&format!("from prefix-list domains: yes ({inside})")), "{}", report.text);
    assert!(report.text.contains("from principal ad: yes (ad)"), "{}", report.text);
    assert_ne!(ask(outside).json["decision"], "accept");
    let words = ["xids", "ad-a1"].map(String::from);
    let error = trial.answer(&Question::parse(&words).unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("`ad-a1` is neither a prefix nor a file"), "{error}");
}

#[test]
fn facts_are_named_with_their_answers() {
    let ask = |present: &str| ask(&format!("backup 10.1.0.0/16{present}"), None).unwrap();
    let report = ask(" route-present 203.0.113.0/24");
    let expected = "
policy backup
  term up
    from route-present 198.51.100.0/24 203.0.113.0/24: yes (198.51.100.0/24 absent, 203.0.113.0/24 present)
  term without of only
    except route-present $route: no (2001:db8::/32 absent)
  accepted by term without of only
";
    assert!(report.text.ends_with(expected), "{}", report.text);
    let route = |report: &Report| report.json["terms"][0]["conditions"][0]["route"].clone();
    assert_eq!(route(&report), "198.51.100.0/24 absent, 203.0.113.0/24 present");
    // The first one that is present decides.
    assert_eq!(route(&ask(" route-present 198.51.100.0/24")), "198.51.100.0/24 present");
    assert_eq!(route(&ask("")), "198.51.100.0/24 absent, 203.0.113.0/24 absent");
}

#[test]
fn rejections_defaults_and_comparisons() {
    let text = |words: &str| ask(words, None).unwrap().text;
    assert!(text("in 127.0.0.0/8").ends_with("  rejected by term bogons of in: a bogon\n"));
    assert!(text("in 10.0.0.0/8 as neighbor 10.0.0.3").ends_with("the neighbor's default is accept\n"));
    assert!(text("in 10.0.0.0/8").contains("no term decides: the next policy"));
    let compared = text("all 10.0.0.0/8 as-path 65010 compare in as neighbor 10.0.0.2");
    assert!(
        compared.ends_with(
            "all and in differ:\n  as-path: 65010 -> 65000 65010\n  community: none -> 65000:100\n  local-preference: 100 -> 200\n  \
             next-hop: none -> self\n  tag: none -> 7\n"
        ),
        "{compared}"
    );
    assert!(text("all 127.0.0.0/8 compare in").ends_with("differ:\n  decision: accept -> reject\n"));
    assert!(text("all 10.0.0.0/8 compare all").ends_with("all and all do the same\n"));
    for (words, said) in [
        ("inn 10.0.0.0/8", "did you mean `in`?"),
        ("mark 10.0.0.0/8", "has parameters"),
        (
            "in 10.0.0.0/8 as neighbor 10.0.0.9",
            "there is no neighbor 10.0.0.9; there are: 10.0.0.2, 10.0.0.3",
        ),
        ("in 10.0.0.0/8 compare ni", "there is no policy-statement `ni`"),
        ("in 10.0.0.0/8 as neighbor x", "`x` is no address"),
        ("in 10.0.0.0/8 compare", "`compare` needs more"),
        ("in", "there is no route and no file"),
        ("in 10.0.0.0/8 compare all compare in", "`compare` stands twice"),
        ("in 10.0.0.0/8 as neighbor 10.0.0.2 as neighbor 10.0.0.3", "`as` stands twice"),
        ("in 10.0.0.0/8 med 5 med 6", "`med` stands twice"),
        ("in nothing", "neither a prefix nor a file"),
    ] {
        let error = ask(words, None).expect_err(words).to_string();
        assert!(error.contains(said), "{words}: {error}");
    }
}

#[test]
fn the_neighbor_is_a_value_of_conditions_and_communities() {
    let ask = |words: &str| ask(&format!("marked 10.1.0.0/16 next-hop 10.0.0.2 {words}"), None).unwrap();
    let report = ask("as neighbor 10.0.0.2");
    assert!(report.text.contains("from next-hop peer: yes (10.0.0.2)"), "{}", report.text);
    assert_eq!(report.json["after"]["community"], "65000:65010");
    let report = ask("as neighbor 10.0.0.3");
    assert!(report.text.contains("from next-hop peer: no (10.0.0.2)"), "{}", report.text);
    assert_eq!(ask("neighbor 10.0.0.2 neighbor-as 70000").json["after"]["community"], json!(null));
}

#[test]
fn routes_of_a_table_are_counted() {
    let mut writer = Writer::default();
    let peer = Peer { router_id: RouterId(1), address: "10.0.0.2".parse().unwrap(), asn: Asn(65010) };
    writer.peer_index(0, RouterId(9), "", &[peer]).unwrap();
    // ORIGIN IGP, AS_PATH 65010, NEXT_HOP 192.0.2.1.
    let attributes = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xf2, 0x40, 3, 4, 192, 0, 2, 1];
    let good = Entry { peer: 0, originated: 0, path_id: None, attributes: &attributes };
    let bad = Entry { peer: 0, originated: 0, path_id: None, attributes: &attributes[..9] };
    for (number, prefix) in
        ["10.0.0.0/8", "10.1.0.0/16", "127.1.0.0/16", "172.16.0.0/12"].into_iter().enumerate()
    {
        writer.rib(0, number as u32, prefix.parse().unwrap(), &[good]).unwrap();
    }
    writer.rib(0, 9, "10.9.0.0/16".parse().unwrap(), &[bad]).unwrap();
    let trace = writer.take();
    let report = ask("in trace as neighbor 10.0.0.2 compare all", Some(&trace)).unwrap();
    let expected = "\
4 routes, 1 malformed
policy in: 2 accepted, 1 rejected, 1 on which no term decides
  term bogons             1 met          1 decided
  term ok                 2 met          2 decided
  term m of mark          2 met          0 decided
policy all: 4 accepted, 0 rejected, 0 on which no term decides
  term all          4 met          4 decided
4 of 4 routes differ between in and all
";
    assert!(report.text.starts_with(expected), "{}", report.text);
    let json = &report.json;
    assert_eq!((&json["accepted"], &json["compare"]["differ"]), (&json!(2), &json!(4)));
    assert_eq!(
        json["compare"]["examples"][2],
        json!({"prefix": "127.1.0.0/16", "policy": "reject", "other": "accept"})
    );
}
