//! Numbers of 64 bits in JSON: strings of digits, as in the JSON mapping of protobuf and in gNMI. Programs that keep every number as a
//! double, as JavaScript does, would otherwise damage numbers over 2^53.
//!
//! A command's schema marks these numbers, by `"type": "string", "format": "uint64"`. A value's size does not matter: the type
//! of a key is always the same.

use serde_json::Value;

/// The `format` of a number of 64 bits in a schema.
pub const FORMAT: &str = "uint64";

/// Writes the numbers of a document as strings where its schema requires that.
pub fn widen(schema: &Value, value: &mut Value) {
    if schema.is_null() {
        return;
    }
    for branch in schema["anyOf"].as_array().into_iter().flatten() {
        widen(branch, value);
    }
    match value {
        // A key may be a number with a fraction in another kind of document of the same command.
        Value::Number(number) if schema["format"] == FORMAT && !number.is_f64() => {
            *value = number.to_string().into();
        }
        Value::Object(members) => {
            for (name, member) in members {
                widen(&schema["properties"][name.as_str()], member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| widen(&schema["items"], item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_of_64_bits_are_strings() {
        let wide = json!({ "type": "string", "format": "uint64" });
        let inner =
            json!({ "properties": { "wide": wide, "narrow": { "type": "integer", "format": "uint32" } } });
        let schema = json!({ "properties": {
            "list": { "items": inner }, "either": { "anyOf": [wide, { "type": "null" }] }, "other": {}
        } });
        let mut value = json!({
            "list": [{ "wide": u64::MAX, "narrow": 1 }, { "wide": 0, "narrow": 2 }],
            "either": (1u64 << 53) + 1, "other": 3, "unknown": 4,
        });
        widen(&schema, &mut value);
        assert_eq!(
            value,
            json!({
                "list": [{ "wide": "18446744073709551615", "narrow": 1 }, { "wide": "0", "narrow": 2 }],
                "either": "9007199254740993", "other": 3, "unknown": 4,
            })
        );
        let mut nothing = json!({ "either": null });
        widen(&schema, &mut nothing);
        assert_eq!(nothing, json!({ "either": null }));
    }
}
