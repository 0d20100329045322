//! Completions in a statement of the configuration, by the schema of the running router.

use crate::grammar::Candidate;
use sluice_config::{Node, NodeKind, Value};

/// The continuations of a path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Following {
    /// Names of nodes and words of enumerations.
    pub words: Vec<Candidate>,
    /// Kinds of values, to be shown.
    pub values: Vec<Candidate>,
    /// Existing entries of this list may stand here: the path to the list, and the position of the key.
    pub entries: Option<(Vec<String>, usize)>,
    /// Existing values of a leaf-list may stand here: the path to it.
    pub existing: Option<Vec<String>>,
    /// True if the name of a policy may stand here.
    pub policy: bool,
    /// True if the statement can end here.
    pub enter: bool,
}

/// The type of leaves that name policies (`policy.yang`).
const POLICY_REFERENCE: &str = "policy-reference";

/// A path that the schema does not have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoPath {
    /// An unknown word.
    #[error("unknown statement `{word}`{}{}; expected one of {}", inside(.path), hint(.word, .expected), .expected.join(", "))]
    Unknown {
        /// The word.
        word: String,
        /// The place.
        path: String,
        /// The words expected there.
        expected: Vec<String>,
    },
    /// The path does not lead to a block.
    #[error("`{0}` is not a block that can be edited")]
    NotABlock(String),
    /// A list in brackets without its end.
    #[error("the list in `{0}` has not ended; expected a value or `]`")]
    Unclosed(String),
    /// Words behind the end of a statement.
    #[error("nothing can stand behind `{path}`, but `{word}` does")]
    TooLong {
        /// The first word too many.
        word: String,
        /// The statement.
        path: String,
    },
}

/// The name that was probably meant, behind an error.
fn hint(word: &str, expected: &[String]) -> String {
    let meant = sluice_config::nearest(word, expected.iter().map(String::as_str));
    meant.map(|meant| format!("; {meant}")).unwrap_or_default()
}

fn inside(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" in `{path}`") }
}

/// The node at the end of a path.
enum Spot<'s> {
    /// Inside a block (or at the top).
    Inside(&'s [Node], Vec<String>, bool),
    /// The key of this number is next.
    Key(&'s Node, usize),
    /// A value is next.
    Value(&'s Value, &'s Node, bool),
    /// A value of a list in brackets is next, or the closing bracket if the list has a value.
    Listed(&'s Value, &'s Node, bool),
    /// A complete statement: no word can follow.
    Done,
}

fn key_names(node: &Node) -> &[String] {
    match &node.kind {
        NodeKind::List { keys } => keys,
        _ => &[],
    }
}

/// Follows words through the schema; unique abbreviations are accepted. The second value is the path written out.
fn walk<'s>(schema: &'s [Node], words: &[String]) -> Result<(Spot<'s>, Vec<String>), NoPath> {
    let mut spot = Spot::Inside(schema, Vec::new(), true);
    let mut path: Vec<String> = Vec::new();
    for word in words {
        spot = match spot {
            Spot::Inside(children, keys, _) => {
                let node = named(children, &keys, word, &path)?;
                path.push(node.name.clone());
                match &node.kind {
                    NodeKind::Container { .. } => Spot::Inside(&node.children, Vec::new(), true),
                    NodeKind::List { .. } => Spot::Key(node, 0),
                    NodeKind::Leaf(value) => Spot::Value(value, node, value.flag),
                    NodeKind::LeafList(value) => Spot::Value(value, node, false),
                }
            }
            Spot::Key(node, index) => {
                path.push(word.clone());
                match index + 1 < key_names(node).len() {
                    true => Spot::Key(node, index + 1),
                    false => Spot::Inside(&node.children, key_names(node).to_vec(), true),
                }
            }
            Spot::Value(value, node, _)
                if matches!(node.kind, NodeKind::LeafList(_)) && word.starts_with('[') =>
            {
                listed(value, node, &word[1..], false, &mut path)
            }
            Spot::Listed(value, node, has_value) => listed(value, node, word, has_value, &mut path),
            Spot::Value(..) => {
                path.push(word.clone());
                Spot::Done
            }
            Spot::Done => return Err(NoPath::TooLong { word: word.clone(), path: path.join(" ") }),
        };
    }
    Ok((spot, path))
}

