//! What a path of words leads to in a tree, with errors about the words.

use super::bind::Binder;
use crate::error::{ConfigError, Place};
use crate::schema::Schema;
use crate::schema::index::{Id, Kind, ROOT};
use crate::text::Word;
use crate::tree::{Block, Item, Tree};
use std::sync::Arc;

/// The target of a path.
pub(crate) enum Found<'t> {
    Block(&'t Arc<Block>),
    Item(&'t Item),
    Nothing,
}

/// A place in the tree.
pub(crate) struct Located<'t> {
    pub id: Id,
    /// Names and keys from the top.
    pub trail: Vec<Arc<str>>,
    pub found: Found<'t>,
}

impl Schema {
    /// Follows a path of names and keys.
    pub(crate) fn locate<'t>(&self, tree: &'t Tree, path: &[String]) -> Result<Located<'t>, ConfigError> {
        let text = path.join(" ");
        let mut column = 1;
        let word = |part: &String| {
            let length = part.chars().count() as u32;
            let place = Place { line: 1, column, length };
            column += length + 1;
            Word { text: part.clone(), place }
        };
        let words: Vec<Word> = path.iter().map(word).collect();
        let mut binder = Binder::new(self, "path", &text);
        let (mut rest, mut id) = (words.as_slice(), ROOT);
        let mut found = Found::Block(&tree.root);
        while let Some((name, after)) = rest.split_first() {
            id = binder.child(id, name)?;
            let def = &self.index[id];
            binder.trail.push(def.name.clone());
            found = match found {
                Found::Block(block) => block.get(&def.name).map_or(Found::Nothing, Found::Item),
                _ => Found::Nothing,
            };
            rest = after;
            match def.kind {
                Kind::Container { .. } => {}
                Kind::List { .. } if rest.is_empty() => break,
                Kind::List { .. } => {
                    let (key, leaves) = binder.key(name, rest, id)?;
                    rest = &rest[leaves.len()..];
                    binder.trail.extend(leaves.into_iter().map(|leaf| leaf.text));
                    found = match found {
                        Found::Item(Item::List(entries)) => {
                            entries.get(&key).map_or(Found::Nothing, Found::Block)
                        }
                        _ => Found::Nothing,
                    };
                }
                Kind::Leaf | Kind::Values { .. } => {
                    if let Some(extra) = rest.first() {
                        return Err(binder.error(extra.place, format!("there is nothing in `{}`", name.text)));
                    }
                }
            }
            if let Found::Item(Item::Container(block)) = found {
                found = Found::Block(block);
            }
        }
        Ok(Located { id, trail: binder.trail, found })
    }
}
