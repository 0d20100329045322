//! Properties of any tree, for the modules of every component and a module with every kind of statement.

use crate::commit::steps::Outline;
use crate::{Module, Node, NodeKind, Schema, Secrets, Tree};
use proptest::prelude::*;
use serde_json::json;
use sluice_part::Part;
use yang5::data::{Data, DataFormat, DataPrinterFlags};

/// A module with something of everything.
pub(crate) const EXAMPLE: &str = include_str!("../tests/example.yang");

/// The modules of every component in the tree, and a module with every kind of statement.
fn modules() -> Vec<(String, String)> {
    let components = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../components"));
    let mut all = vec![("example".to_string(), EXAMPLE.to_string())];
    for folder in std::fs::read_dir(components).unwrap().map(|entry| entry.unwrap().path()) {
        let class = folder.file_name().unwrap().to_string_lossy().into_owned();
        if let Ok(text) = std::fs::read_to_string(folder.join(format!("{class}.yang"))) {
            all.push((format!("sluice-{class}"), text));
        }
    }
    all.sort();
    all
}

thread_local! {
    static SCHEMA: Schema = {
        let leaked = |(name, text): (String, String)| Module { name: name.leak(), text: text.leak() };
        Schema::of(&modules().into_iter().map(leaked).collect::<Vec<_>>()).unwrap()
    };
}

/// Words for a type; any leaf may also get a word of a different type.
const WORDS: &[(&str, &[&str])] = &[
    ("int", &["1", "5", "7", "09", "90", "179"]),
    ("dec", &["1.5", "7", "2.25"]),
    ("prefix", &["10.0.0.7/24", "10.0.0.0/24", "10.1.0.0/16", "2001:DB8::/32"]),
    ("addr", &["10.0.0.1", "10.0.0.2", "10.0.0.11", "2001:DB8::1"]),
    ("string", &["a", "b", "c", "eth9", "eth10", "x y", "", "\"q\\{", "# ;", "\u{fc}\n\t", "10.0.0.1/24"]),
];

fn value(node: &Node, mut next: impl FnMut(usize) -> usize) -> String {
    let (NodeKind::Leaf(value) | NodeKind::LeafList(value)) = &node.kind else { return String::new() };
    let fits = WORDS.iter().filter(|(name, _)| value.type_name.contains(name) && next(12) != 0);
    let mut words: Vec<&str> = fits.flat_map(|(_, words)| words.iter().copied()).collect();
    words.extend(value.words.iter().map(|(word, _)| word.as_str()));
    if words.is_empty() {
        words.extend(WORDS.iter().flat_map(|(_, words)| words.iter().copied()));
    }
    crate::text::quoted(words[next(words.len())]).into_owned()
}

/// A statement: which way to go at every step, and what to do there.
fn statement(nodes: &[Node], choices: &[u8]) -> String {
    let mut choices = choices.iter().copied().map(usize::from);
    let mut next = |n: usize| choices.next().map_or(0, |c| c * n / 256);
    let verb = ["set", "set", "set", "set", "delete", "deactivate", "activate", "annotate"][next(8)];
    let deletes = verb != "set";
    let mut words = vec![String::from(verb)];
    let mut nodes = nodes;
    while !nodes.is_empty() {
        let node = &nodes[next(nodes.len())];
        words.push(node.name.clone());
        match &node.kind {
            NodeKind::List { keys } => {
                words.extend(keys.iter().map(|key| value(node.child(key).unwrap(), &mut next)));
            }
            NodeKind::Leaf(_) if !deletes => words.push(value(node, &mut next)),
            NodeKind::LeafList(_) if !deletes || next(2) == 0 => words.push(value(node, &mut next)),
            _ => {}
        }
        // What is near the top is seldom set or deleted as a whole.
        let stops = if words.len() > 3 { next(9) == 0 } else { next(250) == 0 };
        nodes = if stops { &[] } else { &node.children };
    }
    if verb == "annotate" {
        let (_, texts) = WORDS[WORDS.len() - 1];
        words.push(crate::text::quoted(texts[next(texts.len())]).into_owned());
    }
    words.join(" ")
}

