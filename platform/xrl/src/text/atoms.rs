//! Between the fields of a message and `name:type=value`, by the message's description.

use super::syntax::{Atom, escape, unescape};
use crate::idl::common::v1 as common;
use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};
use sluice_base::IpPrefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The reason why arguments do not fit a method.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AtomError {
    /// The method has no such argument.
    #[error("no argument `{name}`; there is {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The arguments of the method.
        known: String,
    },
    /// An argument occurs more than once.
    #[error("argument `{0}` twice")]
    Twice(String),
    /// The argument has a wrong type.
    #[error("argument `{name}` is {expected}, not {found}")]
    WrongType {
        /// The argument.
        name: String,
        /// The expected type.
        expected: String,
        /// The written type.
        found: String,
    },
    /// The number does not fit.
    #[error("argument `{name}`: `{value}` is out of the range of {kind}")]
    OutOfRange {
        /// The argument.
        name: String,
        /// The type.
        kind: String,
        /// The text as written.
        value: String,
    },
    /// The value does not fit its type.
    #[error("argument `{name}`: `{value}` is no {kind}")]
    BadValue {
        /// The argument.
        name: String,
        /// The type.
        kind: String,
        /// The text as written.
        value: String,
    },
}

/// The text form of a field's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    I32,
    U32,
    I64,
    U64,
    Fp32,
    Fp64,
    Bool,
    Txt,
    Binary,
    Enum,
    Addr,
    Net,
    Mac,
    Json,
}

fn form(field: &FieldDescriptor) -> Form {
    match field.kind() {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Form::I32,
        Kind::Uint32 | Kind::Fixed32 => Form::U32,
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Form::I64,
        Kind::Uint64 | Kind::Fixed64 => Form::U64,
        Kind::Float => Form::Fp32,
        Kind::Double => Form::Fp64,
        Kind::Bool => Form::Bool,
        Kind::String => Form::Txt,
        Kind::Bytes => Form::Binary,
        Kind::Enum(_) => Form::Enum,
        Kind::Message(m) => match m.full_name() {
            "common.v1.Addr" => Form::Addr,
            "common.v1.Net" => Form::Net,
            "common.v1.Mac" => Form::Mac,
            _ => Form::Json,
        },
    }
}

impl Form {
    /// The names of the value's types; the first one unless the value determines the type.
    fn names(self) -> &'static [&'static str] {
        match self {
            Form::I32 => &["i32"],
            Form::U32 => &["u32"],
            Form::I64 => &["i64"],
            Form::U64 => &["u64"],
            Form::Fp32 => &["fp32"],
            Form::Fp64 => &["fp64"],
            Form::Bool => &["bool"],
            Form::Txt => &["txt"],
            Form::Binary => &["binary"],
            Form::Enum => &["enum"],
            Form::Addr => &["ipv4", "ipv6"],
            Form::Net => &["ipv4net", "ipv6net"],
            Form::Mac => &["mac"],
            Form::Json => &["json"],
        }
    }
}

/// The type of a field in signatures; either family as `ipv4|ipv6`.
pub fn type_name(field: &FieldDescriptor) -> String {
    let form = form(field);
    let one = form.names().join("|");
    if field.is_map() || form == Form::Json {
        "json".to_owned()
    } else if field.cardinality() == Cardinality::Repeated {
        format!("list<{one}>")
    } else {
        one
    }
}

/// The fields of a message as `name:type&name:type`.
pub fn signature(message: &MessageDescriptor) -> String {
    let fields: Vec<String> = fields(message).map(|f| format!("{}:{}", f.name(), type_name(&f))).collect();
    fields.join("&")
}

/// In the order of the numbers, usually the order of the definition.
fn fields(message: &MessageDescriptor) -> impl Iterator<Item = FieldDescriptor> {
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    fields.into_iter()
}

/// Builds a message from its fields' texts.
pub fn build(message: &MessageDescriptor, atoms: &[Atom]) -> Result<DynamicMessage, AtomError> {
    let mut built = DynamicMessage::new(message.clone());
    for (i, atom) in atoms.iter().enumerate() {
        let Some(field) = message.get_field_by_name(&atom.name) else {
            let known: Vec<String> = fields(message).map(|f| format!("`{}`", f.name())).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(AtomError::Unknown { name: atom.name.clone(), known });
        };
        if atoms.iter().take(i).any(|a| a.name == atom.name) {
            return Err(AtomError::Twice(atom.name.clone()));
        }
        let value = parse_field(message, &field, atom)?;
        if value != Value::default_value_for_field(&field) || field.supports_presence() {
            built.set_field(&field, value);
        }
    }
    Ok(built)
}

fn bad(atom: &Atom) -> AtomError {
    AtomError::BadValue { name: atom.name.clone(), kind: atom.kind.clone(), value: atom.value.clone() }
}

