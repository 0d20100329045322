//! Texts and statements against a schema: reading, writing, and the messages of refusals.

use crate::world::{EXAMPLE, path};
use serde_json::json;
use sluice_config::{ConfigErrors, HIDDEN, Impact, Module, Schema, Secrets, Tree};

fn schema() -> Schema {
    Schema::of(&[Module { name: "example", text: EXAMPLE }]).unwrap()
}

fn first_line(error: impl ToString) -> String {
    error.to_string().lines().next().unwrap_or_default().into()
}

#[test]
fn braces_and_lines_read_the_same() {
    let schema = schema();
    let braces = "protocols { example { local-as 65001; passive; group [ b a ]; neighbor 10.0.0.10 { via x; } neighbor 10.0.0.9 { discard; } } }";
    let lines = "protocols example local-as 065001;\nprotocols example passive true;\nprotocols example group a;\n\
                 protocols example group b;\nprotocols example neighbor 10.0.0.9 discard;\nprotocols example neighbor 10.0.0.10 via x;";
    let (a, b) = (schema.read("a", braces).unwrap(), schema.read("b", lines).unwrap());
    assert_eq!(a, b);
    assert_eq!(schema.configured(&a), ["example"]);
    assert_eq!(schema.configured(&Tree::empty()).len(), 0);
    let part = schema.part("example", &a).unwrap();
    assert_eq!(part["neighbor"][0], json!({"address": "10.0.0.10", "via": "x", "timers": {"hold": 90}}));
    let text = schema.text(&a, &[], Secrets::Shown).unwrap();
    let expected = "\
protocols {
    example {
        local-as 65001;
        passive true;
        group [ a b ];
        neighbor 10.0.0.9 {
            discard;
        }
        neighbor 10.0.0.10 {
            via x;
        }
    }
}
";
    assert_eq!(text, expected);
    let lines = schema.set_lines(&a, &path("protocols example neighbor"), Secrets::Shown).unwrap();
    let expected =
        ["set protocols example neighbor 10.0.0.9 discard", "set protocols example neighbor 10.0.0.10 via x"];
    assert_eq!(lines, expected);
    let json = schema.json(&a, &path("protocols example"), Secrets::Shown).unwrap();
    let expected = json!({"local-as": 65001, "passive": true, "group": ["a", "b"], "neighbor": [
        {"address": "10.0.0.9", "discard": [null]}, {"address": "10.0.0.10", "via": "x"}]});
    assert_eq!(json, expected);
    assert_eq!(schema.impact("protocols/example/local-as"), Some(Impact::Reset));
}

#[test]
fn set_statements_read_the_same() {
    let schema = schema();
    let braces =
        "protocols { example { local-as 65001; passive; group [ b a ]; neighbor 10.0.0.9 { discard; } } }";
    let tree = schema.read("a", braces).unwrap();
    let lines = schema.set_lines(&tree, &[], Secrets::Shown).unwrap().join("\n");
    assert_eq!(schema.read("b", &lines).unwrap(), tree, "{lines}");
    assert_eq!(schema.merge(&Tree::empty(), "b", &lines).unwrap(), tree);
    let wrong = schema.read("b", &format!("{lines}\nset protocols exmple x")).unwrap_err();
    assert!(
        first_line(&wrong).contains("unknown statement `exmple`")
            && wrong.place.line as usize == lines.lines().count() + 1
    );
}

