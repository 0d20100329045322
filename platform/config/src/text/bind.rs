//! Binds statements to a tree: every word finds its definition, every error its place.

use super::pending_marks::Pending;
use super::secrets::HIDDEN;
use crate::error::{ConfigError, ConfigErrors, Fault, Place, nearest, translated};
use crate::schema::Schema;
use crate::schema::index::{Def, Id, Kind, ROOT};
use crate::text::{self, Statement, Word};
use crate::tree::entries::Entries;
use crate::tree::key::{Key, join_key};
use crate::tree::{Block, Item, Leaf};
use std::sync::Arc;

/// Puts statements into a tree.
pub(crate) struct Binder<'a> {
    pub schema: &'a Schema,
    pub file: &'a str,
    pub text: &'a str,
    /// True if a statement replaces statements excluded by its presence (RFC 7950, section 7.9); statements of a single
    /// text must not exclude each other.
    pub replaces: bool,
    /// The names and keys from the top to where we are.
    pub trail: Vec<Arc<str>>,
    /// The errors so far.
    pub errors: Vec<ConfigError>,
    /// The number of errors that ends the reading.
    pub most: usize,
    /// A data path to locate, and the nearest place found so far with the number of matching words.
    sought: Option<(Vec<Arc<str>>, usize, Place)>,
    /// Inactive statements and annotations.
    pub pending: Vec<Pending>,
}

impl Schema {
    /// Returns a fault of a tree read from `text` as an error with its place.
    pub(crate) fn placed(&self, file: &str, text: &str, fault: Fault) -> ConfigError {
        let place = Binder::new(self, file, text).place_of(fault.path);
        let error = ConfigError::new(file, text, place, fault.message);
        match fault.expected {
            Some(expected) => error.expecting(expected),
            None => error,
        }
    }
}

/// A statement in its parent's block.
#[derive(Clone, Copy)]
struct Said<'s> {
    /// Its first word.
    name: &'s Word,
    /// The words behind that.
    rest: &'s [Word],
    /// The block in braces, if there is one.
    inner: Option<&'s [Statement]>,
}

impl<'a> Binder<'a> {
    pub fn new(schema: &'a Schema, file: &'a str, text: &'a str) -> Self {
        Binder {
            schema,
            file,
            text,
            replaces: false,
            trail: Vec::new(),
            errors: Vec::new(),
            most: 1,
            sought: None,
            pending: Vec::new(),
        }
    }

