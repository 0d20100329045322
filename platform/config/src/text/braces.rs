//! A tree in curly braces.
use super::lines::shown;
use super::secrets::Secrets;
use super::words::{ANNOTATE, INACTIVE, written};
use crate::schema::index::{Id, Index};
use crate::schema::spot::{Spot, follow};
use crate::text::quoted;
use crate::tree::entries::Entries;
use crate::tree::key::{Key, key_words};
use crate::tree::marks::{Marks, Path};
use crate::tree::{Block, Form, Item, Tree};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// Inactive statements by the path of their block.
pub(crate) struct Placed {
    pub marks: Arc<Marks>,
    hosts: BTreeMap<Path, Vec<Path>>,
}

impl Placed {
    /// Finds the innermost block that is there for each inactive statement.
    pub fn of(index: &Index, tree: &Tree) -> Self {
        let mut hosts: BTreeMap<Path, Vec<Path>> = BTreeMap::new();
        for path in tree.marks.inactive.keys() {
            let depth = match follow(index, &tree.root, path) {
                Spot::Missing(depth) => depth,
                _ => 0,
            };
            hosts.entry(path[..depth].to_vec()).or_default().push(path.clone());
        }
        Placed { marks: tree.marks.clone(), hosts }
    }

    /// The inactive statements that are written in a block.
    pub fn inside(&self, block: &[Arc<str>]) -> &[Path] {
        self.hosts.get(block).map_or(&[], Vec::as_slice)
    }
}

impl Index {
    /// Returns an inactive statement's words behind the first `depth` of its path, as written.
    fn marked(&self, path: &[Arc<str>], depth: usize) -> String {
        let block = self.block_of(path).len().max(depth);
        let (above, own) = (written(&path[depth..block]), written(&path[block..]));
        let blank = if above.is_empty() { "" } else { " " };
        format!("{above}{blank}{INACTIVE} {own}")
    }
}