/// Valid and invalid trees, made by random statements in sequence.
fn trees(schema: &Schema, choices: &[Vec<u8>]) -> Vec<Tree> {
    let first = "interfaces; protocols { bgp { local-as 1; router-id 10.0.0.1; } static; example { local-as 1; group c; } }";
    let mut trees = vec![Tree::empty(), schema.read("first", first).unwrap()];
    let mut valid = 1;
    for choices in choices {
        let statement = statement(schema.nodes(), choices);
        // What is wrong stays so for a while, and then is taken back.
        let is_valid = schema.check_by_libyang(trees.last().unwrap()).is_ok();
        if is_valid {
            valid = trees.len() - 1;
        }
        let last = if is_valid || choices[0] % 4 != 0 { trees.last().unwrap() } else { &trees[valid] };
        match schema.edit(last, &statement) {
            Ok(after) => trees.push(after),
            Err(error) => assert_eq!(error.file, "statement"),
        }
    }
    trees
}

fn replay(schema: &Schema, tree: &Tree, lines: &[String]) -> Tree {
    lines.iter().fold(tree.clone(), |tree, line| schema.edit(&tree, line).unwrap_or_else(|e| panic!("{e}")))
}

fn changed(schema: &Schema, class: &str, mut part: Part, before: Option<&Tree>, after: &Tree) -> Part {
    if let Some(change) = schema.change(class, before, after) {
        part.apply(change);
    }
    part
}

