//! `docs/schemas.toml`: documents with more or fewer members than a message.

use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Data {
    /// Schemas written by hand, of documents that repeat no message.
    pub(super) by_hand: Vec<String>,
    /// The output of commands, by their words.
    pub(super) documents: BTreeMap<String, Member>,
    /// The possible values of texts, by message and field.
    pub(super) values: BTreeMap<String, Vec<String>>,
    /// Objects by name. An object with the name of a message replaces the message everywhere.
    #[serde(rename = "object")]
    pub(super) objects: BTreeMap<String, Object>,
}

/// An object of a document: the members of a message, fewer and others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Object {
    /// The description where no member has one; empty for none.
    #[serde(default)]
    pub(super) text: String,
    /// The message; empty for an object without one.
    #[serde(default)]
    pub(super) message: String,
    /// The fields of the message in the document; empty for every field.
    #[serde(default)]
    pub(super) only: Vec<String>,
    /// Fields of the message that the document lacks.
    #[serde(default)]
    pub(super) without: Vec<String>,
    /// Members that may be absent.
    #[serde(default)]
    pub(super) optional: Vec<String>,
    /// Further members, and members with another type or text than their field.
    #[serde(default)]
    pub(super) members: Members,
}

/// Members by name, in the order of the file.
#[derive(Default)]
pub(super) struct Members(pub(super) Vec<(String, Member)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("members by name")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Members(all))
            }
        }
        from.deserialize_map(Visitor)
    }
}

/// A member: its type, or its type and more.
#[derive(Deserialize)]
#[serde(from = "Written")]
pub(super) struct Member {
    /// The type as text.
    pub(super) kind: String,
    /// The description; empty for the comment at the message's field.
    pub(super) text: String,
    /// The possible values of a text.
    pub(super) values: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Short(String),
    Long {
        #[serde(rename = "type")]
        kind: String,
        #[serde(default)]
        text: String,
        #[serde(default)]
        values: Vec<String>,
    },
}

impl From<Written> for Member {
    fn from(written: Written) -> Self {
        match written {
            Written::Short(short) => {
                let (kind, text) = short.split_once(": ").unwrap_or((&short, ""));
                Member { kind: kind.to_owned(), text: text.to_owned(), values: Vec::new() }
            }
            Written::Long { kind, text, values } => Member { kind, text, values },
        }
    }
}

/// The type of a member.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Type {
    /// A word such as `bool` or `uint64`, a message's full name or an object's name.
    Named(String),
    /// `[TYPE]`.
    List(Box<Type>),
    /// `{TYPE}`: an object with members of any name.
    Map(Box<Type>),
    /// `TYPE?`: the value may be null.
    Nullable(Box<Type>),
    /// `TYPE | TYPE`.
    Either(Vec<Type>),
}

impl FromStr for Type {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let either = alternatives(text);
        if either.len() > 1 {
            return Ok(Type::Either(either.into_iter().map(str::parse).collect::<Result<_>>()?));
        }
        if let Some(inner) = text.strip_suffix('?') {
            return Ok(Type::Nullable(Box::new(inner.parse()?)));
        }
        let within = |open, close| text.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
        if let Some(inner) = within('[', ']') {
            return Ok(Type::List(Box::new(inner.parse()?)));
        }
        if let Some(inner) = within('{', '}') {
            return Ok(Type::Map(Box::new(inner.parse()?)));
        }
        if text.is_empty() || text.contains(['[', ']', '{', '}', ' ', '?']) {
            bail!("`{text}` is no type");
        }
        Ok(Type::Named(text.to_owned()))
    }
}

/// Splits a type at each ` | ` outside of lists.
fn alternatives(text: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[begin..].trim());
    found
}
