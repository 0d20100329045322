//! A tree as text, as statements, and as JSON.

use crate::bind::HIDDEN;
use crate::comments::{KeptComments, carry};
use crate::edit::{Found, Located};
use crate::entries::{Entries, Key, SEPARATOR};
use crate::error::ConfigError;
use crate::index::{Id, Index, ROOT};
use crate::marks::{ANNOTATE, Path, Placed, inactive_lines, written};
use crate::order::arrange;
use crate::schema::Schema;
use crate::spot::{Spot, follow};
use crate::text::quoted;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// True if secrets are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrets {
    /// As they are.
    Shown,
    /// As [`HIDDEN`](crate::HIDDEN).
    Hidden,
}

impl Schema {
    /// Returns the statements at a path of names and keys, in curly braces; for a container or an entry of a list, the statements inside.
    /// What is written for the empty path reads back to the same tree, if secrets are shown.
    pub fn text(&self, tree: &Tree, path: &[String], secrets: Secrets) -> Result<String, ConfigError> {
        let Located { id, found, trail } = self.locate(tree, path)?;
        let mut writer = Writer::new(&self.index, secrets);
        if !tree.marks.is_empty() {
            writer.placed = Some(Placed::of(&self.index, tree));
        }
        match found {
            Found::Block(block) => {
                writer.trail = trail;
                writer.block(id, block);
            }
            Found::Item(item) => {
                writer.trail = trail[..trail.len() - 1].to_vec();
                writer.item(id, item);
                let hosted = writer.placed.as_ref().map_or(Vec::new(), |p| p.inside(&writer.trail).to_vec());
                for path in hosted.iter().filter(|path| path.starts_with(&trail)) {
                    if let Some(piece) = tree.marks.inactive.get(path) {
                        writer.inactive(path, piece);
                    }
                }
            }
            Found::Nothing => {
                // What is inactive there is written with its whole path.
                let inactive = tree.marks.inactive.iter().filter(|(path, _)| path.starts_with(&trail));
                inactive.for_each(|(path, piece)| writer.inactive(path, piece));
            }
        }
        Ok(writer.out)
    }

    /// Returns the statements to make the content at a path, each in the form for [`Schema::edit`].
    pub fn set_lines(
        &self,
        tree: &Tree,
        path: &[String],
        secrets: Secrets,
    ) -> Result<Vec<String>, ConfigError> {
        let Located { id, trail, found } = self.locate(tree, path)?;
        let above = match found {
            Found::Item(_) => &trail[..trail.len() - 1],
            _ => &trail,
        };
        let mut lines = Lines::new(&self.index, secrets, above);
        match found {
            Found::Block(_) if id == ROOT => lines.block(ROOT, &tree.root),
            Found::Block(block) => lines.whole(id, block),
            Found::Item(item) => lines.item(id, item),
            Found::Nothing => {}
        }
        if !tree.marks.is_empty() {
            self.mark_lines(tree, &trail, secrets, &mut lines.out);
        }
        Ok(lines.out)
    }

    /// The statements that make the marks below a path.
    fn mark_lines(&self, tree: &Tree, trail: &[Arc<str>], secrets: Secrets, out: &mut Vec<String>) {
        for (path, piece) in tree.marks.inactive.iter().filter(|(path, _)| path.starts_with(trail)) {
            out.append(&mut inactive_lines(&self.index, path, piece, secrets));
        }
        for (path, text) in tree.marks.notes.iter().filter(|(path, _)| path.starts_with(trail)) {
            out.push(format!("{ANNOTATE} {} {}", written(path), quoted(text)));
        }
    }

    /// Returns the statements at a path as JSON (RFC 7951) without module names: an object for a block, an array of objects for a list.
    /// Null if there are none.
    pub fn json(&self, tree: &Tree, path: &[String], secrets: Secrets) -> Result<Value, ConfigError> {
        let Located { id, found, .. } = self.locate(tree, path)?;
        let json = Json { index: &self.index, secrets, fills: false, qualifies: false };
        Ok(match found {
            Found::Block(block) => json.block(id, block),
            Found::Item(item) => json.item(id, item),
            Found::Nothing => Value::Null,
        })
    }
}

/// Writes whole configurations, on any thread.
#[derive(Clone)]
pub struct Renderer(Arc<Index>);

impl Schema {
    /// Returns a writer of configurations for places where the schema cannot be taken along.
    pub fn renderer(&self) -> Renderer {
        Renderer(self.index.clone())
    }
}

