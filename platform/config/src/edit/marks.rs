//! Marks beside the statements in force: inactive statements, and annotations.
//!
//! An inactive statement is kept apart from the tree, by its path, so that neither validation nor any component sees
//! the statement. The text of an inactive statement is
//!
//! ```text
//! protocols {
//!     bgp {
//!         annotate neighbor 192.0.2.1 "the upstream in Berlin";
//!         inactive: neighbor 192.0.2.1 {
//!             peer-as 65002;
//!         }
//!     }
//! }
//! ```
//!
//! or, where the block around the statement is not in force itself, with the whole path: `protocols bgp inactive:
//! neighbor 192.0.2.1 { ... }`. In a text of `set` statements the word stands at the same place: always right before
//! the inactive statement.

use crate::error::{ConfigError, Place};
use crate::schema::Schema;
use crate::schema::index::{Kind, ROOT};
use crate::schema::spot::{Spot, blocks_above, follow, stands};
use crate::text::bind::Binder;
use crate::text::lines::Lines;
use crate::text::pending_marks::Pending;
use crate::text::secrets::Secrets;
use crate::text::words::{INACTIVE, as_words, written};
use crate::text::{Statement, Word};
use crate::tree::marks::Path;
use crate::tree::{Block, Item, Tree};
use std::sync::Arc;

impl Binder<'_> {
    /// Returns the paths named by words: a single path, or a path for each of several values. With `has_value` a leaf's
    /// value follows the path.
    pub fn paths(&mut self, words: &[Word], has_value: bool) -> Result<Vec<Path>, ConfigError> {
        let schema = self.schema;
        let (mut rest, mut id, mut path) = (words, ROOT, Path::new());
        let trail = std::mem::take(&mut self.trail);
        while let Some((name, after)) = rest.split_first() {
            let parent = id;
            id = self.child(parent, name)?;
            let def = &schema.index[id];
            path.push(def.name.clone());
            self.trail.push(def.name.clone());
            rest = after;
            match &def.kind {
                Kind::Container { .. } => {}
                Kind::List { .. } => {
                    let (_, leaves) = self.key(name, rest, id)?;
                    rest = &rest[leaves.len()..];
                    path.extend(leaves.into_iter().map(|leaf| leaf.text));
                }
                Kind::Leaf => {
                    if schema.index[parent].keys().contains(&def.name) {
                        return Err(self.error(name.place, format!("`{}` names its entry", name.text)));
                    }
                    if let Some(extra) = rest.get(usize::from(has_value)) {
                        return Err(self.error(extra.place, format!("there is nothing in `{}`", name.text)));
                    }
                    break;
                }
                Kind::Values { .. } => {
                    if rest.is_empty() {
                        break;
                    }
                    let of = |word: &Word| {
                        let value = self.value(word, id)?.text;
                        Ok(path.iter().cloned().chain([value]).collect())
                    };
                    let all = rest.iter().map(of).collect();
                    self.trail = trail;
                    return all;
                }
            }
        }
        self.trail = trail;
        Ok(vec![path])
    }

    /// Adds an inactive statement, or a part of an inactive statement, to a tree. Returns the paths.
    fn inactive(
        &mut self,
        tree: &mut Tree,
        (words, before): (&[Word], usize),
        inner: Option<&[Statement]>,
    ) -> Result<Vec<Path>, ConfigError> {
        let schema = self.schema;
        let index = &*schema.index;
        let above = self.paths(&words[..before], false)?.concat();
        let Some(name) = words.get(before) else {
            let place = words.last().map_or_else(Place::default, |word| word.place);
            return Err(self.error(place, format!("`{INACTIVE}` needs a statement behind it")));
        };
        let def = &index[self.child(index.definition(&above).0, name)?];
        let is_values = matches!(def.kind, Kind::Values { .. });
        let end = if is_values { words.len() } else { words.len().min(before + 1 + def.keys().len()) };
        let paths = self.paths(&words[..end], false)?;
        let trail = std::mem::take(&mut self.trail);
        for path in &paths {
            let known = Arc::make_mut(&mut tree.marks).inactive.entry(path.clone()).or_default();
            let root = Arc::make_mut(known);
            match is_values {
                true => self.statement(&as_words(path), None, ROOT, root)?,
                false => self.statement(words, inner, ROOT, root)?,
            }
        }
        self.trail = trail;
        Ok(paths)
    }

    /// Adds or removes the mark of a statement of steps. Returns false if the statement is no mark.
    pub(crate) fn step_mark(
        &mut self,
        tree: &mut Tree,
        words: &[Word],
        inner: Option<&[Statement]>,
        goes: bool,
    ) -> Result<bool, ConfigError> {
        match Pending::read(&self.schema.index, ROOT, &[], words, inner) {
            Some(Pending::Inactive { words, before, inner }) => {
                let mut scratch = Tree::empty();
                let paths = self.inactive(&mut scratch, (&words, before), inner.as_deref())?;
                let known = &mut Arc::make_mut(&mut tree.marks).inactive;
                match goes {
                    true => paths.iter().for_each(|path| drop(known.remove(path))),
                    false => known.extend(scratch.marks.inactive.clone()),
                }
            }
            Some(Pending::Note { words, text }) => {
                for path in self.paths(&words, false)? {
                    let notes = &mut Arc::make_mut(&mut tree.marks).notes;
                    match goes {
                        true => drop(notes.remove(&path)),
                        false => drop(notes.insert(path, text.text.as_str().into())),
                    }
                }
            }
            Some(Pending::Deactivated { .. }) | None => return Ok(false),
        }
        Ok(true)
    }

    /// Puts the marks of a text into a tree with every statement of the text.
    pub fn settle(&mut self, tree: &mut Tree, pending: Vec<Pending>) -> Result<(), ConfigError> {
        if pending.is_empty() && tree.marks.is_empty() {
            return Ok(());
        }
        let schema = self.schema;
        let index = &*schema.index;
        let mut new: Vec<(Path, Place)> = Vec::new();
        // An annotation may stand before the statement that it is about.
        let (notes, statements): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|mark| matches!(mark, Pending::Note { .. }));
        for mark in statements.into_iter().chain(notes) {
            match mark {
                Pending::Inactive { words, before, inner } => {
                    let place = words.get(before).map_or_else(Place::default, |word| word.place);
                    for path in self.inactive(tree, (&words, before), inner.as_deref())? {
                        if self.replaces && stands(index, &tree.root, &path) {
                            self.delete(&as_words(&path), ROOT, Arc::make_mut(&mut tree.root))?;
                            self.trail.clear();
                        }
                        new.push((path, place));
                    }
                }
                Pending::Deactivated { words } => schema.deactivate(self, tree, &words)?,
                Pending::Note { words, text } => schema.annotate(self, tree, &words, &text)?,
            }
        }
        // What was inactive before, and is set in the text, is in force.
        let is_new = |path: &Path| new.iter().any(|(other, _)| other == path);
        let both: Vec<Path> =
            tree.marks.inactive.keys().filter(|path| stands(index, &tree.root, path)).cloned().collect();
        for path in both {
            if is_new(&path) || !self.replaces {
                let place = new.iter().find(|(other, _)| *other == path).map_or_else(Place::default, |n| n.1);
                return Err(self.error(place, format!("`{}` is in force and inactive", path.join(" "))));
            }
            Arc::make_mut(&mut tree.marks).inactive.remove(&path);
        }
        for (path, place) in &new {
            if let Some(above) =
                blocks_above(index, path).find(|above| !tree.marks.knows(index, &tree.root, above))
            {
                let missing =
                    format!("`{}` is in no block: there is no `{}`", path.join(" "), above.join(" "));
                return Err(self.error(*place, missing));
            }
        }
        Arc::make_mut(&mut tree.marks).prune(index, &tree.root);
        Ok(())
    }
}