/// Takes a word of a list in brackets, as files write it. The brackets are no part of the path.
fn listed<'s>(
    value: &'s Value,
    node: &'s Node,
    word: &str,
    has_value: bool,
    path: &mut Vec<String>,
) -> Spot<'s> {
    let (text, closes) = match word.strip_suffix(']') {
        Some(text) => (text, true),
        None => (word, false),
    };
    if !text.is_empty() {
        path.push(text.to_owned());
    }
    if closes { Spot::Done } else { Spot::Listed(value, node, has_value || !text.is_empty()) }
}

fn named<'s>(children: &'s [Node], keys: &[String], word: &str, path: &[String]) -> Result<&'s Node, NoPath> {
    let may = |node: &&Node| !keys.contains(&node.name);
    if let Some(node) = children.iter().filter(may).find(|n| n.name == word) {
        return Ok(node);
    }
    let beginning: Vec<&Node> = children.iter().filter(may).filter(|n| n.name.starts_with(word)).collect();
    match beginning.as_slice() {
        [one] if !word.is_empty() => Ok(one),
        _ => Err(NoPath::Unknown {
            word: word.into(),
            path: path.join(" "),
            expected: children.iter().filter(may).map(|n| n.name.clone()).collect(),
        }),
    }
}

/// Returns the continuations of `words`. With `values` a leaf's value may be written; else the path names what is there.
pub fn following(schema: &[Node], words: &[String], values: bool) -> Result<Following, NoPath> {
    let (spot, path) = walk(schema, words)?;
    let mut found = Following { enter: !words.is_empty(), ..Following::default() };
    match spot {
        Spot::Inside(children, keys, enter) => {
            let open = children.iter().filter(|n| !keys.contains(&n.name));
            found.words.extend(open.map(|n| Candidate::new(&n.name, first_sentence(&n.description))));
            found.enter &= enter;
        }
        Spot::Key(list, index) => {
            let key = list.child(&key_names(list)[index]);
            let what = key.and_then(value_of).map_or_else(String::new, describe);
            let about = key.map_or_else(String::new, |k| first_sentence(&k.description));
            let name = key_names(list)[index].clone();
            found.values.push(Candidate::new(format!("<{name}>"), join(&[about, what])));
            found.words.extend(key.and_then(value_of).map(enum_words).unwrap_or_default());
            found.entries = Some((path, index));
            found.enter = !values && index == 0;
        }
        spot @ (Spot::Value(value, node, _) | Spot::Listed(value, node, _)) => {
            found.enter = match spot {
                Spot::Value(_, _, enter) => enter || !values,
                _ => false,
            };
            if let Spot::Listed(_, _, true) = spot {
                found.words.push(Candidate::new("]", "Ends the list"));
            }
            if values || matches!(node.kind, NodeKind::LeafList(_)) {
                found.words.extend(enum_words(value));
                found.policy = values && value.type_name == POLICY_REFERENCE;
                if value.words.is_empty() {
                    let help = join(&[first_sentence(&node.description), describe(value)]);
                    found.values.push(Candidate::new(format!("<{}>", node.name), help));
                }
            }
            if matches!(node.kind, NodeKind::LeafList(_)) {
                found.existing = Some(path);
            }
        }
        Spot::Done => {}
    }
    Ok(found)
}

/// A path with its abbreviations written out.
pub fn whole(schema: &[Node], words: &[String]) -> Result<Vec<String>, NoPath> {
    match walk(schema, words)? {
        (Spot::Listed(..), path) => Err(NoPath::Unclosed(path.join(" "))),
        (_, path) => Ok(path),
    }
}

