//! The JSON Schemas of the output of commands: `docs/schemas/`, in the executable.

use serde_json::Value;

/// The names of the files without their ending, which are the commands' words joined by dashes, and their texts.
pub const SCHEMAS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The name of a command's schema.
pub fn name(words: &[&str]) -> String {
    words.join("-")
}

/// A schema's text.
pub fn embedded(name: &str) -> Option<&'static str> {
    SCHEMAS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// Returns a schema by its name.
pub fn read(name: &str) -> Option<Value> {
    // A test reads them all.
    embedded(name).and_then(|text| serde_json::from_str(text).ok())
}
