//! Commands of a package: its `commands.toml` (docs/extending.md).

use crate::grammar::{Argument, Choice, Command, Keyword};
use crate::kind::{Kind, Live};
use crate::render::Format;
use serde::Deserialize;
use sluice_base::component::format::{COMMANDS_FORMAT, FormatHead, UnknownFormat};
use std::collections::BTreeMap;

/// A command made of a single call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageCommand {
    /// The words of the command.
    pub command: Command,
    /// The target of the call.
    pub target: String,
    /// Package and service.
    pub interface: String,
    /// The method.
    pub method: String,
    /// Fields of the request by the name of the argument or choice.
    pub fields: BTreeMap<String, String>,
    /// Fields of the request that are always the same.
    pub with: BTreeMap<String, String>,
    /// The path of the records in the reply; empty: the reply is the record.
    pub rows: String,
    /// The columns of printed records.
    pub columns: Vec<Column>,
    /// The message if there are no records.
    pub nothing: String,
    /// The message at the end of a command that prints no records.
    pub done: String,
    /// The request for the next page.
    pub page: Option<Page>,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The heading.
    pub heading: String,
    /// The path of the value in a record, or else in the records around it.
    pub path: String,
    /// The format of the value.
    #[serde(default)]
    pub format: Format,
    /// The values of something that is down: the row is red, or `(down)` stands behind the value.
    #[serde(default)]
    pub down: Vec<String>,
}

/// The request for the next page.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// The field of the reply with the start of the next page; 0, empty or absent on the last page.
    pub next: String,
    /// The field of the request for the start of the page.
    pub field: String,
}