/// Returns the blocks along a path, each with its keys: the stops of `edit` and `up`.
pub fn blocks(schema: &[Node], words: &[String]) -> Result<Vec<Vec<String>>, NoPath> {
    let path = whole(schema, words)?;
    let mut blocks = Vec::new();
    let mut begun = 0;
    for end in 1..=path.len() {
        if let Spot::Inside(..) = walk(schema, &path[..end])?.0 {
            blocks.push(path[begun..end].to_vec());
            begun = end;
        }
    }
    match begun == path.len() {
        true => Ok(blocks),
        false => Err(NoPath::NotABlock(path.join(" "))),
    }
}

/// Returns true if the path leads to a secret leaf, with the value in the last word.
pub fn is_secret(schema: &[Node], words: &[String]) -> bool {
    let Some((_, before)) = words.split_last() else { return false };
    matches!(walk(schema, before), Ok((Spot::Value(value, ..), _)) if value.secret)
}

fn value_of(node: &Node) -> Option<&Value> {
    match &node.kind {
        NodeKind::Leaf(value) | NodeKind::LeafList(value) => Some(value),
        _ => None,
    }
}

fn enum_words(value: &Value) -> Vec<Candidate> {
    let default = |word: &str| value.default.as_deref() == Some(word);
    let help = |word: &str, help: &str| match default(word) {
        true => join(&[first_sentence(help), "(default)".into()]),
        false => first_sentence(help),
    };
    value.words.iter().map(|(word, h)| Candidate::new(word, help(word, h))).collect()
}

/// A value's type in words: range, unit, default, what a change costs.
fn describe(value: &Value) -> String {
    let range = if value.range.is_empty() { value.type_name.clone() } else { value.range.clone() };
    let units = value.units.clone().unwrap_or_default();
    let default = value.default.as_ref().map(|d| format!("default {d}")).unwrap_or_default();
    let inner = [format!("{range} {units}").trim().to_string(), default];
    let inner: Vec<&str> = inner.iter().map(String::as_str).filter(|t| !t.is_empty()).collect();
    format!("({})", inner.join(", "))
}

