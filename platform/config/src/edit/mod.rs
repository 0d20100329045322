//! One statement changes a tree: `set`, `delete`, `rename`, `copy`, `insert` and others.

pub mod insert;
pub mod marks;
pub mod read;
pub mod validate;

use crate::edit::insert::INSERT;
use crate::error::{ConfigError, Place, nearest};
use crate::schema::Schema;
use crate::schema::index::{Id, ROOT};
use crate::text::bind::Binder;
use crate::text::secrets::HIDDEN;
use crate::text::words::{ACTIVATE, ANNOTATE, DEACTIVATE};
use crate::text::{self, Word};
use crate::tree::entries::Entries;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use std::sync::Arc;

/// The file name in errors about a statement that was given by itself.
const FILE: &str = "statement";

impl Schema {
    /// Returns a tree after a statement: `set PATH [VALUE...]`, `delete PATH [VALUE...]`, `rename PATH KEY to KEY`,
    /// `copy PATH KEY to KEY`, `insert PATH KEY before|after KEY`, `deactivate PATH`, `activate PATH` or `annotate PATH TEXT`. Values are checked;
    /// [`Schema::validate`] checks the whole tree. A new statement replaces statements excluded by its presence. A
    /// leaf-list gets the values in addition to its present values; `delete` removes the named values, or every value.
    /// Deleting an absent statement is an error.
    pub fn edit(&self, tree: &Tree, statement: &str) -> Result<Tree, ConfigError> {
        let words = text::words(FILE, statement)?;
        let mut tree = tree.clone();
        let mut binder = Binder::new(self, FILE, statement);
        binder.replaces = true;
        let start = Place { line: 1, column: 1, length: 1 };
        let Some((verb, path)) = words.split_first() else {
            return Err(binder.error(start, "there is no statement").expecting(VERBS));
        };
        match (verb.text.as_str(), path) {
            ("set" | "delete" | DEACTIVATE | ACTIVATE, []) => {
                Err(binder.error(verb.place, format!("`{}` needs a path", verb.text)))
            }
            ("set", path) => binder.statement(path, None, ROOT, Arc::make_mut(&mut tree.root)),
            ("delete", path) => self.delete(&mut binder, &mut tree, path),
            (INSERT, path) => binder.insert(verb, path, ROOT, Arc::make_mut(&mut tree.root)),
            (DEACTIVATE, path) => self.deactivate(&mut binder, &mut tree, path),
            (ACTIVATE, path) => self.activate(&mut binder, &mut tree, path),
            (ANNOTATE, [path @ .., text]) => self.annotate(&mut binder, &mut tree, path, text),
            ("rename" | "copy", path) => match path.iter().rposition(|word| word.text == "to") {
                Some(at) if at > 0 && at + 1 < path.len() => {
                    let keeps = verb.text == "copy";
                    self.double(&mut binder, &mut tree, (&path[..at], &path[at + 1..]), keeps)
                }
                _ => {
                    let short =
                        binder.error(verb.place, format!("`{}` needs an entry and a new key", verb.text));
                    Err(short.expecting(format!("`{} PATH KEY to KEY`", verb.text)))
                }
            },
            _ => Err(binder
                .error(verb.place, format!("`{}` changes nothing", verb.text))
                .expecting(VERBS)
                .hinting(nearest(
                    &verb.text,
                    ["set", "delete", "rename", "copy", INSERT, ACTIVATE, DEACTIVATE, ANNOTATE].into_iter(),
                ))),
        }?;
        if !binder.pending.is_empty() {
            let pending = std::mem::take(&mut binder.pending);
            binder.settle(&mut tree, pending)?;
        }
        self.check_marks(&binder, &mut tree, path.last().map_or(verb.place, |word| word.place))?;
        Ok(tree)
    }

