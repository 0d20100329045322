//! A tree as `set` statements.
use super::secrets::{HIDDEN, Secrets};
use super::words::{INACTIVE, written};
use crate::schema::index::{Id, Index, ROOT};
use crate::schema::spot::{Spot, follow};
use crate::text::quoted;
use crate::tree::key::{Key, key_words};
use crate::tree::{Block, Form, Item};
use std::borrow::Cow;
use std::sync::Arc;

/// Writes `set` statements.
pub(crate) struct Lines<'a> {
    index: &'a Index,
    secrets: Secrets,
    /// `set` and the path to where we are.
    path: String,
    pub out: Vec<String>,
}

impl<'a> Lines<'a> {
    pub fn new(index: &'a Index, secrets: Secrets, trail: &[Arc<str>]) -> Self {
        let mut lines = Lines { index, secrets, path: "set".into(), out: Vec::new() };
        lines.go(trail.iter().map(|word| &**word));
        lines
    }

    fn go<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        for word in words {
            self.path.push(' ');
            self.path.push_str(&quoted(word));
        }
    }

    pub fn block(&mut self, id: Id, block: &Block) {
        let index = self.index;
        for child in &index[id].children {
            if let Some(item) = block.get(&index[*child].name)
                && !index[id].keys().contains(&index[*child].name)
            {
                self.item(*child, item);
            }
        }
    }

    /// Writes a block that exists even if empty.
    pub fn whole(&mut self, id: Id, block: &Block) {
        if block.items().count() == self.index[id].keys().len() {
            self.out.push(self.path.clone());
        } else {
            self.block(id, block);
        }
    }

    /// Writes the statements at a path from the root of a tree.
    pub fn part(&mut self, root: &Block, path: &[Arc<str>]) {
        let above = &path[..path.len().saturating_sub(1)];
        match follow(self.index, root, path) {
            Spot::Block(ROOT, block) => self.block(ROOT, block),
            Spot::Block(id, block) => {
                self.go(path.iter().map(|word| &**word));
                self.whole(id, block);
            }
            Spot::Item(id, item) => {
                self.go(above.iter().map(|word| &**word));
                self.item(id, item);
            }
            Spot::Value(id) => {
                self.go(above.iter().map(|word| &**word));
                self.value(id, &path[above.len()]);
            }
            Spot::Missing(_) => {}
        }
    }

    /// Writes the item of a name in the present block.
    pub fn item(&mut self, id: Id, item: &Item) {
        let (length, name) = (self.path.len(), &self.index[id].name);
        self.go(std::iter::once(&**name));
        match item {
            Item::Leaf(leaf) if leaf.form == Form::Empty => self.out.push(self.path.clone()),
            Item::Leaf(leaf) => self.value(id, &leaf.text),
            Item::Values(values) => values.iter().for_each(|(text, _)| self.value(id, text)),
            Item::Container(block) => self.whole(id, block),
            Item::List(entries) => {
                self.path.truncate(length);
                entries.iter().for_each(|(key, block)| self.entry(id, key, block));
            }
        }
        self.path.truncate(length);
    }

    /// An entry of a list in the block where we are.
    pub fn entry(&mut self, id: Id, key: &Key, block: &Block) {
        let length = self.path.len();
        self.go(std::iter::once(&*self.index[id].name).chain(key_words(key)));
        self.whole(id, block);
        self.path.truncate(length);
    }

    fn value(&mut self, id: Id, text: &str) {
        self.out.push(format!("{} {}", self.path, shown(self.index, id, text, self.secrets)));
    }
}

/// A value as it is written.
pub(crate) fn shown<'v>(index: &Index, id: Id, text: &'v str, secrets: Secrets) -> Cow<'v, str> {
    match index[id].is_secret && secrets == Secrets::Hidden {
        true => Cow::Owned(format!("\"{HIDDEN}\"")),
        false => quoted(text),
    }
}

/// The statements that make an inactive statement.
pub(crate) fn inactive_lines(
    index: &Index,
    path: &[Arc<str>],
    piece: &Block,
    secrets: Secrets,
) -> Vec<String> {
    let mut lines = Lines::new(index, secrets, &[]);
    lines.part(piece, path);
    let above = written(index.block_of(path));
    let above = if above.is_empty() { String::from("set ") } else { format!("set {above} ") };
    let marked = |line: &String| format!("{above}{INACTIVE} {}", line.strip_prefix(&above).unwrap_or(line));
    lines.out.iter().map(marked).collect()
}