    pub fn error(&self, place: Place, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.file, self.text, place, message)
    }

    pub fn block(&mut self, statements: &[Statement], def: Id, block: &mut Block) -> Result<(), ConfigError> {
        let depth = self.trail.len();
        for statement in statements {
            if let Err(error) = self.statement(&statement.words, statement.block.as_deref(), def, block) {
                if self.errors.len() + 1 >= self.most {
                    return Err(error);
                }
                self.errors.push(error);
                self.trail.truncate(depth);
            }
        }
        Ok(())
    }

    /// Puts a statement into a block of a definition.
    pub fn statement(
        &mut self,
        words: &[Word],
        inner: Option<&[Statement]>,
        def: Id,
        block: &mut Block,
    ) -> Result<(), ConfigError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        if let Some(mark) = Pending::read(&self.schema.index, def, &self.trail, words, inner) {
            self.pending.push(mark);
            return Ok(());
        }
        let said = Said { name, rest, inner };
        let index = &self.schema.index;
        let id = self.child(def, name)?;
        let depth = self.trail.len();
        self.trail.push(index[id].name.clone());
        self.note(name.place);
        if self.replaces && !index[def].body.choices.is_empty() {
            for rival in index[def].body.rivals(id) {
                block.remove(&index[rival].name);
            }
        }
        match &index[id].kind {
            Kind::Container { .. } => self.container(said, id, block)?,
            Kind::List { .. } => self.entry(said, id, block)?,
            Kind::Leaf => self.leaf(said, def, id, block)?,
            Kind::Values { .. } => self.values(said, id, block)?,
        }
        self.trail.truncate(depth);
        Ok(())
    }

    fn container(&mut self, said: Said<'_>, id: Id, block: &mut Block) -> Result<(), ConfigError> {
        let def = &self.schema.index[id];
        let item = block.item(&def.name, || Item::Container(Arc::default()));
        if let Item::Container(container) = item {
            let container = Arc::make_mut(container);
            self.inside(said, id, container)?;
            if def.is_plain_container() && container.is_empty() {
                block.remove(&def.name);
            }
        }
        Ok(())
    }

    fn entry(&mut self, said: Said<'_>, id: Id, block: &mut Block) -> Result<(), ConfigError> {
        let def = &self.schema.index[id];
        let (key, leaves) = self.key(said.name, said.rest, id)?;
        self.trail.extend(leaves.iter().map(|leaf| leaf.text.clone()));
        self.note(said.rest.first().map_or(said.name.place, |word| word.place));
        let inside = Said { rest: &said.rest[leaves.len()..], ..said };
        let item = block.item(&def.name, || Item::List(Entries::new(def.is_listed())));
        let Item::List(entries) = item else { return Ok(()) };
        if !self.replaces
            && self.sought.is_none()
            && said.inner.is_some()
            && inside.rest.is_empty()
            && entries.get(&key).is_some()
        {
            return Err(self.twice(said.name, "has a block"));
        }
        let make = || {
            let mut block = Block::default();
            for (name, leaf) in def.keys().iter().zip(leaves) {
                block.item(name, || Item::Leaf(leaf));
            }
            Arc::new(block)
        };
        if let Some(entry) = entries.entry(&key, make) {
            self.inside(inside, id, Arc::make_mut(entry))?;
        }
        Ok(())
    }

    fn leaf(&mut self, said: Said<'_>, parent: Id, id: Id, block: &mut Block) -> Result<(), ConfigError> {
        let index = &self.schema.index;
        let def = &index[id];
        self.no_block(said, def)?;
        let Said { name, rest, .. } = said;
        let leaf = match rest {
            [value] => self.value(value, id)?,
            [] => def.flag.clone().ok_or_else(|| {
                self.error(name.place, format!("`{}` needs a value", name.text)).expecting(&def.expects)
            })?,
            [_, extra, ..] => {
                return Err(self
                    .error(extra.place, format!("`{}` takes one value", name.text))
                    .expecting("`;`"));
            }
        };
        if index[parent].keys().contains(&def.name) {
            if block.leaf(&def.name).is_some_and(|written| *written != leaf) {
                let place = rest.first().map_or(name.place, |word| word.place);
                let wrong = format!("`{}` names its entry and cannot be another here", name.text);
                return Err(self.error(place, wrong));
            }
            return Ok(());
        }
        if !self.replaces && self.sought.is_none() && block.leaf(&def.name).is_some() {
            return Err(self.twice(name, "is set"));
        }
        block.put(&def.name, Item::Leaf(leaf));
        Ok(())
    }

    /// Returns the error of a repeated statement: within a text the last statement would win in silence.
    fn twice(&self, name: &Word, verb: &str) -> ConfigError {
        let path = self.trail.join(" ");
        let first = self.place_of(self.trail.clone());
        self.error(name.place, format!("`{path}` {verb} twice, first in line {}", first.line))
            .expecting("one of them")
    }

    /// Returns the place where the text speaks of a path first.
    fn place_of(&self, path: Vec<Arc<str>>) -> Place {
        let start = Place { line: 1, column: 1, length: 1 };
        let Ok(statements) = text::parse(self.file, self.text) else { return start };
        let mut binder = Binder::new(self.schema, self.file, self.text);
        binder.sought = Some((path, 0, start));
        // Past the errors that were found before the one whose place this is.
        binder.most = ConfigErrors::MOST + 1;
        // It was bound before, up to the place after this one at least.
        let _ = binder.block(&statements, ROOT, &mut Block::default());
        binder.sought.map_or(start, |(_, _, place)| place)
    }

    fn values(&mut self, said: Said<'_>, id: Id, block: &mut Block) -> Result<(), ConfigError> {
        let def = &self.schema.index[id];
        self.no_block(said, def)?;
        let Said { name, rest, .. } = said;
        if rest.is_empty() {
            let short = self.error(name.place, format!("`{}` needs values", name.text));
            return Err(short.expecting(&def.expects));
        }
        for word in rest {
            let leaf = self.value(word, id)?;
            self.trail.push(leaf.text.clone());
            self.note(word.place);
            self.trail.pop();
            if let Item::Values(values) =
                block.item(&def.name, || Item::Values(Entries::new(def.is_listed())))
            {
                values.entry(&leaf.text, || leaf.form);
            }
        }
        Ok(())
    }

    fn no_block(&self, Said { name, inner, .. }: Said<'_>, def: &Def) -> Result<(), ConfigError> {
        let Some(inner) = inner else { return Ok(()) };
        let place = inner.first().and_then(|s| s.words.first()).map_or(name.place, |w| w.place);
        let wrong = self.error(place, format!("`{}` is a value, not a block", name.text));
        Err(wrong.expecting(format!("`{} {};`", name.text, def.expects)))
    }

    /// Reads the rest behind a container's name or a list's keys: a block, more words, or the end.
    fn inside(&mut self, said: Said<'_>, id: Id, block: &mut Block) -> Result<(), ConfigError> {
        let Said { name, rest, inner } = said;
        match (rest, inner) {
            ([], Some(inner)) => self.block(inner, id, block),
            ([], None) if !self.schema.index[id].is_plain_container() => Ok(()),
            ([], None) => {
                let short = self.error(name.place, format!("`{}` is incomplete", name.text));
                Err(short.expecting(format!("`{{` with {}", one_of(&self.schema.index[id]))))
            }
            (rest, inner) => self.statement(rest, inner, id, block),
        }
    }

    /// The definition that a word names.
    pub fn child(&self, def: Id, word: &Word) -> Result<Id, ConfigError> {
        let def = &self.schema.index[def];
        def.child(&word.text).ok_or_else(|| {
            let context = match self.trail.as_slice() {
                [] => String::new(),
                trail => format!(" in `{}`", trail.join(" ")),
            };
            self.error(word.place, format!("unknown statement `{}`{context}", word.text))
                .expecting(one_of(def))
                .hinting(nearest(&word.text, def.names()))
        })
    }

    /// The key of an entry, and its leaves, from the words after the list's name.
    pub fn key(&self, name: &Word, rest: &[Word], id: Id) -> Result<(Key, Vec<Leaf>), ConfigError> {
        let def = &self.schema.index[id];
        let keys = def.keys();
        if rest.len() < keys.len() {
            let missing = self.error(name.place, format!("`{}` needs its key", name.text));
            return Err(missing.expecting(format!("`{} {}`", name.text, keys.join(" ").to_uppercase())));
        }
        let mut leaves = Vec::with_capacity(keys.len());
        for (key, word) in keys.iter().zip(rest) {
            leaves.push(self.value(word, def.child(key).unwrap_or(id))?);
        }
        let key = match leaves.as_slice() {
            [leaf] => leaf.text.clone(),
            leaves => join_key(leaves.iter().map(|leaf| &*leaf.text)),
        };
        Ok((key, leaves))
    }

    /// A word as a value of a leaf or leaf-list.
    pub fn value(&self, word: &Word, id: Id) -> Result<Leaf, ConfigError> {
        let def = &self.schema.index[id];
        if def.is_secret && word.text == HIDDEN {
            let hidden = format!("`{HIDDEN}` only stands for a secret that is not shown");
            return Err(self.error(word.place, hidden).expecting("the secret itself"));
        }
        match self.schema.yang.canonical(id, &word.text) {
            Ok((text, form)) => Ok(Leaf { text: text.into(), form }),
            Err(reason) => {
                let reason = translated(reason.to_string().lines().next().unwrap_or_default());
                // A module's own message may say the expected text better than the type's name.
                let own = reason.as_deref().and_then(|reason| reason.strip_prefix("expected "));
                let expected = own.filter(|_| !def.is_secret).unwrap_or(&def.expects).to_owned();
                let words = match reason {
                    _ if own.is_some() => String::new(),
                    _ if def.is_secret => ": it does not fit".into(),
                    Some(reason) => format!(": {reason}"),
                    None => String::new(),
                };
                let shown = if def.is_secret { HIDDEN } else { &word.text };
                let mut wrong = self.error(word.place, format!("`{shown}` is not valid here{words}"));
                if def.is_secret {
                    // The line shows it.
                    wrong.source_line = "".into();
                }
                Err(wrong.expecting(expected))
            }
        }
    }

    /// Remembers a place if the place is nearer to the sought path than any before.
    fn note(&mut self, place: Place) {
        if let Some((path, depth, found)) = &mut self.sought
            && self.trail.len() > *depth
            && path.starts_with(&self.trail)
        {
            (*depth, *found) = (self.trail.len(), place);
        }
    }
}

fn one_of(def: &Def) -> String {
    match def.names().collect::<Vec<_>>().as_slice() {
        [] => "nothing".into(),
        [one] => format!("`{one}`"),
        many => format!("one of {}", many.join(", ")),
    }
}
