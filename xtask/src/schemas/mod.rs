//! The JSON Schemas of the output of commands: made from the interfaces' descriptions and one file of data.
//!
//! A command of a component's `commands.toml` prints the reply of a call unchanged: the schema follows from the reply's message.
//! `docs/schemas.toml` has the documents with more or fewer members than a message, and names the schemas written by hand. The text
//! about a member is the comment at the field in the `.proto` file.

mod data;
mod interfaces;
mod objects;

use anyhow::{Context, Result, bail};
use data::Data;
use interfaces::Interfaces;
use objects::{Objects, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folder of the schemas.
const FOLDER: &str = "docs/schemas";
/// The file of data.
const DATA: &str = "docs/schemas.toml";
/// The dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Writes the schemas made from messages.
///
/// # Errors
///
/// An interface or the data cannot be read, or the data name something unknown.
pub(crate) fn write(root: &Path) -> Result<()> {
    for (name, text) in made(root, &read(root)?)? {
        let file = root.join(FOLDER).join(format!("{name}.json"));
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Returns the schemas that differ from messages and data, and files without a command.
///
/// # Errors
///
/// As of [`write`].
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let data = read(root)?;
    let mut expected = made(root, &data)?;
    let by_hand: BTreeSet<&str> = data.by_hand.iter().map(String::as_str).collect();
    let mut found = Vec::new();
    let mut missing = by_hand.clone();
    for entry in std::fs::read_dir(root.join(FOLDER))? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if by_hand.contains(name.as_str()) {
            missing.remove(name.as_str());
            if expected.contains_key(&name) {
                found.push(format!("{DATA}: {name} is made from a message, and not by hand"));
            }
        } else {
            match expected.remove(&name) {
                Some(text) if std::fs::read_to_string(&file)? == text => {}
                Some(_) => found.push(differs(&name)),
                None => {
                    found.push(format!("{FOLDER}/{name}.json: of no command, and not in `by_hand` of {DATA}"))
                }
            }
        }
    }
    found.extend(expected.keys().filter(|name| !by_hand.contains(name.as_str())).map(|name| differs(name)));
    found.extend(missing.iter().map(|name| format!("{FOLDER}/{name}.json: named by {DATA}, and absent")));
    Ok(found)
}

fn differs(name: &str) -> String {
    format!("{FOLDER}/{name}.json: differs from the interfaces and {DATA}; `cargo xtask schemas` writes it")
}

fn read(root: &Path) -> Result<Data> {
    let text = std::fs::read_to_string(root.join(DATA)).context(DATA)?;
    toml::from_str(&text).context(DATA)
}

/// Returns the texts of the schemas made from messages, by name.
fn made(root: &Path, data: &Data) -> Result<BTreeMap<String, String>> {
    let interfaces = Interfaces::read(root)?;
    let objects = Objects::new(&interfaces, data);
    let mut all = BTreeMap::new();
    for command in interfaces.commands(root)? {
        if !data.documents.contains_key(&command.words) {
            all.insert(name(&command.words), text(&command.words, objects.reply(&command)?)?);
        }
    }
    for (words, document) in &data.documents {
        let schema = objects.document(document).with_context(|| format!("{DATA}: document {words}"))?;
        all.insert(name(words), text(words, schema)?);
    }
    let unused = objects.unused();
    if !unused.is_empty() {
        bail!("{DATA}: no document has {}", unused.join(", "));
    }
    Ok(all)
}

/// Returns the name of a command's schema.
fn name(words: &str) -> String {
    words.replace(' ', "-")
}

/// Returns the text of a command's schema.
fn text(words: &str, schema: Schema) -> Result<String> {
    let id = format!("https://sluice.example/schemas/{}.json", name(words));
    let head = [("$schema", DIALECT.to_owned()), ("$id", id), ("title", format!("sluice {words}"))];
    Ok(serde_json::to_string_pretty(&schema.with_head(head))? + "\n")
}

#[cfg(test)]
mod tests;
