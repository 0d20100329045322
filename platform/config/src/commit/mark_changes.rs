//! What differs between the marks of two trees.

use crate::schema::index::Index;
use crate::text::braces::Writer;
use crate::text::lines::inactive_lines;
use crate::text::quoted;
use crate::text::secrets::Secrets;
use crate::text::words::{ANNOTATE, written};
use crate::tree::marks::{Marks, Path};
use crate::tree::{Block, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The differences between the marks of two trees.
#[derive(Clone)]
pub(crate) struct MarkChanges {
    before: Arc<Marks>,
    after: Arc<Marks>,
    /// The root of the tree after.
    root: Arc<Block>,
    inactive: Vec<Path>,
    notes: Vec<Path>,
}

impl MarkChanges {
    pub fn between(before: &Tree, after: &Tree) -> Self {
        let (a, b) = (&before.marks, &after.marks);
        let (mut inactive, mut notes) = (Vec::new(), Vec::new());
        if !Arc::ptr_eq(a, b) {
            inactive = different(&a.inactive, &b.inactive);
            notes = different(&a.notes, &b.notes);
        }
        MarkChanges { before: a.clone(), after: b.clone(), root: after.root.clone(), inactive, notes }
    }

    /// Returns the changes at the paths for which `keep` returns true; all other marks are as before.
    pub fn restricted(&self, keep: &impl Fn(&[&str]) -> bool) -> Self {
        let is_kept = |path: &&Path| keep(&path.iter().map(|word| &**word).collect::<Vec<_>>());
        let (inactive, notes): (Vec<Path>, Vec<Path>) = (
            self.inactive.iter().filter(is_kept).cloned().collect(),
            self.notes.iter().filter(is_kept).cloned().collect(),
        );
        let after = Marks {
            inactive: taken(&self.before.inactive, &self.after.inactive, &inactive),
            notes: taken(&self.before.notes, &self.after.notes, &notes),
        };
        let (before, root) = (self.before.clone(), self.root.clone());
        MarkChanges { before, after: Arc::new(after), root, inactive, notes }
    }

    pub fn len(&self) -> usize {
        self.inactive.len() + self.notes.len()
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.inactive.iter().chain(&self.notes)
    }

    /// Returns the differences: `-` before removed lines, `+` before added lines, each with its whole path.
    pub fn text(&self, index: &Index, secrets: Secrets) -> String {
        let mut out = String::new();
        for (marks, margin) in [(&self.before, "-  "), (&self.after, "+  ")] {
            let mut writer = Writer::new(index, secrets);
            writer.margin = margin.into();
            for path in &self.inactive {
                if let Some(piece) = marks.inactive.get(path) {
                    writer.inactive(path, piece);
                }
            }
            out.push_str(&writer.out);
            for path in &self.notes {
                if let Some(text) = marks.notes.get(path) {
                    out.push_str(&format!("{margin}{ANNOTATE} {} {};\n", written(path), quoted(text)));
                }
            }
        }
        out
    }

    /// Returns the statements to delete removed or changed inactive statements. Their paths go into `lost`.
    pub fn deletions(&self, lost: &mut Vec<Path>) -> Vec<String> {
        let gone = self.inactive.iter().filter(|path| self.before.inactive.contains_key(*path));
        lost.extend(gone.clone().cloned());
        // The inner ones first: with an outer one they are gone already.
        gone.rev().map(|path| format!("delete {}", written(path))).collect()
    }

    /// Returns the statements to make new marks, and marks lost with a deleted statement on the way.
    pub fn additions(&self, index: &Index, lost: &[Path], secrets: Secrets) -> Vec<String> {
        let is_lost = |path: &Path| lost.iter().any(|lost| path.starts_with(lost));
        let mut out = Vec::new();
        for (path, piece) in &self.after.inactive {
            if self.before.inactive.get(path) != Some(piece) || is_lost(path) {
                out.append(&mut inactive_lines(index, path, piece, secrets));
            }
        }
        // The text of a statement that is gone is gone with it.
        let removed = self.notes.iter().filter(|path| !self.after.notes.contains_key(*path));
        for path in removed.filter(|path| self.after.knows(index, &self.root, path) && !is_lost(path)) {
            out.push(format!("{ANNOTATE} {} \"\"", written(path)));
        }
        for (path, text) in &self.after.notes {
            if self.before.notes.get(path) != Some(text) || is_lost(path) {
                out.push(format!("{ANNOTATE} {} {}", written(path), quoted(text)));
            }
        }
        out
    }
}

/// Returns `before` with the values of `after` at some of the keys.
fn taken<V: Clone>(
    before: &BTreeMap<Path, V>,
    after: &BTreeMap<Path, V>,
    keys: &[Path],
) -> BTreeMap<Path, V> {
    let mut map = before.clone();
    for key in keys {
        match after.get(key) {
            Some(value) => drop(map.insert(key.clone(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
    map
}

/// The keys under which two maps do not say the same.
fn different<V: PartialEq>(a: &BTreeMap<Path, V>, b: &BTreeMap<Path, V>) -> Vec<Path> {
    let all: BTreeSet<&Path> = a.keys().chain(b.keys()).collect();
    all.into_iter().filter(|path| a.get(*path) != b.get(*path)).cloned().collect()
}