impl Renderer {
    /// Writes a tree as [`Renderer::text`] does, with the statements in the order and with the comments of a text that says something
    /// similar. Comments of statements that come and go are in `kept`.
    pub fn text_like(&self, tree: &Tree, before: &str, kept: &mut KeptComments) -> String {
        carry(before, &arrange(&self.0, before, &self.text(tree)), kept)
    }

    /// Returns the text of [`Schema::text`] for the empty path, with secrets.
    pub fn text(&self, tree: &Tree) -> String {
        let mut writer = Writer::new(&self.0, Secrets::Shown);
        if !tree.marks.is_empty() {
            writer.placed = Some(Placed::of(&self.0, tree));
        }
        writer.block(ROOT, &tree.root);
        writer.out
    }
}

/// A value as it is written.
fn shown<'v>(index: &Index, id: Id, text: &'v str, secrets: Secrets) -> Cow<'v, str> {
    match index[id].is_secret && secrets == Secrets::Hidden {
        true => Cow::Owned(format!("\"{HIDDEN}\"")),
        false => quoted(text),
    }
}

/// The words of a key.
pub(crate) fn key_words(key: &Key) -> impl Iterator<Item = &str> + Clone {
    key.split(SEPARATOR)
}

/// The length from which lines are broken where values allow a break.
const WIDE: usize = 100;

/// Writes curly braces.
pub(crate) struct Writer<'a> {
    pub index: &'a Index,
    pub secrets: Secrets,
    /// The indentation of every line.
    pub margin: String,
    /// Names and keys to where we are.
    pub trail: Vec<Arc<str>>,
    /// Inactive statements and annotations.
    pub placed: Option<Placed>,
    pub out: String,
}

impl<'a> Writer<'a> {
    pub fn new(index: &'a Index, secrets: Secrets) -> Self {
        let (margin, out) = (String::new(), String::new());
        Writer { index, secrets, margin, trail: Vec::new(), placed: None, out }
    }
}

impl Writer<'_> {
    /// Writes the annotation of the statement under the current path and `words`.
    fn note<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        let Some(placed) = self.placed.as_ref().filter(|placed| !placed.marks.notes.is_empty()) else {
            return;
        };
        let words: Vec<Arc<str>> = words.map(Arc::from).collect();
        let path = [self.trail.as_slice(), &words].concat();
        if let Some(text) = placed.marks.notes.get(&path) {
            let line = format!("{ANNOTATE} {} {}", written(&words), quoted(text));
            self.line(&line, ";");
        }
    }

    /// An inactive statement, with its path from where we are.
    pub fn inactive(&mut self, path: &[Arc<str>], piece: &Block) {
        let placed = self.placed.take();
        let depth = self.trail.len();
        let notes = placed.iter().flat_map(|placed| placed.marks.notes.iter());
        let own =
            |noted: &Path| noted.starts_with(path) && !placed.iter().any(|p| p.marks.is_inner(path, noted));
        for (noted, text) in notes.filter(|(noted, _)| own(noted)) {
            let line = format!("{ANNOTATE} {} {}", written(&noted[depth..]), quoted(text));
            self.line(&line, ";");
        }
        let head = self.index.marked(path, depth);
        match follow(self.index, piece, path) {
            Spot::Block(id, block) => self.braces(&head, id, block),
            Spot::Item(id, Item::Leaf(leaf)) if leaf.form != Form::Empty => {
                let value = shown(self.index, id, &leaf.text, self.secrets);
                self.line(&format!("{head} {value}"), ";");
            }
            // A flag, or a value of a leaf-list, which is the last word of the path.
            Spot::Item(..) | Spot::Value(_) => self.line(&head, ";"),
            Spot::Missing(_) => {}
        }
        self.placed = placed;
    }

    fn line(&mut self, words: &str, end: &str) {
        self.out.push_str(&self.margin);
        self.out.push_str(words);
        self.out.push_str(end);
        self.out.push('\n');
    }

    /// Writes a block's statements, in the module's order.
    pub fn block(&mut self, id: Id, block: &Block) {
        let index = self.index;
        for child in &index[id].children {
            if let Some(item) = block.get(&index[*child].name)
                && !index[id].keys().contains(&index[*child].name)
            {
                self.item(*child, item);
            }
        }
        let Some(placed) = &self.placed else { return };
        let marks = placed.marks.clone();
        for path in placed.inside(&self.trail).to_vec() {
            if let Some(piece) = marks.inactive.get(&path) {
                self.inactive(&path, piece);
            }
        }
    }

    /// A statement, or all entries of a list.
    pub fn item(&mut self, id: Id, item: &Item) {
        let name = &self.index[id].name;
        self.note(std::iter::once(&**name));
        match item {
            Item::Leaf(leaf) if leaf.form == Form::Empty => self.line(name, ";"),
            Item::Leaf(leaf) => {
                let value = shown(self.index, id, &leaf.text, self.secrets);
                self.line(&format!("{name} {value}"), ";");
            }
            Item::Values(values) => self.values(id, values),
            Item::Container(block) => {
                self.trail.push(name.clone());
                self.braces(name, id, block);
                self.trail.pop();
            }
            Item::List(entries) => entries.iter().for_each(|(key, block)| self.entry(id, key, block)),
        }
    }

    /// An entry of a list.
    pub fn entry(&mut self, id: Id, key: &Key, block: &Block) {
        let mut head = self.index[id].name.to_string();
        for word in key_words(key) {
            head.push(' ');
            head.push_str(&quoted(word));
        }
        let name = &*self.index[id].name;
        self.note(std::iter::once(name).chain(key_words(key)));
        let depth = self.trail.len();
        self.trail.push(self.index[id].name.clone());
        self.trail.extend(key_words(key).map(Arc::from));
        self.braces(&head, id, block);
        self.trail.truncate(depth);
    }

    fn braces(&mut self, head: &str, id: Id, block: &Block) {
        let has_inactive = self.placed.as_ref().is_some_and(|p| !p.inside(&self.trail).is_empty());
        if block.items().count() == self.index[id].keys().len() && !has_inactive {
            return self.line(head, ";");
        }
        self.line(head, " {");
        let width = self.margin.len();
        self.margin.push_str("    ");
        self.block(id, block);
        self.margin.truncate(width);
        self.line("}", "");
    }

    fn values(&mut self, id: Id, values: &Entries<Form>) {
        let name = &self.index[id].name;
        values.iter().for_each(|(value, _)| self.note([&**name, &**value].into_iter()));
        let all: Vec<Cow<'_, str>> =
            values.iter().map(|(text, _)| shown(self.index, id, text, self.secrets)).collect();
        let width: usize = all.iter().map(|value| value.len() + 1).sum();
        match all.as_slice() {
            [one] => self.line(&format!("{name} {one}"), ";"),
            _ if self.margin.len() + name.len() + width < WIDE => {
                self.line(&format!("{name} [ {} ]", all.join(" ")), ";");
            }
            _ => {
                self.line(name, " [");
                all.iter().for_each(|value| self.line(&format!("    {value}"), ""));
                self.line("]", ";");
            }
        }
    }
}

