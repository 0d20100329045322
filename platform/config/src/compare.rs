//! The differences between two trees. Shared parts are skipped, so the cost follows the size of the differences.

use crate::Impact;
use crate::entries::{Entries, Key};
use crate::index::{Id, Index, ROOT};
use crate::mark_changes::MarkChanges;
use crate::marks::Path;
use crate::schema::Schema;
use crate::text::quoted;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use crate::write::{Lines, Secrets, Writer, key_words};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The differences between two trees.
#[derive(Clone)]
pub struct Comparison {
    index: Arc<Index>,
    differences: Vec<Difference>,
    leaves: BTreeSet<Id>,
    /// Changes of inactive statements and annotations.
    marks: MarkChanges,
}

/// An added, removed or changed object.
#[derive(Clone)]
struct Difference {
    /// Names and keys of the block in which it is.
    context: Arc<[Arc<str>]>,
    id: Id,
    /// Which entry of a list or which value of a leaf-list.
    key: Option<Key>,
    before: Option<Piece>,
    after: Option<Piece>,
}

/// A state of a place, before or after.
#[derive(Clone)]
enum Piece {
    Item(Item),
    Entry(Arc<Block>),
    Value(Form),
}

impl Schema {
    /// Returns the differences between two trees.
    pub fn compare(&self, before: &Tree, after: &Tree) -> Comparison {
        let mut finder = Finder::new(&self.index);
        finder.blocks(ROOT, &before.root, &after.root);
        let Finder { differences, leaves, .. } = finder;
        let marks = MarkChanges::between(before, after);
        Comparison { index: self.index.clone(), differences, leaves, marks }
    }

    /// Returns the impact on a component of a change between two trees: the highest impact of its changed leaves,
    /// defaults included, of its changed shared subtrees, and of a changed routing table; `None` without differences.
    pub fn cost(&self, component: &str, before: &Tree, after: &Tree) -> Option<Impact> {
        let (instance, id) = self.place(component)?;
        let mut finder = Finder::new(&self.index);
        let nothing = Arc::default();
        let (before_it, after_it) = (self.block(before, id, instance), self.block(after, id, instance));
        match (before_it, after_it) {
            (Some(a), Some(b)) => finder.blocks(id, a, b),
            (None, None) => return None,
            (a, b) => finder.one_sided(id, a.or(b).unwrap_or(&nothing)),
        }
        finder.leaves.extend(self.table_leaf(component).filter(|_| {
            before_it.is_some()
                && after_it.is_some()
                && self.table(component, before) != self.table(component, after)
        }));
        let own = finder.leaves.iter().map(|leaf| self.index[*leaf].impact).max();
        let is_changed = |name: &Arc<str>| self.shared_change(name, Some(before), after).is_some();
        let shared = self.index[id].uses.iter().filter(|(name, _)| is_changed(name));
        own.max(shared.map(|(_, impact)| *impact).max())
    }
}

struct Finder<'a> {
    index: &'a Index,
    trail: Vec<Arc<str>>,
    differences: Vec<Difference>,
    leaves: BTreeSet<Id>,
}

/// A block of a definition on both sides, and the key on the way to the block beyond the definition's name, if any.
type Both<'t> = (Id, Option<&'t Key>, &'t Arc<Block>, &'t Arc<Block>);

impl<'a> Finder<'a> {
    fn new(index: &'a Index) -> Self {
        Finder { index, trail: Vec::new(), differences: Vec::new(), leaves: BTreeSet::new() }
    }

