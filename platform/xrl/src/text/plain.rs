//! Replies as plain JSON: the names of the `.proto` file, addresses and prefixes as text, numbers as numbers, every
//! field always present. The command line prints these replies, and its JSON Schemas describe them; both are made from
//! a message's description.

use super::{Atom, AtomError, build, describe, escape, type_name};
use crate::idl::common::v1 as common;
use crate::wire::octets::Octets;
use crate::{XrlEndpoint, XrlError};
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{Message, Name};
use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    Value,
};
use serde_json::{Map, Value as Json, json};
use sluice_base::{Address, AnyPrefix};
use std::collections::BTreeMap;
use std::time::Duration;

/// Calls a method with fields of its request as text, and returns the reply as plain JSON.
///
/// # Errors
/// The errors of the call; `BadArguments` for a missing field or a text that does not fit.
pub async fn call_plain(
    router: &XrlEndpoint,
    (target, interface, method): (&str, &str, &str),
    fields: &[(String, String)],
    deadline: Duration,
) -> Result<Json, XrlError> {
    let described = describe(router, target, interface, method).await?;
    let reply = call_described(router, target, &described, fields, deadline).await?;
    decoded(&described, &reply)
}

/// Reads by a method as [`call_plain`] calls one.
///
/// # Errors
/// As of [`call_plain`]; `AccessDenied` for a method whose interface does not say that it only reads.
pub async fn read_plain(
    router: &XrlEndpoint,
    method: (&str, &str, &str),
    fields: &[(String, String)],
    deadline: Duration,
) -> Result<Json, XrlError> {
    let described = describe_reading(router, method).await?;
    let reply = call_described(router, method.0, &described, fields, deadline).await?;
    decoded(&described, &reply)
}

/// Reads by a method as [`read_plain`] does, and decodes only the first `most` entries of each list of the reply. Returns the
/// number of further entries by the list's name: a reply of 16 MiB can take 100 times as much memory as JSON.
///
/// # Errors
/// As of [`read_plain`]; `TooLarge` for a reply that has more than `octets` octets with the first entries only.
pub async fn read_plain_bounded(
    router: &XrlEndpoint,
    method: (&str, &str, &str),
    fields: &[(String, String)],
    deadline: Duration,
    (most, octets): (usize, usize),
) -> Result<(Json, BTreeMap<String, u64>), XrlError> {
    let described = describe_reading(router, method).await?;
    let reply = call_described(router, method.0, &described, fields, deadline).await?;
    let (reply, further) = shorten(&reply, most)?;
    if reply.len() > octets {
        return Err(XrlError::TooLarge { size: reply.len() as u64, limit: octets as u64 });
    }
    let name = |number| described.output().get_field(number).map(|field| field.name().to_owned());
    let further = further.into_iter().filter_map(|(number, count)| Some((name(number)?, count))).collect();
    Ok((decoded(&described, &reply)?, further))
}

async fn describe_reading(
    router: &XrlEndpoint,
    (target, interface, method): (&str, &str, &str),
) -> Result<MethodDescriptor, XrlError> {
    let described = describe(router, target, interface, method).await?;
    if !reads(&described) {
        let reason = "which does not say in its interface that it only reads";
        return Err(XrlError::AccessDenied(format!("{target}/{interface}/{method}, {reason}")));
    }
    Ok(described)
}

