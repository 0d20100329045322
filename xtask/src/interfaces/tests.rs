//! Each kind of change, made in a small tree.

use super::{Options, check, run};
use std::path::Path;

const OLD: &str = r#"
enum Color { COLOR_UNSPECIFIED = 0; RED = 1; BLUE = 2; reserved 9; }
message Route {
  string name = 1;
  uint32 metric = 2;
  optional uint32 distance = 3;
  repeated Color colors = 4;
  oneof action { bool discard = 5; Inner reject = 6; }
  map<string, uint32> counts = 7;
  reserved 20, 30 to 40;
  message Inner { string reason = 1; }
}
message Empty {}
service Rib {
  rpc Add(Route) returns (Empty);
  rpc Show(Empty) returns (Route) { option idempotency_level = NO_SIDE_EFFECTS; }
}
"#;

/// A tree with one interface and a changelog.
struct Tree(tempfile::TempDir);

impl Tree {
    /// Returns a tree whose interface is recorded.
    fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(tree.root().join("idl")).unwrap();
        tree.write("idl/rib.proto", OLD);
        tree.log("");
        assert_eq!(tree.renew(), [""; 0]);
        assert_eq!(check(tree.root()).unwrap(), [""; 0]);
        tree
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        let text = format!("syntax = \"proto3\";\npackage rib.v1;\n{text}");
        std::fs::write(self.root().join(file), text).unwrap();
    }

    /// Replaces a part of the interface.
    fn change(&self, old: &str, new: &str) {
        assert_eq!(OLD.matches(old).count(), 1, "{old}");
        self.write("idl/rib.proto", &OLD.replace(old, new));
    }

    fn log(&self, entry: &str) {
        let text =
            format!("# Changelog\n\n## 0.2.0 (unreleased)\n\n* {entry}\n\n## 0.1.0\n\n* `rib.v1.Route`\n");
        std::fs::write(self.root().join("CHANGELOG.md"), text).unwrap();
    }

    fn renew(&self) -> Vec<String> {
        run(self.root(), &Options { write: true }).unwrap()
    }
}

#[test]
fn additions_have_to_be_recorded() {
    for (old, new, expected) in [
        ("message Empty {}", "message Empty {}\nmessage More { string name = 1; }", "message More"),
        ("uint32 metric = 2;", "uint32 metric = 2; bytes more = 8;", "Route: 8"),
        ("BLUE = 2;", "BLUE = 2; GREEN = 3;", "Color: GREEN"),
        ("rpc Add(Route)", "rpc Drop(Route) returns (Empty); rpc Add(Route)", "Rib: Drop"),
        ("service Rib {", "service More {}\nservice Rib {", "service More"),
        ("message Empty {}", "message Empty {}\nenum More { MORE_UNSPECIFIED = 0; }", "enum More"),
        ("reserved 20,", "reserved 19, 20,", "Route: reserved"),
        (
            "returns (Empty);",
            "returns (Empty) { option idempotency_level = NO_SIDE_EFFECTS; }",
            "Rib: Add: only",
        ),
    ] {
        let tree = Tree::new();
        tree.change(old, new);
        let problem = format!(
            "idl/rib.proto: rib.v1 has additions that idl/baseline lacks ({expected}); run `cargo xtask interfaces --write`"
        );
        assert_eq!(check(tree.root()).unwrap(), [problem]);
        assert_eq!(tree.renew(), [""; 0], "{new}");
        assert_eq!(check(tree.root()).unwrap(), [""; 0], "{new}");
    }
}

#[test]
fn a_new_file_and_a_comment() {
    let tree = Tree::new();
    tree.change("uint32 metric", "// less is better\n  uint32 metric");
    assert_eq!(check(tree.root()).unwrap(), [""; 0]);
    std::fs::create_dir_all(tree.root().join("components/rib/idl")).unwrap();
    tree.write("components/rib/idl/more.proto", "import \"rib.proto\"; message More { Route route = 1; }");
    let [problem] = &check(tree.root()).unwrap()[..] else { panic!("one problem") };
    assert!(problem.contains("components/rib/idl/more.proto"), "{problem}");
    assert!(problem.contains("(message More)"), "{problem}");
    assert_eq!(tree.renew(), [""; 0]);
    assert_eq!(check(tree.root()).unwrap(), [""; 0]);
}

