//! Configuration: the text, its YANG form, and the settings that components read from it.

use sluice_config::steps::Outline;
use sluice_config::text::{self, Statement};
use sluice_config::{ConfigError, Module, Schema, Secrets, Tree};
use sluice_process::part::{Change, Edit, Part};

/// A text: parsed statements are the same after writing and parsing.
pub fn statements(octets: &[u8]) {
    let source = String::from_utf8_lossy(octets);
    let statements = match text::parse("fuzz", &source) {
        Ok(statements) => statements,
        Err(error) => return check_error(&source, &error),
    };
    let mut written = String::new();
    write(&statements, &mut written);
    let again = text::parse("again", &written).expect("what was written is read");
    assert!(same(&statements, &again), "{written}");
}

/// An error has a place in the text, or right after it, and can be shown.
fn check_error(source: &str, error: &ConfigError) {
    let lines = source.split('\n').count() as u32;
    assert!((1..=lines).contains(&error.place.line) && error.place.column >= 1, "{error:?}");
    assert!(error.to_string().starts_with("fuzz:"));
}

fn write(statements: &[Statement], out: &mut String) {
    for statement in statements {
        for word in &statement.words {
            out.push_str(&format!(" \"{}\"", word.text.replace('\\', "\\\\").replace('"', "\\\"")));
        }
        match &statement.block {
            Some(block) => {
                out.push('{');
                write(block, out);
                out.push('}');
            }
            None => out.push(';'),
        }
    }
}

fn same(a: &[Statement], b: &[Statement]) -> bool {
    let words = |s: &Statement| s.words.iter().map(|w| w.text.clone()).collect::<Vec<_>>();
    let blocks = |a: &Statement, b: &Statement| match (&a.block, &b.block) {
        (Some(a), Some(b)) => same(a, b),
        (a, b) => a.is_none() && b.is_none(),
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| words(a) == words(b) && blocks(a, b))
}

macro_rules! module {
    ($class:literal) => {
        Module {
            name: concat!("sluice-", $class),
            text: include_str!(concat!("../../components/", $class, "/", $class, ".yang")),
        }
    };
}

thread_local! {
    /// libyang's context serves a single thread, and takes a while to create.
    static SCHEMA: Schema =
        Schema::of(&[module!("bgp"), module!("static"), module!("fea"), module!("xip"), module!("cluster"), module!("rpki")])
            .expect("our modules are good");
    /// The base configuration of the statements.
    static BASE: Tree = SCHEMA.with(|schema| {
        schema.read("base", include_str!("../seeds/router.conf")).expect("the seed is good")
    });
}

/// Runs a closure with the schema of the executable.
pub fn with_schema<T>(act: impl FnOnce(&Schema) -> T) -> T {
    SCHEMA.with(act)
}

/// The whole path of a configuration: an accepted configuration is the same after writing and reading, in every form,
/// and every component can judge its part.
pub fn load(octets: &[u8]) {
    let source = String::from_utf8_lossy(octets);
    SCHEMA.with(|schema| {
        let tree = match schema.read("fuzz", &source) {
            Ok(tree) => tree,
            Err(error) => return check_error(&source, &error),
        };
        let text = schema.text(&tree, &[], Secrets::Shown).expect("there is a root");
        let again = schema.read("again", &text).expect("what was written is read");
        assert!(again == tree && schema.compare(&tree, &again).is_empty(), "{text}");
        let lines = schema.set_lines(&tree, &[], Secrets::Shown).expect("there is a root");
        assert!(replay(schema, &Tree::empty(), &lines) == tree, "{lines:?}");
        for (class, _) in schema.components() {
            assert_eq!(schema.change(class, Some(&tree), &again), None);
            let Some(part) = schema.part(class, &tree) else { continue };
            let _refused_or_read = match class {
                "bgp" => sluice_bgp_process::config::settings(part).err().map(|e| e.to_string()),
                "static" => sluice_static_process::config::input(&routes(&part)).err().map(|e| e.to_string()),
                "fea" => sluice_fea_process::configuration::read(&part).err().map(|e| e.to_string()),
                "xip" => sluice_xip_process::config::settings(part).err().map(|e| e.to_string()),
                "rpki" => sluice_rpki_process::config::settings(part).err().map(|e| e.to_string()),
                "cluster" => sluice_cluster_process::config::settings(part).err().map(|e| e.to_string()),
                other => panic!("{other} has a configuration that no target reads"),
            };
        }
    });
}