/// Returns true for a method that only reads, as its interface states.
pub fn reads(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

async fn call_described(
    router: &XrlEndpoint,
    target: &str,
    described: &MethodDescriptor,
    fields: &[(String, String)],
    deadline: Duration,
) -> Result<Vec<u8>, XrlError> {
    let request = request(&described.input(), fields)?;
    let path = format!("{}/{}", described.parent_service().full_name(), described.name());
    let octets = Octets(request.encode_to_vec());
    let reply = router.call_octets(target, &path, None, Some(deadline), octets).await?;
    Ok(reply.0)
}

fn decoded(described: &MethodDescriptor, reply: &[u8]) -> Result<Json, XrlError> {
    let reply = DynamicMessage::decode(described.output(), reply);
    Ok(plain(&reply.map_err(|e| XrlError::Protocol(e.to_string()))?))
}

/// Returns a message with the first `most` values of each field only, and the number of further values by field.
fn shorten(message: &[u8], most: usize) -> Result<(Vec<u8>, BTreeMap<u32, u64>), XrlError> {
    let wrong = |e: prost::DecodeError| XrlError::Protocol(e.to_string());
    let (mut kept, mut counts) = (Vec::new(), BTreeMap::<u32, u64>::new());
    let mut rest = message;
    while !rest.is_empty() {
        let begin = rest;
        let (tag, kind) = decode_key(&mut rest).map_err(wrong)?;
        skip_field(kind, tag, &mut rest, DecodeContext::default()).map_err(wrong)?;
        let count = counts.entry(tag).or_default();
        *count += 1;
        if *count <= most as u64 {
            kept.extend_from_slice(&begin[..begin.len() - rest.len()]);
        }
    }
    let further = counts.into_iter().map(|(tag, count)| (tag, count.saturating_sub(most as u64)));
    Ok((kept, further.filter(|(_, count)| *count > 0).collect()))
}

/// The JSON Schema of printed replies of [`call_plain`]: numbers of 64 bits are strings.
///
/// # Errors
/// Where the method is not there.
pub async fn reply_schema(
    router: &XrlEndpoint,
    (target, interface, method): (&str, &str, &str),
) -> Result<Json, XrlError> {
    Ok(schema(&describe(router, target, interface, method).await?.output()))
}

/// A request with the given fields. A repeated field is named once for each value.
fn request(descriptor: &MessageDescriptor, fields: &[(String, String)]) -> Result<DynamicMessage, AtomError> {
    let mut atoms = Vec::new();
    for (name, text) in fields {
        let Some(field) = descriptor.get_field_by_name(name) else {
            let known: Vec<String> = descriptor.fields().map(|f| f.name().to_owned()).collect();
            return Err(AtomError::Unknown { name: name.clone(), known: known.join(", ") });
        };
        // An address is of the family that it looks like.
        let names = type_name(&field);
        let kind = names.split('|').nth(usize::from(text.contains(':'))).unwrap_or(&names).to_owned();
        let mut value = String::new();
        escape(text.as_bytes(), &mut value);
        atoms.push(Atom { name: name.clone(), kind, value });
    }
    build(descriptor, &atoms)
}

/// Decodes the arguments of a method described at run time.
pub struct Decoder(MethodDescriptor);

impl Decoder {
    /// Finds a method in an encoded `FileDescriptorSet`.
    pub fn new(descriptors: &[u8], interface: &str, method: &str) -> Result<Self, XrlError> {
        let service = super::pool(descriptors)?.get_service_by_name(interface);
        let service = service.ok_or_else(|| XrlError::UnknownInterface(interface.to_owned()))?;
        let found = service.methods().find(|m| m.name() == method);
        found.map(Decoder).ok_or_else(|| XrlError::UnknownMethod(format!("{interface}/{method}")))
    }

    /// Returns encoded arguments as [`plain`] shows them.
    pub fn plain(&self, arguments: &[u8]) -> Result<Json, XrlError> {
        let message = DynamicMessage::decode(self.0.input(), arguments);
        Ok(plain(&message.map_err(|error| XrlError::BadArguments(error.to_string()))?))
    }
}

/// Messages of compiled interfaces as plain JSON.
pub struct Printer(DescriptorPool);

impl Printer {
    /// Reads the interfaces' descriptions: an encoded `FileDescriptorSet`.
    ///
    /// # Errors
    /// `Protocol` for descriptions that cannot be read.
    pub fn new(descriptors: &[u8]) -> Result<Self, XrlError> {
        super::pool(descriptors).map(Printer)
    }

    /// Returns a message as [`plain`] shows it.
    ///
    /// # Errors
    /// `Protocol` for a message of another interface.
    pub fn plain<M: Message + Name>(&self, message: &M) -> Result<Json, XrlError> {
        let name = M::full_name();
        let described = self.0.get_message_by_name(&name);
        let described = described.ok_or_else(|| XrlError::Protocol(format!("{name} is not described")))?;
        let message = DynamicMessage::decode(described, &message.encode_to_vec()[..]);
        Ok(plain(&message.map_err(|e| XrlError::Protocol(e.to_string()))?))
    }
}

/// A message as plain JSON.
pub fn plain(message: &DynamicMessage) -> Json {
    if let Some(text) = word(message) {
        return Json::String(text);
    }
    let mut object = Map::new();
    let descriptor = prost_reflect::ReflectMessage::descriptor(message);
    for field in descriptor.fields() {
        let value = match field.supports_presence() && !message.has_field(&field) {
            true => Json::Null,
            false => value(&field, &message.get_field(&field)),
        };
        object.insert(field.name().to_owned(), value);
    }
    Json::Object(object)
}

fn value(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::List(all) => all.iter().map(|v| one(field, v)).collect(),
        Value::Map(all) => {
            all.iter().map(|(k, v)| (format!("{k:?}"), one(field, v))).collect::<Map<_, _>>().into()
        }
        single => one(field, single),
    }
}