fn parse_field(
    message: &MessageDescriptor,
    field: &FieldDescriptor,
    atom: &Atom,
) -> Result<Value, AtomError> {
    if atom.kind == "json" {
        return parse_json(message, field, atom).ok_or_else(|| bad(atom));
    }
    let wrong = || AtomError::WrongType {
        name: atom.name.clone(),
        expected: type_name(field),
        found: atom.kind.clone(),
    };
    let form = form(field);
    let list = field.cardinality() == Cardinality::Repeated;
    if field.is_map() || form == Form::Json {
        return Err(wrong());
    }
    let kind = match (list, atom.kind.strip_prefix("list<").and_then(|k| k.strip_suffix('>'))) {
        (true, Some(element)) => element,
        (false, None) => atom.kind.as_str(),
        _ => return Err(wrong()),
    };
    if !form.names().contains(&kind) {
        return Err(wrong());
    }
    if !list {
        return parse_one(field, form, kind, &atom.value, atom);
    }
    let elements = split_list(&atom.value);
    elements
        .into_iter()
        .map(|e| parse_one(field, form, kind, e, atom))
        .collect::<Result<_, _>>()
        .map(Value::List)
}

/// The elements of a list. A comma at the end closes an empty element.
fn split_list(value: &str) -> Vec<&str> {
    if value.is_empty() {
        return Vec::new();
    }
    let mut elements: Vec<&str> = value.split(',').collect();
    if elements.last().is_some_and(|e| e.is_empty()) {
        elements.pop();
    }
    elements
}

fn parse_one(
    field: &FieldDescriptor,
    form: Form,
    kind: &str,
    text: &str,
    atom: &Atom,
) -> Result<Value, AtomError> {
    let octets = unescape(text).ok_or_else(|| bad(atom))?;
    if form == Form::Binary {
        return Ok(Value::Bytes(octets.into()));
    }
    let text = String::from_utf8(octets).map_err(|_| bad(atom))?;
    match form {
        Form::I32 => number(&text, atom).map(Value::I32),
        Form::U32 => number(&text, atom).map(Value::U32),
        Form::I64 => number(&text, atom).map(Value::I64),
        Form::U64 => number(&text, atom).map(Value::U64),
        Form::Fp32 => text.parse().map(Value::F32).map_err(|_| bad(atom)),
        Form::Fp64 => text.parse().map(Value::F64).map_err(|_| bad(atom)),
        Form::Bool => text.parse().map(Value::Bool).map_err(|_| bad(atom)),
        Form::Txt => Ok(Value::String(text)),
        Form::Enum => parse_enum(field, &text).ok_or_else(|| bad(atom)),
        Form::Addr | Form::Net | Form::Mac => parse_address(field, kind, &text).ok_or_else(|| bad(atom)),
        Form::Binary | Form::Json => Err(bad(atom)),
    }
}

fn number<T: TryFrom<i128>>(text: &str, atom: &Atom) -> Result<T, AtomError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad(atom));
    }
    text.parse::<i128>().ok().and_then(|n| T::try_from(n).ok()).ok_or_else(|| AtomError::OutOfRange {
        name: atom.name.clone(),
        kind: atom.kind.clone(),
        value: text.to_owned(),
    })
}

fn parse_enum(field: &FieldDescriptor, text: &str) -> Option<Value> {
    let kind = field.kind();
    let description = kind.as_enum()?;
    let named = description.get_value_by_name(text).map(|v| v.number());
    named.or_else(|| text.parse().ok()).map(Value::EnumNumber)
}

fn parse_address(field: &FieldDescriptor, kind: &str, text: &str) -> Option<Value> {
    let described = field.kind().as_message()?.clone();
    let mut message = DynamicMessage::new(described);
    match kind {
        "mac" => {
            let octets: Option<Vec<u8>> = text
                .split(':')
                .map(|h| if h.len() == 2 { u8::from_str_radix(h, 16).ok() } else { None })
                .collect();
            let message_of = common::Mac { octets: if text.is_empty() { Vec::new() } else { octets? } };
            message.transcode_from(&message_of).ok()?;
        }
        "ipv4net" | "ipv6net" => {
            let prefix: IpPrefix = text.parse().ok()?;
            if matches!(prefix, IpPrefix::V4(_)) != (kind == "ipv4net") {
                return None;
            }
            message.transcode_from(&common::Net::from(prefix)).ok()?;
        }
        _ => {
            let addr: IpAddr = if kind == "ipv4" {
                text.parse::<Ipv4Addr>().ok()?.into()
            } else {
                text.parse::<Ipv6Addr>().ok()?.into()
            };
            message.transcode_from(&common::Addr::from(addr)).ok()?;
        }
    }
    Some(Value::Message(message))
}