fn replay(schema: &Schema, tree: &Tree, lines: &[String]) -> Tree {
    lines.iter().fold(tree.clone(), |tree, line| schema.edit(&tree, line).expect("the statement is ours"))
}

/// A configuration after steps: by its tree, and by its text without the schema.
fn stepped(schema: &Schema, base: &Tree, steps: &str) -> (Option<Tree>, Option<Tree>) {
    let whole = schema.renderer().text(base);
    let mut outline = Outline::read("base", &whole).expect("what was written is read");
    let taken = outline.step(steps).ok().map(|()| outline.to_string());
    let read = |text: String| schema.merge(&Tree::empty(), "stepped", &text).ok();
    (schema.step(base, steps).ok(), taken.and_then(read))
}

/// Steps on a configuration with every statement: both ways of applying the steps have the same result.
pub fn steps(octets: &[u8]) {
    let source = String::from_utf8_lossy(octets);
    SCHEMA.with(|schema| {
        BASE.with(|base| {
            if let (Some(tree), Some(outlined)) = stepped(schema, base, &source) {
                assert!(tree == outlined, "{source}");
            }
        });
    });
}

/// Statements, a line each, on a configuration with every statement. The result can be written as statements again. A
/// component with the differences has the same state as a component with the whole configuration. Every check of
/// validity gives the same answer.
pub fn edit(octets: &[u8]) {
    let source = String::from_utf8_lossy(octets);
    SCHEMA.with(|schema| {
        BASE.with(|base| {
            let mut after = base.clone();
            for line in source.lines() {
                match schema.edit(&after, line) {
                    Ok(tree) => after = tree,
                    Err(error) => {
                        assert_eq!((error.file.as_str(), error.place.line), ("statement", 1));
                        assert!(error.place.column >= 1);
                    }
                }
            }
            let statements = schema.compare(base, &after).set_text(Secrets::Shown);
            assert!(replay(schema, base, &statements) == after, "{statements:?}");
            let steps = schema.compare(base, &after).text(Secrets::Shown);
            let (tree, outlined) = stepped(schema, base, &steps);
            assert!(tree.expect("the steps are ours") == after, "{steps}");
            assert!(outlined.expect("the steps are ours") == after, "{steps}");
            assert_eq!(schema.validate(Some(base), &after), schema.validate(None, &after));
            for (class, _) in schema.components() {
                let whole = |tree: &Tree| {
                    let mut part = Part::default();
                    schema.change(class, None, tree).into_iter().for_each(|change| part.apply(change));
                    part
                };
                let mut part = whole(base);
                schema.change(class, Some(base), &after).into_iter().for_each(|change| part.apply(change));
                assert_eq!(part.whole(), whole(&after).whole(), "{class}");
            }
        });
    });
}

/// The routes of the part, as static receives them.
fn routes(part: &serde_json::Value) -> Change {
    let entries = |name: &'static str| {
        let all = part[name].as_array().into_iter().flatten();
        all.map(move |entry| Edit { subtree: None, name: name.into(), key: None, value: Some(entry.clone()) })
    };
    Change { clear: true, edits: entries("route").chain(entries("xid-route")).collect() }
}

/// Valid configurations: one with every statement, in braces and as lines.
pub fn configurations() -> Vec<Vec<u8>> {
    let braces = include_str!("../seeds/router.conf");
    let lines = include_str!("../seeds/router-lines.conf");
    // Pieces of their own, so that damage often hits one statement of an otherwise valid text.
    let pieces = braces.split_inclusive("\n}\n").chain(lines.split_inclusive(";\n"));
    [braces, lines].into_iter().chain(pieces).map(|t| t.as_bytes().to_vec()).collect()
}

/// Some of each kind.
pub fn step_texts() -> Vec<Vec<u8>> {
    vec![include_bytes!("../seeds/steps.txt").to_vec()]
}

/// Valid statements, alone and in sequence.
pub fn edits() -> Vec<Vec<u8>> {
    let lines = include_str!("../seeds/edits.txt");
    lines.split_inclusive('\n').chain([lines]).map(|t| t.as_bytes().to_vec()).collect()
}