fn one(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::Bool(b) => json!(b),
        Value::I32(n) => json!(n),
        Value::I64(n) => json!(n),
        Value::U32(n) => json!(n),
        Value::U64(n) => json!(n),
        Value::F32(n) => json!(n),
        Value::F64(n) => json!(n),
        Value::String(s) => json!(s),
        Value::Bytes(octets) => json!(octets.iter().map(|o| format!("{o:02x}")).collect::<String>()),
        Value::EnumNumber(n) => match field.kind() {
            Kind::Enum(e) => {
                e.get_value(*n).map_or_else(|| json!(n.to_string()), |v| json!(v.name().to_lowercase()))
            }
            _ => json!(n),
        },
        Value::Message(message) => plain(message),
        Value::List(_) | Value::Map(_) => Json::Null,
    }
}

/// Returns the text of messages with a short text form: addresses, prefixes.
fn word(message: &DynamicMessage) -> Option<String> {
    let descriptor = prost_reflect::ReflectMessage::descriptor(message);
    match descriptor.full_name() {
        "common.v1.Addr" => {
            let addr: common::Addr = message.transcode_to().ok()?;
            Some(Address::try_from(&addr).map_or_else(|_| String::new(), |a| a.to_string()))
        }
        "common.v1.Net" => {
            let net: common::Net = message.transcode_to().ok()?;
            Some(AnyPrefix::try_from(&net).map_or_else(|_| String::new(), |p| p.to_string()))
        }
        "common.v1.Mac" => {
            let mac: common::Mac = message.transcode_to().ok()?;
            Some(mac.octets.iter().map(|o| format!("{o:02x}")).collect::<Vec<_>>().join(":"))
        }
        _ => None,
    }
}

/// The JSON Schema of printed messages of [`plain`]: numbers of 64 bits are strings. A message inside of itself is any object.
pub fn schema(descriptor: &MessageDescriptor) -> Json {
    message_schema(descriptor, &[])
}