    fn blocks(&mut self, id: Id, before: &Arc<Block>, after: &Arc<Block>) {
        if Arc::ptr_eq(before, after) {
            return;
        }
        let index = self.index;
        let mut deeper: Vec<Both<'_>> = Vec::new();
        let context: Arc<[Arc<str>]> = self.trail.as_slice().into();
        for child in &index[id].children {
            let name = &index[*child].name;
            match (before.get(name), after.get(name)) {
                (None, None) => {}
                (Some(Item::Container(a)), Some(Item::Container(b))) => deeper.push((*child, None, a, b)),
                (Some(Item::List(a)), Some(Item::List(b))) => self.lists(&context, *child, a, b, &mut deeper),
                (Some(Item::Values(a)), Some(Item::Values(b))) => self.values(&context, *child, a, b),
                (a, b) => self.single(&context, *child, a, b),
            }
        }
        if !index[id].body.choices.is_empty() {
            self.alternatives(id, before, after);
        }
        for (child, key, a, b) in deeper {
            let depth = self.trail.len();
            self.trail.push(index[child].name.clone());
            self.trail.extend(key.into_iter().flat_map(|k| key_words(k).map(Arc::from)));
            self.blocks(child, a, b);
            self.trail.truncate(depth);
        }
    }

    /// Compares a leaf, or an object absent from a side.
    fn single(&mut self, context: &Arc<[Arc<str>]>, id: Id, before: Option<&Item>, after: Option<&Item>) {
        if before == after {
            return;
        }
        let mut each = |key: Option<&Key>, a: Option<Piece>, b: Option<Piece>| {
            let context = context.clone();
            self.differences.push(Difference { context, id, key: key.cloned(), before: a, after: b });
        };
        // Lists and leaf-lists come and go by the entry, as anywhere else.
        let is_new = before.is_none();
        let side = |piece: Piece| if is_new { (None, Some(piece)) } else { (Some(piece), None) };
        match before.xor(after) {
            Some(Item::List(entries)) => {
                for (key, block) in entries.iter() {
                    let (a, b) = side(Piece::Entry(block.clone()));
                    each(Some(key), a, b);
                }
            }
            Some(Item::Values(values)) => {
                for (key, form) in values.iter() {
                    let (a, b) = side(Piece::Value(*form));
                    each(Some(key), a, b);
                }
            }
            _ => each(None, before.cloned().map(Piece::Item), after.cloned().map(Piece::Item)),
        }
        match (before, after) {
            (Some(a), None) | (None, Some(a)) => self.item_leaves(id, a),
            _ => {
                self.leaves.insert(id);
            }
        }
    }

