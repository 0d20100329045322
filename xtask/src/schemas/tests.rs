//! Tests of the schemas' generator.

use super::data::Type;
use super::{check, write};
use serde_json::{Value, json};
use std::path::Path;

const PROTO: &str = r#"
syntax = "proto3";
package a.v1;
service A {
  rpc GetAll(GetAllRequest) returns (GetAllReply);
  rpc GetPage(GetAllRequest) returns (GetAllReply);
}
message GetAllRequest {}
message GetAllReply {
  repeated Row rows = 1;  // the newest first
  uint64 next = 2;
}
message Row {
  // The name of
  // the row.
  string name = 1;
  string state = 2;           // up, down
  optional uint32 index = 3;  // absent: none
  Row inner = 4;
}
"#;

const COMMANDS: &str = "
[[command]]
words = 'show all'
call = 'a/a.v1.A/GetAll'
rows = 'rows'
[[command]]
words = 'show page'
call = 'a/a.v1.A/GetPage'
rows = 'rows'
page = { next = 'next', field = 'after' }
";

const DATA: &str = "
by_hand = ['own']
[documents]
'one row' = 'a.v1.Row?: The only one'
[values]
'a.v1.Row.state' = ['up', 'down']
[object.'a.v1.Row']
message = 'a.v1.Row'
without = ['inner']
optional = ['extra']
[object.'a.v1.Row'.members]
extra = '[uint64]: Further numbers'
";

/// Writes a tree with these data.
fn tree(data: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    put("idl/common.proto", "syntax = \"proto3\";\npackage common.v1;\n");
    put("components/a/idl/a.proto", PROTO);
    put("components/a/commands.toml", COMMANDS);
    put("docs/schemas/own.json", "{}");
    put("docs/schemas.toml", data);
    root
}

fn schema(root: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(root.join("docs/schemas").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn schemas_follow_interfaces_and_data() {
    let root = tree(DATA);
    let root = root.path();
    assert_eq!(check(root).unwrap().len(), 3);
    write(root).unwrap();
    assert!(check(root).unwrap().is_empty());
    let row = json!({
        "type": "object",
        "required": ["name", "state", "index"],
        "properties": {
            "name": { "type": "string", "description": "The name of the row" },
            "state": { "enum": ["up", "down"], "description": "up, down" },
            "index": { "anyOf": [{ "type": "integer", "format": "uint32" }, { "type": "null" }], "description": "null: none" },
            "extra": { "type": "array", "items": { "type": "string", "format": "uint64" }, "description": "Further numbers" },
        },
    });
    let rows = json!({ "type": "array", "items": row, "description": "The newest first" });
    assert_eq!(
        schema(root, "show-all.json"),
        json!({
            "$schema": super::DIALECT, "$id": "https://sluice.example/schemas/show-all.json", "title": "sluice show all",
            "type": "object", "required": ["rows", "next"],
            "properties": { "rows": rows, "next": { "type": "string", "format": "uint64" } },
        })
    );
    let page = schema(root, "show-page.json");
    assert_eq!(page["properties"], json!({ "rows": rows }));
    let one = schema(root, "one-row.json");
    assert_eq!(one["anyOf"], json!([row, { "type": "null" }]));
    assert_eq!(one["description"], "The only one");
}

#[test]
fn files_that_differ_are_found() {
    let root = tree(DATA);
    let root = root.path();
    write(root).unwrap();
    let folder = root.join("docs/schemas");
    std::fs::write(folder.join("show-all.json"), "{}").unwrap();
    std::fs::rename(folder.join("own.json"), folder.join("other.json")).unwrap();
    let mut found = check(root).unwrap();
    found.sort();
    let begins = [
        "docs/schemas/other.json: of no",
        "docs/schemas/own.json: named",
        "docs/schemas/show-all.json: differs",
    ];
    assert_eq!(found.len(), begins.len(), "{found:?}");
    assert!(found.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{found:?}");
}

#[test]
fn wrong_data_are_refused() {
    for (from, to, expected) in [
        ("'inner'", "'outer'", "`outer` is no field of a.v1.Row"),
        ("['extra']", "['more']", "no member `more`"),
        ("[uint64]", "[uint65]", "`uint65` is no type"),
        ("a.v1.Row.state", "a.v1.Row.mood", "no document has a.v1.Row.mood"),
        ("without = ['inner']", "", "contains itself"),
    ] {
        let root = tree(&DATA.replace(from, to));
        let error = format!("{:#}", write(root.path()).unwrap_err());
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn types_are_read() {
    let named = |name: &str| Type::Named(name.to_owned());
    let check = |text: &str, expected: Type| assert_eq!(text.parse::<Type>().unwrap(), expected, "{text}");
    check("uint32", named("uint32"));
    check("[rib.v1.Route]", Type::List(Box::new(named("rib.v1.Route"))));
    check("[string]?", Type::Nullable(Box::new(Type::List(Box::new(named("string"))))));
    check("A | B", Type::Either(vec![named("A"), named("B")]));
    check("{string}", Type::Map(Box::new(named("string"))));
    check("[A | B]", Type::List(Box::new(Type::Either(vec![named("A"), named("B")]))));
    for wrong in ["", "[string", "a b", "[]"] {
        assert!(wrong.parse::<Type>().is_err(), "{wrong}");
    }
}
