//! Bodies of XRL calls and replies: every method of every service, as the build script finds them in the interface files.

use prost::Message;
use prost_reflect::{Cardinality, DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, Value};
use sluice_xrl::text;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A method, and the generated decoders of its arguments and of its reply.
pub struct Method {
    /// Interface and method, as in `rib.v1.Rib/UpdateRoutes`.
    pub path: &'static str,
    request: fn(&[u8]),
    reply: fn(&[u8]),
}

/// The methods of every interface.
pub const METHODS: &[Method] = &include!(concat!(env!("OUT_DIR"), "/methods.rs"));

/// Levels of nested messages in a seed; interfaces with trees have no limit.
const DEPTH: usize = 4;

/// Decodes a message; a decoded message is as long as its encoding, and decodes again.
fn body<M: Message + Default>(octets: &[u8]) {
    if let Ok(message) = M::decode(octets) {
        let again = M::decode(&*message.encode_to_vec()).expect("an encoded message decodes");
        assert_eq!(again.encoded_len(), message.encoded_len());
    }
}

/// Returns the descriptors of a method's arguments and reply, in the order of [`METHODS`].
fn described() -> &'static [[MessageDescriptor; 2]] {
    static DESCRIBED: OnceLock<Vec<[MessageDescriptor; 2]>> = OnceLock::new();
    DESCRIBED.get_or_init(|| {
        let set: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
        let pool = DescriptorPool::decode(set).expect("the build script's descriptors decode");
        let methods = pool.services().flat_map(|s| s.methods().collect::<Vec<_>>());
        methods.map(|m| [m.input(), m.output()]).collect()
    })
}

/// Decodes the body of a call and of its reply, and prints both as `sluice call` does. Two octets choose the method.
pub fn bodies(octets: &[u8]) {
    let Some((choice, octets)) = octets.split_first_chunk::<2>() else { return };
    let index = usize::from(u16::from_be_bytes(*choice)) % METHODS.len();
    (METHODS[index].request)(octets);
    (METHODS[index].reply)(octets);
    for message in described()[index].clone() {
        if let Ok(decoded) = DynamicMessage::decode(message, octets) {
            let _printed = text::render(&decoded);
        }
    }
}

/// Returns a call and a reply of every method, with every field set.
pub fn full_bodies() -> Vec<Vec<u8>> {
    let numbered = described().iter().enumerate();
    let both = |(index, pair): (usize, &[MessageDescriptor; 2])| {
        pair.clone().map(|m| [&(index as u16).to_be_bytes()[..], &full(&m, DEPTH).encode_to_vec()].concat())
    };
    numbered.flat_map(both).collect()
}

fn full(message: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut made = DynamicMessage::new(message.clone());
    for field in message.fields() {
        let value = |kind: &Kind| value(kind, field.number(), depth);
        let filled = if field.is_map() {
            let Kind::Message(entry) = field.kind() else { continue };
            let key = map_key(&entry.map_entry_key_field().kind());
            let Some(value) = value(&entry.map_entry_value_field().kind()) else { continue };
            Value::Map(HashMap::from([(key, value)]))
        } else {
            let Some(one) = value(&field.kind()) else { continue };
            let is_list = field.cardinality() == Cardinality::Repeated;
            if is_list { Value::List(vec![one.clone(), one]) } else { one }
        };
        made.set_field(&field, filled);
    }
    made
}

fn map_key(kind: &Kind) -> MapKey {
    match kind {
        Kind::Bool => MapKey::Bool(true),
        Kind::String => MapKey::String("key".into()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(-1),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(-1),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(1),
        _ => MapKey::U32(1),
    }
}

/// Returns a value of `kind`; `None` for a message at the end of `depth`.
fn value(kind: &Kind, number: u32, depth: usize) -> Option<Value> {
    Some(match kind {
        Kind::Double => Value::F64(0.5),
        Kind::Float => Value::F32(0.5),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(-1),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(i64::MIN),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(u64::MAX),
        Kind::Bool => Value::Bool(true),
        Kind::String => Value::String(format!("text {number}")),
        Kind::Bytes => Value::Bytes(vec![192, 0, 2, number as u8].into()),
        Kind::Enum(known) => Value::EnumNumber(known.values().last().map_or(0, |v| v.number())),
        Kind::Message(message) => Value::Message(full(message, depth.checked_sub(1).filter(|d| *d > 0)?)),
    })
}
