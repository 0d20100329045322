//! Differences in the behavior of a configuration under a new schema.

use crate::error::{ConfigError, translated};
use crate::schema::Schema;
use crate::schema::index::{Id, Kind, ROOT};
use crate::text::{self, Statement, Word};
use crate::tree::entries::Entries;
use crate::tree::key::join_key;
use crate::tree::key::key_words;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use crate::{Impact, Node, NodeKind, Value};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A change of a statement of a configuration between two schemas.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notice {
    /// The place: names and keys.
    pub path: Vec<String>,
    /// The finding.
    #[serde(flatten)]
    pub what: What,
}

/// The kind of a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// There is no such statement any more.
    Gone,
    /// The value that is written is refused.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The default on which the configuration relies is another.
    Default {
        /// The old default; `None` if there was no default.
        before: Option<String>,
        /// The new default; `None` if there is no default.
        after: Option<String>,
    },
    /// A mandatory statement is missing.
    Needed,
    /// A statement is new, and without it the router behaves otherwise than before.
    New {
        /// The value that keeps the behavior.
        as_before: String,
    },
    /// A change of it costs something else.
    Impact {
        /// As it was.
        before: Impact,
        /// As it is.
        after: Impact,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.as_ref().map_or("nothing".into(), |v| format!("`{v}`"));
        write!(f, "{}: ", self.path.join(" "))?;
        match &self.what {
            What::Gone => f.write_str("there is no such statement any more"),
            What::Refused { reason } => write!(f, "the value is refused: {reason}"),
            What::Default { before, after } => {
                write!(
                    f,
                    "it is not written, and its default is {} instead of {}",
                    shown(after),
                    shown(before)
                )
            }
            What::Needed => f.write_str("it has to be written now"),
            What::New { as_before } => write!(
                f,
                "it is new, and without it the behavior is another; `{as_before}` keeps the behavior of before"
            ),
            What::Impact { before, after } => write!(f, "a change of it costs {after} instead of {before}"),
        }
    }
}

/// Returns the findings about a tree, valid under the schema of the index `old` ([`Schema::nodes`]), under the schema `new`. Where the old
/// schema is no longer at hand, [`read`] makes the tree of its index and the text.
pub fn check(old: &[Node], new: &Schema, tree: &Tree) -> Vec<Notice> {
    let mut check = Check { new, path: Vec::new(), notices: Vec::new() };
    check.block(old, ROOT, &tree.root);
    check.notices
}

/// Reads a text under the schema with the index `old`, for [`check`]. The text was valid then, so nothing is checked;
/// words unknown to the index are left out, because [`Schema::read`] has a better message.
pub fn read(old: &[Node], file: &str, text: &str) -> Result<Tree, ConfigError> {
    let mut tree = Tree::empty();
    let root = Arc::make_mut(&mut tree.root);
    for statement in text::parse(file, text)? {
        put(old, &statement.words, statement.block.as_deref(), root);
    }
    Ok(tree)
}

fn put(nodes: &[Node], words: &[Word], inner: Option<&[Statement]>, block: &mut Block) {
    let Some((name, rest)) = words.split_first() else { return };
    let Some(node) = nodes.iter().find(|node| node.name == name.text) else { return };
    let name: Arc<str> = node.name.as_str().into();
    let leaf = |word: &Word| Leaf { text: word.text.as_str().into(), form: Form::Text };
    let inside = |rest: &[Word], block: &mut Block| {
        put(&node.children, rest, inner, block);
        for statement in inner.filter(|_| rest.is_empty()).into_iter().flatten() {
            put(&node.children, &statement.words, statement.block.as_deref(), block);
        }
    };
    match &node.kind {
        NodeKind::Container { .. } => {
            if let Item::Container(container) = block.item(&name, || Item::Container(Arc::default())) {
                inside(rest, Arc::make_mut(container));
            }
        }
        NodeKind::List { keys } if rest.len() >= keys.len() => {
            let (words, rest) = rest.split_at(keys.len());
            let key = join_key(words.iter().map(|word| word.text.as_str()));
            let Item::List(entries) = block.item(&name, || Item::List(Entries::new(false))) else { return };
            let Some(entry) = entries.entry(&key, Arc::default) else { return };
            let entry = Arc::make_mut(entry);
            for (key, word) in keys.iter().zip(words) {
                entry.put(&key.as_str().into(), Item::Leaf(leaf(word)));
            }
            inside(rest, entry);
        }
        NodeKind::List { .. } => {}
        NodeKind::Leaf(value) => {
            let flag = if value.words.is_empty() { "" } else { "true" };
            let flag = Leaf { text: flag.into(), form: Form::Text };
            block.put(&name, Item::Leaf(rest.first().map_or(flag, leaf)));
        }
        NodeKind::LeafList(_) => {
            if let Item::Values(values) = block.item(&name, || Item::Values(Entries::new(false))) {
                for word in rest {
                    values.entry(&leaf(word).text, || Form::Text);
                }
            }
        }
    }
}

