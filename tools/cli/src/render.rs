//! Values as cells of a table.

use serde::Deserialize;
use serde_json::Value;
use time::{OffsetDateTime, PrimitiveDateTime};

/// The format of a value for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Unchanged; several values with blanks between them.
    #[default]
    Text,
    /// An address.
    Addr,
    /// A prefix.
    Net,
    /// A number of octets.
    Bytes,
    /// Milliseconds.
    Span,
    /// A number.
    Count,
    /// Yes or no.
    Flag,
}

/// Returns the values at a path (names with dots) of a value; every element of a list is followed.
pub fn at<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    for name in path.split('.').filter(|n| !n.is_empty()) {
        let inside = |v: &'v Value| -> Vec<&'v Value> {
            match v {
                Value::Array(all) => all.iter().filter_map(|v| v.get(name)).collect(),
                v => v.get(name).into_iter().collect(),
            }
        };
        found = found.into_iter().flat_map(inside).collect();
    }
    found
        .into_iter()
        .flat_map(|v| if let Value::Array(all) = v { all.iter().collect() } else { vec![v] })
        .collect()
}

/// Returns the records at a path, each with the surrounding values, the innermost first.
pub fn records<'v>(value: &'v Value, path: &str) -> Vec<Vec<&'v Value>> {
    let mut found = vec![vec![value]];
    for name in path.split('.').filter(|n| !n.is_empty()) {
        let mut deeper = Vec::new();
        for around in found {
            let inside = match around[0].get(name) {
                Some(Value::Array(all)) => all.iter().collect(),
                Some(Value::Null) | None => Vec::new(),
                Some(one) => vec![one],
            };
            deeper.extend(inside.into_iter().map(|v| [vec![v], around.clone()].concat()));
        }
        found = deeper;
    }
    found
}

/// Returns a column's text for a record: the innermost value of the path.
pub fn cell(record: &[&Value], path: &str, format: Format) -> String {
    let values = record.iter().map(|v| at(v, path)).find(|found| !found.is_empty()).unwrap_or_default();
    let texts: Vec<String> = values.into_iter().map(|v| text(v, format)).filter(|t| !t.is_empty()).collect();
    if texts.is_empty() { "-".into() } else { texts.join(" ") }
}

fn text(value: &Value, format: Format) -> String {
    match (value, format) {
        (Value::Number(n), Format::Bytes) => n.as_u64().map_or_else(|| n.to_string(), bytes),
        (Value::Number(n), Format::Span) => n.as_u64().map_or_else(|| n.to_string(), span),
        (Value::Bool(b), _) => (if *b { "yes" } else { "no" }).into(),
        (Value::String(s), _) => s.clone(),
        (Value::Null, _) => String::new(),
        (Value::Object(_), _) => value.to_string(),
        (other, _) => other.to_string(),
    }
}

/// So many of something: `1 change`, `2 changes`.
pub fn counted(n: impl Into<u64>, one: &str, more: &str) -> String {
    match n.into() {
        1 => format!("1 {one}"),
        n => format!("{n} {more}"),
    }
}

/// Octets as people read them.
pub fn bytes(n: u64) -> String {
    match n {
        0..=9_999 => format!("{n} B"),
        10_000..=9_999_999 => format!("{} kB", n / 1000),
        _ => format!("{} MB", n / 1_000_000),
    }
}

/// A time span in milliseconds as people read it.
pub fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms} ms"),
        1..=59 => format!("{s} s"),
        60..=3599 => format!("{}:{:02}", s / 60, s % 60),
        3600..=86_399 => format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60),
        _ => format!("{} d {}:{:02}", s / 86_400, s / 3600 % 24, s / 60 % 60),
    }
}

/// A point in time as people and programs read it: RFC 3339, UTC, milliseconds.
pub fn time(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000, unix_ms % 1000);
    let at = i64::try_from(seconds).ok().and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    // Later than the year 9999: no clock shows it.
    let at = at.unwrap_or(PrimitiveDateTime::MAX.assume_utc());
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_know_what_is_around_them() {
        let reply = json!({ "tables": [{ "family": "ipv4", "hops": [{ "a": 1 }, { "a": 2 }] }, { "family": "ipv6", "hops": [] }] });
        let rows = records(&reply, "tables.hops");
        assert_eq!(rows.len(), 2);
        assert_eq!(cell(&rows[1], "a", Format::Count), "2");
        assert_eq!(cell(&rows[1], "family", Format::Text), "ipv4");
        assert_eq!(cell(&rows[1], "nothing", Format::Text), "-");
        assert_eq!(at(&reply, "tables.hops.a").len(), 2);
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(time(1_795_280_759_000), "2026-11-21T17:05:59.000Z");
    }
}