    /// Deletes statements, in force or inactive, with the marks inside.
    fn delete(&self, binder: &mut Binder<'_>, tree: &mut Tree, path: &[Word]) -> Result<(), ConfigError> {
        if tree.marks.is_empty() {
            return binder.delete(path, ROOT, Arc::make_mut(&mut tree.root));
        }
        let paths = binder.paths(path, true)?;
        let mut after = tree.clone();
        let deleted = binder.delete(path, ROOT, Arc::make_mut(&mut after.root));
        if deleted.is_ok() {
            *tree = after;
        }
        let was_inactive = self.delete_marks(tree, &paths);
        if was_inactive { Ok(()) } else { deleted }
    }

    /// Renames or copies an entry of a list with the marks inside.
    fn double(
        &self,
        binder: &mut Binder<'_>,
        tree: &mut Tree,
        (old, new): (&[Word], &[Word]),
        keeps: bool,
    ) -> Result<(), ConfigError> {
        binder.double(old, new, keeps, ROOT, Arc::make_mut(&mut tree.root))?;
        binder.trail.clear();
        if tree.marks.is_empty() {
            return Ok(());
        }
        let renamed = [&old[..old.len() - new.len()], new].concat();
        let (old, new) = (binder.paths(old, false)?, binder.paths(&renamed, false)?);
        old.iter().zip(&new).try_for_each(|(old, new)| self.move_marks(tree, old, new, keeps))
    }
}

/// The verbs of statements.
const VERBS: &str = "`set`, `delete`, `rename`, `copy`, `insert`, `deactivate`, `activate` or `annotate`";