/// Incompatible changes: a text and its replacement, a part of the problem, and the name that the changelog must have. Numbers of removed
/// fields are reserved, so that a renewal may record the removal.
const INCOMPATIBLE: &[[&str; 4]] = &[
    [
        "uint32 metric = 2;",
        "reserved 2;",
        "message rib.v1.Route, field 2 (metric): recorded (singular, metric, uint32), missing; keep it",
        "rib.v1.Route",
    ],
    [
        "uint32 metric = 2;",
        "uint32 metric = 8; reserved 2;",
        "field 2 (metric): recorded (singular, metric, uint32), has the number 8; keep it",
        "rib.v1.Route",
    ],
    [
        "uint32 metric = 2;",
        "uint64 metric = 2;",
        "field 2 (metric): type was uint32, type is uint64; restore the field and add a new one with a new number",
        "rib.v1.Route",
    ],
    [
        "uint32 metric = 2;",
        "uint32 cost = 2;",
        "field 2 (metric): name was metric, name is cost; restore the name",
        "rib.v1.Route",
    ],
    [
        "repeated Color colors = 4;",
        "Color colors = 4;",
        "field 4 (colors): label was repeated, label is singular; restore the field",
        "rib.v1.Route",
    ],
    [
        "optional uint32 distance = 3;",
        "uint32 distance = 3;",
        "field 3 (distance): label was optional, label is singular",
        "rib.v1.Route",
    ],
    [
        "oneof action { bool discard = 5;",
        "bool discard = 5; oneof action {",
        "field 5 (discard): oneof was action, oneof is none",
        "rib.v1.Route",
    ],
    [
        "map<string, uint32> counts = 7;",
        "map<string, uint64> counts = 7;",
        "message rib.v1.Route.CountsEntry, field 2 (value): type was uint32, type is uint64",
        "rib.v1.Route.CountsEntry",
    ],
    [
        "BLUE = 2; reserved 9;",
        "reserved 2, 9;",
        "enum rib.v1.Color, value BLUE: recorded (2), missing; keep it",
        "rib.v1.Color",
    ],
    [
        "BLUE = 2; reserved 9;",
        "BLUE = 3; reserved 2, 9;",
        "enum rib.v1.Color, value BLUE: number was 2, number is 3; restore the number and add a new value",
        "rib.v1.Color",
    ],
    [
        "BLUE = 2;",
        "NAVY = 2;",
        "enum rib.v1.Color, value BLUE: recorded (2), missing; keep it",
        "rib.v1.Color",
    ],
    [
        "rpc Add(Route) returns (Empty);",
        "",
        "service rib.v1.Rib, method Add: recorded (rib.v1.Empty, rib.v1.Route), missing; keep it",
        "rib.v1.Rib/Add",
    ],
    [
        "rpc Add(Route) returns (Empty);",
        "rpc Add(Empty) returns (Empty);",
        "method Add: request was rib.v1.Route, request is rib.v1.Empty; restore the method and add a new one",
        "rib.v1.Rib/Add",
    ],
    [
        "rpc Add(Route) returns (Empty);",
        "rpc Add(Route) returns (Route);",
        "method Add: reply was rib.v1.Empty, reply is rib.v1.Route",
        "rib.v1.Rib/Add",
    ],
    [
        "{ option idempotency_level = NO_SIDE_EFFECTS; }",
        ";",
        "method Show: only was reads, only is none; restore the method",
        "rib.v1.Rib/Show",
    ],
    [
        "service Rib {",
        "service Other {",
        "service rib.v1.Rib: recorded, missing; keep the service",
        "rib.v1.Rib",
    ],
];