/// The reason why a package's commands are refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PackageError {
    /// The file has a newer format.
    #[error("commands.toml: {0}")]
    Format(#[from] UnknownFormat),
    /// Not TOML, or with unknown fields.
    #[error("{0}")]
    Text(String),
    /// A command that makes no sense.
    #[error("command `{command}`: {reason}")]
    Command {
        /// Its words.
        command: String,
        /// The error.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Checked before all other keys.
    #[serde(rename = "format")]
    _format: Option<u32>,
    #[serde(default)]
    command: Vec<Entry>,
    /// Help for words that several commands begin with: `"show rip" = "RIP: routes and neighbors"`.
    #[serde(default)]
    help: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    words: String,
    help: String,
    call: String,
    #[serde(default)]
    with: BTreeMap<String, String>,
    #[serde(default)]
    rows: String,
    #[serde(default)]
    column: Vec<Column>,
    #[serde(default)]
    argument: Vec<EntryArgument>,
    #[serde(default)]
    nothing: Option<String>,
    #[serde(default)]
    done: Option<String>,
    #[serde(default)]
    page: Option<Page>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EntryKind {
    Text,
    Number,
    Addr,
    Net,
    Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryArgument {
    name: String,
    help: String,
    #[serde(rename = "type")]
    kind: EntryKind,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    required: bool,
    /// Written as its name and a value, anywhere behind the words.
    #[serde(default)]
    named: bool,
    #[serde(default)]
    live: Option<Live>,
}

/// The first words that commands of packages may have.
const VERBS: [&str; 3] = ["show", "clear", "request"];

/// Reads a `commands.toml`.
pub fn parse(text: &str) -> Result<Vec<PackageCommand>, PackageError> {
    // First of all: a newer format has keys that are unknown here.
    if let Ok(head) = toml::from_str::<FormatHead>(text) {
        head.check(COMMANDS_FORMAT)?;
    }
    let file: File = toml::from_str(text).map_err(|e| PackageError::Text(e.to_string()))?;
    file.command.into_iter().map(|entry| build(entry, &file.help)).collect()
}

fn build(entry: Entry, help: &BTreeMap<String, String>) -> Result<PackageCommand, PackageError> {
    let wrong = |reason: &str| PackageError::Command { command: entry.words.clone(), reason: reason.into() };
    let words: Vec<&str> = entry.words.split_whitespace().collect();
    if words.len() < 2 || !VERBS.contains(&words[0]) {
        return Err(wrong("its words begin with show, clear or request, and are two at least"));
    }
    if words.iter().any(|w| !w.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')) {
        return Err(wrong("its words are of small letters, digits and `-`"));
    }
    let mut call = entry.call.splitn(3, '/');
    let (Some(target), Some(interface), Some(method)) = (call.next(), call.next(), call.next()) else {
        return Err(wrong("`call` is TARGET/INTERFACE/METHOD"));
    };
    if words[0] == "show" && entry.column.is_empty() {
        return Err(wrong("a `show` needs columns"));
    }
    let keywords = words.iter().enumerate().map(|(index, word)| Keyword {
        word: (*word).into(),
        help: help.get(&words[..=index].join(" ")).cloned().unwrap_or_default(),
        alias: None,
    });
    let mut command = Command {
        id: words.join(" "),
        words: keywords.collect(),
        arguments: Vec::new(),
        choices: Vec::new(),
        help: entry.help.clone(),
        alias: false,
        preset: Vec::new(),
    };
    let mut fields = BTreeMap::new();
    for argument in entry.argument {
        fields.insert(argument.name.clone(), argument.field.clone().unwrap_or_else(|| argument.name.clone()));
        add_argument(&mut command, argument);
    }
    Ok(PackageCommand {
        command,
        target: target.into(),
        interface: interface.into(),
        method: method.into(),
        fields,
        with: entry.with,
        rows: entry.rows,
        columns: entry.column,
        nothing: entry.nothing.unwrap_or_else(|| "nothing".into()),
        done: entry.done.unwrap_or_else(|| "done".into()),
        page: entry.page,
    })
}

fn add_argument(command: &mut Command, from: EntryArgument) {
    let kind = match from.kind {
        EntryKind::Number => Kind::Number,
        EntryKind::Addr => Kind::Addr,
        EntryKind::Net => Kind::Net,
        EntryKind::Text | EntryKind::Flag => Kind::Text,
    };
    let flag = from.kind == EntryKind::Flag;
    let argument = Argument {
        name: from.name.clone(),
        help: from.help.clone(),
        kind,
        live: from.live,
        required: from.required || from.named,
    };
    if flag || from.named {
        let value = (!flag).then_some(argument);
        command.choices.push(Choice { word: from.name, help: from.help, short: None, value });
    } else {
        command.arguments.push(argument);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grammar;

    const RIP: &str = r#"
        [help]
        "show rip" = "RIP"
        [[command]]
        words = "show rip neighbor"
        help = "routers that speak RIP"
        call = "rip/rip.v1.Rip/GetNeighbors"
        rows = "neighbors"
        nothing = "no neighbors"
        page = { next = "next_page", field = "page" }
        [[command.argument]]
        name = "address"
        help = "only this one"
        type = "addr"
        live = { call = "rip/rip.v1.Rip/GetNeighbors", path = "neighbors.address" }
        [[command.argument]]
        name = "limit"
        help = "at most this many"
        type = "number"
        named = true
        [[command.column]]
        heading = "neighbor"
        path = "address"
        format = "addr"
    "#;

    #[test]
    fn a_package_brings_commands() {
        let commands = parse(RIP).expect("valid");
        assert_eq!(commands[0].method, "GetNeighbors");
        let grammar = Grammar { commands: commands.into_iter().map(|c| c.command).collect() };
        let words: Vec<String> = "show rip nei 192.0.2.1 limit 3".split(' ').map(String::from).collect();
        let read = grammar.read(&words).expect("understood");
        assert_eq!((read.values.text("address"), read.values.number("limit")), (Some("192.0.2.1"), Some(3)));
    }

    #[test]
    fn a_newer_format_is_refused_with_both_versions() {
        assert_eq!(parse(&format!("format = 1\n{RIP}")), parse(RIP));
        let newer = parse("aliases = 1\nformat = 7\n").expect_err("newer");
        assert_eq!(newer, PackageError::Format(UnknownFormat { found: 7, newest: COMMANDS_FORMAT }));
        assert!(newer.to_string().contains("format 7,") && newer.to_string().contains("up to 1;"), "{newer}");
    }

    #[test]
    fn nonsense_is_refused() {
        for (from, to) in [
            ("words = \"show rip neighbor\"", "words = \"frob rip\""),
            ("words = \"show rip neighbor\"", "words = \"show RIP\""),
            ("rip/rip.v1.Rip/GetNeighbors\"\n        rows", "rip\"\n        rows"),
            ("format = \"addr\"", "format = \"purple\""),
            ("type = \"addr\"", "type = \"addr\"\nevil = 1"),
        ] {
            assert!(RIP.contains(from), "{from}");
            assert!(parse(&RIP.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