fn choices() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 24), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back(choices in choices()) {
        SCHEMA.with(|schema| {
            for tree in trees(schema, &choices) {
                let text = schema.text(&tree, &[], Secrets::Shown).unwrap();
                prop_assert_eq!(&schema.renderer().text(&tree), &text);
                let again = schema.merge(&Tree::empty(), "again", &text).unwrap_or_else(|e| panic!("{e}"));
                prop_assert!(again == tree, "{text}");
                let lines = schema.set_lines(&tree, &[], Secrets::Shown).unwrap();
                prop_assert!(replay(schema, &Tree::empty(), &lines) == tree, "{text}\n{lines:#?}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_comparison_leads_from_one_to_the_other(choices in choices(), at in any::<prop::sample::Index>()) {
        SCHEMA.with(|schema| {
            let trees = trees(schema, &choices);
            let (before, after) = (at.get(&trees), trees.last().unwrap());
            for (a, b) in [(before, after), (after, before)] {
                let comparison = schema.compare(a, b);
                let lines = comparison.set_text(Secrets::Shown);
                prop_assert!(replay(schema, a, &lines) == *b, "{}\n{lines:#?}", comparison.text(Secrets::Shown));
                let same = schema.json(a, &[], Secrets::Shown).unwrap() == schema.json(b, &[], Secrets::Shown).unwrap();
                let same = same && a.marks == b.marks;
                prop_assert_eq!((comparison.is_empty(), a == b), (same, same));
                prop_assert_eq!(comparison.paths().count(), comparison.len());
            }
            Ok(())
        })?;
    }

    #[test]
    fn steps_lead_from_one_to_the_other(choices in choices(), picks in prop::collection::vec(any::<prop::sample::Index>(), 3)) {
        SCHEMA.with(|schema| {
            let trees = trees(schema, &choices);
            let mut at = picks[0].get(&trees);
            let mut outline = Outline::read("whole", &schema.renderer().text(at)).unwrap();
            for next in picks.iter().map(|pick| pick.get(&trees)).chain(&trees) {
                let steps = schema.compare(at, next).text(Secrets::Shown);
                let stepped = schema.step(at, &steps).unwrap_or_else(|e| panic!("{e}\n{steps}"));
                prop_assert!(stepped == *next, "{}", steps);
                outline.step(&steps).unwrap_or_else(|e| panic!("{e}\n{steps}\n{outline}"));
                let text = outline.to_string();
                let again = schema.merge(&Tree::empty(), "again", &text).unwrap_or_else(|e| panic!("{e}"));
                prop_assert!(again == *next, "{}\n{}", steps, text);
                at = next;
            }
            Ok(())
        })?;
    }

    #[test]
    fn libyang_and_this_agree_on_what_is_valid(choices in choices()) {
        SCHEMA.with(|schema| {
            let mut valid = Tree::empty();
            for tree in trees(schema, &choices) {
                let whole = schema.check_by_libyang(&tree);
                let text = || schema.text(&tree, &[], Secrets::Shown).unwrap();
                let found = schema.validate(None, &tree);
                prop_assert_eq!(found.is_ok(), whole.is_ok(), "{:?}\n{:?}\n{}", found, whole, text());
                let changed = schema.validate(Some(&valid), &tree);
                prop_assert_eq!(changed.is_ok(), whole.is_ok(), "{:?}\n{:?}\n{}", changed, whole, text());
                if whole.is_ok() {
                    valid = tree;
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn libyang_writes_the_same_json(choices in choices()) {
        SCHEMA.with(|schema| {
            for tree in trees(schema, &choices) {
                let Ok(data) = schema.libyang_tree(&tree) else { continue };
                let text = data.print_string(DataFormat::JSON, DataPrinterFlags::WITH_SIBLINGS).unwrap();
                let expected = without_modules(serde_json::from_str(&text).unwrap());
                prop_assert_eq!(sorted(schema.json(&tree, &[], Secrets::Shown).unwrap()), sorted(expected));
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_component_knows_its_part_by_its_changes(choices in choices()) {
        SCHEMA.with(|schema| {
            let mut before = Tree::empty();
            for after in trees(schema, &choices) {
                if schema.check_by_libyang(&after).is_err() {
                    continue;
                }
                for (class, path) in schema.components() {
                    let whole = |tree: &Tree| changed(schema, class, Part::default(), None, tree);
                    let expected = whole(&after);
                    let found = changed(schema, class, whole(&before), Some(&before), &after);
                    prop_assert_eq!(found.whole(), expected.whole(), "{}", class);
                    let filled = schema.with_defaults(&after).unwrap();
                    let shared = schema.json(&filled, &["policy".to_owned()], Secrets::Shown).unwrap();
                    let mut filled = schema.json(&filled, path, Secrets::Shown).unwrap();
                    let uses = schema.index[schema.place(class).unwrap().1].uses.iter();
                    if let (Some(whole), Some(shared)) = (filled.as_object_mut(), shared.as_object()) {
                        let has_some = |name: &&str| *name == "policy" && !shared.is_empty();
                        let used = uses.map(|(name, _)| &**name).filter(has_some);
                        whole.extend(used.map(|name| (name.to_owned(), json!(shared))));
                    }
                    if schema.configured(&after).iter().any(|c| c == class) {
                        prop_assert_eq!(sorted(expected.whole()), sorted(filled), "{}", class);
                    }
                    let found = (schema.change(class, Some(&before), &after).is_some(), schema.cost(class, &before, &after).is_some());
                    prop_assert_eq!(found.0, found.1, "{} {}", class, schema.compare(&before, &after).text(Secrets::Shown));
                }
                before = after;
            }
            Ok(())
        })?;
    }
}

fn without_modules(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(members) => {
            let local = |name: String| name.rsplit(':').next().unwrap_or_default().to_owned();
            members.into_iter().map(|(name, value)| (local(name), without_modules(value))).collect()
        }
        Value::Array(entries) => entries.into_iter().map(without_modules).collect(),
        other => other,
    }
}

/// Sorts lists: a part orders lists by their keys.
fn sorted(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(members) => members.into_iter().map(|(name, value)| (name, sorted(value))).collect(),
        Value::Array(entries) => {
            let mut entries: Vec<Value> = entries.into_iter().map(sorted).collect();
            entries.sort_by_key(Value::to_string);
            Value::Array(entries)
        }
        other => other,
    }
}
