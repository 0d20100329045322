//! The input of a component: its part of the tree with defaults filled in, or the differences of the part.

use crate::error::ConfigError;
use crate::schema::Schema;
use crate::schema::index::{Id, Kind};
use crate::text::json::Json;
use crate::text::secrets::Secrets;
use crate::tree::entries::Entries;
use crate::tree::key::Key;
use crate::tree::key::key_words;
use crate::tree::{Block, Item, Tree};
use serde_json::Value;
use sluice_part::{Change, Edit, Part};
use std::sync::Arc;

impl Schema {
    /// Returns the change for a component: its whole part without a tree before, or else the differences. `None`
    /// without differences, or for an unknown component. Defaults are filled in, and secrets shown.
    pub fn change(&self, component: &str, before: Option<&Tree>, after: &Tree) -> Option<Change> {
        let (instance, id) = self.place(component)?;
        let new_tree = self.filled(id, after);
        let old_tree = before.map(|tree| self.filled(id, tree));
        let old = old_tree.as_ref().and_then(|tree| self.block(tree, id, instance));
        let new = self.block(&new_tree, id, instance);
        let mut change = match (&old_tree, old, new) {
            (Some(_), None, None) => return None,
            (None, _, None) | (Some(_), Some(_), None) => {
                return Some(Change { clear: true, edits: Vec::new() });
            }
            (_, None, Some(new)) => {
                Change { clear: true, edits: self.edits(id, &Block::default(), new, false) }
            }
            (_, Some(old), Some(new)) => Change { clear: false, edits: self.edits(id, old, new, true) },
        };
        let known = before.filter(|_| !change.clear);
        for (name, _) in &self.index[id].uses {
            change.edits.extend(self.shared_change(name, known, after).into_iter().flatten());
        }
        (change.clear || !change.edits.is_empty()).then_some(change)
    }

    /// Returns the edits of a shared subtree: the whole subtree without a tree before, or else the differences; `None`
    /// without differences.
    pub(crate) fn shared_change(&self, name: &str, before: Option<&Tree>, after: &Tree) -> Option<Vec<Edit>> {
        let id = *self.index.shared.get(name)?;
        let nothing = Arc::default();
        let after = self.filled(id, after);
        let before = before.map(|tree| self.filled(id, tree));
        let new = self.block(&after, id, None).unwrap_or(&nothing);
        let old = before.as_ref().and_then(|tree| self.block(tree, id, None)).unwrap_or(&nothing);
        let mut edits = self.edits(id, old, new, before.is_some());
        for edit in &mut edits {
            edit.subtree = Some(name.into());
        }
        (!edits.is_empty()).then_some(edits)
    }

    /// Returns a component's whole part with defaults filled in; `None` for a component without configuration.
    pub fn part(&self, component: &str, tree: &Tree) -> Option<Value> {
        let (instance, id) = self.place(component)?;
        self.block(tree, id, instance)?;
        let mut part = Part::default();
        part.apply(self.change(component, None, tree)?);
        Some(part.whole())
    }

    /// Returns a tree ready for defaults to be filled in by presence. Defaults under conditions are filled in by
    /// libyang.
    fn filled(&self, id: Id, tree: &Tree) -> Tree {
        if !self.index[id].conditional_inside {
            return tree.clone();
        }
        // A tree that is not valid stays as it is; it is not meant for components.
        self.with_defaults(tree).unwrap_or_else(|_: ConfigError| tree.clone())
    }

    fn json_of(&self, id: Id) -> Json<'_> {
        let fills = !self.index[id].conditional_inside;
        Json { index: &self.index, secrets: Secrets::Shown, fills, qualifies: false }
    }

    /// Returns the differences between two states of a component's part; `had` is true if the first state had its
    /// defaults.
    fn edits(&self, id: Id, before: &Block, after: &Block, had: bool) -> Vec<Edit> {
        let json = self.json_of(id);
        let (old, new) = (self.index.effective(id, before), self.index.effective(id, after));
        let mut edits = Vec::new();
        for child in &self.index[id].children {
            let def = &self.index[*child];
            let (a, b) = (before.get(&def.name), after.get(&def.name));
            if let Kind::List { is_listed: false, .. } = def.kind {
                self.entries(&json, *child, a, b, &mut edits);
                continue;
            }
            if a.is_some() && a == b {
                continue;
            }
            let value = |item: Option<&Item>, effective: &[Id]| match item {
                Some(item) => Some(json.item(*child, item)).filter(|v| !is_nothing(v)),
                None if json.fills && effective.contains(child) => json.default(*child),
                None => None,
            };
            let (a, b) = (if had { value(a, &old) } else { None }, value(b, &new));
            if a != b {
                edits.push(Edit { subtree: None, name: def.name.to_string(), key: None, value: b });
            }
        }
        edits
    }

    fn entries(&self, json: &Json<'_>, id: Id, a: Option<&Item>, b: Option<&Item>, edits: &mut Vec<Edit>) {
        let nothing = Entries::new(false);
        let side = |item: Option<&Item>| match item {
            Some(Item::List(entries)) => entries.clone(),
            _ => nothing.clone(),
        };
        let (a, b) = (side(a), side(b));
        for (key, old, new) in a.differences(&b) {
            let value = |block: Option<&Arc<Block>>| block.map(|block| json.block(id, block));
            if old == new {
                continue;
            }
            let (old, new) = (value(old), value(new));
            if old != new {
                let name = self.index[id].name.to_string();
                edits.push(Edit { subtree: None, name, key: Some(words(key)), value: new });
            }
        }
    }
}

fn words(key: &Key) -> Vec<String> {
    key_words(key).map(Into::into).collect()
}

/// Returns true for an empty container, which is left out of changes.
fn is_nothing(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}