/// Writes `set` statements.
pub(crate) struct Lines<'a> {
    index: &'a Index,
    secrets: Secrets,
    /// `set` and the path to where we are.
    path: String,
    pub out: Vec<String>,
}

impl<'a> Lines<'a> {
    pub fn new(index: &'a Index, secrets: Secrets, trail: &[Arc<str>]) -> Self {
        let mut lines = Lines { index, secrets, path: "set".into(), out: Vec::new() };
        lines.go(trail.iter().map(|word| &**word));
        lines
    }

    fn go<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        for word in words {
            self.path.push(' ');
            self.path.push_str(&quoted(word));
        }
    }

    fn block(&mut self, id: Id, block: &Block) {
        let index = self.index;
        for child in &index[id].children {
            if let Some(item) = block.get(&index[*child].name)
                && !index[id].keys().contains(&index[*child].name)
            {
                self.item(*child, item);
            }
        }
    }

    /// Writes a block that exists even if empty.
    fn whole(&mut self, id: Id, block: &Block) {
        if block.items().count() == self.index[id].keys().len() {
            self.out.push(self.path.clone());
        } else {
            self.block(id, block);
        }
    }

    /// Writes the statements at a path from the root of a tree.
    pub fn part(&mut self, root: &Block, path: &[Arc<str>]) {
        let above = &path[..path.len().saturating_sub(1)];
        match follow(self.index, root, path) {
            Spot::Block(ROOT, block) => self.block(ROOT, block),
            Spot::Block(id, block) => {
                self.go(path.iter().map(|word| &**word));
                self.whole(id, block);
            }
            Spot::Item(id, item) => {
                self.go(above.iter().map(|word| &**word));
                self.item(id, item);
            }
            Spot::Value(id) => {
                self.go(above.iter().map(|word| &**word));
                self.value(id, &path[above.len()]);
            }
            Spot::Missing(_) => {}
        }
    }

    /// Writes the item of a name in the present block.
    pub fn item(&mut self, id: Id, item: &Item) {
        let (length, name) = (self.path.len(), &self.index[id].name);
        self.go(std::iter::once(&**name));
        match item {
            Item::Leaf(leaf) if leaf.form == Form::Empty => self.out.push(self.path.clone()),
            Item::Leaf(leaf) => self.value(id, &leaf.text),
            Item::Values(values) => values.iter().for_each(|(text, _)| self.value(id, text)),
            Item::Container(block) => self.whole(id, block),
            Item::List(entries) => {
                self.path.truncate(length);
                entries.iter().for_each(|(key, block)| self.entry(id, key, block));
            }
        }
        self.path.truncate(length);
    }

    /// An entry of a list in the block where we are.
    pub fn entry(&mut self, id: Id, key: &Key, block: &Block) {
        let length = self.path.len();
        self.go(std::iter::once(&*self.index[id].name).chain(key_words(key)));
        self.whole(id, block);
        self.path.truncate(length);
    }

    fn value(&mut self, id: Id, text: &str) {
        self.out.push(format!("{} {}", self.path, shown(self.index, id, text, self.secrets)));
    }
}

