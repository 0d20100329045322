//! The values that a leaf can have, in words: types, ranges, defaults.
use super::index::Def;
use super::node::Value;
use super::yang;
use crate::tree::{Form, Leaf};
use yang5::context::Context;
use yang5::schema::{DataValueType, SchemaLeafType, SchemaNode};

/// The type of statements that name an interface, in `sluice-extensions.yang`.
pub(crate) const INTERFACE_NAME: &str = "interface-name";

/// Describes the values of a leaf or leaf-list.
pub(crate) fn value<'a>(
    context: &'a Context,
    def: &Def,
    node: &SchemaNode<'a>,
    kind: &SchemaLeafType<'a>,
) -> Value {
    let mut words = yang::words(kind);
    if kind.base_type() == DataValueType::Bool {
        words = vec![("true".into(), "Yes.".into()), ("false".into(), "No.".into())];
    }
    let members = yang::members(context, kind);
    words.extend(members.iter().flat_map(yang::words));
    words.iter_mut().for_each(|(_, help)| *help = self::words(help));
    let range = match members.as_slice() {
        [] => range_words(kind),
        _ if kind.typedef_name().is_some_and(|name| !name.is_empty()) => String::new(),
        members => {
            let one = |m: &SchemaLeafType<'_>| match yang::words(m).as_slice() {
                [] => [type_name(m), range_words(m)].join(" ").trim_end().to_owned(),
                words => words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" | "),
            };
            members.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
    };
    let join = |all: &[Leaf]| all.iter().map(|d| &*d.text).collect::<Vec<_>>().join(" ");
    Value {
        type_name: type_name(kind),
        range,
        words,
        default: (!def.defaults.is_empty()).then(|| join(&def.defaults)),
        units: node.units().map(Into::into),
        mandatory: def.is_mandatory,
        flag: matches!(kind.base_type(), DataValueType::Bool | DataValueType::Empty),
        secret: def.is_secret,
        impact: def.impact,
    }
}

/// A description in one line.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn defaults(node: &SchemaNode<'_>) -> Vec<Leaf> {
    let single = node.default_value_canonical().ok().flatten().filter(|_| node.has_default());
    let all = single.into_iter().chain(yang::default_values(node));
    all.map(|text| Leaf { text: text.into(), form: Form::Text }).collect()
}

pub(crate) fn flag(kind: &SchemaLeafType<'_>) -> Option<Leaf> {
    match kind.base_type() {
        DataValueType::Bool => Some(Leaf { text: "true".into(), form: Form::Boolean }),
        DataValueType::Empty => Some(Leaf { text: "".into(), form: Form::Empty }),
        _ => None,
    }
}

fn type_name(kind: &SchemaLeafType<'_>) -> String {
    use DataValueType as T;
    match (kind.typedef_name(), kind.base_type()) {
        (Some(name), _) if !name.is_empty() => name,
        (_, T::Bool) => "boolean".into(),
        (_, T::Enum) => "enumeration".into(),
        (_, T::Dec64) => "decimal64".into(),
        (_, T::IdentityRef) => "identityref".into(),
        (_, T::InstanceId) => "instance-identifier".into(),
        (_, base) => format!("{base:?}").to_lowercase(),
    }
}

fn range_words(kind: &SchemaLeafType<'_>) -> String {
    let digits = yang::fraction_digits(kind);
    let number = |n: i128| match digits {
        0 => n.to_string(),
        _ => format!("{}", n as f64 / 10f64.powi(digits as i32)),
    };
    let part = |(low, high): &(i128, i128)| match low == high {
        true => number(*low),
        false if *high == u64::MAX.into() => format!("{} or more", number(*low)),
        false => format!("{}..{}", number(*low), number(*high)),
    };
    let parts: Vec<String> = yang::range(kind).iter().map(part).collect();
    let unit = match kind.base_type() {
        DataValueType::String if !parts.is_empty() => " characters",
        DataValueType::Binary if !parts.is_empty() => " octets",
        _ => "",
    };
    format!("{}{unit}", parts.join(" | "))
}