/// Reads a field alone in protobuf's JSON: `{"field": value}` is a message too.
fn parse_json(message: &MessageDescriptor, field: &FieldDescriptor, atom: &Atom) -> Option<Value> {
    let text = String::from_utf8(unescape(&atom.value)?).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    let whole = serde_json::json!({ field.name(): value });
    let parsed = DynamicMessage::deserialize(message.clone(), whole).ok()?;
    Some(parsed.get_field(field).into_owned())
}

/// The fields of a message as texts. Absent optional fields are left out, and so are empty maps and nested messages.
pub fn atoms(message: &DynamicMessage) -> Vec<Atom> {
    fields(&message.descriptor()).filter_map(|field| render_field(message, &field)).collect()
}

fn render_field(message: &DynamicMessage, field: &FieldDescriptor) -> Option<Atom> {
    let form = form(field);
    let optional = field.supports_presence() || field.is_map() || form == Form::Json;
    if optional && !message.has_field(field) {
        return None;
    }
    let value = message.get_field(field);
    let text = if field.is_map() || form == Form::Json { None } else { render_value(field, form, &value) };
    let (kind, value) = match text {
        Some(rendered) => rendered,
        None => ("json".to_owned(), render_json(message, field)?),
    };
    Some(Atom { name: field.name().to_owned(), kind, value })
}

/// Type and text of a value; `None` if its type's form cannot represent the value.
fn render_value(field: &FieldDescriptor, form: Form, value: &Value) -> Option<(String, String)> {
    let Value::List(elements) = value else {
        let (kind, text) = render_one(field, form, value)?;
        return Some((kind.to_owned(), text));
    };
    let mut kinds = form.names().first().copied();
    let mut texts = Vec::new();
    for (i, element) in elements.iter().enumerate() {
        let (kind, text) = render_one(field, form, element)?;
        // A list is of one type: with addresses of both families only JSON can say it.
        if i > 0 && kinds != Some(kind) {
            return None;
        }
        kinds = Some(kind);
        texts.push(text);
    }
    let mut text = texts.join(",");
    if texts.last().is_some_and(String::is_empty) {
        text.push(',');
    }
    Some((format!("list<{}>", kinds?), text))
}

fn render_one(field: &FieldDescriptor, form: Form, value: &Value) -> Option<(&'static str, String)> {
    let kind = *form.names().first()?;
    let (kind, octets) = match value {
        Value::I32(n) => (kind, n.to_string().into_bytes()),
        Value::U32(n) => (kind, n.to_string().into_bytes()),
        Value::I64(n) => (kind, n.to_string().into_bytes()),
        Value::U64(n) => (kind, n.to_string().into_bytes()),
        Value::F32(n) => (kind, n.to_string().into_bytes()),
        Value::F64(n) => (kind, n.to_string().into_bytes()),
        Value::Bool(b) => (kind, b.to_string().into_bytes()),
        Value::String(s) => (kind, s.clone().into_bytes()),
        Value::Bytes(b) => (kind, b.to_vec()),
        Value::EnumNumber(n) => {
            let named = field.kind().as_enum().and_then(|e| e.get_value(*n).map(|v| v.name().to_owned()));
            (kind, named.unwrap_or_else(|| n.to_string()).into_bytes())
        }
        Value::Message(m) => {
            let (kind, text) = render_address(form, m)?;
            (kind, text.into_bytes())
        }
        Value::List(_) | Value::Map(_) => return None,
    };
    let mut out = String::new();
    escape(&octets, &mut out);
    Some((kind, out))
}

fn render_address(form: Form, message: &DynamicMessage) -> Option<(&'static str, String)> {
    match form {
        Form::Addr => match IpAddr::try_from(&message.transcode_to::<common::Addr>().ok()?).ok()? {
            IpAddr::V4(a) => Some(("ipv4", a.to_string())),
            IpAddr::V6(a) => Some(("ipv6", a.to_string())),
        },
        Form::Net => match IpPrefix::try_from(&message.transcode_to::<common::Net>().ok()?).ok()? {
            IpPrefix::V4(p) => Some(("ipv4net", p.to_string())),
            IpPrefix::V6(p) => Some(("ipv6net", p.to_string())),
        },
        Form::Mac => {
            let mac = message.transcode_to::<common::Mac>().ok()?;
            let hex: Vec<String> = mac.octets.iter().map(|o| format!("{o:02x}")).collect();
            Some(("mac", hex.join(":")))
        }
        _ => None,
    }
}

fn render_json(message: &DynamicMessage, field: &FieldDescriptor) -> Option<String> {
    let mut alone = DynamicMessage::new(message.descriptor());
    alone.set_field(field, message.get_field(field).into_owned());
    let whole = serde_json::to_value(&alone).ok()?;
    let value = whole.get(field.json_name())?;
    let mut out = String::new();
    escape(value.to_string().as_bytes(), &mut out);
    Some(out)
}