impl Binder<'_> {
    /// Takes out what a path of names and keys leads to.
    pub fn delete(&mut self, words: &[Word], def: Id, block: &mut Block) -> Result<(), ConfigError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        let id = self.child(def, name)?;
        let index = &self.schema.index;
        let own = &index[id];
        if index[def].keys().contains(&own.name) {
            let list = &index[def].name;
            let wrong = format!("`{}` names its entry", name.text);
            return Err(self.error(name.place, wrong).expecting(format!("`delete` of the `{list}` itself")));
        }
        let Some(item) = block.get_mut(&own.name) else { return Err(self.absent(name, block)) };
        self.trail.push(own.name.clone());
        let is_gone = match item {
            _ if rest.is_empty() => true,
            Item::Container(container) => {
                let container = Arc::make_mut(container);
                self.delete(rest, id, container)?;
                own.is_plain_container() && container.is_empty()
            }
            Item::List(entries) => self.delete_entry(name, rest, id, entries)?,
            Item::Leaf(leaf) => self.delete_leaf(name, rest, id, leaf)?,
            Item::Values(values) => self.delete_values(rest, id, values)?,
        };
        if is_gone {
            block.remove(&own.name);
        }
        Ok(())
    }

    /// Deletes an entry, or a statement in an entry. Returns true if no entry is left.
    fn delete_entry(
        &mut self,
        name: &Word,
        rest: &[Word],
        id: Id,
        entries: &mut Entries<Arc<Block>>,
    ) -> Result<bool, ConfigError> {
        let (key, leaves) = self.key(name, rest, id)?;
        let place = rest.first().map_or(name.place, |word| word.place);
        let shown = leaves.iter().map(|leaf| &*leaf.text).collect::<Vec<_>>().join(" ");
        if entries.get(&key).is_none() {
            let keys = entries.iter().map(|(key, _)| &**key).take(SUGGESTED);
            let missing = self.error(place, format!("there is no `{} {shown}`", self.trail.join(" ")));
            return Err(missing.hinting(nearest(&key, keys)));
        }
        self.trail.extend(leaves.iter().map(|leaf| leaf.text.clone()));
        match &rest[leaves.len()..] {
            [] => {
                entries.remove(&key);
            }
            rest => {
                if let Some(entry) = entries.entry(&key, Arc::default) {
                    self.delete(rest, id, Arc::make_mut(entry))?;
                }
            }
        }
        Ok(entries.is_empty())
    }

    /// Returns true if a leaf's value is what is to be deleted.
    fn delete_leaf(&self, name: &Word, rest: &[Word], id: Id, leaf: &Leaf) -> Result<bool, ConfigError> {
        if let [_, extra, ..] = rest {
            return Err(self.error(extra.place, format!("`{}` has one value", name.text)));
        }
        let value = self.value(&rest[0], id)?;
        if value != *leaf {
            let (shown, wanted) = match self.schema.index[id].is_secret {
                true => ("another", HIDDEN),
                false => (&*leaf.text, &*rest[0].text),
            };
            let other = format!("`{}` is {shown}, not `{wanted}`", self.trail.join(" "));
            return Err(self.error(rest[0].place, other));
        }
        Ok(true)
    }

    /// Deletes values; whether none is left.
    fn delete_values(&self, rest: &[Word], id: Id, values: &mut Entries<Form>) -> Result<bool, ConfigError> {
        for word in rest {
            let value = self.value(word, id)?;
            if !values.remove(&value.text) {
                let known = values.iter().map(|(key, _)| &**key).take(SUGGESTED);
                let hint = nearest(&value.text, known);
                let missing = format!("`{}` has no `{}`", self.trail.join(" "), value.text);
                return Err(self.error(word.place, missing).hinting(hint));
            }
        }
        Ok(values.is_empty())
    }

    /// Puts an entry of a list under a new, free key. The entry stays under its own key too if `keeps` is set.
    fn double(
        &mut self,
        words: &[Word],
        new: &[Word],
        keeps: bool,
        def: Id,
        block: &mut Block,
    ) -> Result<(), ConfigError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        let id = self.child(def, name)?;
        let own = &self.schema.index[id];
        let Some(item) = block.get_mut(&own.name) else { return Err(self.absent(name, block)) };
        self.trail.push(own.name.clone());
        let entries = match item {
            Item::Container(container) if !rest.is_empty() => {
                return self.double(rest, new, keeps, id, Arc::make_mut(container));
            }
            Item::List(entries) => entries,
            _ => {
                let wrong = self.error(name.place, format!("`{}` has no key", self.trail.join(" ")));
                return Err(wrong.expecting("an entry of a list"));
            }
        };
        let (key, leaves) = self.key(name, rest, id)?;
        let shown = |leaves: &[Leaf]| leaves.iter().map(|leaf| &*leaf.text).collect::<Vec<_>>().join(" ");
        let Some(entry) = entries.get(&key).cloned() else {
            let missing = format!("there is no `{} {}`", self.trail.join(" "), shown(&leaves));
            return Err(self.error(rest[0].place, missing));
        };
        let deeper = &rest[leaves.len()..];
        if !deeper.is_empty() {
            self.trail.extend(leaves.iter().map(|leaf| leaf.text.clone()));
            return match entries.entry(&key, Arc::default) {
                Some(entry) => self.double(deeper, new, keeps, id, Arc::make_mut(entry)),
                None => Ok(()),
            };
        }
        let (new_key, new_leaves) = self.key(name, new, id)?;
        if let Some(extra) = new.get(new_leaves.len()) {
            return Err(self.error(extra.place, "nothing can stand behind the new key"));
        }
        if entries.get(&new_key).is_some() {
            let taken = format!("there is a `{} {}` already", self.trail.join(" "), shown(&new_leaves));
            return Err(self.error(new[0].place, taken));
        }
        let mut inner = (*entry).clone();
        for (key, leaf) in own.keys().iter().zip(new_leaves) {
            inner.put(key, Item::Leaf(leaf));
        }
        entries.entry(&new_key, || Arc::new(inner));
        if !keeps {
            // In an order that has a meaning, the entry keeps its place.
            entries.move_beside(&new_key, &key, true);
            entries.remove(&key);
        }
        Ok(())
    }

    fn absent(&self, name: &Word, block: &Block) -> ConfigError {
        let context = match self.trail.as_slice() {
            [] => String::new(),
            trail => format!(" in `{}`", trail.join(" ")),
        };
        let missing = self.error(name.place, format!("there is no `{}`{context} to delete", name.text));
        missing.hinting(nearest(&name.text, block.items().map(|(name, _)| &**name)))
    }
}

/// So many entries at most are looked at for what was meant.
const SUGGESTED: usize = 10_000;
