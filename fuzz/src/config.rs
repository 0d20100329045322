//! Configuration: the text, what YANG makes of it, and what the components read out of that.

use sluice_config::text::{self, Statement};
use sluice_config::{ConfigError, Module, Schema};
use sluice_shell::part::{Change, Edit};

/// A text: what is understood reads the same when it is written again.
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
    /// libyang's context is good for one thread, and takes a while to make.
    static SCHEMA: Schema =
        Schema::load(&[module!("bgp"), module!("static"), module!("fea")], None).expect("our modules are good");
}

/// The whole way of a configuration: what the schema accepts, every component can say something about; the same text a
/// second time is no change.
pub fn load(octets: &[u8]) {
    let source = String::from_utf8_lossy(octets);
    SCHEMA.with(|schema| {
        let config = match schema.read("fuzz", &source) {
            Ok(config) => config,
            Err(error) => return check_error(&source, &error),
        };
        let again = schema.read("fuzz", &source).expect("it was good before");
        for (class, path) in schema.components() {
            let (part, other) = (config.part(path), again.part(path));
            assert_eq!(schema.cost(path, part, other), None);
            let Some(part) = part.cloned() else { continue };
            let _refused_or_read = match class {
                "bgp" => sluice_bgp_shell::config::settings(part).err(),
                "static" => sluice_static_shell::config::input(&routes(&part)).err(),
                "fea" => sluice_fea_shell::configuration::read(&part).err(),
                other => panic!("{other} has a configuration that no target reads"),
            };
        }
    });
}

/// All routes of the part, as static takes them.
fn routes(part: &serde_json::Value) -> Change {
    let entries = part["route"].as_array().into_iter().flatten();
    let edit =
        |entry: &serde_json::Value| Edit { name: "route".into(), key: None, value: Some(entry.clone()) };
    Change { clear: true, edits: entries.map(edit).collect() }
}

/// Configurations that are valid: one with everything there is, in braces and as lines.
pub fn configurations() -> Vec<Vec<u8>> {
    let braces = include_str!("../seeds/router.conf");
    let lines = include_str!("../seeds/router-lines.conf");
    // Pieces of their own, so that damage often hits one statement of an otherwise valid text.
    let pieces = braces.split_inclusive("\n}\n").chain(lines.split_inclusive(";\n"));
    [braces, lines].into_iter().chain(pieces).map(|t| t.as_bytes().to_vec()).collect()
}
