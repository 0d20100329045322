//! What behaves differently for a configuration under another schema.

use crate::index::{Id, Kind, ROOT};
use crate::schema::Schema;
use crate::tree::{Block, Item, Tree};
use crate::write::key_words;
use crate::{Impact, Node, NodeKind, Value};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something in a configuration that is not what it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notice {
    /// Where: names and keys.
    pub path: Vec<String>,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// In what way something is not what it was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// There is no such statement any more.
    Gone,
    /// The value that is written is refused.
    Refused {
        /// Why.
        reason: String,
    },
    /// The default on which the configuration relies is another.
    Default {
        /// As it was; `None` if there was none.
        before: Option<String>,
        /// As it is; `None` if there is none.
        after: Option<String>,
    },
    /// It has to be written, and is not.
    Needed,
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
                write!(f, "it is not written, and its default is {} instead of {}", shown(after), shown(before))
            }
            What::Needed => f.write_str("it has to be written now"),
            What::Impact { before, after } => write!(f, "a change of it costs {after} instead of {before}"),
        }
    }
}

/// What a tree that is valid under the schema that had the index `old` meets under `new`. The tree's blocks stand under nodes of the
/// same names in both.
pub fn check(old: &[Node], new: &Schema, tree: &Tree) -> Vec<Notice> {
    let mut check = Check { new, path: Vec::new(), notices: Vec::new() };
    check.block(old, ROOT, &tree.root);
    check.notices
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
            let reason = if def.is_secret { def.expects.clone() } else { reason };
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

    /// Defaults on which a block relies, and what it has to have now.
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
