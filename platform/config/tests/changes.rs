//! What differs between two configurations, what that costs, and what a component is told of it.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod world;

use serde_json::{Value, json};
use sluice_config::{Impact, Module, Schema, Secrets, Tree};
use world::EXAMPLE;

const BASE: &str = "local-as 1; passive; neighbor 10.0.0.1 { via x; } neighbor 10.0.0.2 { via y; }";

fn schema() -> Schema {
    Schema::of(&[Module { name: "example", text: EXAMPLE }]).unwrap()
}

fn read(schema: &Schema, inside: &str) -> Tree {
    schema.read("t", &format!("protocols {{ example {{ {inside} }} }}")).unwrap()
}

#[test]
fn a_change_costs_what_its_dearest_leaf_costs() {
    let schema = schema();
    let before = read(&schema, BASE);
    let check = |text: &str, leaves: &[&str], cost: Option<Impact>| {
        let after = read(&schema, text);
        let comparison = schema.compare(&before, &after);
        let found: Vec<&str> = comparison.leaves().map(|(path, _)| path).collect();
        let expected: Vec<String> = leaves.iter().map(|l| format!("protocols/example/{l}")).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(comparison.leaves().map(|(_, impact)| impact).max(), cost, "{text}");
        assert_eq!(schema.cost("example", &before, &after), cost, "{text}");
        assert_eq!(schema.change("example", Some(&before), &after).is_some(), cost.is_some(), "{text}");
    };
    check(BASE, &[], None);
    check("neighbor 10.0.0.2 { via y; } local-as 1; passive; neighbor 10.0.0.1 { via x; }", &[], None);
    check(&BASE.replace("passive;", ""), &["passive"], Some(Impact::Soft));
    check(&format!("{BASE} limits 3; neighbor 10.0.0.1 timers hold 90;"), &[], None);
    check(
        &format!("{BASE} neighbor 10.0.0.1 timers hold 91;"),
        &["neighbor/timers/hold"],
        Some(Impact::Soft),
    );
    check(&format!("{BASE} mode slow; group a;"), &["mode", "group"], Some(Impact::Soft));
    check(&format!("{BASE} mode slow;"), &["mode"], Some(Impact::None));
    check(
        &BASE.replace("neighbor 10.0.0.1 { via x; }", ""),
        &["neighbor/address", "neighbor/via", "neighbor/timers/hold"],
        Some(Impact::Reset),
    );
    check(&BASE.replace("via x", "discard"), &["neighbor/discard", "neighbor/via"], Some(Impact::Soft));
    check(&BASE.replace("local-as 1; passive", "local-as 2"), &["local-as", "passive"], Some(Impact::Reset));
}

#[test]
fn a_component_is_told_what_differs() {
    let schema = schema();
    let before = read(&schema, BASE);
    let check = |before: Option<&Tree>, after: &Tree, expected: Value| {
        assert_eq!(json!(schema.change("example", before, after)), expected);
    };
    check(Some(&before), &read(&schema, &format!("{BASE} limits 3;")), Value::Null);
    check(
        Some(&before),
        &read(&schema, "local-as 7; neighbor 10.0.0.1 { discard; }"),
        json!({"edits": [
            {"name": "local-as", "value": 7},
            {"name": "passive", "value": false},
            {"name": "neighbor", "key": ["10.0.0.1"],
                "value": {"address": "10.0.0.1", "discard": [null], "timers": {"hold": 90}}},
            {"name": "neighbor", "key": ["10.0.0.2"]},
        ]}),
    );
    check(
        None,
        &read(&schema, "local-as 7; area 0 1; order b;"),
        json!({"clear": true, "edits": [
            {"name": "local-as", "value": 7},
            {"name": "passive", "value": false},
            {"name": "limits", "value": 3},
            {"name": "order", "value": ["b"]},
            {"name": "area", "value": [{"name": "0", "level": 1, "cost": 7}]},
        ]}),
    );
    check(None, &Tree::empty(), json!({"clear": true, "edits": []}));
    check(Some(&before), &Tree::empty(), json!({"clear": true, "edits": []}));
    check(Some(&Tree::empty()), &Tree::empty(), Value::Null);
    assert_eq!(schema.change("nobody", None, &before), None);
}

#[test]
fn comparisons_read_like_edits() {
    let schema = schema();
    let before = read(&schema, &format!("{BASE} secret old; order [ a b ];"));
    let after = read(
        &schema,
        "local-as 2; secret new; order [ b a ]; group [ x \"y z\" ]; neighbor 10.0.0.2 { via w; } neighbor 10.0.0.3 { discard; }",
    );
    let comparison = schema.compare(&before, &after);
    let expected = r#"[edit protocols example]
-  local-as 1;
+  local-as 2;
-  passive true;
-  secret "<hidden>";
+  secret "<hidden>";
+  group x;
+  group "y z";
-  order a;
-  order b;
+  order b;
+  order a;
-  neighbor 10.0.0.1 {
-      via x;
-  }
+  neighbor 10.0.0.3 {
+      discard;
+  }
[edit protocols example neighbor 10.0.0.2]
-  via y;
+  via w;
"#;
    assert_eq!(comparison.text(Secrets::Hidden), expected);
    let paths: Vec<String> = comparison.paths().map(|words| words.join(" ")).collect();
    assert_eq!(paths.len(), comparison.len());
    assert_eq!(paths.last().unwrap(), "protocols example neighbor 10.0.0.2 via");
    let statements = comparison.set_text(Secrets::Shown);
    assert!(statements.contains(&"set protocols example group \"y z\"".into()), "{statements:?}");
    let replayed = statements.iter().fold(before, |tree, line| schema.edit(&tree, line).unwrap());
    assert_eq!(replayed, after);
}
