//! The subtree `policy`: values, and the order of terms and policies on every way through the configuration.

use crate::world::path;
use serde_json::json;
use sluice_config::{Impact, Module, Schema, Secrets, Tree};

const BGP: Module = Module { name: "sluice-bgp", text: include_str!("../../../../components/bgp/bgp.yang") };
const POLICY: &str = "policy {
    prefix-list customers { prefix [ \"192.0.2.0/24\" \"10.0.0.0/8 orlonger\" ]; }
    as-path from-customer { expression \"65010 .*\"; }
    community prefer { member [ 65000:100 65000:1:2 ]; }
    policy-statement from-customer {
        term z { from { prefix-list customers; as-path from-customer; origin igp; } then { local-preference +10; med 5; community-add prefer; accept; } }
        term b { from { neighbor [ 192.0.2.1 10.0.0.0/8 ]; local-preference 100-199; } then { call \"c value=7\"; next-policy; } }
        term a { except { community prefer; } then { reject; reason \"not a customer's prefix\"; } }
    }
    policy-statement c { parameter value; term 1 { then { local-preference $value; } } }
}
protocols { bgp { local-as 65000; router-id 10.0.0.1; default-policy reject;
    neighbor 10.0.0.2 { peer-as 65010; import [ z from-customer a ]; } } }";

fn schema() -> Schema {
    Schema::of(&[BGP]).unwrap()
}

/// The names of the terms of `from-customer`, and of the imported policies, in BGP's part.
fn orders(schema: &Schema, tree: &Tree) -> (Vec<String>, Vec<String>) {
    let part = schema.part("bgp", tree).unwrap();
    let texts = |value: &serde_json::Value, name: &str| {
        let all = value.as_array().cloned().unwrap_or_default();
        let text = |value: serde_json::Value| value[name].as_str().or(value.as_str()).unwrap().to_owned();
        all.into_iter().map(text).collect::<Vec<_>>()
    };
    let statements = part["policy"]["policy-statement"].as_array().unwrap().clone();
    let statement = statements.iter().find(|s| s["name"] == "from-customer").unwrap();
    (texts(&statement["term"], "name"), texts(&part["neighbor"][0]["import"], ""))
}

fn edit(schema: &Schema, tree: &Tree, lines: &[&str]) -> Tree {
    lines
        .iter()
        .fold(tree.clone(), |tree, line| schema.edit(&tree, line).unwrap_or_else(|e| panic!("{line}: {e}")))
}

#[test]
fn a_component_gets_policies_in_order() {
    let schema = schema();
    let tree = schema.read("t", POLICY).unwrap_or_else(|e| panic!("{e}"));
    let part = schema.part("bgp", &tree).unwrap();
    let statement = &part["policy"]["policy-statement"][1];
    assert_eq!(
        statement["term"],
        json!([
            {"name": "z", "from": {"prefix-list": ["customers"], "as-path": ["from-customer"], "origin": ["igp"]},
             "then": {"local-preference": "+10", "med": "5", "community-add": ["prefer"], "accept": [null]}},
            {"name": "b", "from": {"neighbor": ["10.0.0.0/8", "192.0.2.1"], "local-preference": ["100-199"]},
             "then": {"call": ["c value=7"], "next-policy": [null]}},
            {"name": "a", "except": {"community": ["prefer"]}, "then": {"reject": [null], "reason": "not a customer's prefix"}},
        ])
    );
    let expected = (
        vec!["z".to_owned(), "b".into(), "a".into()],
        vec!["z".to_owned(), "from-customer".into(), "a".into()],
    );
    assert_eq!(orders(&schema, &tree), expected);
    // As text, as `set` statements, and as steps from nothing.
    let text = schema.text(&tree, &[], Secrets::Shown).unwrap();
    assert_eq!(schema.read("again", &text).unwrap(), tree);
    let lines = schema.set_lines(&tree, &[], Secrets::Shown).unwrap();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(orders(&schema, &edit(&schema, &Tree::empty(), &lines)), expected);
    let steps = schema.compare(&Tree::empty(), &tree).text(Secrets::Shown);
    assert_eq!(orders(&schema, &schema.step(&Tree::empty(), &steps).unwrap()), expected);
}

#[test]
fn insert_moves_terms_and_policies() {
    let schema = schema();
    let tree = schema.read("t", POLICY).unwrap();
    let check = |lines: &[&str], terms: &str, import: &str| {
        let after = edit(&schema, &tree, lines);
        let (found_terms, found_import) = orders(&schema, &after);
        assert_eq!(
            (found_terms.join(" "), found_import.join(" ")),
            (terms.into(), import.into()),
            "{lines:?}"
        );
        // Back and forth by the differences, as a commit, a rollback and the log of revisions go.
        for (from, to) in [(&tree, &after), (&after, &tree)] {
            let comparison = schema.compare(from, to);
            assert_eq!(schema.step(from, &comparison.text(Secrets::Shown)).unwrap(), *to);
            let lines = comparison.set_text(Secrets::Shown);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(edit(&schema, from, &lines), *to);
            let cost = schema.cost("bgp", from, to);
            assert_eq!(cost, Some(Impact::Refilter));
            assert!(schema.change("bgp", Some(from), to).is_some());
        }
    };
    const TERM: &str = "policy policy-statement from-customer term";
    check(&[&format!("insert {TERM} a before z")], "a z b", "z from-customer a");
    check(&[&format!("insert {TERM} a before term b")], "z a b", "z from-customer a");
    check(&[&format!("insert {TERM} z after a")], "b a z", "z from-customer a");
    check(&[&format!("insert {TERM} z after b")], "b z a", "z from-customer a");
    check(&[&format!("rename {TERM} b to y")], "z y a", "z from-customer a");
    check(
        &[&format!("copy {TERM} z to y"), &format!("insert {TERM} y before b")],
        "z y b a",
        "z from-customer a",
    );
    check(&["insert protocols bgp neighbor 10.0.0.2 import a before z"], "z b a", "a z from-customer");
    check(
        &["insert protocols bgp neighbor 10.0.0.2 import z after import from-customer"],
        "z b a",
        "from-customer z a",
    );
    for (line, said) in [
        (format!("insert {TERM} a"), "`before` or `after`"),
        (format!("insert {TERM} a before"), "`before` or `after`"),
        (format!("insert {TERM} a before x"), "has no `a` or no `x`"),
        (format!("insert {TERM} x before a"), "has no `x` or no `a`"),
        (format!("insert {TERM} a before a"), "beside itself"),
        (format!("insert {TERM} a before b c"), "nothing can stand behind the key"),
        (format!("insert {TERM} z from before b"), "has no order"),
        (
            "insert policy policy-statement c before from-customer".into(),
            "the order of `policy-statement` has no meaning",
        ),
        (
            "insert policy prefix-list customers prefix 192.0.2.0/24 before \"10.0.0.0/8 orlonger\"".into(),
            "no meaning",
        ),
        (
            "insert policy policy-statement x term a before b".into(),
            "there is no `policy policy-statement x`",
        ),
    ] {
        let error = schema.edit(&tree, &line).expect_err(&line).to_string();
        assert!(error.contains(said), "{line}: {error}");
    }
}

#[test]
fn values_are_checked_where_they_are_written() {
    let schema = schema();
    let check = |inside: &str, said: &str| {
        let text = format!("policy {{\n{inside}\n}}");
        let error = schema.read("t", &text).expect_err(inside).to_string();
        assert!(error.contains(said) && error.starts_with("t:2:"), "{inside}: {error}");
    };
    check("prefix-list a { prefix 10.0.0.0; }", "PREFIX upto /N");
    check("prefix-list a { prefix \"10.0.0.0/8 ge 16\"; }", "PREFIX upto /N");
    check("prefix-list \"a b\";", "letters, digits");
    check("as-path a;", "needs `expression`");
    check("community a { member 65000; }", "65000:100");
    check("community a { member 1:2:3:4; }", "65000:100");
    check("community a { member 65000:local-as; }", "`*`, a range 100-199 or `peer-as`");
    let term = |inside: &str| format!("policy-statement p {{ term t {{ {inside} }} }}");
    let check = |inside: &str, said: &str| check(&term(inside), said);
    check("from { local-preferense 100; }", "did you mean `local-preference`");
    check("from { local-preference high; }", "a range such as 100-199");
    check("from { origin bgp; }", "one of igp, egp, incomplete");
    check("from { neighbor 10.0.0; }", "ipv4-prefix");
    check("from { prefix-list \"a b\"; }", "the name of a list");
    check("from { neighbor peer; }", "ipv4-prefix");
    check("then { acept; }", "did you mean `accept`");
    check("then { accept; reject; }", "exclude each other");
    check("then { med ++1; }", "`+N` to add");
    check("then { as-path-prepend 65000x3; }", "AS numbers");
    check("then { as-path-replace \"1 to 2\"; }", "ASES by AS");
    check("then { next-hop me; }", "self | peer");
    check("then { call \"x 7\"; }", "PARAMETER=VALUE");
    check("from { accept; }", "unknown statement `accept`");
    check("then { neighbor-as 1; }", "unknown statement `neighbor-as`");
    let of_peer = "policy { community a { member [ 0:peer-as 65000:1:peer-as rt:peer-as:* ]; }";
    schema.read("t", &format!("{of_peer} {} }}", term("from { next-hop [ peer 10.0.0.0/8 ]; }"))).unwrap();
    let tree = schema.read("t", &format!("policy {{ {} }}", term("then { accept; }"))).unwrap();
    let rejects = edit(&schema, &tree, &["set policy policy-statement p term t then reject"]);
    let json = schema.json(&rejects, &path("policy policy-statement p term t then"), Secrets::Shown).unwrap();
    assert_eq!(json, json!({"reject": [null]}));
}

#[test]
fn effective_statements_name_their_source() {
    let schema = schema();
    let text = "protocols { bgp { local-as 1; router-id 10.0.0.1;
        group customers { peer-as 7; hold-time 30; import [ b a ]; password hush; ipv6-unicast { enabled; } }
        neighbor 10.0.0.2 { group customers; hold-time 90; description \"a b\"; }
        neighbor 10.0.0.3 { peer-as 8; } } }";
    let tree = schema.read("t", text).unwrap();
    let neighbor = schema.effective_text(&tree, &path("protocols bgp neighbor 10.0.0.2")).unwrap();
    let expected = "\
group customers;
peer-as 7;  # group customers
description \"a b\";
enabled true;  # default
port 179;  # default
passive false;  # default
hold-time 90;
connect-retry-time 30;  # default
password <hidden>;  # group customers
ttl-security false;  # default
advertisement-interval 0;  # default
prefix-filter-receive false;  # default
extended-messages true;  # default
next-hop-self false;  # default
route-reflector-client false;  # default
transparent false;  # default
as-override false;  # default
allow-as-in 0;  # default
enforce-first-as true;  # default
import [ b a ];  # group customers
keep-rejected true;  # default
damping false;  # default
add-path {
    receive false;  # default
}
graceful-restart {
    helper true;  # default
    long-lived-time 86400;  # default
    notifications true;  # default
    stale-time 360;  # default
}
ipv6-unicast {
    enabled true;  # group customers
}
send-community {
    standard true;  # default
    extended true;  # default
    large true;  # default
}
";
    assert_eq!(neighbor, expected);
    let whole = schema.effective_text(&tree, &[]).unwrap();
    assert!(whole.contains("        neighbor 10.0.0.2 {\n            group customers;\n            peer-as 7;  # group customers\n"), "{whole}");
    assert!(whole.contains("        scheduling dynamic;  # default\n"), "{whole}");
    let json = schema.effective_json(&tree, &path("protocols bgp neighbor 10.0.0.3")).unwrap();
    assert_eq!(
        json[0],
        json!({"path": "protocols bgp neighbor 10.0.0.3 peer-as", "values": ["8"], "from": "own"})
    );
    // The component gets what is written.
    let part = schema.part("bgp", &tree).unwrap();
    assert_eq!(part["neighbor"][1], json!({"address": "10.0.0.3", "peer-as": 8}));
    let after = edit(&schema, &tree, &["set protocols bgp neighbor 10.0.0.3 hold-time 90"]);
    assert_eq!(schema.cost("bgp", &tree, &after), Some(Impact::Reset));
}