/// Returns the schema of a message inside of others.
fn message_schema(descriptor: &MessageDescriptor, outer: &[MessageDescriptor]) -> Json {
    if matches!(descriptor.full_name(), "common.v1.Addr" | "common.v1.Net" | "common.v1.Mac") {
        return json!({ "type": "string" });
    }
    if outer.contains(descriptor) {
        return json!({ "type": "object" });
    }
    let outer = [outer, std::slice::from_ref(descriptor)].concat();
    let properties: Map<String, Json> =
        descriptor.fields().map(|f| (f.name().to_owned(), field_schema(&f, &outer))).collect();
    let required: Vec<&String> = properties.keys().collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn field_schema(field: &FieldDescriptor, outer: &[MessageDescriptor]) -> Json {
    let one = match field.kind() {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String | Kind::Bytes => json!({ "type": "string" }),
        Kind::Float | Kind::Double => json!({ "type": "number" }),
        Kind::Enum(_) => json!({ "type": "string" }),
        Kind::Message(inner) => message_schema(&inner, outer),
        Kind::Uint64 | Kind::Fixed64 | Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({ "type": "string", "format": "uint64" })
        }
        _ => json!({ "type": "integer", "format": "uint32" }),
    };
    if field.cardinality() == Cardinality::Repeated {
        return json!({ "type": "array", "items": one });
    }
    match field.supports_presence() {
        true => json!({ "anyOf": [one, { "type": "null" }] }),
        false => one,
    }
}

#[cfg(test)]
mod tests {
    use super::{common, plain, shorten};
    use prost::Message;
    use prost_reflect::DynamicMessage;
    use prost_reflect::prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    };
    use serde_json::json;
    use sluice_base::{Address, AnyPrefix, Xid, XidPrefix};
    use std::collections::BTreeMap;

    #[test]
    fn addresses_and_prefixes_of_every_family_are_text() {
        let pool = super::super::pool(crate::idl::DESCRIPTORS).expect("descriptors");
        let shown = |name: &str, octets: Vec<u8>| {
            let described = pool.get_message_by_name(name).expect("a message");
            plain(&DynamicMessage::decode(described, &octets[..]).expect("it decodes"))
        };
        let (xid, xids) = (
            "hid-b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2",
            "lpm-0a00000000000000000000000000000000000000/8",
        );
        let addr = Address::from(xid.parse::<Xid>().expect("an XID"));
        let net = AnyPrefix::of(xids.parse::<XidPrefix>().expect("a prefix"));
        assert_eq!(shown("common.v1.Addr", common::Addr::from(addr).encode_to_vec()), xid);
        assert_eq!(shown("common.v1.Net", common::Net::from(net).encode_to_vec()), xids);
    }

    #[test]
    fn a_message_inside_of_itself_has_a_schema() {
        let inner = FieldDescriptorProto {
            name: Some("inner".into()),
            number: Some(1),
            type_name: Some(".a.v1.Node".into()),
            ..FieldDescriptorProto::default()
        };
        let node =
            DescriptorProto { name: Some("Node".into()), field: vec![inner], ..DescriptorProto::default() };
        let file = FileDescriptorProto {
            name: Some("a.proto".into()),
            package: Some("a.v1".into()),
            syntax: Some("proto3".into()),
            message_type: vec![node],
            ..FileDescriptorProto::default()
        };
        let set = FileDescriptorSet { file: vec![file] };
        let pool = super::super::pool(&set.encode_to_vec()).expect("descriptors");
        let schema = super::schema(&pool.get_message_by_name("a.v1.Node").expect("a message"));
        let inner = &schema["properties"]["inner"]["anyOf"];
        assert_eq!(inner, &json!([{ "type": "object" }, { "type": "null" }]));
    }

    #[test]
    fn lists_are_shortened_and_counted() {
        // Field 1: a list of messages; field 2: a number.
        let message = [&[0x0a, 0x01, 0x05].repeat(5)[..], &[0x10, 0x07], &[0x0a, 0x00]].concat();
        let (kept, further) = shorten(&message, 2).expect("the message is whole");
        assert_eq!(kept, [0x0a, 0x01, 0x05, 0x0a, 0x01, 0x05, 0x10, 0x07]);
        assert_eq!(further, BTreeMap::from([(1, 4)]));
        assert_eq!(shorten(&message, 6), Ok((message, BTreeMap::new())));
        assert!(shorten(&[0x0a, 0x05, 0x00], 6).is_err());
    }
}
