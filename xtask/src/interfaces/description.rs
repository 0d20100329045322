//! The description of a protobuf package: every property that another version of a process depends on.

use anyhow::{Context, Result};
use protox::prost_reflect::prost_types::method_options::IdempotencyLevel;
use protox::prost_reflect::{
    Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, MessageDescriptor, MethodDescriptor,
    ServiceDescriptor,
};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

/// The messages, enums and services of packages, by the package's name.
pub type Packages = BTreeMap<String, Package>;

/// The messages, enums and services of one package.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Package(pub BTreeMap<Name, Item>);

/// The kind and name of an item, as in `message Peer`. Nested messages are named `Outer.Inner`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name {
    /// `message`, `enum` or `service`.
    pub kind: String,
    /// The name inside the package.
    pub name: String,
}

/// A message, an enum or a service.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Item {
    /// Fields by number; enum values and methods by name.
    pub rows: BTreeMap<Key, Row>,
    /// The numbers that no field and no value may have.
    pub reserved: Vec<RangeInclusive<i64>>,
}

/// The key of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// The number of a field.
    Number(i64),
    /// The name of an enum value or a method.
    Name(String),
}

/// The properties of a field, a value or a method, by name.
pub type Row = BTreeMap<String, String>;

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Key::Number(number) => number.fmt(f),
            Key::Name(name) => name.fmt(f),
        }
    }
}

/// Returns the packages of the files that `is_ours` accepts.
pub fn describe(pool: &DescriptorPool, is_ours: impl Fn(&str) -> bool) -> Packages {
    let mut packages = Packages::new();
    let mut add = |package: &str, kind: &str, full_name: &str, item: Item| {
        let name = full_name.strip_prefix(package).unwrap_or(full_name).trim_start_matches('.');
        let name = Name { kind: kind.into(), name: name.into() };
        packages.entry(package.to_owned()).or_default().0.insert(name, item);
    };
    for found in pool.all_messages().filter(|found| is_ours(found.parent_file().name())) {
        add(found.package_name(), "message", found.full_name(), message(&found));
    }
    for found in pool.all_enums().filter(|found| is_ours(found.parent_file().name())) {
        add(found.package_name(), "enum", found.full_name(), enumeration(&found));
    }
    for found in pool.services().filter(|found| is_ours(found.parent_file().name())) {
        add(found.package_name(), "service", found.full_name(), service(&found));
    }
    packages
}

fn message(message: &MessageDescriptor) -> Item {
    let rows = message.fields().map(|found| (Key::Number(found.number().into()), field(&found)));
    let reserved = message.reserved_ranges().map(|range| range.start.into()..=i64::from(range.end) - 1);
    Item { rows: rows.collect(), reserved: reserved.collect() }
}

fn field(field: &FieldDescriptor) -> Row {
    let is_optional = field.field_descriptor_proto().proto3_optional();
    let label = match field.cardinality() {
        Cardinality::Repeated => "repeated",
        Cardinality::Required => "required",
        Cardinality::Optional if is_optional => "optional",
        Cardinality::Optional => "singular",
    };
    let kind = format!("{:?}", field.kind());
    let mut row = row([("name", field.name()), ("label", label), ("type", &kind)]);
    // The compiler puts each `optional` field into a oneof of its own.
    if let Some(oneof) = field.containing_oneof().filter(|_| !is_optional) {
        row.insert("oneof".into(), oneof.name().into());
    }
    row
}

fn enumeration(enumeration: &EnumDescriptor) -> Item {
    let rows = enumeration.values().map(|value| {
        (Key::Name(value.name().into()), row([("number", value.number().to_string().as_str())]))
    });
    let reserved =
        enumeration.reserved_ranges().map(|range| i64::from(*range.start())..=i64::from(*range.end()));
    Item { rows: rows.collect(), reserved: reserved.collect() }
}

fn service(service: &ServiceDescriptor) -> Item {
    let rows = service.methods().map(|found| (Key::Name(found.name().into()), method(&found)));
    Item { rows: rows.collect(), reserved: Vec::new() }
}

fn method(method: &MethodDescriptor) -> Row {
    let (request, reply) = (method.input(), method.output());
    let mut row = row([("request", request.full_name()), ("reply", reply.full_name())]);
    let options = method.method_descriptor_proto().options.clone().unwrap_or_default();
    if options.idempotency_level() == IdempotencyLevel::NoSideEffects {
        row.insert("only".into(), "reads".into());
    }
    row
}

fn row<const N: usize>(properties: [(&str, &str); N]) -> Row {
    properties.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl Display for Package {
    /// Writes an item a line, and below it a row a line: key, then properties.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (Name { kind, name }, item) in &self.0 {
            writeln!(f, "{kind} {name}")?;
            for (key, row) in &item.rows {
                write!(f, "  {key}")?;
                row.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))?;
                writeln!(f)?;
            }
            for range in &item.reserved {
                writeln!(f, "  reserved from={} to={}", range.start(), range.end())?;
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Package {
    type Err = anyhow::Error;

    /// Reads the output of [`Display`]. Empty lines and lines that begin with `#` are comments.
    fn from_str(text: &str) -> Result<Package> {
        let mut items = BTreeMap::new();
        let mut last: Option<Name> = None;
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let problem = || format!("line {}: `{line}` is no part of a description", index + 1);
            let Some(row) = line.strip_prefix("  ") else {
                let (kind, name) = line.split_once(' ').with_context(problem)?;
                let name = Name { kind: kind.into(), name: name.into() };
                items.insert(name.clone(), Item::default());
                last = Some(name);
                continue;
            };
            let item = last.as_ref().and_then(|name| items.get_mut(name)).with_context(problem)?;
            read_row(item, row).with_context(problem)?;
        }
        Ok(Package(items))
    }
}

fn read_row(item: &mut Item, line: &str) -> Result<()> {
    let mut words = line.split(' ');
    let key = words.next().unwrap_or_default();
    let mut row = Row::new();
    for word in words {
        let (name, value) = word.split_once('=').context("a property without a value")?;
        row.insert(name.into(), value.into());
    }
    if let ("reserved", Some(from), Some(to)) = (key, row.get("from"), row.get("to")) {
        item.reserved.push(from.parse()?..=to.parse()?);
        return Ok(());
    }
    let key = key.parse().map_or_else(|_| Key::Name(key.into()), Key::Number);
    item.rows.insert(key, row);
    Ok(())
}
