//! What a path of names and keys leads to in a tree.

use super::index::{Id, Index, Kind, ROOT};
use crate::tree::key::join_key;
use crate::tree::marks::{Marks, Path};
use crate::tree::{Block, Item};
use std::sync::Arc;

/// The target of a path.
pub(crate) enum Spot<'t> {
    Block(Id, &'t Block),
    Item(Id, &'t Item),
    /// A value of a leaf-list.
    Value(Id),
    /// No target; the number of words that lead to a block.
    Missing(usize),
}

/// Follows a path from the root of a tree.
pub(crate) fn follow<'t>(index: &Index, root: &'t Block, path: &[Arc<str>]) -> Spot<'t> {
    let (mut block, mut id, mut rest, mut depth) = (root, ROOT, path, 0);
    while let Some((name, after)) = rest.split_first() {
        let (Some(child), Some(item)) = (index[id].child(name), block.get(name)) else {
            return Spot::Missing(depth);
        };
        (id, rest) = (child, after);
        match (item, rest) {
            (Item::Container(inner), _) => block = inner,
            (Item::Values(values), [value, ..]) => {
                return if values.get(value).is_some() { Spot::Value(id) } else { Spot::Missing(depth) };
            }
            (Item::List(entries), _) => {
                let Some((key, after)) = rest.split_at_checked(index[id].keys().len()) else {
                    return Spot::Item(id, item);
                };
                let Some(inner) = entries.get(&join_key(key.iter().map(|word| &**word))) else {
                    return Spot::Missing(depth);
                };
                (block, rest) = (inner, after);
            }
            (Item::Leaf(_) | Item::Values(_), _) => return Spot::Item(id, item),
        }
        depth = path.len() - rest.len();
    }
    Spot::Block(id, block)
}

/// Returns true if something stands at a path.
pub(crate) fn stands(index: &Index, root: &Block, path: &[Arc<str>]) -> bool {
    !matches!(follow(index, root, path), Spot::Missing(_))
}

/// Iterates over the blocks above a statement whose presence has a meaning: entries of lists, and presence containers.
pub(crate) fn blocks_above<'p>(
    index: &'p Index,
    path: &'p [Arc<str>],
) -> impl Iterator<Item = &'p [Arc<str>]> {
    let (mut id, mut at) = (Some(ROOT), 0);
    std::iter::from_fn(move || {
        loop {
            id = index[id?].child(path.get(at)?);
            let def = &index[id?];
            at += 1 + def.keys().len();
            if at >= path.len() || matches!(def.kind, Kind::Leaf | Kind::Values { .. }) {
                return None;
            }
            if !def.is_plain_container() {
                return Some(&path[..at]);
            }
        }
    })
}

impl Index {
    /// Returns the definition at a path, and the number of words up to the definition.
    pub(crate) fn definition(&self, path: &[Arc<str>]) -> (Id, usize) {
        let (mut id, mut at) = (ROOT, 0);
        while let Some(child) = path.get(at).and_then(|name| self[id].child(name)) {
            id = child;
            at += 1 + self[id].keys().len();
            if matches!(self[id].kind, Kind::Leaf | Kind::Values { .. }) {
                break;
            }
        }
        (id, at)
    }

    /// Returns true if a path leads to a whole leaf-list.
    pub(crate) fn is_leaf_list(&self, path: &[Arc<str>]) -> bool {
        let (id, length) = self.definition(path);
        matches!(self[id].kind, Kind::Values { .. }) && length == path.len()
    }

    /// The path of the block in which a statement stands.
    pub(crate) fn block_of<'p>(&self, path: &'p [Arc<str>]) -> &'p [Arc<str>] {
        let (mut id, mut at) = (ROOT, 0);
        loop {
            let Some(child) = path.get(at).and_then(|name| self[id].child(name)) else { return &path[..at] };
            let next = at + 1 + self[child].keys().len();
            if next >= path.len() || matches!(self[child].kind, Kind::Values { .. }) {
                return &path[..at];
            }
            (id, at) = (child, next);
        }
    }
}

impl Marks {
    /// Returns true if a statement is there, in force or not.
    pub fn knows(&self, index: &Index, root: &Block, path: &[Arc<str>]) -> bool {
        let within =
            |(marked, piece): (&Path, &Arc<Block>)| path.starts_with(marked) && stands(index, piece, path);
        stands(index, root, path) || self.inactive.iter().any(within)
    }

    /// Removes the marks of statements that are gone.
    pub fn prune(&mut self, index: &Index, root: &Block) {
        let orphans: Vec<Path> = self
            .inactive
            .keys()
            .filter(|path| !blocks_above(index, path).all(|above| self.knows(index, root, above)))
            .cloned()
            .collect();
        orphans.iter().for_each(|path| drop(self.inactive.remove(path)));
        let gone: Vec<Path> =
            self.notes.keys().filter(|path| !self.knows(index, root, path)).cloned().collect();
        gone.iter().for_each(|path| drop(self.notes.remove(path)));
    }
}