struct Check<'a> {
    new: &'a Schema,
    path: Vec<String>,
    notices: Vec<Notice>,
}

impl Check<'_> {
    fn note(&mut self, what: What) {
        self.notices.push(Notice { path: self.path.clone(), what });
    }

    fn block(&mut self, old: &[Node], id: Id, block: &Block) {
        for (name, item) in block.items() {
            let before = old.iter().find(|node| *node.name == **name);
            self.path.push(name.to_string());
            match self.new.index[id].child(name) {
                Some(child) => self.item(before, child, item),
                None => self.note(What::Gone),
            }
            self.path.pop();
        }
        self.unwritten(old, id, block);
    }

    fn item(&mut self, before: Option<&Node>, id: Id, item: &Item) {
        let children = before.map_or(&[][..], |node| &node.children);
        match (&self.new.index[id].kind, item) {
            (Kind::Container { .. }, Item::Container(block)) => self.block(children, id, block),
            (Kind::List { .. }, Item::List(entries)) => {
                for (key, block) in entries.iter() {
                    let depth = self.path.len();
                    self.path.extend(key_words(key).map(Into::into));
                    self.block(children, id, block);
                    self.path.truncate(depth);
                }
            }
            (Kind::Leaf, Item::Leaf(leaf)) => self.value(before, id, &leaf.text),
            (Kind::Values { .. }, Item::Values(values)) => {
                values.iter().for_each(|(text, _)| self.value(before, id, text));
            }
            _ => self.note(What::Refused { reason: "it has another shape".into() }),
        }
    }

    fn value(&mut self, before: Option<&Node>, id: Id, text: &str) {
        let def = &self.new.index[id];
        if let Err(reason) = self.new.yang.canonical(id, text) {
            let in_words = || translated(&reason.to_string()).filter(|_| !def.is_secret);
            let reason = in_words().unwrap_or_else(|| format!("it has to be {}", def.expects));
            self.note(What::Refused { reason });
        }
        if let Some(before) = before.and_then(value_of).map(|value| value.impact)
            && before != def.impact
        {
            let what = What::Impact { before, after: def.impact };
            let is_known = self.notices.last().is_some_and(|n| n.path == self.path && n.what == what);
            if !is_known {
                self.note(what);
            }
        }
    }

    /// Checks the defaults used by a block, and newly mandatory statements.
    fn unwritten(&mut self, old: &[Node], id: Id, block: &Block) {
        for child in self.new.index.effective(id, block) {
            let def = &self.new.index[child];
            if block.get(&def.name).is_some() {
                continue;
            }
            let before = old.iter().find(|node| *node.name == *def.name);
            self.path.push(def.name.to_string());
            if def.is_plain_container() {
                self.block(before.map_or(&[], |node| &node.children), child, &Block::default());
            } else if matches!(def.kind, Kind::Leaf | Kind::Values { .. }) {
                let was = before.and_then(value_of).and_then(|value| value.default.clone());
                let texts: Vec<&str> = def.defaults.iter().map(|leaf| &*leaf.text).collect();
                let is = (!texts.is_empty()).then(|| texts.join(" "));
                if def.is_mandatory {
                    self.note(What::Needed);
                } else if let Some(as_before) = def.as_before.as_ref().filter(|_| before.is_none()) {
                    self.note(What::New { as_before: as_before.to_string() });
                } else if before.is_some() && was != is {
                    self.note(What::Default { before: was, after: is });
                }
            }
            self.path.pop();
        }
    }
}

fn value_of(node: &Node) -> Option<&Value> {
    match &node.kind {
        NodeKind::Leaf(value) | NodeKind::LeafList(value) => Some(value),
        _ => None,
    }
}
