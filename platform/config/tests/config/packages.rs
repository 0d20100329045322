//! Packages: good packages are part of the schema, bad packages are refused with a reason and do no harm.

use crate::world::EXAMPLE;
use sluice_config::package::{Package, Refused, read_folder};
use sluice_config::upgrade;
use sluice_config::{Module, Schema, Tree};
use std::path::Path;

/// A package with a component `name`, whose module has `body` in its container.
fn package(name: &str, body: &str) -> Package {
    let text = format!(
        "module {name} {{ yang-version 1.1; namespace \"urn:{name}\"; prefix p; import sluice-extensions {{ prefix sluice; }}
        import sluice-router {{ prefix router; }}
        augment /router:protocols {{ container {name} {{ presence \"It runs.\"; sluice:component {name}; {body} }} }} }}"
    );
    Package {
        name: name.into(),
        class: Some(name.into()),
        modules: vec![(name.into(), text)],
        ..Package::default()
    }
}

const LEAF: &str = "leaf a { type string; sluice:impact soft; }";

#[test]
fn a_bad_package_is_refused_and_the_others_stay() {
    let builtin = Package { builtin: true, ..package("good", LEAF) };
    let other_container = |name: &str, module: &str| {
        let mut package = package("good", LEAF);
        let text = &mut package.modules[0].1;
        *text = text
            .replace("module good", &format!("module {module}"))
            .replace("urn:good", &format!("urn:{module}"));
        package.modules[0].0 = module.into();
        package.name = name.into();
        package.class = Some(name.into());
        package
    };
    let without_class = Package { class: Some("ghost".into()), ..package("unmarked", LEAF) };
    let mut needs = package("needs", LEAF);
    needs.modules.insert(0, {
        let text = "module needs-more { yang-version 1.1; namespace \"urn:needs-more\"; prefix n; import needs { prefix p; }
            import sluice-extensions { prefix sluice; } import sluice-router { prefix router; }
            augment /router:protocols/p:needs { leaf more { type uint8; sluice:impact none; } } }";
        ("needs-more".into(), text.into())
    });
    let with_metric = |mut package: Package, name: &str| {
        let text = format!(
            "[[metric]]\nname = '{name}'\ntype = 'gauge'\nhelp = 'x'\ncall = 'a/b/GetC'\nvalue = 'd'\n"
        );
        package.metrics = Some(text);
        package
    };
    let packages = vec![
        with_metric(package("early", LEAF), "early_more_routes"),
        with_metric(package("early-more", LEAF), "early_more_routes"),
        package("syntax", "leaf a {"),
        package("free", "leaf a { type string; }"),
        builtin,
        package("good", LEAF),
        other_container("container", "other"),
        without_class,
        package("unknown-type", "leaf a { type nonsense; sluice:impact soft; }"),
        needs,
    ];
    let (schema, taken, refused) = Schema::load(packages).unwrap();
    let names: Vec<&str> = taken.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["good", "early", "needs"]);
    let expected = [
        (
            "early-more",
            "package `early` brings the metric `early_more_routes` already; give yours another name",
        ),
        ("syntax", "module syntax: "),
        ("free", "module free: protocols/free/a has no sluice:impact"),
        ("good", "there is a package `good` already"),
        ("container", "module other: "),
        ("unmarked", "module unmarked: no container is marked `sluice:component \"ghost\"`"),
        ("unknown-type", "module unknown-type: "),
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:#?}");
    for (Refused { name, reason }, (expected, start)) in refused.iter().zip(expected) {
        assert!(name == expected && reason.starts_with(start), "{name}: {reason}");
    }
    let text = "protocols { good { a x; } early { a y; } needs { a z; more 7; } }";
    let tree = schema.read("r", text).unwrap();
    assert_eq!(schema.configured(&tree), ["early", "good", "needs"]);
    assert_eq!(schema.part("needs", &tree).unwrap(), serde_json::json!({"a": "z", "more": 7}));
    let broken = Package { builtin: true, ..package("broken", "leaf a {") };
    assert!(Schema::load(vec![broken]).is_err());
}

#[test]
fn a_folder_holds_packages() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "rip/package.toml",
        "name = 'rip'\nclass = 'rip'\nversion = '1.2'\ndescription = 'Old.'\nexecutable = 'bin/rip'",
    );
    write("rip/bin/rip", "");
    write("rip/rip@2026-01-01.yang", &package("rip", LEAF).modules[0].1);
    write("rip/rights.toml", "class = 'rip'");
    write("rip/README.md", "# RIP");
    write("bare/README.md", "nothing");
    write("wrong/package.toml", "name = 'wrong'\nversion = 1");
    write("other/package.toml", "name = 'another'\nversion = '1'\ndescription = ''");
    write("uncounted/package.toml", "name = 'uncounted'\nversion = '1'\ndescription = ''");
    write(
        "uncounted/metrics.toml",
        "[[metric]]\nname = 'rip_x'\ntype = 'gauge'\nhelp = 'x'\ncall = 'a/b/GetC'\n",
    );
    write("lost/package.toml", "name = 'lost'\nversion = '1'\ndescription = ''\nexecutable = 'no'");
    write("README", "no folder, no package");
    let found = read_folder(folder.path()).unwrap();
    let reasons: Vec<(&str, &str)> =
        found.iter().filter_map(|p| p.as_ref().err()).map(|r| (r.name.as_str(), r.reason.as_str())).collect();
    assert_eq!(reasons[0], ("bare", "it has no package.toml"));
    assert!(reasons[1].0 == "lost" && reasons[1].1.contains("there is no executable"), "{reasons:?}");
    assert_eq!(reasons[2], ("other", "package.toml: its name is `another`, not that of its folder"));
    assert!(reasons[3].0 == "uncounted", "{reasons:?}");
    assert!(reasons[3].1.starts_with("metrics.toml:2: `rip_x` is no name for a metric"), "{reasons:?}");
    assert!(reasons[4].0 == "wrong" && reasons[4].1.starts_with("package.toml: "), "{reasons:?}");
    let rip = found.iter().find_map(|p| p.as_ref().ok()).unwrap();
    assert_eq!((rip.name.as_str(), rip.class.as_deref(), rip.version.as_str()), ("rip", Some("rip"), "1.2"));
    assert_eq!((rip.help.as_deref(), rip.modules[0].0.as_str()), (Some("# RIP"), "rip"));
    assert_eq!(rip.executable.as_deref(), Some(&*folder.path().join("rip/bin/rip")));
    assert!(rip.commands.is_none() && rip.metrics.is_none() && rip.rights.is_some() && !rip.builtin);
    assert_eq!(read_folder(Path::new("/nonexistent")).unwrap(), []);
    let (schema, ..) = Schema::load(vec![rip.clone()]).unwrap();
    assert_eq!(schema.components().count(), 1);
}

#[test]
fn an_upgrade_lists_what_it_means_for_this_configuration() {
    let old = Schema::of(&[Module { name: "example", text: EXAMPLE }]).unwrap();
    let text = EXAMPLE
        .replace("leaf passive { type boolean; default false; sluice:impact \"soft\"; }", "")
        .replace("default 90;", "default 30;")
        .replace("enum slow;", "")
        .replace("length \"1..8\"", "length \"1..2\"")
        .replace(
            "leaf address { type string; sluice:impact \"reset\"; }",
            "leaf address { type string; sluice:impact \"restart\"; }",
        )
        .replace("type union { type uint8", "type union { type uint16")
        .replace(
            "leaf local-as {",
            "leaf cluster { type uint8; mandatory true; sluice:impact none; }
             leaf strict { type boolean; sluice:impact none; sluice:as-before false; } leaf local-as {",
        );
    let new = Schema::of(&[Module { name: "example", text: text.leak() }]).unwrap();
    let check = |tree: &Tree| -> Vec<String> {
        upgrade::check(old.nodes(), &new, tree).iter().map(ToString::to_string).collect()
    };
    assert_eq!(check(&Tree::empty()), [""; 0]);
    let text = "protocols { example { local-as 1; passive; mode slow; secret abc; group [ x y ];
        neighbor a { via x; timers { hold 9; } } neighbor b { via y; } area 0 1 inner value 3; } }";
    let tree = old.read("r", text).unwrap();
    let expected = [
        "protocols example mode: the value is refused: it has to be one of fast",
        "protocols example neighbor a address: a change of it costs restart instead of reset",
        "protocols example neighbor b address: a change of it costs restart instead of reset",
        "protocols example neighbor b timers hold: it is not written, and its default is `30` instead of `90`",
        "protocols example passive: there is no such statement any more",
        "protocols example secret: the value is refused: it has to be a value of type string, 1..2 characters",
        "protocols example cluster: it has to be written now",
        "protocols example strict: it is new, and without it the behavior is another; `false` keeps the behavior of before",
    ];
    assert_eq!(check(&tree), expected);
    assert_eq!(check(&upgrade::read(old.nodes(), "r", text).unwrap()), expected);
    assert_eq!(check(&upgrade::read(old.nodes(), "r", "protocols example nonsense 1;").unwrap()).len(), 3);
    assert_eq!(upgrade::check(old.nodes(), &old, &tree), []);
    let notice = serde_json::to_value(&upgrade::check(old.nodes(), &new, &tree)[1]).unwrap();
    let expected = serde_json::json!({"path": ["protocols", "example", "neighbor", "a", "address"], "what": "impact",
        "before": "reset", "after": "restart"});
    assert_eq!(notice, expected);
}
