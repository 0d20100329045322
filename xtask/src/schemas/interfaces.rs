//! The messages of all interfaces, with their comments, and the commands that print replies unchanged.

use crate::protos::{Protos, components};
use anyhow::{Context, Result};
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The interfaces of the platform and of all components.
pub(super) struct Interfaces {
    pool: DescriptorPool,
    /// Comments by the file's name and the path of the element in the file's description.
    comments: BTreeMap<(String, Vec<i32>), String>,
}

/// A command of a component's `commands.toml`.
#[derive(Deserialize)]
pub(super) struct Command {
    pub(super) words: String,
    /// Target, service and method.
    pub(super) call: String,
    /// The field with the rows.
    #[serde(default)]
    pub(super) rows: String,
    /// Replies come in pages, which are printed as one list.
    pub(super) page: Option<toml::Value>,
}

#[derive(Deserialize)]
struct Commands {
    #[serde(default, rename = "command")]
    commands: Vec<Command>,
}

impl Interfaces {
    /// Compiles all interfaces of the tree.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let set = Protos::compile(root)?.set;
        let mut comments = BTreeMap::new();
        for file in &set.file {
            for location in file.source_code_info.iter().flat_map(|info| &info.location) {
                let parts = [location.leading_comments(), location.trailing_comments()];
                let words = parts.iter().flat_map(|part| part.split_whitespace());
                let comment = words.collect::<Vec<_>>().join(" ");
                if !comment.is_empty() {
                    comments.insert((file.name().to_owned(), location.path.clone()), comment);
                }
            }
        }
        Ok(Interfaces { pool: DescriptorPool::from_file_descriptor_set(set)?, comments })
    }

    /// Returns the commands that print replies unchanged.
    pub(super) fn commands(&self, root: &Path) -> Result<Vec<Command>> {
        let mut all = Vec::new();
        for file in components(root)?.into_iter().map(|folder| folder.join("commands.toml")) {
            if file.exists() {
                let text = std::fs::read_to_string(&file)?;
                let read: Commands = toml::from_str(&text).with_context(|| file.display().to_string())?;
                all.extend(read.commands);
            }
        }
        Ok(all)
    }

    /// Finds a message by its full name.
    pub(super) fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name)
    }

    /// Returns the reply of a call `TARGET/PACKAGE.SERVICE/METHOD`.
    pub(super) fn reply(&self, call: &str) -> Result<MessageDescriptor> {
        let mut parts = call.split('/').skip(1);
        let found = parts.next().and_then(|service| self.pool.get_service_by_name(service));
        let method = parts.next().and_then(|name| found?.methods().find(|method| method.name() == name));
        Ok(method.with_context(|| format!("the method {call} is unknown"))?.output())
    }

    /// Returns the comment at a field, as the description of a member.
    pub(super) fn comment(&self, field: &FieldDescriptor) -> String {
        let key = (field.parent_file().name().to_owned(), field.path().to_vec());
        self.comments.get(&key).map(|comment| capitalized(comment)).unwrap_or_default()
    }
}

/// Returns a comment as the sentences of a description: without the last full stop, and with a capital at the beginning unless a list of
/// values begins there, as `up, down` or `program: frames`.
fn capitalized(comment: &str) -> String {
    let comment = comment.trim_end_matches('.');
    let first = comment.split(' ').next().unwrap_or_default();
    let is_word = first.trim_end_matches([';', '.']).chars().all(|c| c.is_ascii_lowercase());
    match comment.chars().next() {
        Some(c) if is_word => c.to_ascii_uppercase().to_string() + &comment[1..],
        _ => comment.to_owned(),
    }
}
