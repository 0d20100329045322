//! `insert` moves an entry of a list, or a value of a leaf-list, whose order has a meaning.

use crate::error::ConfigError;
use crate::schema::index::{Id, Kind};
use crate::text::Word;
use crate::text::bind::Binder;
use crate::tree::key::Key;
use crate::tree::key::join_key;
use crate::tree::{Block, Item};
use std::sync::Arc;

/// The verb.
pub(crate) const INSERT: &str = "insert";
/// The form of the statement, for errors.
const FORM: &str = "`insert PATH KEY before KEY` or `insert PATH KEY after KEY`";

/// The new place of an entry.
#[derive(Clone, Copy)]
struct Target<'w> {
    /// The words of the neighbor's key.
    key: &'w [Word],
    /// True for the place behind the neighbor.
    is_after: bool,
}

impl Binder<'_> {
    /// Moves the entry or value at a path before or behind another one of the same list.
    pub fn insert(
        &mut self,
        verb: &Word,
        words: &[Word],
        def: Id,
        block: &mut Block,
    ) -> Result<(), ConfigError> {
        let side = words.iter().rposition(|word| matches!(word.text.as_str(), "before" | "after"));
        match side.filter(|at| *at > 0 && at + 1 < words.len()) {
            Some(at) => {
                let target = Target { key: &words[at + 1..], is_after: words[at].text == "after" };
                self.move_in(&words[..at], target, def, block)
            }
            None => {
                let short = "`insert` needs an entry, `before` or `after`, and the entry there";
                Err(self.error(verb.place, short).expecting(FORM))
            }
        }
    }

    fn move_in(
        &mut self,
        words: &[Word],
        target: Target<'_>,
        def: Id,
        block: &mut Block,
    ) -> Result<(), ConfigError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        let id = self.child(def, name)?;
        let own = &self.schema.index[id];
        self.trail.push(own.name.clone());
        let Some(item) = block.get_mut(&own.name) else {
            return Err(self.error(name.place, format!("there is no `{}`", self.trail.join(" "))));
        };
        match item {
            Item::Container(container) if !rest.is_empty() => {
                self.move_in(rest, target, id, Arc::make_mut(container))
            }
            Item::List(entries) => {
                let (key, leaves) = self.key(name, rest, id)?;
                let inside = &rest[leaves.len()..];
                if inside.is_empty() {
                    let there = self.neighbor(name, target, id)?;
                    self.check_order(name, id)?;
                    let is_moved = entries.move_beside(&key, &there, target.is_after);
                    return if is_moved { Ok(()) } else { Err(self.no_entry(target, &key, &there)) };
                }
                self.trail.extend(leaves.iter().map(|leaf| leaf.text.clone()));
                match entries.get(&key).is_some().then(|| entries.entry(&key, Arc::default)).flatten() {
                    Some(entry) => self.move_in(inside, target, id, Arc::make_mut(entry)),
                    None => Err(self.error(name.place, format!("there is no `{}`", self.trail.join(" ")))),
                }
            }
            Item::Values(values) => {
                let [word] = rest else {
                    let short = self.error(name.place, format!("`{}` needs one value here", name.text));
                    return Err(short.expecting(FORM));
                };
                let (value, there) = (self.value(word, id)?.text, self.neighbor(name, target, id)?);
                self.check_order(name, id)?;
                let is_moved = values.move_beside(&value, &there, target.is_after);
                if is_moved { Ok(()) } else { Err(self.no_entry(target, &value, &there)) }
            }
            Item::Container(_) | Item::Leaf(_) => {
                let wrong = self.error(name.place, format!("`{}` has no order", self.trail.join(" ")));
                Err(wrong.expecting("an entry of a list, or a value of a leaf-list"))
            }
        }
    }

    /// Reads the key of the neighbor; the name of the list may precede the key.
    fn neighbor(&self, name: &Word, target: Target<'_>, id: Id) -> Result<Key, ConfigError> {
        let def = &self.schema.index[id];
        let length = def.keys().len().max(1);
        let words = match target.key {
            [list, key @ ..] if key.len() == length && list.text == *def.name => key,
            key => key,
        };
        if let Some(extra) = words.get(length) {
            return Err(self.error(extra.place, "nothing can stand behind the key").expecting(FORM));
        }
        match def.kind {
            Kind::List { .. } => {
                let (_, leaves) = self.key(name, words, id)?;
                Ok(join_key(leaves.iter().map(|leaf| &*leaf.text)))
            }
            _ => Ok(self.value(&words[0], id)?.text),
        }
    }

    fn check_order(&self, name: &Word, id: Id) -> Result<(), ConfigError> {
        if self.schema.index[id].is_listed() {
            return Ok(());
        }
        let wrong = format!("the order of `{}` has no meaning: its entries are sorted", name.text);
        Err(self.error(name.place, wrong))
    }

    /// Returns the error of a move to or from nowhere.
    fn no_entry(&self, target: Target<'_>, key: &Key, there: &Key) -> ConfigError {
        let place = target.key.last().map_or_else(Default::default, |word| word.place);
        let list = self.trail.join(" ");
        if key == there {
            return self.error(place, format!("`{key}` cannot stand beside itself"));
        }
        self.error(place, format!("`{list}` has no `{key}` or no `{there}`"))
            .expecting("two entries of the list")
    }
}