impl Schema {
    /// The statements that make the part of a block at a path, without the marks.
    pub(crate) fn lines_of(&self, root: &Block, path: &[Arc<str>]) -> Vec<String> {
        let mut lines = Lines::new(&self.index, Secrets::Shown, &[]);
        lines.part(root, path);
        lines.out
    }

    /// Takes statements out of force.
    pub(crate) fn deactivate(
        &self,
        binder: &mut Binder<'_>,
        tree: &mut Tree,
        words: &[Word],
    ) -> Result<(), ConfigError> {
        let place = words.last().map_or_else(Place::default, |word| word.place);
        for path in binder.paths(words, false)? {
            if let Some(above) = tree.marks.inactive.keys().find(|marked| path.starts_with(marked)) {
                return Err(binder.error(place, format!("`{}` is inactive already", above.join(" "))));
            }
            let paths = match follow(&self.index, &tree.root, &path) {
                Spot::Missing(_) => {
                    return Err(
                        binder.error(place, format!("there is no `{}` to deactivate", path.join(" ")))
                    );
                }
                Spot::Item(_, Item::Values(values)) => values
                    .iter()
                    .map(|(value, _)| [path.as_slice(), std::slice::from_ref(value)].concat())
                    .collect(),
                _ => vec![path],
            };
            for path in paths {
                let mut piece = Tree::empty();
                for line in self.lines_of(&tree.root, &path) {
                    piece = self.edit(&piece, &line)?;
                }
                binder.trail.clear();
                binder.delete(&as_words(&path), ROOT, Arc::make_mut(&mut tree.root))?;
                Arc::make_mut(&mut tree.marks).inactive.insert(path, piece.root);
            }
        }
        binder.trail.clear();
        Ok(())
    }