#[test]
fn refusals_say_where_and_what() {
    let schema = schema();
    let check = |text: &str, expected: &str| {
        assert_eq!(first_line(schema.read("r.conf", text).unwrap_err()), expected, "{text}");
    };
    check(
        "protocls { }",
        "r.conf:1:1: unknown statement `protocls`; did you mean `protocols`?; expected one of instance, policy, protocols, system",
    );
    check(
        "protocols {\n  example {\n    local-as 65001;\n    pasive;\n  }\n}",
        "r.conf:4:5: unknown statement `pasive` in `protocols example`; did you mean `passive`?; expected one of area, group, key, limits, \
         local-as, mode, neighbor, order, passive, secret",
    );
    check(
        "protocols example passive true;",
        "r.conf:1:11: `protocols example` needs `local-as`; expected `local-as a value of type uint32, 1..4294967294;`",
    );
    check(
        "protocols example { local-as 1;\n neighbor b { via x; }\n neighbor a; }",
        "r.conf:3:11: `protocols example neighbor a` needs its kind; expected one of `discard`, `via`",
    );
    check(
        "protocols example { local-as 1;\n neighbor b { via x; discard; } }",
        "r.conf:2:11: `protocols example neighbor b` has `discard` and `via`, which exclude each other; expected one of them",
    );
    check(
        "protocols example local-as;",
        "r.conf:1:19: `local-as` needs a value; expected a value of type uint32, 1..4294967294",
    );
    check(
        "protocols example neighbor;",
        "r.conf:1:19: `neighbor` needs its key; expected `neighbor ADDRESS`",
    );
    check(
        "protocols example neighbor x address y;",
        "r.conf:1:38: `address` names its entry and cannot be another here",
    );
    check(
        "protocols example { local-as 1; mode quick; }",
        "r.conf:1:38: `quick` is not valid here; expected one of fast, slow",
    );
    check(
        "protocols example { local-as 1; group [ a b c d ]; }",
        "r.conf:1:33: `protocols example group` has 4, and may have 3 at most",
    );
    check(
        "protocols example { local-as { a; } }",
        "r.conf:1:32: `local-as` is a value, not a block; expected `local-as a value of type uint32, 1..4294967294;`",
    );
    check(
        "protocols example { local-as 1; limits 11; }",
        "r.conf:1:40: `11` is not valid here; expected uint8 1..10 | none",
    );
    check(
        "protocols example;",
        "r.conf:1:11: `protocols example` needs `local-as`; expected `local-as a value of type uint32, 1..4294967294;`",
    );
    check("protocols;", "r.conf:1:1: `protocols` is incomplete; expected `{` with `example`");
    let unknown = schema.read("r.conf", "protocols example stats packets 1;").unwrap_err();
    assert!(first_line(unknown).starts_with("r.conf:1:19: unknown statement `stats`"));
    let pointed = schema.read("r.conf", "protocols example local-as x;").unwrap_err().to_string();
    assert!(
        pointed.ends_with("\n  protocols example local-as x;\n                             ^"),
        "{pointed}"
    );
    let said = serde_json::to_value(schema.read("r.conf", "protocls;").unwrap_err()).unwrap();
    assert_eq!((&said["place"]["line"], &said["file"]), (&json!(1), &json!("r.conf")));
}

#[test]
fn statements_change_a_tree() {
    let schema = schema();
    let base = "protocols { example { local-as 1; passive; group [ a b ]; neighbor 10.0.0.1 { via x; } order z; order a; } }";
    let base = schema.read("base", base).unwrap();
    let check = |statement: &str, expected: &str| {
        let got = match schema.edit(&base, statement) {
            Ok(after) => schema.compare(&base, &after).text(Secrets::Shown),
            Err(error) => first_line(error),
        };
        assert_eq!(got, expected, "{statement}");
    };
    check("set protocols example local-as 2", "[edit protocols example]\n-  local-as 1;\n+  local-as 2;\n");
    check("set protocols example local-as 01;", "");
    check("set protocols example group c", "[edit protocols example]\n+  group c;\n");
    check("delete protocols example group a", "[edit protocols example]\n-  group a;\n");
    check("delete protocols example group", "[edit protocols example]\n-  group a;\n-  group b;\n");
    check(
        "set protocols example neighbor 10.0.0.1 discard",
        "[edit protocols example neighbor 10.0.0.1]\n+  discard;\n-  via x;\n",
    );
    check(
        "set protocols example neighbor 10.0.0.2 timers hold 9",
        "[edit protocols example]\n+  neighbor 10.0.0.2 {\n+      timers {\n+          hold 9;\n+      }\n+  }\n",
    );
    check(
        "delete protocols example neighbor 10.0.0.1",
        "[edit protocols example]\n-  neighbor 10.0.0.1 {\n-      via x;\n-  }\n",
    );
    check("set system host-name \"a b\"", "[edit]\n+  system {\n+      host-name \"a b\";\n+  }\n");
    check(
        "delete protocols example neighbor 10.0.0.11",
        "statement:1:35: there is no `protocols example neighbor 10.0.0.11`; did you mean `10.0.0.1`?",
    );
    check(
        "delete protocols example group aa",
        "statement:1:32: `protocols example group` has no `aa`; did you mean `a`?",
    );
    check("delete system", "statement:1:8: there is no `system` to delete");
    check(
        "delete protocols example mode",
        "statement:1:26: there is no `mode` in `protocols example` to delete",
    );
    check(
        "delete protocols example local-as 2",
        "statement:1:35: `protocols example local-as` is 1, not `2`",
    );
    check(
        "delete protocols example neighbor 10.0.0.1 address",
        "statement:1:44: `address` names its entry; expected `delete` of the `neighbor` itself",
    );
    check("set", "statement:1:1: `set` needs a path");
    check(
        "sett protocols",
        "statement:1:1: `sett` changes nothing; did you mean `set`?; expected `set`, `delete`, `rename`, `copy`, `insert`, `deactivate`, `activate` or `annotate`",
    );
    check(
        "set protocols example { passive; }",
        "statement:1:23: this does not belong into a single statement",
    );
    check("set protocols example passive; set", "statement:1:32: there is more than one statement");
    check(
        "set protocols example local-as x",
        "statement:1:32: `x` is not valid here; expected a value of type uint32, 1..4294967294",
    );
    check(
        "set protocols example secret \"<hidden>\"",
        "statement:1:30: `<hidden>` only stands for a secret that is not shown; expected the secret itself",
    );
    let after = schema.edit(&base, "delete protocols").unwrap();
    assert!(after.is_empty() && !base.is_empty());
}

