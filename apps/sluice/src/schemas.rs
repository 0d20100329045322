//! The JSON Schema (2020-12) of what each command prints with `--json`: `docs/schemas/`, in the executable.

use crate::output::Failure;

/// The files' names without their ending, which are the commands' words with dashes between them, and their texts.
const SCHEMAS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The name of a command's schema.
pub fn name(words: &[&str]) -> String {
    words.join("-")
}

/// A schema's text.
pub fn text(name: &str) -> Option<&'static str> {
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
    let found = text(&name(&words)).or_else(|| id.ok().and_then(|id| text(&id)));
    match found {
        Some(text) => {
            print!("{text}");
            Ok(())
        }
        None => Err(Failure::usage(format!(
            "there is no schema for `{}`; `sluice schema` lists all",
            words.join(" ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_schema() {
        for command in crate::front::grammar().commands.iter().filter(|c| !c.alias) {
            let name = command.id.replace(' ', "-");
            let text = text(&name).unwrap_or_else(|| panic!("docs/schemas/{name}.json is missing"));
            let value: serde_json::Value = serde_json::from_str(text).expect(&name);
            assert_eq!(value["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            assert!(jsonschema::validator_for(&value).is_ok(), "{name}");
        }
        for tool in ["error", "config-check", "call", "call-list", "profile"] {
            assert!(text(tool).is_some(), "docs/schemas/{tool}.json is missing");
        }
    }
}
