//! Metrics: from the answers of components to the text for monitoring.
//!
//! A [`Metric`] of a package selects rows of an answer; [`samples`] extracts the rows, and [`Family`] prints the rows
//! as OpenMetrics 1.0 text. Only the part accepted by readers of the older Prometheus text format is used: gauges and
//! counters, no quotes in HELP; the older format reads UNIT and EOF as remarks.

use crate::render::records;
use serde_json::{Number, Value};
use sluice_base::printable;
use sluice_config::metrics::{Format, Metric, STATE, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The end of an exposition.
pub const END: &str = "# EOF";

/// A number, and its distinction within the family.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Names of labels and their values.
    pub labels: BTreeMap<String, String>,
    /// The number.
    pub value: Number,
}

/// The samples of a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// The name; samples of a counter add `_total`.
    pub name: String,
    /// Gauge or counter.
    pub kind: Type,
    /// The description.
    pub help: String,
    /// The unit at the end of the name.
    pub unit: Option<&'static str>,
    /// No two of the same labels.
    pub samples: Vec<Sample>,
}

/// The reason why an answer does not yield a metric or a row.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Trouble {
    /// The answer has no such field.
    #[error("the answer has no `{0}`")]
    Missing(String),
    /// A value is no number, or several.
    #[error("`{path}` is {what}, no number; {remedy}")]
    NoNumber {
        /// The path of the value.
        path: String,
        /// The problem.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A counter that is below zero.
    #[error("`{0}` is below 0; what goes up and down is a gauge")]
    Negative(String),
    /// Two rows have the same labels.
    #[error("two rows have the same labels ({0}); add a label that distinguishes them")]
    Twice(String),
}

/// Returns the samples of a metric in an answer. Rows with errors are left out; each kind of error is reported once.
pub fn samples(metric: &Metric, answer: &Value) -> (Vec<Sample>, Vec<Trouble>) {
    let mut found = Found::default();
    let first = metric.rows.split('.').next().unwrap_or_default();
    if !first.is_empty() && answer.get(first).is_none() {
        return (Vec::new(), vec![Trouble::Missing(first.into())]);
    }
    for row in records(answer, &metric.rows) {
        if let Err(trouble) = found.row(metric, &row)
            && !found.troubles.contains(&trouble)
        {
            found.troubles.push(trouble);
        }
    }
    (found.samples, found.troubles)
}

#[derive(Default)]
struct Found {
    samples: Vec<Sample>,
    labels: BTreeSet<BTreeMap<String, String>>,
    troubles: Vec<Trouble>,
}

impl Found {
    fn row(&mut self, metric: &Metric, row: &[&Value]) -> Result<(), Trouble> {
        let mut labels = BTreeMap::new();
        for (name, path) in &metric.labels {
            let texts: Vec<String> = values(row, path)?.into_iter().map(text).collect();
            labels.insert(name.clone(), texts.join(" "));
        }
        if metric.value.is_empty() {
            return self.add(labels, Number::from(1));
        }
        let value = match values(row, &metric.value)?[..] {
            [Value::Null] => return Ok(()), // it has none: that is not 0
            [one] => one,
            _ => return Err(no_number(&metric.value, "several values", "let `rows` lead to each of them")),
        };
        if metric.states.is_empty() {
            return self.add(labels, number(metric, value)?);
        }
        let is = text(value);
        let known = metric.states.iter().map(String::as_str);
        // A state that nobody foresaw is said all the same: exactly one is 1.
        let more = (!metric.states.contains(&is)).then_some(is.as_str());
        for state in known.chain(more) {
            let mut labels = labels.clone();
            labels.insert(STATE.into(), state.into());
            self.add(labels, Number::from(u8::from(state == is)))?;
        }
        Ok(())
    }

    fn add(&mut self, labels: BTreeMap<String, String>, value: Number) -> Result<(), Trouble> {
        if !self.labels.insert(labels.clone()) {
            return Err(Trouble::Twice(written(&labels)));
        }
        self.samples.push(Sample { labels, value });
        Ok(())
    }
}

/// Returns the values at a path of a row, or else of the records around the row: at least one.
fn values<'v>(row: &[&'v Value], path: &str) -> Result<Vec<&'v Value>, Trouble> {
    let missing = || Trouble::Missing(path.into());
    let (mut found, rest) = row.iter().find_map(|around| inside(around, path)).ok_or_else(missing)?;
    for name in rest {
        let mut deeper = Vec::new();
        for value in found {
            match value {
                Value::Null => deeper.push(value),
                other => deeper.extend(each(other.get(name).ok_or_else(missing)?)),
            }
        }
        found = deeper;
    }
    // A repeated field that is absent has no rows.
    if found.is_empty() { Ok(vec![&Value::Null]) } else { Ok(found) }
}

