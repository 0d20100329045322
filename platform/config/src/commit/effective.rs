//! The effective configuration: statements as written, inherited statements and defaults, with the source of each.

use crate::error::ConfigError;
use crate::schema::Schema;
use crate::schema::index::{Def, Id, Kind};
use crate::text::locate::{Found, Located};
use crate::text::quoted;
use crate::text::secrets::HIDDEN;
use crate::tree::key::key_words;
use crate::tree::{Block, Form, Item, Leaf, Tree};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// The source of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// The statement is written here.
    Own,
    /// An entry of another list: the list and the key.
    Entry(Arc<str>, Arc<str>),
    /// The schema.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Own => f.write_str("own"),
            Source::Entry(list, key) => write!(f, "{list} {key}"),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A block with effective statements, or such a statement.
enum Row {
    Block { words: Vec<Arc<str>>, rows: Vec<Row> },
    Statement { name: Arc<str>, values: Vec<Arc<str>>, source: Source },
}

/// A block that the configuration or another entry has in a place.
#[derive(Clone)]
struct Layer<'t> {
    source: Source,
    block: &'t Block,
}

impl Schema {
    /// Returns the effective statements inside a path, in curly braces. A comment names the source of a value that is not written there.
    pub fn effective_text(&self, tree: &Tree, path: &[String]) -> Result<String, ConfigError> {
        let (_, rows) = self.effective(tree, path)?;
        let mut out = String::new();
        write(&rows, "", &mut out);
        Ok(out)
    }

    /// Returns the effective statements inside a path: an array of the path, the values, and the source of each.
    pub fn effective_json(&self, tree: &Tree, path: &[String]) -> Result<Value, ConfigError> {
        let (trail, rows) = self.effective(tree, path)?;
        let mut found = Vec::new();
        list(&rows, &trail, &mut found);
        Ok(Value::Array(found))
    }

    fn effective(&self, tree: &Tree, path: &[String]) -> Result<(Vec<Arc<str>>, Vec<Row>), ConfigError> {
        let Located { id, trail, found } = self.locate(tree, path)?;
        let nothing = Block::default();
        let block = match found {
            Found::Block(block) => block,
            _ => &nothing,
        };
        let mut layers = vec![Layer { source: Source::Own, block }];
        let words = self.index[id].keys().len() + 1;
        if let Some(list) = &self.index[id].inherits_from
            && let Some(above) = path.len().checked_sub(words)
            && let Found::Block(parent) = self.locate(tree, &path[..above])?.found
        {
            layers.extend(inherited(list, block, parent));
        }
        Ok((trail, self.rows(id, &layers)))
    }

    /// Returns the effective statements of a block. Earlier layers hide later ones.
    fn rows(&self, id: Id, layers: &[Layer<'_>]) -> Vec<Row> {
        let index = &*self.index;
        let nothing = Block::default();
        let own = layers.first().map_or(&nothing, |layer| layer.block);
        let effective = index.effective(id, own);
        let is_shown = |child: &Id| {
            let name = &index[*child].name;
            !index[id].keys().contains(name)
                && (effective.contains(child) || layers.iter().any(|layer| layer.block.get(name).is_some()))
        };
        let mut rows = Vec::new();
        for child in index[id].children.iter().copied().filter(is_shown) {
            let def = &index[child];
            let written = layers.iter().find_map(|l| Some((&l.source, l.block.get(&def.name)?)));
            match (&def.kind, written) {
                (Kind::Leaf | Kind::Values { .. }, written) => rows.extend(statement(def, written)),
                (Kind::Container { presence }, written) => {
                    if *presence && written.is_none() {
                        continue;
                    }
                    let blocks = layers.iter().filter_map(|layer| match layer.block.get(&def.name)? {
                        Item::Container(block) => Some(Layer { source: layer.source.clone(), block }),
                        _ => None,
                    });
                    let blocks: Vec<Layer<'_>> = blocks.collect();
                    let inside = self.rows(child, &blocks);
                    if *presence || !inside.is_empty() {
                        rows.push(Row::Block { words: vec![def.name.clone()], rows: inside });
                    }
                }
                (Kind::List { .. }, Some((source, Item::List(entries)))) => {
                    for (key, block) in entries.iter() {
                        let mut layers = vec![Layer { source: source.clone(), block }];
                        if let Some(list) = &def.inherits_from {
                            layers.extend(inherited(list, block, own));
                        }
                        let words = std::iter::once(def.name.clone());
                        let words = words.chain(key_words(key).map(Arc::from)).collect();
                        rows.push(Row::Block { words, rows: self.rows(child, &layers) });
                    }
                }
                (Kind::List { .. }, _) => {}
            }
        }
        rows
    }
}

/// Returns the entry from which an entry inherits.
fn inherited<'t>(list: &Arc<str>, entry: &Block, parent: &'t Block) -> Option<Layer<'t>> {
    let key = &entry.leaf(list)?.text;
    match parent.get(list)? {
        Item::List(entries) => {
            let block = entries.get(key)?;
            Some(Layer { source: Source::Entry(list.clone(), key.clone()), block })
        }
        _ => None,
    }
}

/// Returns the statement of a leaf or leaf-list; `None` without a value.
fn statement(def: &Def, written: Option<(&Source, &Item)>) -> Option<Row> {
    let shown = |text: &Arc<str>| if def.is_secret { Arc::from(HIDDEN) } else { text.clone() };
    let text = |leaf: &Leaf| (leaf.form != Form::Empty).then(|| shown(&leaf.text));
    let (source, values) = match written {
        Some((source, Item::Leaf(leaf))) => (source.clone(), text(leaf).into_iter().collect()),
        Some((source, Item::Values(values))) => {
            (source.clone(), values.iter().map(|(value, _)| shown(value)).collect())
        }
        _ if def.defaults.is_empty() => return None,
        _ => (Source::Default, def.defaults.iter().filter_map(text).collect()),
    };
    Some(Row::Statement { name: def.name.clone(), values, source })
}

fn write(rows: &[Row], margin: &str, out: &mut String) {
    for row in rows {
        match row {
            Row::Block { words, rows } => {
                let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
                let head = words.join(" ");
                if rows.is_empty() {
                    out.push_str(&format!("{margin}{head};\n"));
                    continue;
                }
                out.push_str(&format!("{margin}{head} {{\n"));
                write(rows, &format!("{margin}    "), out);
                out.push_str(&format!("{margin}}}\n"));
            }
            Row::Statement { name, values, source } => {
                let all: Vec<_> = values.iter().map(|value| quoted(value)).collect();
                let values = match all.as_slice() {
                    [] => String::new(),
                    [one] => format!(" {one}"),
                    all => format!(" [ {} ]", all.join(" ")),
                };
                let comment = match source {
                    Source::Own => String::new(),
                    source => format!("  # {source}"),
                };
                out.push_str(&format!("{margin}{name}{values};{comment}\n"));
            }
        }
    }
}

fn list(rows: &[Row], trail: &[Arc<str>], found: &mut Vec<Value>) {
    for row in rows {
        match row {
            Row::Block { words, rows } => list(rows, &[trail, words].concat(), found),
            Row::Statement { name, values, source } => {
                let path = [trail, std::slice::from_ref(name)].concat().join(" ");
                let values: Vec<&str> = values.iter().map(|value| &**value).collect();
                found.push(json!({ "path": path, "values": values, "from": source.to_string() }));
            }
        }
    }
}