#[test]
fn the_operators_order_is_kept_where_it_counts() {
    let schema = schema();
    let read =
        |order: &str| schema.read("r", &format!("protocols example {{ local-as 1; {order} }}")).unwrap();
    let (a, b) = (read("order [ z a m ];"), read("order [ a z m ];"));
    assert_ne!(a, b);
    let comparison = schema.compare(&a, &b);
    let replayed =
        comparison.set_text(Secrets::Shown).iter().fold(a.clone(), |t, s| schema.edit(&t, s).unwrap());
    assert_eq!(replayed, b);
    assert_eq!(schema.cost("example", &a, &b), Some(Impact::Refilter));
    assert_eq!(schema.part("example", &b).unwrap()["order"], json!(["a", "z", "m"]));
}

#[test]
fn secrets_are_hidden() {
    let schema = schema();
    let tree = schema.read("r", "protocols example { local-as 1; secret \"x{y\"; }").unwrap();
    let everything = |secrets| {
        let text = schema.text(&tree, &[], secrets).unwrap();
        let lines = schema.set_lines(&tree, &[], secrets).unwrap().join("\n");
        let json = schema.json(&tree, &[], secrets).unwrap().to_string();
        let compared = schema.compare(&Tree::empty(), &tree);
        [text, lines, json, compared.text(secrets), compared.set_text(secrets).join("\n")]
    };
    for shown in everything(Secrets::Hidden) {
        assert!(shown.contains(HIDDEN) && !shown.contains("x{y"), "{shown}");
    }
    for shown in everything(Secrets::Shown) {
        assert!(shown.contains("x{y"), "{shown}");
    }
    let wrong = schema
        .read("r", "protocols example { local-as 1; secret \"much too long\"; }")
        .unwrap_err()
        .to_string();
    assert_eq!(
        wrong,
        "r:1:40: `<hidden>` is not valid here: it does not fit; expected a value of type string, 1..8 characters"
    );
}

#[test]
fn entries_are_renamed_and_copied() {
    let schema = schema();
    let base = "protocols { example { local-as 1; neighbor a { via x; timers { hold 7; } } neighbor b { discard; } \
                area n 1 { inner { value 5; } } } }";
    let base = schema.read("base", base).unwrap();
    let check = |statement: &str, expected: &str| {
        let got = match schema.edit(&base, statement) {
            Ok(after) => schema.compare(&base, &after).set_text(Secrets::Shown).join("; "),
            Err(error) => first_line(error),
        };
        assert_eq!(got, expected, "{statement}");
    };
    let copied = "set protocols example neighbor c via x; set protocols example neighbor c timers hold 7";
    check("copy protocols example neighbor a to c", copied);
    check(
        "rename protocols example neighbor a to c",
        &format!("delete protocols example neighbor a; {copied}"),
    );
    check("copy protocols example area n 1 to n 2", "set protocols example area n 2 inner value 5");
    check(
        "copy protocols example neighbor a to b",
        "statement:1:38: there is a `protocols example neighbor b` already",
    );
    check(
        "rename protocols example neighbor x to y",
        "statement:1:35: there is no `protocols example neighbor x`",
    );
    check(
        "rename protocols example local-as to y",
        "statement:1:26: `protocols example local-as` has no key; expected an entry of a list",
    );
    check(
        "rename protocols example neighbor a",
        "statement:1:1: `rename` needs an entry and a new key; expected `rename PATH KEY to KEY`",
    );
    check("copy protocols example neighbor a to b c", "statement:1:40: nothing can stand behind the new key");
    check(
        "copy protocols example area n 1 to n",
        "statement:1:24: `area` needs its key; expected `area NAME LEVEL`",
    );
}

