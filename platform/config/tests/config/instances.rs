//! Components with several instances, and subtrees shared by several components.

use serde_json::json;
use sluice_base::TableId;
use sluice_config::{Impact, Module, Schema, Tree};

const FILTER: &str = r#"module filter {
    yang-version 1.1;
    namespace "urn:filter";
    prefix f;
    import sluice-extensions { prefix sluice; }
    container filter {
        sluice:shared "filter";
        leaf strict { type boolean; default false; sluice:impact "soft"; }
        list rule { key name; leaf name { type string; sluice:impact "soft"; } leaf to { type string; sluice:impact "soft"; } }
    }
}"#;

/// A module with a component `class` in the routing protocols and in those of every routing instance.
fn protocol(class: &str, uses: &str) -> String {
    format!(
        r#"module {class} {{
    yang-version 1.1;
    namespace "urn:{class}";
    prefix p;
    import sluice-extensions {{ prefix sluice; }}
    import sluice-router {{ prefix router; }}
    grouping all {{
        container {class} {{
            presence "It runs.";
            sluice:component "{class}";
            {uses}
            leaf word {{ type string; default none; sluice:impact "soft"; }}
        }}
    }}
    augment "/router:protocols" {{ uses all; }}
    augment "/router:instance/router:protocols" {{ uses all; }}
}}"#
    )
}