/// Makes JSON.
pub(crate) struct Json<'a> {
    pub index: &'a Index,
    pub secrets: Secrets,
    /// True if defaults are filled in.
    pub fills: bool,
    /// True if names are qualified with their modules, for libyang.
    pub qualifies: bool,
}

impl Json<'_> {
    /// A block as an object.
    pub fn block(&self, id: Id, block: &Block) -> Value {
        let mut members = Map::new();
        let mut add = |child: Id, value: Value| {
            let def = &self.index[child];
            let name = match self.qualifies && def.module != self.index[id].module {
                true => format!("{}:{}", def.module, def.name),
                false => def.name.to_string(),
            };
            members.insert(name, value);
        };
        for child in &self.index[id].children {
            if let Some(item) = block.get(&self.index[*child].name) {
                add(*child, self.item(*child, item));
            }
        }
        if self.fills {
            for child in self.index.effective(id, block) {
                if block.get(&self.index[child].name).is_none()
                    && let Some(value) = self.default(child)
                {
                    add(child, value);
                }
            }
        }
        Value::Object(members)
    }

    /// Returns the item of a name.
    pub fn item(&self, id: Id, item: &Item) -> Value {
        match item {
            Item::Leaf(leaf) => self.value(id, leaf),
            Item::Values(values) => values
                .iter()
                .map(|(text, form)| self.value(id, &Leaf { text: text.clone(), form: *form }))
                .collect(),
            Item::Container(block) => self.block(id, block),
            Item::List(entries) => entries.iter().map(|(_, block)| self.block(id, block)).collect(),
        }
    }

    /// Returns the default of a member; `None` for a member that may be inherited.
    pub fn default(&self, id: Id) -> Option<Value> {
        let def = &self.index[id];
        if def.inherits {
            return None;
        }
        if def.is_plain_container() {
            let filled = self.block(id, &Block::default());
            return filled.as_object().is_some_and(|members| !members.is_empty()).then_some(filled);
        }
        match (def.defaults.as_slice(), matches!(def.kind, crate::index::Kind::Leaf)) {
            ([], _) => None,
            ([one, ..], true) => Some(self.value(id, one)),
            (all, false) => Some(all.iter().map(|leaf| self.value(id, leaf)).collect()),
        }
    }

    fn value(&self, id: Id, leaf: &Leaf) -> Value {
        if self.index[id].is_secret && self.secrets == Secrets::Hidden {
            return Value::from(HIDDEN);
        }
        match leaf.form {
            Form::Text => Value::from(&*leaf.text),
            Form::Number => leaf.text.parse::<i64>().map_or_else(|_| Value::from(&*leaf.text), Value::from),
            Form::Boolean => Value::from(&*leaf.text == "true"),
            Form::Empty => Value::Array(vec![Value::Null]),
        }
    }
}

impl Index {
    /// Returns the definitions that may have a value in a block: every definition except the alternatives not chosen.
    pub(crate) fn effective(&self, id: Id, block: &Block) -> Vec<Id> {
        let mut found = Vec::new();
        self.effective_case(&self[id].body, block, &mut found);
        found
    }

    fn effective_case(&self, case: &crate::index::Case, block: &Block, found: &mut Vec<Id>) {
        found.extend(&case.members);
        for choice in &case.choices {
            if let Some(active) = choice.active(self, block) {
                self.effective_case(active, block, found);
            }
        }
    }
}