#[test]
fn merging_replaces_what_excludes_it() {
    let schema = schema();
    let tree = schema.read("r", "protocols example { local-as 1; neighbor a { via x; } }").unwrap();
    let merged = schema
        .merge(&tree, "m", "protocols example { local-as 2; neighbor a discard; neighbor b; }")
        .unwrap();
    let lines = schema.set_lines(&merged, &[], Secrets::Shown).unwrap();
    let expected = [
        "set protocols example local-as 2",
        "set protocols example neighbor a discard",
        "set protocols example neighbor b",
    ];
    assert_eq!(lines, expected);
    let error = schema.validate(Some(&tree), &merged).unwrap_err();
    assert_eq!(
        error.to_string(),
        "configuration:1:1: `protocols example neighbor b` needs its kind; expected one of `discard`, `via`\n  \
         protocols example neighbor b\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    );
}

#[test]
fn the_index_lists_what_there_is() {
    let schema = schema();
    let protocols = schema.nodes().iter().find(|n| n.name == "protocols").unwrap();
    let example = protocols.child("example").unwrap();
    assert_eq!(
        (example.component.as_deref(), example.description.as_str()),
        (Some("example"), "An example.")
    );
    let value = |name: &str| match &example.child(name).unwrap().kind {
        sluice_config::NodeKind::Leaf(value) | sluice_config::NodeKind::LeafList(value) => value.clone(),
        other => panic!("{other:?}"),
    };
    let local_as = value("local-as");
    assert_eq!(
        (local_as.type_name.as_str(), local_as.range.as_str(), local_as.mandatory),
        ("uint32", "1..4294967294", true)
    );
    let passive = value("passive");
    assert_eq!((passive.default.as_deref(), passive.flag, passive.words.len()), (Some("false"), true, 2));
    assert_eq!(value("mode").words[0], ("fast".to_string(), "At once.".to_string()));
    assert_eq!((value("secret").range.as_str(), value("secret").secret), ("1..8 characters", true));
    assert_eq!(value("limits").range, "uint8 1..10 | none");
    let neighbor = example.child("neighbor").unwrap();
    assert_eq!(neighbor.kind, sluice_config::NodeKind::List { keys: vec!["address".into()] });
    let names: Vec<&str> = neighbor.children.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["address", "discard", "via", "timers"]);
    let again: Vec<sluice_config::Node> =
        serde_json::from_value(serde_json::to_value(schema.nodes()).unwrap()).unwrap();
    assert_eq!(again, schema.nodes());
}

#[test]
fn a_leaf_without_an_impact_class_is_refused() {
    let text = "module bad { yang-version 1.1; namespace \"urn:bad\"; prefix b; leaf a { type string; } }";
    let error = Schema::of(&[Module { name: "bad", text }]).err().unwrap();
    assert!(error.to_string().contains("a has no sluice:impact"), "{error}");
}

#[test]
fn what_stands_twice_in_a_text_is_refused_with_both_lines() {
    let schema = schema();
    let check = |text: &str, expected: &str| {
        let got = schema.read("r.conf", text).map(drop).map_err(first_line);
        assert_eq!(got, if expected.is_empty() { Ok(()) } else { Err(expected.to_owned()) }, "{text}");
    };
    check(
        "protocols { example {\n local-as 1;\n passive;\n local-as 2;\n} }",
        "r.conf:4:2: `protocols example local-as` is set twice, first in line 2; expected one of them",
    );
    check(
        "protocols { example {\n local-as 1;\n neighbor a {\n via x; }\n neighbor b { via y; }\n neighbor a { discard; } } }",
        "r.conf:6:2: `protocols example neighbor a` has a block twice, first in line 3; expected one of them",
    );
    check(
        "protocols example local-as 1;\nprotocols example neighbor a via x;\nprotocols example neighbor a timers hold 9;",
        "",
    );
    check("protocols { example { local-as 1; } } protocols { example { group [ a b ]; group c; } }", "");
    let base = schema.read("r.conf", "protocols example local-as 1;").unwrap();
    assert!(schema.merge(&base, "r.conf", "protocols example local-as 2;").is_ok());
}

