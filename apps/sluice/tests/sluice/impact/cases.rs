//! The changes under test: every leaf of the schema, to a different value of its type and back.

use crate::impact::elsewhere::proof_of;
use crate::impact::network::{BASE, Network, OUTER4};
use crate::impact::particulars::{PLAIN, Special};
use crate::impact::special::{MORE, SPECIAL};
use sluice_config::{Impact, Node, NodeKind, Value};
use std::collections::BTreeSet;

/// A direction of a case, there or back.
#[derive(Default)]
pub struct Step {
    pub statements: Vec<String>,
    /// Prefixes that must appear in UPDATEs to neighbors.
    pub sent: BTreeSet<String>,
    /// Routes that must change in the kernel, and further routes that may change.
    pub kernel: BTreeSet<String>,
    pub may: BTreeSet<String>,
    /// Neighbors without a session afterward.
    pub down: BTreeSet<String>,
    /// The replacement in the outer neighbor's configuration.
    pub partner: Option<(&'static str, &'static str)>,
}

pub struct Case {
    /// The leaf's path without keys.
    pub name: String,
    pub impact: Impact,
    /// The subject of a reset: a neighbor or an interface.
    pub subject: Option<String>,
    /// Returns true if the new value holds.
    pub proof: Option<fn(&Network) -> bool>,
    pub forward: Step,
    pub back: Step,
}

/// Returns every case. Panics with the name of a leaf without a known second value.
pub fn all(schema: &[Node]) -> Vec<Case> {
    let mut cases = Vec::new();
    schema.iter().for_each(|node| collect(node, "", &mut cases));
    for (name, _) in SPECIAL {
        assert!(cases.iter().any(|c| c.name == *name), "the schema has no leaf {name}");
    }
    for (name, impact, subject, special) in MORE {
        let (forward, back) = special.statements.unwrap();
        let words = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        cases.push(case(name, *impact, Some(subject), special, words(forward), words(back)));
    }
    cases
}

fn collect(node: &Node, within: &str, cases: &mut Vec<Case>) {
    let name = format!("{within}{}", node.name);
    match &node.kind {
        NodeKind::Container { .. } | NodeKind::List { .. } => {
            node.children.iter().for_each(|child| collect(child, &format!("{name}/"), cases));
        }
        _ if proof_of(&name).is_some() => {}
        NodeKind::Leaf(value) => cases.push(of_leaf(&name, value, false)),
        NodeKind::LeafList(value) => cases.push(of_leaf(&name, value, true)),
    }
}

fn of_leaf(name: &str, leaf: &Value, is_list: bool) -> Case {
    let special = SPECIAL.iter().find(|(of, _)| *of == name).map_or(&PLAIN, |(_, special)| special);
    let neighbor = special.on.unwrap_or(OUTER4);
    let subject = match name.split('/').collect::<Vec<_>>()[..] {
        ["interfaces", "interface", ..] => Some("extra"),
        ["cluster", "port", "number"] => Some("port2"),
        ["cluster", ..] => Some("port1"),
        ["protocols", "bgp", "neighbor", ..] => Some(neighbor),
        _ => None,
    };
    let path = path(name, neighbor);
    let base = BASE.iter().find_map(|line| line.strip_prefix(&format!("{path} ")));
    let (forward, back) = match special.statements {
        Some((forward, back)) => {
            let words = |all: &[&str]| all.iter().map(ToString::to_string).collect();
            (words(forward), words(back))
        }
        None => {
            let value = special.value.map_or_else(|| other(name, leaf, base), String::from);
            let back = match base {
                _ if is_list => format!("delete {path} {value}"),
                Some(base) => format!("set {path} {base}"),
                None => format!("delete {path}"),
            };
            (vec![format!("set {path} {value}")], vec![back])
        }
    };
    case(name, leaf.impact, subject, special, forward, back)
}

fn case(
    name: &str,
    impact: Impact,
    subject: Option<&str>,
    special: &Special,
    forward: Vec<String>,
    back: Vec<String>,
) -> Case {
    let set = |all: &[&str]| -> BTreeSet<String> { all.iter().map(ToString::to_string).collect() };
    let step = |statements| Step {
        statements,
        sent: set(special.sent),
        kernel: set(special.kernel),
        may: set(special.may),
        ..Step::default()
    };
    Case {
        name: name.into(),
        impact,
        subject: subject.map(String::from),
        proof: special.proof,
        forward: Step { down: set(special.down), partner: special.partner, ..step(forward) },
        back: step(back),
    }
}

/// Returns the statement's path, with the entries of the base configuration.
fn path(name: &str, neighbor: &str) -> String {
    let mut words = Vec::new();
    for word in name.split('/') {
        words.push(word);
        match words[..] {
            ["interfaces", "interface"] => words.push("extra"),
            ["protocols", "static", "route"] => words.push("203.0.113.0/24"),
            ["protocols", "static", "route", _, "next-hop"] => words.push("10.2.0.2"),
            ["protocols", "static", "xid-route"] => words.push("ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"),
            ["protocols", "static", "xid-route", _, "gateway"] => {
                words.push("hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2");
            }
            ["xip", "host"] => words.push("far"),
            ["xip", "lpm", _, "neighbor"] => words.push("10.2.0.2"),
            ["xip", "interface"] => words.push("extra"),
            ["xip", "principal-number"] => words.push("ether"),
            ["cluster", "class" | "member" | "port"] => words.push("1"),
            ["rpki", "cache" | "filter"] | ["protocols", "bgp", "bmp", "station"] => words.push("a"),
            ["protocols", "bgp", "neighbor"] => words.push(neighbor),
            _ => {}
        }
    }
    words.join(" ")
}

/// Returns a value different from the current value.
fn other(name: &str, leaf: &Value, base: Option<&str>) -> String {
    let now = base.or(leaf.default.as_deref());
    if !leaf.words.is_empty() {
        // What is neither written nor has a default is on.
        let now = now.unwrap_or("true");
        return leaf.words.iter().map(|(word, _)| word.clone()).find(|word| word != now).unwrap();
    }
    match leaf.type_name.as_str() {
        "string" | "line" => "something-else".into(),
        number if number.contains("int") || number.contains("port") => match now
            .map(|now| now.parse::<u64>().unwrap())
        {
            Some(now) => (now + 1).to_string(),
            None => leaf.range.split(['.', ' ']).find_map(|n| n.parse::<u64>().ok()).unwrap_or(1).to_string(),
        },
        other => panic!("{name}: this test knows no other value of {other}; name one in special.rs"),
    }
}