    fn lists<'t>(
        &mut self,
        context: &Arc<[Arc<str>]>,
        id: Id,
        before: &'t Entries<Arc<Block>>,
        after: &'t Entries<Arc<Block>>,
        deeper: &mut Vec<Both<'t>>,
    ) {
        let entry = |block: &Arc<Block>| Some(Piece::Entry(block.clone()));
        if before.is_listed() {
            let moved = Moved::find(before, after);
            for (key, a) in before.iter() {
                match after.get(key).filter(|_| !moved.contains(key)) {
                    Some(b) => deeper.push((id, Some(key), a, b)),
                    None => {
                        self.one_sided(id, a);
                        self.pair(context, id, key, entry(a), None);
                    }
                }
            }
            for (key, b) in after.iter().filter(|(key, _)| before.get(key).is_none() || moved.contains(key)) {
                self.one_sided(id, b);
                self.pair(context, id, key, None, entry(b));
            }
            return;
        }
        for (key, a, b) in before.differences(after) {
            match (a, b) {
                (Some(a), Some(b)) => deeper.push((id, Some(key), a, b)),
                (a, b) => {
                    a.or(b).into_iter().for_each(|block| self.one_sided(id, block));
                    self.pair(context, id, key, a.and_then(entry), b.and_then(entry));
                }
            }
        }
    }

    fn values(&mut self, context: &Arc<[Arc<str>]>, id: Id, before: &Entries<Form>, after: &Entries<Form>) {
        let value = |form: &Form| Some(Piece::Value(*form));
        if before == after {
            return;
        }
        self.leaves.insert(id);
        if before.is_listed() {
            let moved = Moved::find(before, after);
            let goes = |key: &Key| after.get(key).is_none() || moved.contains(key);
            let comes = |key: &Key| before.get(key).is_none() || moved.contains(key);
            for (key, form) in before.iter().filter(|(key, _)| goes(key)) {
                self.pair(context, id, key, value(form), None);
            }
            for (key, form) in after.iter().filter(|(key, _)| comes(key)) {
                self.pair(context, id, key, None, value(form));
            }
            return;
        }
        for (key, a, b) in before.differences(after).into_iter().filter(|(_, a, b)| a != b) {
            self.pair(context, id, key, a.and_then(value), b.and_then(value));
        }
    }

    fn pair(
        &mut self,
        context: &Arc<[Arc<str>]>,
        id: Id,
        key: &Key,
        before: Option<Piece>,
        after: Option<Piece>,
    ) {
        let context = context.clone();
        self.differences.push(Difference { context, id, key: Some(key.clone()), before, after });
    }

    /// Compares defaults of alternatives: a different alternative has different defaults.
    fn alternatives(&mut self, id: Id, before: &Block, after: &Block) {
        let a: BTreeSet<Id> = self.index.effective(id, before).into_iter().collect();
        let b: BTreeSet<Id> = self.index.effective(id, after).into_iter().collect();
        let unwritten = |child: &Id| {
            let name = &self.index[*child].name;
            before.get(name).is_none() && after.get(name).is_none()
        };
        let changed: Vec<Id> = a.symmetric_difference(&b).copied().filter(unwritten).collect();
        changed.into_iter().for_each(|child| self.default_leaves(child));
    }

    /// Collects the leaves of an object absent from a side. A leaf equal to its default is no difference, unless the absent leaf may be
    /// inherited.
    fn item_leaves(&mut self, id: Id, item: &Item) {
        match item {
            Item::Leaf(leaf) => {
                if self.index[id].inherits || self.index[id].defaults.first() != Some(leaf) {
                    self.leaves.insert(id);
                }
            }
            Item::Values(_) => {
                self.leaves.insert(id);
            }
            Item::Container(block) if self.index[id].is_plain_container() => self.leaves_of(id, block),
            Item::Container(block) => self.one_sided(id, block),
            Item::List(entries) => entries.iter().for_each(|(_, block)| self.one_sided(id, block)),
        }
    }

    /// Compares every leaf of a block present on a single side.
    fn one_sided(&mut self, id: Id, block: &Block) {
        let had = self.leaves.len();
        self.whole(id, block);
        if self.leaves.len() == had {
            // It says something by being there.
            self.leaves.insert(id);
        }
    }

    fn whole(&mut self, id: Id, block: &Block) {
        for (name, item) in block.items() {
            let Some(child) = self.index[id].child(name) else { continue };
            match item {
                Item::Leaf(_) | Item::Values(_) => {
                    self.leaves.insert(child);
                }
                Item::Container(inner) => self.whole(child, inner),
                Item::List(entries) => entries.iter().for_each(|(_, inner)| self.whole(child, inner)),
            }
        }
        for child in self.index.effective(id, block) {
            if block.get(&self.index[child].name).is_none() {
                self.default_leaves(child);
            }
        }
    }

    /// Compares a plain container written on a single side: the opposite side has the container too, with its defaults.
    fn leaves_of(&mut self, id: Id, block: &Block) {
        for (name, item) in block.items() {
            if let Some(child) = self.index[id].child(name) {
                self.item_leaves(child, item);
            }
        }
    }

    fn default_leaves(&mut self, id: Id) {
        let def = &self.index[id];
        if !def.defaults.is_empty() {
            self.leaves.insert(id);
        } else if def.is_plain_container() {
            self.whole(id, &Block::default());
        }
    }
}

/// The entries of a list in the operator's order that have to go and come back for the order to be right.
struct Moved(BTreeSet<Key>);

impl Moved {
    fn find<V: Clone>(before: &Entries<V>, after: &Entries<V>) -> Self {
        // What is new comes after all that stays: so what stays has to be the beginning of what is there afterwards.
        let mut stays = before.iter().map(|(key, _)| key).filter(|key| after.get(key).is_some());
        let tail = after.iter().map(|(key, _)| key).skip_while(|key| stays.next() == Some(key));
        Moved(tail.filter(|key| before.get(key).is_some()).cloned().collect())
    }

    fn contains(&self, key: &Key) -> bool {
        self.0.contains(key)
    }
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
