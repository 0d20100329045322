//! Statements to a validated tree: every word finds its schema node, every error its place.

use crate::error::{ConfigError, Place};
use crate::schema::Schema;
use crate::text::{self, Statement, Word};
use serde_json::Value;
use std::collections::BTreeMap;
use yang5::data::{Data, DataFormat, DataPrinterFlags, DataTree, DataValidationFlags};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

/// A valid configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The text that it was read from.
    pub text: String,
    /// The whole tree as JSON, module names left out, defaults filled in.
    pub tree: Value,
}

impl Config {
    /// The part of the tree at a path of containers; `None` if it is not configured.
    pub fn part(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(&self.tree, |value, name| value.get(name))
    }
}

struct Binder<'a> {
    file: &'a str,
    text: &'a str,
    tree: DataTree<'a>,
    /// Where each data path was written, for what only the whole tree can show to be wrong.
    places: BTreeMap<String, Place>,
}

impl Schema {
    /// Reads a configuration text; `file` is the name used in errors.
    pub fn read(&self, file: &str, text: &str) -> Result<Config, ConfigError> {
        let statements = text::parse(file, text)?;
        let mut binder = Binder { file, text, tree: DataTree::new(&self.context), places: BTreeMap::new() };
        let top = self.top();
        binder.block(&statements, &top, "", &[])?;
        binder.finish()
    }
}

impl<'a> Binder<'a> {
    fn error(&self, place: Place, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.file, self.text, place, message)
    }

    fn block(
        &mut self,
        statements: &[Statement],
        nodes: &[SchemaNode<'a>],
        path: &str,
        names: &[String],
    ) -> Result<(), ConfigError> {
        for statement in statements {
            self.statement(&statement.words, statement.block.as_deref(), nodes, path, names)?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        words: &[Word],
        block: Option<&[Statement]>,
        nodes: &[SchemaNode<'a>],
        path: &str,
        names: &[String],
    ) -> Result<(), ConfigError> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        let Some(node) = nodes.iter().find(|n| n.name() == name.text) else {
            return Err(self.unknown(name, nodes, names));
        };
        let mut path = step(path, node);
        let mut names = names.to_vec();
        names.push(name.text.clone());
        match node.kind() {
            SchemaNodeKind::Container => {
                if node.is_np_container() {
                    self.note(&path, name.place);
                } else {
                    self.create(&path, None, name, None)?;
                }
                self.inside(rest, block, node, &path, &names, name)
            }
            SchemaNodeKind::List => {
                let keys: Vec<SchemaNode<'a>> = node.list_keys().collect();
                if rest.len() < keys.len() {
                    let wanted: Vec<&str> = keys.iter().map(|k| k.name()).collect();
                    let missing = self.error(name.place, format!("`{}` needs its key", name.text));
                    return Err(missing.expecting(format!(
                        "`{} {}`",
                        name.text,
                        wanted.join(" ").to_uppercase()
                    )));
                }
                for (key, value) in keys.iter().zip(rest) {
                    let quote = if value.text.contains('\'') { '"' } else { '\'' };
                    path.push_str(&format!("[{}={quote}{}{quote}]", key.name(), value.text));
                }
                self.create(&path, None, rest.first().unwrap_or(name), keys.first())?;
                self.inside(&rest[keys.len()..], block, node, &path, &names, name)
            }
            SchemaNodeKind::Leaf => {
                if let Some(block) = block {
                    let place = block.first().and_then(|s| s.words.first()).map_or(name.place, |w| w.place);
                    let wrong = self.error(place, format!("`{}` is a single value, not a block", name.text));
                    return Err(wrong.expecting(format!("`{} {};`", name.text, type_words(node))));
                }
                match rest {
                    [value] => self.leaf(&path, value, node),
                    [] if is_flag(node) => self.create(&path, flag_value(node), name, Some(node)),
                    [] => Err(self
                        .error(name.place, format!("`{}` needs a value", name.text))
                        .expecting(type_words(node))),
                    [_, extra, ..] => Err(self
                        .error(extra.place, format!("`{}` takes one value", name.text))
                        .expecting("`;`")),
                }
            }
            SchemaNodeKind::LeafList => {
                for value in rest {
                    let path = format!("{path}[.='{}']", value.text);
                    self.create(&path, None, value, Some(node))?;
                }
                match rest.is_empty() {
                    true => Err(self
                        .error(name.place, format!("`{}` needs values", name.text))
                        .expecting(type_words(node))),
                    false => Ok(()),
                }
            }
            _ => Err(self.error(name.place, format!("`{}` cannot be configured", name.text))),
        }
    }

    /// What follows a container's name or a list's keys: a block, more words, or the end.
    fn inside(
        &mut self,
        rest: &[Word],
        block: Option<&[Statement]>,
        node: &SchemaNode<'a>,
        path: &str,
        names: &[String],
        name: &Word,
    ) -> Result<(), ConfigError> {
        let children = config_children(node);
        match (rest, block) {
            ([], Some(block)) => self.block(block, &children, path, names),
            ([], None) if node.kind() == SchemaNodeKind::List || !node.is_np_container() => Ok(()),
            ([], None) => {
                let short = self.error(name.place, format!("`{}` says nothing", name.text));
                Err(short.expecting(format!("`{{` with {}", one_of(&children))))
            }
            (rest, block) => self.statement(rest, block, &children, path, names),
        }
    }

    fn unknown(&self, word: &Word, nodes: &[SchemaNode<'_>], names: &[String]) -> ConfigError {
        let context = if names.is_empty() { String::new() } else { format!(" in `{}`", names.join(" ")) };
        self.error(word.place, format!("unknown statement `{}`{context}", word.text)).expecting(one_of(nodes))
    }

    fn note(&mut self, path: &str, place: Place) {
        self.places.entry(path.to_string()).or_insert(place);
    }

    fn leaf(&mut self, path: &str, value: &Word, node: &SchemaNode<'a>) -> Result<(), ConfigError> {
        self.create(path, Some(&value.text), value, Some(node))
    }

    fn create(
        &mut self,
        path: &str,
        value: Option<&str>,
        word: &Word,
        node: Option<&SchemaNode<'a>>,
    ) -> Result<(), ConfigError> {
        self.note(path, word.place);
        match self.tree.new_path(path, value, false) {
            Ok(_) => Ok(()),
            Err(e) => {
                let wrong =
                    self.error(word.place, format!("`{}` is not valid here: {}", word.text, words_of(&e)));
                Err(match node {
                    Some(node) => wrong.expecting(type_words(node)),
                    None => wrong,
                })
            }
        }
    }

    fn finish(mut self) -> Result<Config, ConfigError> {
        let flags = DataValidationFlags::NO_STATE | DataValidationFlags::PRESENT;
        if let Err(e) = self.tree.validate(flags) {
            let path = e.path.clone().unwrap_or_default();
            let place = self.place_of(&path);
            return Err(self.error(place, words_of(&e)));
        }
        let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_ALL;
        let json = self
            .tree
            .print_string(DataFormat::JSON, flags)
            .map_err(|e| self.error(Place::default(), words_of(&e)))?;
        let tree = serde_json::from_str(&json).map_err(|e| self.error(Place::default(), e.to_string()))?;
        Ok(Config { text: self.text.into(), tree: strip_modules(tree) })
    }

    /// The place of the nearest written node at or above a data path.
    fn place_of(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return *place;
            }
            match path.rfind(['/', '[']) {
                Some(0) | None => return Place { line: 1, column: 1, length: 1 },
                Some(cut) => path = &path[..cut],
            }
        }
    }
}