#[test]
fn all_errors_of_a_text_are_found() {
    let schema = schema();
    let text = "protocols {\n example {\n  local-as x;\n  pasive;\n  neighbor a { viaa y;\n timers hold 70000; }\n  mode slow;\n }\n}\nsytem;";
    let errors = schema.read_all("r.conf", text).unwrap_err();
    let lines: Vec<String> = errors.all().iter().map(first_line).collect();
    let begins = [
        "r.conf:3:12: `x` is not",
        "r.conf:4:3: unknown",
        "r.conf:5:16: unknown",
        "r.conf:6:14: `70000` is not",
        "r.conf:10:1: unknown",
    ];
    assert_eq!(lines.len(), begins.len(), "{lines:#?}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{lines:#?}");
    let twice = "frob;\nprotocols example local-as 1;\nfrob;\nprotocols example local-as 2;\n";
    let errors = schema.read_all("r.conf", twice).unwrap_err();
    assert!(first_line(&errors.all()[2]).contains("first in line 2"), "{errors}");
    let many = "frob;\n".repeat(1000);
    let errors = schema.read_all("r.conf", &many).unwrap_err();
    assert_eq!(errors.all().len(), ConfigErrors::MOST);
    assert!(errors.to_string().contains("there may be more"));
    assert!(schema.read_all("r.conf", "protocols example local-as 1;").is_ok());
}

#[test]
fn a_balancer_has_an_engine_that_runs_its_program() {
    let fea = Module { name: "sluice-fea", text: include_str!("../../../../components/fea/fea.yang") };
    let cluster =
        Module { name: "sluice-cluster", text: include_str!("../../../../components/cluster/cluster.yang") };
    let schema = Schema::of(&[fea, cluster]).unwrap();
    let read = |element: u8, forwarding: &str| {
        let key = "5a".repeat(32);
        let text = format!(
            "cluster {{ element {element}; interconnect in0; key {key}; member 1 {{ role balancer; }} member 2 {{ role router; }} }}
             {forwarding}"
        );
        schema.read("r.conf", &text).map_err(|error| error.to_string())
    };
    for forwarding in ["", "interfaces;", "interfaces { forwarding { engine kernel; } }"] {
        let refused = read(1, forwarding).map(|_| ());
        let names_both =
            |error: &String| error.contains("a balancer, which needs `interfaces forwarding engine both`");
        assert!(refused.as_ref().is_err_and(names_both), "{forwarding}: {refused:?}");
        read(2, forwarding).unwrap();
    }
    for engine in ["both", "xdp"] {
        read(1, &format!("interfaces {{ forwarding {{ engine {engine}; }} }}")).unwrap();
    }
    // A change of the engine alone is refused too.
    let tree = read(1, "interfaces { forwarding { engine both; } }").unwrap();
    let other = schema.edit(&tree, "set interfaces forwarding engine kernel").unwrap();
    assert!(schema.validate(Some(&tree), &other).is_err());
}

#[test]
fn interfaces_have_addresses_and_names_that_can_be() {
    let fea = Module { name: "sluice-fea", text: include_str!("../../../../components/fea/fea.yang") };
    let schema = Schema::of(&[fea]).unwrap();
    let takes = |text: &str| schema.read("r.conf", text).is_ok();
    let address = |text: &str| takes(&format!("interfaces interface eth0 address {text};"));
    for good in ["10.0.0.1/24", "10.0.0.0/0", "2001:db8::1/64", "fe80::1/10", "1:2:3:4:5:6:7:8/128"] {
        assert!(address(good), "{good}");
    }
    for bad in [
        "10.0.0.256/24",
        "10.0.0/24",
        "10.0.0.1/33",
        "10.0.0.1",
        "10.0.0.01/24",
        "0.0.0.0/0",
        "255.255.255.255/32",
        "::/0",
        "::ffff:192.0.2.1/128",
        "::1/129",
        "1::2::3/64",
        "1:2:3:4:5:6:7/64",
        ":/1",
        "fe80::1%eth0/64",
        "10.0.0.1/",
        "2001:db8::g/64",
        "10.0.0.1/024",
    ] {
        assert!(!address(bad), "{bad}");
    }
    let name = |text: &str| takes(&format!("interfaces interface \"{text}\" enabled true;"));
    assert!(["eth0", "br-lan", "eth0.100", "\u{fc}ber", "..."].into_iter().all(name));
    assert!(!["a/b", "a:1", "a b", ".", "..", "", "a\u{202e}b", "sixteencharacters"].into_iter().any(name));
    assert!(!takes("system host-name \"a\u{202e}b\";") && !takes("system host-name \"a\u{200b}b\";"));
    assert!(takes("system host-name \"r\u{f6}uter 1\";"));
}