#[test]
fn incompatible_changes_are_refused() {
    for &[old, new, place, name] in INCOMPATIBLE {
        let tree = Tree::new();
        tree.change(old, new);
        let problems = check(tree.root()).unwrap();
        assert!(
            problems[0].starts_with("idl/rib.proto: ") && problems[0].contains(place),
            "{new}: {problems:#?}"
        );
        let purpose =
            format!("to break rib.v1 on purpose, write `{name}` into the unreleased part of CHANGELOG.md");
        assert!(problems[1].contains(&purpose), "{new}: {problems:#?}");
        // An entry of an earlier version, or for another name, is not enough.
        tree.log("`rib.v1.Routes`, `rib.v1.Ribs`");
        let unnamed = format!("names `{name}`");
        let problems = tree.renew();
        assert!(problems.len() == 1 && problems[0].contains(&unnamed), "{new}: {problems:#?}");
        assert!(!check(tree.root()).unwrap().is_empty());
        tree.log(&format!("**Interfaces**: `{name}` is another"));
        assert_eq!(tree.renew(), [""; 0], "{new}");
        assert_eq!(check(tree.root()).unwrap(), [""; 0], "{new}");
    }
}

#[test]
fn numbers_stay_taken() {
    for (old, new, expected) in [
        ("uint32 metric = 2;", "", "keep it, or write `reserved 2;` in its place"),
        ("uint32 metric = 2;", "uint32 metric = 8;", "keep it, or write `reserved 2;` in its place"),
        ("BLUE = 2;", "", "keep it, or write `reserved 2;` in its place"),
        ("BLUE = 2;", "BLUE = 3;", "restore the number and add a new value"),
        (
            "reserved 20, 30 to 40;",
            "reserved 30 to 40; uint32 again = 20;",
            "field 20 (again): the number 20 was reserved, because something removed had it, the number is used again; \
             take a number that was never used",
        ),
        ("reserved 20, 30 to 40;", "reserved 20, 30 to 35;", "write `reserved 36;` again"),
        (
            "reserved 9;",
            "",
            "enum rib.v1.Color: the number 9 was reserved, the number is free; write `reserved 9;` again",
        ),
    ] {
        let tree = Tree::new();
        tree.change(old, new);
        assert!(check(tree.root()).unwrap()[0].contains(expected), "{new}: {:#?}", check(tree.root()));
        tree.log("`rib.v1.Route` and `rib.v1.Color` are others");
        let problems = tree.renew();
        assert!(problems.len() == 1 && problems[0].contains(expected), "{new}: {problems:#?}");
    }
}

#[test]
fn ranges_of_reserved_numbers_may_be_divided() {
    let tree = Tree::new();
    tree.change("reserved 20, 30 to 40;", "reserved 20 to 34, 35 to 60;");
    let [problem] = &check(tree.root()).unwrap()[..] else { panic!("one problem") };
    assert!(problem.contains("(Route: reserved)"), "{problem}");
    assert_eq!(tree.renew(), [""; 0]);
}

#[test]
fn a_removed_package_is_named_by_its_description() {
    let tree = Tree::new();
    std::fs::remove_file(tree.root().join("idl/rib.proto")).unwrap();
    tree.write("idl/other.proto", "message Other {}");
    let problems = check(tree.root()).unwrap();
    assert!(problems.iter().any(|p| p.contains("enum rib.v1.Color: recorded, missing")), "{problems:#?}");
    let other = std::fs::read_to_string(tree.root().join("idl/other.proto")).unwrap();
    std::fs::write(tree.root().join("idl/other.proto"), other.replace("rib.v1", "other.v1")).unwrap();
    let problems = check(tree.root()).unwrap();
    assert!(problems.iter().any(|p| p.starts_with("idl/baseline/rib.v1.txt: ")), "{problems:#?}");
    tree.log("gone: `rib.v1.Color`, `rib.v1.Empty`, `rib.v1.Route`, `rib.v1.Route.Inner`, `rib.v1.Route.CountsEntry`, `rib.v1.Rib`");
    assert_eq!(tree.renew(), [""; 0]);
    assert!(!tree.root().join("idl/baseline/rib.v1.txt").exists());
    assert_eq!(check(tree.root()).unwrap(), [""; 0]);
}

#[test]
fn a_damaged_description_is_an_error() {
    let tree = Tree::new();
    for text in ["  1 name=x\n", "message\n", "message A\n  1 name\n", "message A\n  reserved from=1 to=x\n"]
    {
        std::fs::write(tree.root().join("idl/baseline/rib.v1.txt"), text).unwrap();
        let error = format!("{:#}", check(tree.root()).unwrap_err());
        assert!(error.contains("is no part of a description"), "{text}: {error}");
    }
}