fn step(path: &str, node: &SchemaNode<'_>) -> String {
    format!("{path}/{}:{}", node.module().name(), node.name())
}

/// Children that an operator may write, those of choices taken out of them.
fn config_children<'a>(node: &SchemaNode<'a>) -> Vec<SchemaNode<'a>> {
    let mut found = Vec::new();
    for child in node.children() {
        match child.kind() {
            SchemaNodeKind::Choice | SchemaNodeKind::Case => found.extend(config_children(&child)),
            _ if child.is_config() => found.push(child),
            _ => {}
        }
    }
    found
}

fn is_flag(node: &SchemaNode<'_>) -> bool {
    matches!(node.leaf_type().map(|t| t.base_type()), Some(DataValueType::Empty | DataValueType::Bool))
}

fn flag_value(node: &SchemaNode<'_>) -> Option<&'static str> {
    match node.leaf_type().map(|t| t.base_type()) {
        Some(DataValueType::Bool) => Some("true"),
        _ => None,
    }
}

fn one_of(nodes: &[SchemaNode<'_>]) -> String {
    let mut names: Vec<&str> = nodes.iter().map(|n| n.name()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => "nothing".into(),
        [one] => format!("`{one}`"),
        many => format!("one of {}", many.join(", ")),
    }
}

fn type_words(node: &SchemaNode<'_>) -> String {
    let Some(kind) = node.leaf_type() else { return "a value".into() };
    match (kind.typedef_name(), kind.base_type()) {
        (Some(name), _) if !name.is_empty() => format!("a value of type {name}"),
        (_, DataValueType::Bool) => "true or false".into(),
        (_, DataValueType::Empty) => "nothing after it".into(),
        (_, base) => format!("a value of type {}", format!("{base:?}").to_lowercase()),
    }
}

/// What libyang says, in one line.
pub(crate) fn words_of(e: &yang5::Error) -> String {
    e.msg.clone().unwrap_or_else(|| e.to_string()).trim_end_matches('.').to_string()
}

fn strip_modules(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(name, value)| {
                    let name = name.split_once(':').map_or(name.clone(), |(_, local)| local.to_string());
                    (name, strip_modules(value))
                })
                .collect(),
        ),
        Value::Array(all) => Value::Array(all.into_iter().map(strip_modules).collect()),
        other => other,
    }
}