/// Returns a value's members by the first name of a path, and the names behind that.
fn inside<'v, 'p>(value: &'v Value, path: &'p str) -> Option<(Vec<&'v Value>, std::str::Split<'p, char>)> {
    let mut names = path.split('.');
    let first = value.get(names.next()?)?;
    Some((each(first), names))
}

fn each(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(all) => all.iter().collect(),
        one => vec![one],
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn number(metric: &Metric, value: &Value) -> Result<Number, Trouble> {
    let number = match (value, metric.format) {
        (Value::Bool(so), Format::Count | Format::Flag) => Number::from(u8::from(*so)),
        (Value::String(text), Format::Flag) => Number::from(u8::from(!text.is_empty())),
        (Value::Number(n), Format::Flag) => Number::from(u8::from(n.as_f64() != Some(0.0))),
        (Value::Number(n), Format::Span) => seconds(n),
        (Value::Number(n), Format::Count | Format::Bytes) => n.clone(),
        (Value::String(_), _) => {
            return Err(no_number(&metric.value, "a text", "give its `states`, or say `format = \"flag\"`"));
        }
        (Value::Bool(_), _) => return Err(no_number(&metric.value, "yes or no", "leave `format` out")),
        _ => return Err(no_number(&metric.value, "a message", "name a field of it")),
    };
    if metric.kind == Type::Counter && number.as_f64().is_some_and(|n| n < 0.0) {
        return Err(Trouble::Negative(metric.value.clone()));
    }
    Ok(number)
}

fn no_number(path: &str, what: &'static str, remedy: &'static str) -> Trouble {
    Trouble::NoNumber { path: path.into(), what, remedy }
}

fn seconds(ms: &Number) -> Number {
    let seconds = ms.as_f64().and_then(|ms| Number::from_f64(ms / 1000.0));
    seconds.unwrap_or_else(|| ms.clone()) // a number of JSON is finite, and so is a thousandth of it
}

impl Family {
    /// A metric's, without samples so far.
    pub fn of(metric: &Metric) -> Self {
        Family {
            name: metric.family(),
            kind: metric.kind,
            help: metric.help.clone(),
            unit: metric.unit(),
            samples: Vec::new(),
        }
    }

    /// As OpenMetrics text, with an end of line behind each line.
    pub fn text(&self) -> String {
        let name = &self.name;
        let mut text = format!("# HELP {name} {}\n# TYPE {name} {}\n", self.help, self.kind.name());
        if let Some(unit) = self.unit {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        let suffix = if self.kind == Type::Counter { "_total" } else { "" };
        for Sample { labels, value } in &self.samples {
            let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", written(labels)) };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}{suffix}{braces} {value}");
        }
        text
    }
}

/// Labels as they are written between the braces.
fn written(labels: &BTreeMap<String, String>) -> String {
    let all: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    all.join(",")
}

/// Returns a label's value with the terminating characters escaped.
fn escaped(value: &str) -> String {
    let lines: Vec<_> = value.split('\n').map(printable).collect();
    lines.join("\n").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sluice_config::metrics::parse;

    const FILE: &str = r#"
[[metric]]
name = "p_received"
type = "gauge"
help = "Prefixes."
call = "p/p.v1.P/GetNeighbors"
rows = "neighbors.families"
labels = { neighbor = "address", family = "family" }
value = "received"
[[metric]]
name = "p_messages"
type = "counter"
help = "Messages."
call = "p/p.v1.P/GetNeighbors"
rows = "neighbors"
labels = { neighbor = "address" }
value = "messages.update"
[[metric]]
name = "p_state"
type = "gauge"
help = "The state."
call = "p/p.v1.P/GetNeighbors"
rows = "neighbors"
labels = { neighbor = "address" }
value = "state"
states = ["Idle", "Up"]
[[metric]]
name = "p_up_seconds"
type = "gauge"
help = "Time."
call = "p/p.v1.P/GetNeighbors"
value = "uptime_ms"
format = "span"
[[metric]]
name = "p_trouble"
type = "gauge"
help = "Trouble."
call = "p/p.v1.P/GetNeighbors"
value = "trouble"
format = "flag"
[[metric]]
name = "p_neighbor_info"
type = "gauge"
help = "A row a neighbor."
call = "p/p.v1.P/GetNeighbors"
rows = "neighbors"
labels = { neighbor = "address", capabilities = "capabilities" }
"#;

    /// The sample lines of a metric, and what is said.
    fn check(name: &str, answer: &Value, lines: &[&str], said: &[&str]) {
        let metrics = parse("p", FILE).expect("it is right");
        let metric = metrics.iter().find(|m| m.name == name).expect(name);
        let (samples, troubles) = samples(metric, answer);
        let text = Family { samples, ..Family::of(metric) }.text();
        let found: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(found, lines, "{name}");
        assert_eq!(troubles.iter().map(ToString::to_string).collect::<Vec<_>>(), said, "{name}");
    }

    #[test]
    fn rows_become_samples() {
        let answer = json!({
            "uptime_ms": 12_345, "trouble": "", "neighbors": [
                { "address": "::1", "state": "Up", "capabilities": ["a", "b"], "messages": { "update": 7 }, "families": [
                    { "family": "ipv4", "received": 5 }, { "family": "ipv6", "received": null },
                ] },
                { "address": "a\"\\\n", "state": "Odd", "capabilities": [], "messages": null, "families": [] },
            ],
        });
        check("p_received", &answer, &["sluice_p_received{family=\"ipv4\",neighbor=\"::1\"} 5"], &[]);
        check("p_messages", &answer, &["sluice_p_messages_total{neighbor=\"::1\"} 7"], &[]);
        let states = [
            "sluice_p_state{neighbor=\"::1\",state=\"Idle\"} 0",
            "sluice_p_state{neighbor=\"::1\",state=\"Up\"} 1",
            r#"sluice_p_state{neighbor="a\"\\\n",state="Idle"} 0"#,
            r#"sluice_p_state{neighbor="a\"\\\n",state="Up"} 0"#,
            r#"sluice_p_state{neighbor="a\"\\\n",state="Odd"} 1"#,
        ];
        check("p_state", &answer, &states, &[]);
        check("p_up_seconds", &answer, &["sluice_p_up_seconds 12.345"], &[]);
        check("p_trouble", &answer, &["sluice_p_trouble 0"], &[]);
        let infos = [
            "sluice_p_neighbor_info{capabilities=\"a b\",neighbor=\"::1\"} 1",
            r#"sluice_p_neighbor_info{capabilities="",neighbor="a\"\\\n"} 1"#,
        ];
        check("p_neighbor_info", &answer, &infos, &[]);
    }

    #[test]
    fn what_cannot_be_had_is_said() {
        check("p_received", &json!({}), &[], &["the answer has no `neighbors`"]);
        check("p_received", &json!({ "neighbors": [] }), &[], &[]);
        let twice = json!({ "neighbors": [
            { "address": "a", "messages": { "update": 1 } }, { "address": "a", "messages": { "update": 2 } },
            { "address": "b", "messages": { "update": -1 } }, { "address": "c", "messages": { "update": "x" } },
            { "address": "d", "messages": {} }, { "address": "e", "messages": { "update": [1, 2] } },
            { "address": "f", "messages": { "update": {} } },
        ] });
        let said = [
            "two rows have the same labels (neighbor=\"a\"); add a label that distinguishes them",
            "`messages.update` is below 0; what goes up and down is a gauge",
            "`messages.update` is a text, no number; give its `states`, or say `format = \"flag\"`",
            "the answer has no `messages.update`",
            "`messages.update` is several values, no number; let `rows` lead to each of them",
            "`messages.update` is a message, no number; name a field of it",
        ];
        check("p_messages", &twice, &["sluice_p_messages_total{neighbor=\"a\"} 1"], &said);
        let bool_span = json!({ "uptime_ms": true, "trouble": "x" });
        check("p_up_seconds", &bool_span, &[], &["`uptime_ms` is yes or no, no number; leave `format` out"]);
        check("p_trouble", &bool_span, &["sluice_p_trouble 1"], &[]);
    }

    #[test]
    fn a_family_is_open_metrics() {
        let metric = &parse("p", FILE).expect("it is right")[3];
        let (samples, _) = samples(metric, &json!({ "uptime_ms": 1000 }));
        let text = Family { samples, ..Family::of(metric) }.text();
        let expected = "# HELP sluice_p_up_seconds Time.\n# TYPE sluice_p_up_seconds gauge\n\
                        # UNIT sluice_p_up_seconds seconds\nsluice_p_up_seconds 1.0\n";
        assert_eq!(text, expected);
    }
}
