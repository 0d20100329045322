//! The differences between two trees. Shared parts are skipped, so the cost follows the size of the differences.

use super::comparison::{Comparison, Difference, Piece};
use super::mark_changes::MarkChanges;
use crate::Impact;
use crate::schema::Schema;
use crate::schema::index::{Id, Index, ROOT};
use crate::tree::entries::Entries;
use crate::tree::key::{Key, key_words};
use crate::tree::{Block, Form, Item, Tree};
use std::collections::BTreeSet;
use std::sync::Arc;

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
            // Its presence has a meaning.
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
