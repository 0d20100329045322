//! A tree as text, as statements, and as JSON.

use super::braces::{Placed, Writer};
use super::comments::{KeptComments, carry};
use super::json::Json;
use super::lines::{Lines, inactive_lines};
use super::locate::{Found, Located};
use super::order::arrange;
use super::secrets::Secrets;
use super::words::{ANNOTATE, written};
use crate::error::ConfigError;
use crate::schema::Schema;
use crate::schema::index::{Index, ROOT};
use crate::text::quoted;
use crate::tree::Tree;
use serde_json::Value;
use std::sync::Arc;

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
    /// Writes a tree as [`Renderer::text`] does, with the statements in the order and with the comments of a text with similar contents
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
