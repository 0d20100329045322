//! The differences between two trees, as text and by leaves.
use super::mark_changes::MarkChanges;
use crate::schema::impact::Impact;
use crate::schema::index::{Id, Index};
use crate::text::braces::Writer;
use crate::text::lines::Lines;
use crate::text::quoted;
use crate::text::secrets::Secrets;
use crate::tree::key::{Key, key_words};
use crate::tree::marks::Path;
use crate::tree::{Block, Form, Item, Leaf};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The differences between two trees.
#[derive(Clone)]
pub struct Comparison {
    pub(super) index: Arc<Index>,
    pub(super) differences: Vec<Difference>,
    pub(super) leaves: BTreeSet<Id>,
    /// Changes of inactive statements and annotations.
    pub(super) marks: MarkChanges,
}

/// An added, removed or changed object.
#[derive(Clone)]
pub(crate) struct Difference {
    /// Names and keys of the block in which it is.
    pub context: Arc<[Arc<str>]>,
    pub id: Id,
    /// Which entry of a list or which value of a leaf-list.
    pub key: Option<Key>,
    pub before: Option<Piece>,
    pub after: Option<Piece>,
}

/// A state of a place, before or after.
#[derive(Clone)]
pub(crate) enum Piece {
    Item(Item),
    Entry(Arc<Block>),
    Value(Form),
}

impl Comparison {
    /// Returns the number of differences.
    pub fn len(&self) -> usize {
        self.differences.len() + self.marks.len()
    }

    /// Returns true if nothing differs.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.marks.len() == 0
    }

    /// Returns the differences under their blocks, `-` before removed lines, `+` before added lines.
    pub fn text(&self, secrets: Secrets) -> String {
        let mut out = String::new();
        let mut context: Option<&[Arc<str>]> = None;
        for difference in &self.differences {
            if context != Some(&*difference.context) {
                context = Some(&difference.context);
                out.push_str("[edit");
                for word in &*difference.context {
                    out.push(' ');
                    out.push_str(&quoted(word));
                }
                out.push_str("]\n");
            }
            out.push_str(&self.lines(difference, difference.before.as_ref(), "-  ", secrets));
            out.push_str(&self.lines(difference, difference.after.as_ref(), "+  ", secrets));
        }
        if self.marks.len() > 0 {
            if context.is_none_or(|context| !context.is_empty()) {
                out.push_str("[edit]\n");
            }
            out.push_str(&self.marks.text(&self.index, secrets));
        }
        out
    }

    fn lines(
        &self,
        difference: &Difference,
        piece: Option<&Piece>,
        margin: &str,
        secrets: Secrets,
    ) -> String {
        let mut writer = Writer::new(&self.index, secrets);
        writer.margin = margin.into();
        match (piece, &difference.key) {
            (Some(Piece::Item(item)), _) => writer.item(difference.id, item),
            (Some(Piece::Entry(block)), Some(key)) => writer.entry(difference.id, key, block),
            (Some(Piece::Value(form)), Some(key)) => {
                let leaf = Leaf { text: key.clone(), form: *form };
                writer.item(difference.id, &Item::Leaf(leaf));
            }
            _ => {}
        }
        writer.out
    }

    /// Returns the statements leading from the first tree to the second, if secrets are shown.
    pub fn set_text(&self, secrets: Secrets) -> Vec<String> {
        let mut lost: Vec<Path> = Vec::new();
        let mut out = self.marks.deletions(&mut lost);
        for difference in &self.differences {
            let is_replaced =
                matches!((&difference.before, &difference.after), (_, Some(Piece::Item(Item::Leaf(_)))));
            if difference.before.is_some() && !is_replaced {
                let mut line = String::from("delete");
                for word in difference.words(&self.index) {
                    line.push(' ');
                    line.push_str(&quoted(word));
                }
                out.push(line);
                lost.push(difference.words(&self.index).map(Arc::from).collect());
            }
        }
        for difference in &self.differences {
            let mut lines = Lines::new(&self.index, secrets, &difference.context);
            match (&difference.after, &difference.key) {
                (Some(Piece::Item(item)), _) => lines.item(difference.id, item),
                (Some(Piece::Entry(block)), Some(key)) => lines.entry(difference.id, key, block),
                (Some(Piece::Value(form)), Some(key)) => {
                    let leaf = Leaf { text: key.clone(), form: *form };
                    lines.item(difference.id, &Item::Leaf(leaf));
                }
                _ => {}
            }
            out.append(&mut lines.out);
        }
        out.extend(self.marks.additions(&self.index, &lost, secrets));
        out
    }

    /// Returns the differences at the places for which `keep` returns true.
    pub fn restricted(&self, keep: impl Fn(&[&str]) -> bool) -> Comparison {
        let kept = |difference: &&Difference| keep(&difference.words(&self.index).collect::<Vec<_>>());
        Comparison {
            index: self.index.clone(),
            differences: self.differences.iter().filter(kept).cloned().collect(),
            leaves: self.leaves.clone(),
            marks: self.marks.restricted(&keep),
        }
    }

    /// Iterates over the leaves (schema paths: names joined with `/`, keys left out) with changed values, defaults
    /// included, and the impact of each change; a block without any leaf stands for itself.
    pub fn leaves(&self) -> impl Iterator<Item = (&str, Impact)> {
        self.leaves.iter().map(|id| (&*self.index[*id].path, self.index[*id].impact))
    }

    /// Returns the places of the differences: names and keys from the top.
    pub fn paths(&self) -> impl Iterator<Item = Vec<&str>> {
        let marks = self.marks.paths().map(|path| path.iter().map(|word| &**word).collect());
        self.differences.iter().map(|d| d.words(&self.index).collect()).chain(marks)
    }
}

impl std::fmt::Debug for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(Secrets::Hidden))
    }
}

impl Difference {
    fn words<'d>(&'d self, index: &'d Index) -> impl Iterator<Item = &'d str> {
        let name = std::iter::once(&*index[self.id].name);
        let context = self.context.iter().map(|word| &**word);
        context.chain(name).chain(self.key.iter().flat_map(key_words))
    }
}