    /// Puts inactive statements in force.
    pub(crate) fn activate(
        &self,
        binder: &mut Binder<'_>,
        tree: &mut Tree,
        words: &[Word],
    ) -> Result<(), ConfigError> {
        let place = words.last().map_or_else(Place::default, |word| word.place);
        for path in binder.paths(words, false)? {
            let marks = &tree.marks.inactive;
            if let Some(above) = marks.keys().find(|marked| path.starts_with(marked) && **marked != path) {
                let first = format!("`{}` is inactive: activate that first", above.join(" "));
                return Err(binder.error(place, first));
            }
            let is_list = self.index.is_leaf_list(&path);
            let meant: Vec<Path> =
                marks.keys().filter(|p| **p == path || is_list && p.starts_with(&path)).cloned().collect();
            if meant.is_empty() {
                return Err(binder.error(place, format!("`{}` is not inactive", path.join(" "))));
            }
            for path in meant {
                let Some(piece) = Arc::make_mut(&mut tree.marks).inactive.remove(&path) else { continue };
                let marks = std::mem::take(&mut tree.marks);
                for line in self.lines_of(&piece, &[]) {
                    *tree = self.edit(tree, &line)?;
                }
                tree.marks = marks;
            }
        }
        Ok(())
    }

    /// Puts a text to a statement, or takes it off if the text is empty.
    pub(crate) fn annotate(
        &self,
        binder: &mut Binder<'_>,
        tree: &mut Tree,
        words: &[Word],
        text: &Word,
    ) -> Result<(), ConfigError> {
        if words.is_empty() {
            return Err(binder.error(text.place, "`annotate` needs a path and a text in quotes"));
        }
        for path in binder.paths(words, false)? {
            if !tree.marks.knows(&self.index, &tree.root, &path) {
                let missing = format!("there is no `{}` to annotate", path.join(" "));
                return Err(binder.error(words[words.len() - 1].place, missing));
            }
            let notes = &mut Arc::make_mut(&mut tree.marks).notes;
            match text.text.is_empty() {
                true => drop(notes.remove(&path)),
                false => drop(notes.insert(path, text.text.as_str().into())),
            }
        }
        Ok(())
    }

    /// Deletes the inactive statements at a path, or below. Returns true if any were deleted.
    pub(crate) fn delete_marks(&self, tree: &mut Tree, paths: &[Path]) -> bool {
        let had = tree.marks.inactive.len();
        if tree.marks.is_empty() {
            return false;
        }
        let marks = Arc::make_mut(&mut tree.marks);
        paths.iter().for_each(|path| marks.forget(path));
        had != marks.inactive.len()
    }

    /// Has the marks of an entry go along to its new key.
    pub(crate) fn move_marks(
        &self,
        tree: &mut Tree,
        old: &Path,
        new: &Path,
        keeps: bool,
    ) -> Result<(), ConfigError> {
        let before = (*tree.marks).clone();
        let marks = Arc::make_mut(&mut tree.marks);
        if !keeps {
            marks.forget(old);
        }
        let moved = |path: &Path| [new.as_slice(), &path[old.len()..]].concat();
        for (path, text) in before.notes.iter().filter(|(path, _)| path.starts_with(old)) {
            marks.notes.insert(moved(path), text.clone());
        }
        let keys = self.index[self.index.definition(old).0].keys().len();
        for (path, piece) in before.inactive.iter().filter(|(path, _)| path.starts_with(old)) {
            let piece = Tree { root: piece.clone(), marks: Arc::default() };
            let to = written(&new[new.len() - keys..]);
            let piece = self.edit(&piece, &format!("rename {} to {to}", written(old)))?;
            marks.inactive.insert(moved(path), piece.root);
        }
        Ok(())
    }

    /// Returns the error of setting an inactive statement, and removes marks of removed statements.
    pub(crate) fn check_marks(
        &self,
        binder: &Binder<'_>,
        tree: &mut Tree,
        place: Place,
    ) -> Result<(), ConfigError> {
        if tree.marks.is_empty() {
            return Ok(());
        }
        if let Some(path) = tree.marks.inactive.keys().find(|path| stands(&self.index, &tree.root, path)) {
            let wrong = binder.error(place, format!("`{}` is inactive", path.join(" ")));
            return Err(wrong.expecting("`activate` or `delete` of it first"));
        }
        Arc::make_mut(&mut tree.marks).prune(&self.index, &tree.root);
        Ok(())
    }
}
