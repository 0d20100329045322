//! Texts against a schema: what is read, and what a refusal says.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use serde_json::json;
use sluice_config::{Impact, Module, Schema};

const EXAMPLE: Module = Module {
    name: "example",
    text: r#"module example {
        yang-version 1.1;
        namespace "urn:example";
        prefix ex;
        import sluice-extensions { prefix sluice; }
        import sluice-router { prefix router; }
        augment "/router:protocols" {
            container example {
                presence "The example runs.";
                sluice:component "example";
                leaf local-as { type uint32 { range "1..4294967294"; } mandatory true; sluice:impact "reset"; }
                leaf passive { type boolean; default false; sluice:impact "soft"; }
                leaf mode { type enumeration { enum fast; enum slow; } sluice:impact "none"; }
                leaf-list group { type string; sluice:impact "soft"; }
                list neighbor {
                    key address;
                    leaf address { type string; sluice:impact "reset"; }
                    choice kind {
                        leaf discard { type empty; sluice:impact "soft"; }
                        leaf via { type string; sluice:impact "soft"; }
                    }
                }
                container stats { config false; leaf packets { type uint64; } }
            }
        }
    }"#,
};

fn schema() -> Schema {
    Schema::load(&[EXAMPLE], None).unwrap()
}

#[test]
fn braces_and_lines_read_the_same() {
    let schema = schema();
    let braces = "protocols { example { local-as 65001; passive; group [ a b ]; neighbor 10.0.0.1 { via x; } neighbor 10.0.0.2; } }";
    let lines = "protocols example local-as 65001;\nprotocols example passive true;\nprotocols example group a;\n\
                 protocols example group b;\nprotocols example neighbor 10.0.0.1 via x;\nprotocols example neighbor 10.0.0.2;";
    let (a, b) = (schema.read("a", braces).unwrap(), schema.read("b", lines).unwrap());
    assert_eq!(a.tree, b.tree);
    let (class, path) = schema.components().next().unwrap();
    assert_eq!(class, "example");
    let part = a.part(path).unwrap();
    assert_eq!(part["local-as"], json!(65001));
    assert_eq!(part["passive"], json!(true));
    assert_eq!(part["neighbor"][0], json!({"address": "10.0.0.1", "via": "x"}));
    assert_eq!(schema.impact("protocols/example/local-as"), Some(Impact::Reset));
}

#[test]
fn a_change_costs_what_its_dearest_leaf_costs() {
    let schema = schema();
    let path = ["protocols".to_string(), "example".to_string()];
    let base = "local-as 1; passive; neighbor 10.0.0.1 { via x; } neighbor 10.0.0.2 { via y; }";
    let cases = [
        (base, &[][..], None),
        ("local-as 1; passive; neighbor 10.0.0.2 { via y; } neighbor 10.0.0.1 { via x; }", &[], None),
        (
            "local-as 1; neighbor 10.0.0.1 { via x; } neighbor 10.0.0.2 { via y; }",
            &["passive"],
            Some(Impact::Soft),
        ),
        (
            "local-as 1; passive; mode slow; group a; neighbor 10.0.0.1 { via z; } neighbor 10.0.0.2 { via y; }",
            &["group", "mode", "neighbor/via"],
            Some(Impact::Soft),
        ),
        (
            "local-as 1; passive; neighbor 10.0.0.2 { via y; }",
            &["neighbor/address", "neighbor/via"],
            Some(Impact::Reset),
        ),
        (
            "local-as 2; neighbor 10.0.0.1 { via x; } neighbor 10.0.0.2 { via y; }",
            &["local-as", "passive"],
            Some(Impact::Reset),
        ),
    ];
    let read = |text: &str| schema.read("t", &format!("protocols {{ example {{ {text} }} }}")).unwrap();
    let before = read(base);
    for (text, leaves, cost) in cases {
        let after = read(text);
        let found = schema.differences(&path, before.part(&path), after.part(&path));
        let leaves: Vec<String> = leaves.iter().map(|l| format!("protocols/example/{l}")).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), leaves, "{text}");
        assert_eq!(schema.cost(&path, before.part(&path), after.part(&path)), cost, "{text}");
    }
}

#[test]
fn refusals_say_where_and_what() {
    let schema = schema();
    let check = |text: &str, expected: &str| {
        let error = schema.read("r.conf", text).unwrap_err();
        assert_eq!(error.to_string().lines().next().unwrap(), expected, "{text}");
    };
    check("protocls { }", "r.conf:1:1: unknown statement `protocls`; expected one of protocols, system");
    check(
        "protocols {\n  example {\n    local-as 65001;\n    pasive;\n  }\n}",
        "r.conf:4:5: unknown statement `pasive` in `protocols example`; expected one of group, local-as, mode, neighbor, passive",
    );
    check(
        "protocols example passive true;",
        "r.conf:1:11: Mandatory node \"local-as\" instance does not exist",
    );
    check(
        "protocols example local-as;",
        "r.conf:1:19: `local-as` needs a value; expected a value of type uint32",
    );
    check(
        "protocols example neighbor;",
        "r.conf:1:19: `neighbor` needs its key; expected `neighbor ADDRESS`",
    );
    check(
        "protocols example stats packets 1;",
        "r.conf:1:19: unknown statement `stats` in `protocols example`; expected one of group, local-as, mode, neighbor, passive",
    );
    for (text, at) in [
        ("protocols example local-as x;", "r.conf:1:28: `x` is not valid here"),
        ("protocols example local-as 0;", "r.conf:1:28: `0` is not valid here"),
        ("protocols example { local-as 1; mode quick; }", "r.conf:1:38: `quick` is not valid here"),
    ] {
        let error = schema.read("r.conf", text).unwrap_err().to_string();
        assert!(error.starts_with(at), "{error}");
    }
    let pointed = schema.read("r.conf", "protocols example local-as x;").unwrap_err().to_string();
    assert!(
        pointed.ends_with("\n  protocols example local-as x;\n                             ^"),
        "{pointed}"
    );
}

#[test]
fn a_leaf_without_an_impact_class_is_refused() {
    let text = "module bad { yang-version 1.1; namespace \"urn:bad\"; prefix b; leaf a { type string; } }";
    let error = Schema::load(&[Module { name: "bad", text }], None).err().unwrap();
    assert!(error.to_string().contains("a has no sluice:impact"), "{error}");
}

#[test]
fn a_third_party_module_is_found_in_a_folder() {
    let folder = std::env::temp_dir().join(format!("sluice-yang-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("example.yang"), EXAMPLE.text).unwrap();
    let schema = Schema::load(&[], Some(&folder));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(schema.unwrap().read("r", "protocols example local-as 7;").is_ok());
}
