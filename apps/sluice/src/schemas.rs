//! The JSON Schema (2020-12) of what each command prints with `--json`: `docs/schemas/`, in the executable.

use crate::connect::block_on;
use crate::flags::Flags;
use crate::output::Failure;
use crate::session::Session;
use serde_json::{Value, json};
use sluice_xrl::text;

/// The dialect that schemas are written in.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The files' names without their ending, which are the commands' words with dashes between them, and their texts.
const SCHEMAS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The name of a command's schema.
pub fn name(words: &[&str]) -> String {
    words.join("-")
}

/// A schema's text.
pub fn embedded(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// Prints a command's schema, or the names of all.
pub fn print(command: &[String]) -> Result<(), Failure> {
    if command.is_empty() {
        SCHEMAS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    // What the words mean, with abbreviations and other spellings; tools and `error` go by their own words.
    let grammar = crate::front::grammar();
    let id = grammar.read(command).map(|read| read.command.id.replace(' ', "-"));
    let found = embedded(&name(&words)).or_else(|| id.ok().and_then(|id| embedded(&id)));
    if let Some(text) = found {
        print!("{text}");
        return Ok(());
    }
    match block_on(of_package(command))?? {
        Some(schema) => {
            println!("{schema:#}");
            Ok(())
        }
        None => {
            let words = words.join(" ");
            Err(Failure::usage(format!("there is no schema for `{words}`; `sluice schema` lists all")))
        }
    }
}

/// The schema of a command that a package of the running router brings: made from the description of the method that it calls.
async fn of_package(command: &[String]) -> Result<Option<Value>, Failure> {
    let session = Session::new(Flags::default());
    let packages = session.packages().await;
    let grammar = session.grammar().await;
    let Ok(read) = grammar.read(command) else { return Ok(None) };
    let Some(found) = packages.commands.iter().find(|c| c.command.id == read.command.id) else {
        return Ok(None);
    };
    let call = (found.target.as_str(), found.interface.as_str(), found.method.as_str());
    let mut schema = text::reply_schema(&session.router().await?, call).await?;
    if found.page.is_some() {
        // Pages are printed as one list.
        let rows = found.rows.clone();
        let items = schema["properties"][&rows].clone();
        schema =
            json!({ "type": "object", "required": [rows], "properties": { (found.rows.as_str()): items } });
    }
    schema["$schema"] = DIALECT.into();
    schema["title"] = format!("sluice {}", found.command.id).into();
    Ok(Some(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_schema() {
        for command in crate::front::grammar().commands.iter().filter(|c| !c.alias) {
            let name = command.id.replace(' ', "-");
            let text = embedded(&name).unwrap_or_else(|| panic!("docs/schemas/{name}.json is missing"));
            let value: serde_json::Value = serde_json::from_str(text).expect(&name);
            assert_eq!(value["$schema"], DIALECT, "{name}");
            assert!(jsonschema::validator_for(&value).is_ok(), "{name}");
        }
        for tool in ["error", "config-check", "package-check", "call", "call-list", "profile"] {
            assert!(embedded(tool).is_some(), "docs/schemas/{tool}.json is missing");
        }
    }
}
