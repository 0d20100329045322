//! From messages and objects of the data to schemas.

use super::data::{Data, Member, Object, Type};
use super::interfaces::{Command, Interfaces};
use anyhow::{Context, Result, bail};
use protox::prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The deepest nesting of messages: a message that contains itself needs an object in the data.
const DEPTH: usize = 16;

/// A part of a schema, whose keywords keep their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    Text(String),
    List(Vec<Schema>),
    Keywords(Vec<(String, Schema)>),
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Schema::Text(text) => to.serialize_str(text),
            Schema::List(all) => all.serialize(to),
            Schema::Keywords(all) => {
                let mut map = to.serialize_map(Some(all.len()))?;
                for (keyword, value) in all {
                    map.serialize_entry(keyword, value)?;
                }
                map.end()
            }
        }
    }
}

impl Schema {
    fn new<const N: usize>(keywords: [(&str, Schema); N]) -> Self {
        Schema::Keywords(keywords.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect())
    }

    fn text(text: &str) -> Self {
        Schema::Text(text.to_owned())
    }

    fn texts<'a>(all: impl IntoIterator<Item = &'a String>) -> Self {
        Schema::List(all.into_iter().cloned().map(Schema::Text).collect())
    }

    /// Returns the schema with keywords at its beginning.
    pub(super) fn with_head<const N: usize>(self, head: [(&str, String); N]) -> Self {
        let head = head.into_iter().map(|(keyword, text)| (keyword.to_owned(), Schema::Text(text)));
        match self {
            Schema::Keywords(rest) => Schema::Keywords(head.chain(rest).collect()),
            other => other,
        }
    }

    /// Returns the schema with a description; with its own for an empty text.
    fn described(self, text: &str) -> Self {
        match self {
            Schema::Keywords(mut all) if !text.is_empty() => {
                all.retain(|(keyword, _)| keyword != "description");
                all.push(("description".into(), Schema::text(text)));
                Schema::Keywords(all)
            }
            other => other,
        }
    }

    fn list_of(self) -> Self {
        Schema::new([("type", Schema::text("array")), ("items", self)])
    }

    fn map_of(self) -> Self {
        Schema::new([("type", Schema::text("object")), ("additionalProperties", self)])
    }

    fn nullable(self) -> Self {
        Schema::new([("anyOf", Schema::List(vec![self, typed("null")]))])
    }
}

/// Returns the schema of a type without more.
fn typed(name: &str) -> Schema {
    Schema::new([("type", Schema::text(name))])
}

/// Returns the schema of a simple type.
fn plain(name: &str) -> Option<Schema> {
    let formatted =
        |name, format| Schema::new([("type", Schema::text(name)), ("format", Schema::text(format))]);
    Some(match name {
        "bool" => typed("boolean"),
        "string" => typed("string"),
        "number" => typed("number"),
        "int64" => formatted("integer", "int64"),
        "null" => typed("null"),
        "object" => typed("object"),
        "any" => Schema::new([]),
        "date-time" => formatted("string", "date-time"),
        "uint32" => formatted("integer", "uint32"),
        // Numbers of 64 bits are printed as text.
        "uint64" => formatted("string", "uint64"),
        _ => return None,
    })
}

/// Makes schemas.
pub(super) struct Objects<'a> {
    interfaces: &'a Interfaces,
    data: &'a Data,
    /// The used objects and values of the data.
    used: RefCell<BTreeSet<String>>,
}

impl<'a> Objects<'a> {
    pub(super) fn new(interfaces: &'a Interfaces, data: &'a Data) -> Self {
        Objects { interfaces, data, used: RefCell::default() }
    }

