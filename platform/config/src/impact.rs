//! What a module's text says beyond its data: which component takes a container, what a change of a leaf costs.
//!
//! libyang keeps extensions, but the binding does not show those of nodes; the text is at hand and YANG's grammar is one rule
//! (keyword, argument, semicolon or block), so they are read from there.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a change of a leaf costs a running router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Impact {
    /// Nothing that anybody outside can see.
    None,
    /// Applied to what comes next; nothing is interrupted.
    Soft,
    /// Routes that are there already are evaluated again.
    Refilter,
    /// A session or an adjacency drops and comes back.
    Reset,
    /// The component is started anew.
    Restart,
}

impl std::str::FromStr for Impact {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        Ok(match s {
            "none" => Impact::None,
            "soft" => Impact::Soft,
            "refilter" => Impact::Refilter,
            "reset" => Impact::Reset,
            "restart" => Impact::Restart,
            _ => return Err(()),
        })
    }
}

/// What was found in a module.
#[derive(Default)]
pub(crate) struct Marks {
    pub components: BTreeMap<String, Vec<String>>,
    pub impacts: BTreeMap<String, Impact>,
    /// Lists, and the leaves that name their entries.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Configurable leaves without a class.
    pub unmarked: Vec<String>,
}

struct Node<'a> {
    keyword: &'a str,
    argument: String,
    children: Vec<Node<'a>>,
}

/// Reads the marks of a module that libyang has accepted.
pub(crate) fn marks(text: &str) -> Marks {
    let mut marks = Marks::default();
    let tokens = tokens(text);
    let mut position = 0;
    for module in nodes(&tokens, &mut position) {
        walk(&module.children, &mut Vec::new(), true, &mut marks);
    }
    marks
}

fn walk(nodes: &[Node<'_>], path: &mut Vec<String>, config: bool, marks: &mut Marks) {
    for node in nodes {
        let is_data = matches!(node.keyword, "container" | "list" | "leaf" | "leaf-list" | "choice" | "case");
        let is_augment = node.keyword == "augment";
        let is_transparent = matches!(node.keyword, "choice" | "case");
        if !is_data && !is_augment && node.keyword != "grouping" {
            continue;
        }
        let off = node.children.iter().any(|c| c.keyword == "config" && c.argument == "false");
        let config = config && !off;
        let depth = path.len();
        if is_augment {
            path.extend(node.argument.split('/').filter(|s| !s.is_empty()).map(local));
        } else if !is_transparent && node.keyword != "grouping" {
            path.push(node.argument.clone());
        }
        for mark in &node.children {
            match local(mark.keyword).as_str() {
                "component" if mark.keyword.contains(':') => {
                    marks.components.insert(mark.argument.clone(), path.clone());
                }
                "impact" if mark.keyword.contains(':') => {
                    if let Ok(impact) = mark.argument.parse() {
                        marks.impacts.insert(path.join("/"), impact);
                    }
                }
                "key" => {
                    let keys = mark.argument.split_whitespace().map(Into::into).collect();
                    marks.keys.insert(path.join("/"), keys);
                }
                _ => {}
            }
        }
        let is_leaf = matches!(node.keyword, "leaf" | "leaf-list");
        if is_leaf && config && !marks.impacts.contains_key(&path.join("/")) {
            marks.unmarked.push(path.join("/"));
        }
        walk(&node.children, path, config, marks);
        path.truncate(depth);
    }
}

fn local(name: &str) -> String {
    name.rsplit(':').next().unwrap_or(name).to_string()
}

fn nodes<'a>(tokens: &[(&'a str, bool)], position: &mut usize) -> Vec<Node<'a>> {
    let mut found = Vec::new();
    while let Some((keyword, quoted)) = tokens.get(*position).copied() {
        *position += 1;
        if keyword == "}" && !quoted {
            break;
        }
        let mut node = Node { keyword, argument: String::new(), children: Vec::new() };
        while let Some((token, quoted)) = tokens.get(*position).copied() {
            *position += 1;
            match token {
                ";" if !quoted => break,
                "{" if !quoted => {
                    node.children = nodes(tokens, position);
                    break;
                }
                "+" if !quoted => {}
                part => node.argument.push_str(part),
            }
        }
        found.push(node);
    }
    found
}

/// Words, quoted strings, and the three signs, comments left out.
fn tokens(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return found };
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |n| &comment[n..]);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.find("*/").map_or("", |n| &comment[n + 2..]);
        } else if first == '"' || first == '\'' {
            let inner = &rest[1..];
            let end = inner.find(first).unwrap_or(inner.len());
            found.push((&inner[..end], true));
            rest = inner.get(end + 1..).unwrap_or("");
        } else if matches!(first, ';' | '{' | '}') {
            found.push((&rest[..1], false));
            rest = &rest[1..];
        } else {
            let end =
                rest.find(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '}')).unwrap_or(rest.len());
            found.push((&rest[..end], false));
            rest = &rest[end..];
        }
    }
}