fn schema_of(modules: &[(&'static str, String)]) -> Result<Schema, String> {
    let modules: Vec<Module> = modules
        .iter()
        .map(|(name, text)| Module { name, text: Box::leak(text.clone().into_boxed_str()) })
        .collect();
    Schema::of(&modules).map_err(|error| error.to_string())
}

fn schema() -> Schema {
    schema_of(&[
        ("filter", FILTER.into()),
        ("plain", protocol("plain", "")),
        ("soft", protocol("soft", "sluice:uses \"filter\";")),
        ("dear", protocol("dear", "sluice:uses \"filter reset\";")),
    ])
    .unwrap()
}

const BASE: &str = "protocols { plain; soft word a; } \
    instance red { table 100; protocols { plain word b; dear; } } instance blue { table 101; protocols { plain; } }";

#[test]
fn each_entry_of_the_list_has_a_component_of_its_own() {
    let schema = schema();
    let tree = schema.read("t", BASE).unwrap();
    assert_eq!(schema.configured(&tree), ["dear@red", "plain", "plain@blue", "plain@red", "soft"]);
    assert_eq!(schema.configured(&Tree::empty()), Vec::<String>::new());
    assert_eq!(schema.part("plain@red", &tree), Some(json!({"word": "b"})));
    assert_eq!(schema.part("plain@blue", &tree), Some(json!({"word": "none"})));
    assert_eq!(schema.part("plain@green", &tree), None);
    assert_eq!(schema.part("other@red", &tree), None);
    let tables = [("plain@red", 100), ("plain@blue", 101), ("plain", 254), ("plain@green", 254)];
    for (name, table) in tables {
        assert_eq!(schema.table(name, &tree), TableId(table), "{name}");
    }
}

#[test]
fn an_instance_receives_its_own_changes_only() {
    let schema = schema();
    let before = schema.read("t", BASE).unwrap();
    let after = schema.edit(&before, "set instance red protocols plain word c").unwrap();
    let change = |name: &str, after: &Tree| schema.change(name, Some(&before), after);
    assert_eq!(json!(change("plain@red", &after)), json!({"edits": [{"name": "word", "value": "c"}]}));
    assert_eq!(schema.cost("plain@red", &before, &after), Some(Impact::Soft));
    for other in ["plain", "plain@blue", "dear@red", "soft"] {
        assert_eq!(change(other, &after), None, "{other}");
        assert_eq!(schema.cost(other, &before, &after), None, "{other}");
    }
    let without = schema.edit(&before, "delete instance red").unwrap();
    assert_eq!(schema.configured(&without), ["plain", "plain@blue", "soft"]);
    assert_eq!(json!(change("plain@red", &without)), json!({"clear": true, "edits": []}));
    let moved = schema.edit(&before, "set instance red table 102").unwrap();
    assert_eq!(schema.table("plain@red", &moved), TableId(102));
    // Another table is another process, for what is in the entry and nobody else.
    assert_eq!(schema.cost("plain@red", &before, &moved), Some(Impact::Restart));
    assert_eq!(schema.cost("dear@red", &before, &moved), Some(Impact::Restart));
    for other in ["plain", "plain@blue", "soft"] {
        assert_eq!(schema.cost(other, &before, &moved), None, "{other}");
    }
}

#[test]
fn a_shared_subtree_goes_to_all_that_use_it_each_with_its_own_impact() {
    let schema = schema();
    let empty = schema.read("t", BASE).unwrap();
    let filled = schema.edit(&empty, "set filter rule a to x").unwrap();
    let rule = json!({"subtree": "filter", "name": "rule", "key": ["a"], "value": {"name": "a", "to": "x"}});
    for (name, impact) in [("soft", Impact::Soft), ("dear@red", Impact::Reset)] {
        assert_eq!(json!(schema.change(name, Some(&empty), &filled)), json!({"edits": [rule]}), "{name}");
        assert_eq!(schema.cost(name, &empty, &filled), Some(impact), "{name}");
        let part = schema.part(name, &filled).unwrap();
        assert_eq!(part["filter"], json!({"strict": false, "rule": [{"name": "a", "to": "x"}]}), "{name}");
        // What it had goes with the subtree.
        let gone = json!(schema.change(name, Some(&filled), &empty));
        assert_eq!(gone["edits"][0], json!({"subtree": "filter", "name": "rule", "key": ["a"]}), "{name}");
    }
    assert_eq!(schema.change("plain", Some(&empty), &filled), None);
    assert_eq!(schema.cost("plain@red", &empty, &filled), None);
    // A component that comes receives the subtree as a whole, an absent one nothing.
    let more = schema.edit(&filled, "set instance blue protocols soft").unwrap();
    let whole = json!(schema.change("soft@blue", Some(&filled), &more));
    assert_eq!((&whole["clear"], whole["edits"].as_array().unwrap().len()), (&json!(true), 3));
    assert_eq!(schema.change("dear", Some(&empty), &filled), None);
    assert_eq!(schema.cost("dear", &empty, &filled), None);
}

#[test]
fn tables_and_names_are_checked() {
    let schema = schema();
    let refused = |text: &str, reason: &str| {
        let error = schema.read("t", text).and_then(|tree| schema.validate(None, &tree).map(|()| tree));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    };
    refused("instance red { table 254; }", "table");
    refused("instance a@b { table 7; }", "instance-name");
    refused("instance red;", "needs `table`");
    refused("instance red { table 7; } instance blue { table 7; }", "table");
}

#[test]
fn modules_that_cannot_work_are_refused() {
    let check = |modules: &[(&'static str, String)], reason: &str| {
        let error = schema_of(modules).err().unwrap_or_default();
        assert!(error.contains(reason), "{error}");
    };
    let unknown = protocol("soft", "sluice:uses \"filter\";");
    check(&[("soft", unknown)], "uses the shared subtree `filter`, which no module has");
    let no_impact = protocol("soft", "sluice:uses \"filter dearly\";");
    check(&[("filter", FILTER.into()), ("soft", no_impact)], "names no impact");
    let own = protocol("soft", "sluice:uses \"filter\"; leaf filter { type string; sluice:impact soft; }");
    check(&[("filter", FILTER.into()), ("soft", own)], "has a `filter` of its own");
    let twice = protocol("plain", "").replace(
        "augment \"/router:protocols\" { uses all; }",
        "augment \"/router:protocols\" { container more { uses all; } uses all; }",
    );
    check(&[("plain", twice)], "the component `plain` has");
    let keyed = protocol("plain", "").replace(
        "augment \"/router:instance/router:protocols\"",
        "list peer { key name; leaf name { type string; sluice:impact soft; } } augment \"/peer\"",
    );
    check(&[("plain", keyed)], "its only key has to be of type sluice:instance-name");
    let deep = protocol("plain", "").replace(
        "augment \"/router:instance/router:protocols\" { uses all; }",
        "augment \"/router:instance\" { list inner { key name; leaf name { type sluice:instance-name; sluice:impact soft; } uses all; } }",
    );
    check(&[("plain", deep)], "below 2 lists");
}