    /// Returns the unused objects and values of the data.
    pub(super) fn unused(&self) -> Vec<&'a str> {
        let used = self.used.borrow();
        let names = self.data.objects.keys().chain(self.data.values.keys());
        names.filter(|name| !used.contains(*name)).map(String::as_str).collect()
    }

    /// Returns the schema of a command that prints a reply.
    pub(super) fn reply(&self, command: &Command) -> Result<Schema> {
        let reply = self.interfaces.reply(&command.call)?;
        if command.page.is_none() {
            return self.message(&reply, 0);
        }
        let rows = reply.get_field_by_name(&command.rows).context("rows of pages are a field")?;
        let rows = vec![(rows.name().to_owned(), self.field(&rows, 0)?)];
        Ok(object(rows, &[]))
    }

    /// Returns the schema of a document.
    pub(super) fn document(&self, document: &Member) -> Result<Schema> {
        self.member(document, "", 0)
    }

    fn edited(&self, edits: &Object, depth: usize) -> Result<Schema> {
        if depth > DEPTH {
            bail!("the object contains itself");
        }
        let message = match edits.message.as_str() {
            "" => None,
            name => Some(self.interfaces.message(name).with_context(|| format!("{name} is unknown"))?),
        };
        let fields: Vec<FieldDescriptor> = message.iter().flat_map(MessageDescriptor::fields).collect();
        let is_field = |name: &String| fields.iter().any(|field| field.name() == name);
        if let Some(unknown) = edits.without.iter().chain(&edits.only).find(|name| !is_field(name)) {
            bail!("`{unknown}` is no field of {}", edits.message);
        }
        let mut members = Vec::new();
        for field in &fields {
            let name = field.name().to_owned();
            let is_left_out = !edits.only.is_empty() && !edits.only.contains(&name);
            if is_left_out || edits.without.contains(&name) {
                continue;
            }
            let schema = match edits.members.0.iter().find(|(member, _)| *member == name) {
                Some((_, member)) => self.member(member, &self.interfaces.comment(field), depth),
                None => self.field(field, depth),
            };
            members.push((name, schema?));
        }
        for (name, member) in edits.members.0.iter().filter(|(name, _)| !is_field(name)) {
            members.push((name.clone(), self.member(member, "", depth)?));
        }
        if let Some(unknown) = edits.optional.iter().find(|name| members.iter().all(|(m, _)| m != *name)) {
            bail!("there is no member `{unknown}` that could be absent");
        }
        Ok(object(members, &edits.optional))
    }

    /// Returns the schema of a member of the data; `comment` is the comment at the message's field.
    fn member(&self, member: &Member, comment: &str, depth: usize) -> Result<Schema> {
        let schema = self.typed(&member.kind.parse()?, &member.values, depth)?;
        if !member.text.is_empty() {
            return Ok(schema.described(&member.text));
        }
        Ok(if member.kind.ends_with('?') {
            schema.described(&as_null(comment))
        } else {
            schema.described(comment)
        })
    }

    /// Returns the schema of a type whose texts have these values, if there are any.
    fn typed(&self, kind: &Type, values: &[String], depth: usize) -> Result<Schema> {
        Ok(match kind {
            Type::List(inner) => self.typed(inner, values, depth)?.list_of(),
            Type::Map(inner) => self.typed(inner, values, depth)?.map_of(),
            Type::Nullable(inner) => self.typed(inner, values, depth)?.nullable(),
            Type::Either(all) => {
                let all = all.iter().map(|one| self.typed(one, values, depth)).collect::<Result<_>>()?;
                Schema::new([("anyOf", Schema::List(all))])
            }
            Type::Named(name) if name == "string" && !values.is_empty() => one_of(values),
            Type::Named(name) => match (plain(name), self.interfaces.message(name)) {
                (Some(schema), _) => schema,
                (None, Some(message)) => self.message(&message, depth)?,
                (None, None) => self.object(name, depth)?.with_context(|| format!("`{name}` is no type"))?,
            },
        })
    }

    /// Returns the schema of an object of the data; `None` if the data have no such object.
    fn object(&self, name: &str, depth: usize) -> Result<Option<Schema>> {
        let Some(object) = self.data.objects.get(name) else { return Ok(None) };
        self.used.borrow_mut().insert(name.to_owned());
        let schema = self.edited(object, depth + 1).with_context(|| format!("object {name}"))?;
        Ok(Some(schema.described(&object.text)))
    }

    fn message(&self, message: &MessageDescriptor, depth: usize) -> Result<Schema> {
        let name = message.full_name();
        // As the command line prints these.
        if ["common.v1.Addr", "common.v1.Net", "common.v1.Mac"].contains(&name) {
            return Ok(typed("string"));
        }
        if let Some(schema) = self.object(name, depth)? {
            return Ok(schema);
        }
        if depth > DEPTH {
            bail!("{name} contains itself");
        }
        let members =
            message.fields().map(|field| Ok((field.name().to_owned(), self.field(&field, depth + 1)?)));
        Ok(object(members.collect::<Result<_>>()?, &[]))
    }

    /// Returns the schema of a message's field, as the command line prints a message.
    fn field(&self, field: &FieldDescriptor, depth: usize) -> Result<Schema> {
        let one = match self.values(field) {
            Some(values) => one_of(values),
            None => self.value(field, depth)?,
        };
        let comment = self.interfaces.comment(field);
        Ok(if field.cardinality() == Cardinality::Repeated {
            one.list_of().described(&comment)
        } else if field.supports_presence() {
            one.nullable().described(&as_null(&comment))
        } else {
            one.described(&comment)
        })
    }

    /// Returns the values of a field, if the data list them.
    fn values(&self, field: &FieldDescriptor) -> Option<&'a [String]> {
        let name = format!("{}.{}", field.parent_message().full_name(), field.name());
        let values = self.data.values.get(&name)?;
        self.used.borrow_mut().insert(name);
        Some(values)
    }

    fn value(&self, field: &FieldDescriptor, depth: usize) -> Result<Schema> {
        let name = match field.kind() {
            Kind::Message(inner) => return self.message(&inner, depth),
            Kind::Bool => "bool",
            Kind::String | Kind::Bytes | Kind::Enum(_) => "string",
            Kind::Float | Kind::Double => "number",
            Kind::Uint64 | Kind::Fixed64 | Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "uint64",
            Kind::Uint32 | Kind::Fixed32 | Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "uint32",
        };
        plain(name).with_context(|| format!("`{name}` is no type"))
    }
}

/// Returns the schema of an object.
fn object(members: Vec<(String, Schema)>, optional: &[String]) -> Schema {
    let required = members.iter().map(|(name, _)| name).filter(|name| !optional.contains(name));
    let required = Schema::texts(required);
    Schema::new([
        ("type", Schema::text("object")),
        ("required", required),
        ("properties", Schema::Keywords(members)),
    ])
}

/// Returns a comment about a field that may be absent, whose member is null then.
fn as_null(comment: &str) -> String {
    comment.replace("absent", "null").replace("Absent", "Null")
}

/// Returns the schema of a text with a list of values.
fn one_of(values: &[String]) -> Schema {
    Schema::new([("enum", Schema::texts(values))])
}
