//! The differences between two configurations, their impact, and the resulting change for a component.

use crate::world::EXAMPLE;
use serde_json::{Value, json};
use sluice_config::{Impact, Module, Schema, Secrets, Tree};

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
fn a_component_receives_what_differs() {
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

#[test]
fn what_is_inactive_is_kept_and_not_in_force() {
    let schema = schema();
    let before = read(&schema, BASE);
    let edit = |tree: &Tree, line: &str| schema.edit(tree, line);
    let wrong = |tree: &Tree, line: &str| {
        let said = edit(tree, line).unwrap_err().to_string();
        said.lines().next().unwrap().splitn(2, ": ").last().unwrap().to_owned()
    };
    let tree = edit(&before, "deactivate protocols example neighbor 10.0.0.1").unwrap();
    let text = schema.text(&tree, &[], Secrets::Shown).unwrap();
    assert!(
        text.contains("        inactive: neighbor 10.0.0.1 {\n            via x;\n        }\n"),
        "{text}"
    );
    // It is as if it were not there.
    let without = edit(&before, "delete protocols example neighbor 10.0.0.1").unwrap();
    assert_eq!(schema.change("example", Some(&without), &tree), None);
    assert_eq!(
        schema.json(&tree, &[], Secrets::Shown).unwrap(),
        schema.json(&without, &[], Secrets::Shown).unwrap()
    );
    assert_ne!(tree, without);
    let comparison = schema.compare(&without, &tree);
    assert_eq!(
        comparison.text(Secrets::Shown),
        "[edit]\n+  protocols example inactive: neighbor 10.0.0.1 {\n+      via x;\n+  }\n"
    );
    assert_eq!(
        wrong(&tree, "set protocols example neighbor 10.0.0.1 via z"),
        "`protocols example neighbor 10.0.0.1` is inactive; expected `activate` or `delete` of it first"
    );
    assert_eq!(
        wrong(&tree, "deactivate protocols example neighbor 10.0.0.1 via"),
        "`protocols example neighbor 10.0.0.1` is inactive already"
    );
    assert_eq!(
        wrong(&tree, "activate protocols example neighbor 10.0.0.2"),
        "`protocols example neighbor 10.0.0.2` is not inactive"
    );
    assert_eq!(
        wrong(&tree, "deactivate protocols example group"),
        "there is no `protocols example group` to deactivate"
    );
    assert!(edit(&tree, "activate protocols example neighbor 10.0.0.1").unwrap() == before);
    assert!(edit(&tree, "delete protocols example neighbor 10.0.0.1").unwrap() == without);
    // Below something inactive, something else may be inactive by itself.
    let inner = edit(&before, "deactivate protocols example neighbor 10.0.0.1 via").unwrap();
    let both = edit(&inner, "deactivate protocols example neighbor 10.0.0.1").unwrap();
    let lines = schema.set_lines(&both, &[], Secrets::Shown).unwrap();
    let again = schema.read("lines", &lines.join("\n")).unwrap();
    assert!(again == both, "{lines:#?}");
    let back = edit(&both, "activate protocols example neighbor 10.0.0.1").unwrap();
    assert!(edit(&back, "activate protocols example neighbor 10.0.0.1 via").unwrap() == before);
    // The marks of an entry go along to another key, and go with it.
    let renamed = edit(&inner, "rename protocols example neighbor 10.0.0.1 to 10.0.0.9").unwrap();
    let text = schema.text(&renamed, &[], Secrets::Shown).unwrap();
    assert!(text.contains("neighbor 10.0.0.9 {\n            inactive: via x;\n        }\n"), "{text}");
    assert!(edit(&inner, "delete protocols example neighbor 10.0.0.1").unwrap() == without);
    // Values of a leaf-list one by one, or all.
    let groups = edit(
        &edit(&before, "set protocols example group [ a b ]").unwrap(),
        "deactivate protocols example group b",
    )
    .unwrap();
    let text = schema.text(&groups, &[], Secrets::Shown).unwrap();
    assert!(text.contains("group a;") && text.contains("inactive: group b;"), "{text}");
    let all = edit(&groups, "deactivate protocols example group").unwrap();
    let all = edit(&all, "activate protocols example group").unwrap();
    assert!(schema.text(&all, &[], Secrets::Shown).unwrap().contains("group [ a b ];"));
    // A text of `set` statements may end with statements that deactivate.
    let lines =
        "set protocols example local-as 1\nset protocols example group a\ndeactivate protocols example group";
    let text = schema.text(&schema.read("lines", lines).unwrap(), &[], Secrets::Shown).unwrap();
    assert!(text.contains("inactive: group a;\n"), "{text}");
    let twice =
        schema.read("t", "protocols { example { local-as 1; group a; inactive: group a; } }").unwrap_err();
    assert!(twice.to_string().contains("`protocols example group a` is in force and inactive"), "{twice}");
}

#[test]
fn annotations_stay_with_their_statements() {
    let schema = schema();
    let before = read(&schema, BASE);
    let edit = |tree: &Tree, line: &str| schema.edit(tree, line).unwrap();
    let note = "annotate protocols example neighbor 10.0.0.1 \"the \\\"first\\\" one\"";
    let tree = edit(&before, note);
    let text = schema.text(&tree, &[], Secrets::Shown).unwrap();
    assert!(
        text.contains(
            "        annotate neighbor 10.0.0.1 \"the \\\"first\\\" one\";\n        neighbor 10.0.0.1 {"
        ),
        "{text}"
    );
    assert!(schema.read("again", &text).unwrap() == tree, "{text}");
    assert_eq!(schema.compare(&before, &tree).set_text(Secrets::Shown), [note]);
    assert_eq!(schema.change("example", Some(&before), &tree), None);
    let text = schema
        .text(&edit(&tree, "deactivate protocols example neighbor 10.0.0.1"), &[], Secrets::Shown)
        .unwrap();
    assert!(text.contains("one\";\n        inactive: neighbor 10.0.0.1 {"), "{text}");
    assert!(edit(&tree, "annotate protocols example neighbor 10.0.0.1 \"\"") == before);
    assert!(
        edit(&tree, "delete protocols example neighbor 10.0.0.1")
            == edit(&before, "delete protocols example neighbor 10.0.0.1")
    );
    let missing = schema.edit(&before, "annotate protocols example neighbor 10.0.0.7 x").unwrap_err();
    assert!(
        missing.to_string().contains("there is no `protocols example neighbor 10.0.0.7` to annotate"),
        "{missing}"
    );
}