fn join(parts: &[String]) -> String {
    parts.iter().filter(|p| !p.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

/// Characters of a description that are shown beside a word.
const WIDTH: usize = 90;

/// Returns the first sentence of a description, on a single line; shortened if long.
pub fn first_sentence(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").unwrap_or(line.len());
    let sentence = line[..end].trim_end_matches('.');
    match sentence.chars().count() > WIDTH {
        true => sentence.chars().take(WIDTH - 3).chain("...".chars()).collect(),
        false => sentence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Vec<Node> {
        let value = |type_name: &str| serde_json::json!({ "type_name": type_name, "mandatory": false, "flag": false, "secret": type_name == "secret", "impact": "soft" });
        let mut enabled = value("boolean");
        enabled["words"] = serde_json::json!([["true", "yes"], ["false", "no"]]);
        enabled["default"] = "true".into();
        enabled["flag"] = true.into();
        let mut hold = value("uint16");
        hold["range"] = "3..65535".into();
        hold["units"] = "seconds".into();
        hold["default"] = "90".into();
        let leaf = |name: &str, v: serde_json::Value| serde_json::json!({ "name": name, "description": format!("The {name}. More."), "kind": { "leaf": v } });
        let list = serde_json::json!({
            "name": "neighbor", "description": "A router.", "kind": { "list": { "keys": ["address"] } },
            "children": [leaf("address", value("ip-address")), leaf("enabled", enabled), leaf("hold-time", hold), leaf("password", value("secret")), leaf("import", value("policy-reference"))],
        });
        let bgp = serde_json::json!({
            "name": "bgp", "description": "BGP.", "kind": { "container": { "presence": true } },
            "children": [list, { "name": "network", "description": "Prefixes.", "kind": { "leaf-list": value("ip-prefix") } }],
        });
        let top = serde_json::json!([{ "name": "protocols", "description": "", "kind": { "container": { "presence": false } }, "children": [bgp] }]);
        serde_json::from_value(top).expect("a schema")
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn what_may_follow() {
        for (path, expected) in [
            ("", "protocols"),
            ("protocols bgp", "neighbor network"),
            ("prot b", "neighbor network"),
            ("protocols bgp neighbor", "<address>"),
            ("protocols bgp neighbor 192.0.2.1", "enabled hold-time password import"),
            ("protocols bgp neighbor 192.0.2.1 enabled", "true false"),
            ("protocols bgp neighbor 192.0.2.1 hold-time", "<hold-time>"),
            ("protocols bgp neighbor 192.0.2.1 hold-time 9", ""),
        ] {
            let found = following(&schema(), &words(path), true).expect(path);
            let texts: Vec<&str> = found.words.iter().chain(&found.values).map(|c| c.text.as_str()).collect();
            assert_eq!(texts.join(" "), expected, "{path}");
        }
        let found = following(&schema(), &words("protocols bgp neighbor x hold-time"), true).expect("a path");
        assert_eq!(found.values[0].help, "The hold-time (3..65535 seconds, default 90)");
        assert!(following(&schema(), &words("protocols ospf"), true).is_err());
        assert!(following(&schema(), &words("protocols bgp network a b"), true).is_err());
    }

    #[test]
    fn lists_are_written_as_in_files() {
        for line in ["prot b netw [ a b ]", "prot b netw [a b]", "prot b netw [a b ]"] {
            let path = whole(&schema(), &words(line)).expect(line);
            assert_eq!(path.join(" "), "protocols bgp network a b", "{line}");
        }
        assert!(whole(&schema(), &words("prot b netw [ a ] b")).is_err());
        assert!(matches!(whole(&schema(), &words("prot b netw [ a b")), Err(NoPath::Unclosed(_))));
        let found = following(&schema(), &words("prot b netw [ a"), true).expect("a path");
        assert!(found.words.iter().any(|word| word.text == "]") && !found.enter, "{found:?}");
        let begun = following(&schema(), &words("prot b netw ["), true).expect("a path");
        assert!(begun.words.iter().all(|word| word.text != "]") && begun.existing.is_some(), "{begun:?}");
    }

    #[test]
    fn lists_say_where_their_entries_are() {
        let found = following(&schema(), &words("prot bgp neigh"), true).expect("a path");
        assert_eq!(found.entries, Some((words("protocols bgp neighbor"), 0)));
        assert_eq!(whole(&schema(), &words("p b n 192.0.2.1 ho 9")).ok(), None, "`n` is ambiguous");
        assert_eq!(
            whole(&schema(), &words("p b nei 192.0.2.1 ho 9")).expect("a path").join(" "),
            "protocols bgp neighbor 192.0.2.1 hold-time 9"
        );
    }

    #[test]
    fn leaves_that_name_policies_are_known() {
        let at = |leaf: &str| {
            let path = words(&format!("protocols bgp neighbor 192.0.2.1 {leaf}"));
            following(&schema(), &path, true).is_ok_and(|found| found.policy)
        };
        assert_eq!([at("import"), at("hold-time")], [true, false]);
    }

    #[test]
    fn blocks_have_their_keys() {
        let blocks = blocks(&schema(), &words("prot bgp neighbor 192.0.2.1")).expect("a path");
        assert_eq!(blocks.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
        assert!(super::blocks(&schema(), &words("protocols bgp neighbor")).is_err());
        assert!(super::blocks(&schema(), &words("protocols bgp network x")).is_err());
    }

    #[test]
    fn secrets_are_known() {
        assert!(is_secret(&schema(), &words("protocols bgp neighbor x pass hunter2")));
        assert!(!is_secret(&schema(), &words("protocols bgp neighbor x hold 9")));
    }
}
