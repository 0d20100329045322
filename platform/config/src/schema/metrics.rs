//! Metrics of a package: its `metrics.toml` (docs/extending.md).
//!
//! A metric is computed from a call's answer: from the rows, from the fields used as labels, from the field with the
//! number. No code of the component is involved, so a wrong declaration does no harm: the file is refused here, with
//! the line and a remedy, or the answer lacks the declared field, and the reader of the metrics reports the lack.
//!
//! Names and texts are restricted, so that the output is valid for readers of OpenMetrics 1.0 as well as of the older
//! Prometheus text format (the textfile collector of `node_exporter`), which disagree about quotes in HELP and about
//! types.

mod error;
mod names;

pub use error::{MetricsError, Problem};
pub use names::prefix;

use error::shown;
use serde::Deserialize;
use sluice_base::component::format::{FormatHead, METRICS_FORMAT};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The prefix of all printed names.
pub const EXPORTED: &str = "sluice_";
/// The label added to a metric with states.
pub const STATE: &str = "state";
/// Metrics that a file may have.
pub(crate) const MOST_METRICS: usize = 256;
/// Labels that a metric may have.
pub(crate) const MOST_LABELS: usize = 16;
/// States that a metric may have.
pub const MOST_STATES: usize = 32;
/// Characters that a name, a path, a state or a help text may have.
pub const LONGEST: usize = 200;

/// The type of a metric (OpenMetrics 1.0, section "Metric Types").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// Goes up and down.
    Gauge,
    /// Only goes up, from 0 when the process begins.
    Counter,
}

impl Type {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Type::Gauge => "gauge",
            Type::Counter => "counter",
        }
    }
}

/// The format of the value in the answer; the words are those of columns in `commands.toml`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A number, printed as it is; yes is 1 and no is 0.
    #[default]
    Count,
    /// Milliseconds, printed as seconds.
    Span,
    /// Octets.
    Bytes,
    /// A condition: 1 for yes, for any number but 0, for any text but the empty text.
    Flag,
}

/// The call that returns a metric. Metrics with the same call share the answer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    /// The target of the call.
    pub target: String,
    /// Package and service.
    pub interface: String,
    /// The method.
    pub method: String,
    /// Fields of the request.
    pub with: BTreeMap<String, String>,
}

/// A metric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name, without [`EXPORTED`].
    pub name: String,
    /// Gauge or counter.
    pub kind: Type,
    /// The description in a sentence: one line without quotes.
    pub help: String,
    /// The call.
    pub call: Call,
    /// The path of the rows in the answer; empty: the answer is the row.
    pub rows: String,
    /// Names of labels, and the paths of their values in a row or around the row.
    pub labels: BTreeMap<String, String>,
    /// The path of the value in a row or around the row; empty: a row counts 1.
    pub value: String,
    /// The format of the value.
    pub format: Format,
    /// The possible values, if declared; each state is a sample of its own, 1 if current.
    pub states: Vec<String>,
}

impl Metric {
    /// Returns the name of the metric's family in the output.
    pub fn family(&self) -> String {
        format!("{EXPORTED}{}", self.name)
    }

    /// Returns the unit at the end of the metric's name, if any.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| names::ends_in(&self.name, unit))
    }
}

/// The part that every version of the format has, with its place.
#[derive(Deserialize)]
struct Head {
    format: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Checked before all other keys.
    #[serde(rename = "format")]
    _format: Option<u32>,
    #[serde(default)]
    metric: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    #[serde(rename = "type")]
    kind: Spanned<Type>,
    help: Spanned<String>,
    call: Spanned<String>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    rows: Option<Spanned<String>>,
    #[serde(default)]
    labels: BTreeMap<Spanned<String>, Spanned<String>>,
    value: Option<Spanned<String>>,
    format: Option<Spanned<Format>>,
    states: Option<Spanned<Vec<String>>>,
}

/// Reads a `metrics.toml` of the package `package`. Names belong to the package: each begins with [`prefix`].
///
/// # Errors
/// The first problem, with its line.
pub fn parse(package: &str, text: &str) -> Result<Vec<Metric>, MetricsError> {
    let at = |offset: usize, problem| MetricsError::new(text, offset, problem);
    // First of all: a newer format has keys that are unknown here.
    if let Ok(head) = toml::from_str::<Head>(text) {
        let (start, format) = head.format.map(|f| (f.span().start, f.into_inner())).unzip();
        let check = FormatHead { format }.check(METRICS_FORMAT);
        check.map_err(|error| at(start.unwrap_or(0), Problem::Format(error)))?;
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        at(offset, Problem::Text(shown(&error.message().trim_end().replace('\n', ", "))))
    })?;
    if let Some(entry) = file.metric.get(MOST_METRICS) {
        return Err(at(entry.span().start, Problem::TooMany { what: "metrics", most: MOST_METRICS }));
    }
    let prefix = prefix(package);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for entry in file.metric {
        let entry = entry.into_inner();
        let name = entry.name.clone();
        if !seen.insert(name.get_ref().clone()) {
            return Err(at(name.span().start, Problem::Twice { name: name.into_inner() }));
        }
        all.push(build(&prefix, entry).map_err(|(offset, problem)| at(offset, problem))?);
    }
    Ok(all)
}

/// An error with its offset in the text.
type Wrong = (usize, Problem);

/// Checks a value. Returns a problem together with its place.
fn checked<T>(spanned: &Spanned<T>, check: impl FnOnce(&T) -> Result<(), Problem>) -> Result<(), Wrong> {
    check(spanned.get_ref()).map_err(|problem| (spanned.span().start, problem))
}

fn build(prefix: &str, entry: Entry) -> Result<Metric, Wrong> {
    let start = entry.name.span().start;
    let kind = *entry.kind.get_ref();
    checked(&entry.name, |name| names::metric(name, prefix, kind))?;
    checked(&entry.help, |help| names::help(help))?;
    let call = call(&entry.call, entry.with)?;
    for path in entry.rows.iter().chain(&entry.value) {
        checked(path, |path| names::path(path))?;
    }
    if entry.labels.len() > MOST_LABELS {
        return Err((start, Problem::TooMany { what: "labels", most: MOST_LABELS }));
    }
    let has_states = entry.states.is_some();
    for (label, path) in &entry.labels {
        checked(label, |label| names::label(label, has_states))?;
        checked(path, |path| names::path(path))?;
    }
    if let Some(format) = &entry.format {
        checked(format, |format| fits(*format, &entry.name, kind, has_states))?;
    }
    if let Some(states) = &entry.states {
        checked(states, |states| are_states(states, kind))?;
    }
    if entry.value.is_none() {
        let needs = match (has_states, kind, &entry.format) {
            (true, ..) => Some("a metric with `states`"),
            (_, Type::Counter, _) => Some("a counter"),
            (.., Some(_)) => Some("a metric with `format`"),
            _ => None,
        };
        if let Some(who) = needs {
            return Err((start, Problem::NoValue { who }));
        }
    }
    Ok(Metric {
        name: entry.name.into_inner(),
        kind,
        help: entry.help.into_inner(),
        call,
        rows: entry.rows.map(Spanned::into_inner).unwrap_or_default(),
        labels: entry.labels.into_iter().map(|(l, p)| (l.into_inner(), p.into_inner())).collect(),
        value: entry.value.map(Spanned::into_inner).unwrap_or_default(),
        format: entry.format.map(Spanned::into_inner).unwrap_or_default(),
        states: entry.states.map(Spanned::into_inner).unwrap_or_default(),
    })
}

/// TARGET/INTERFACE/METHOD.
fn call(text: &Spanned<String>, with: BTreeMap<String, String>) -> Result<Call, Wrong> {
    let parts: Vec<&str> = text.get_ref().split('/').collect();
    let is_word = |part: &&str| {
        let known = |c: char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&c);
        !part.is_empty() && part.len() <= LONGEST && part.chars().all(known)
    };
    let [target, interface, method] = parts[..] else {
        return Err((text.span().start, Problem::Call(shown(text.get_ref()))));
    };
    if !parts.iter().all(is_word) {
        return Err((text.span().start, Problem::Call(shown(text.get_ref()))));
    }
    Ok(Call { target: target.into(), interface: interface.into(), method: method.into(), with })
}

fn fits(format: Format, name: &Spanned<String>, kind: Type, has_states: bool) -> Result<(), Problem> {
    let name = name.get_ref();
    match format {
        _ if has_states => Err(Problem::StatesAndFormat),
        Format::Flag if kind == Type::Counter => Err(Problem::NoCounter("`format = \"flag\"`")),
        Format::Span if !names::ends_in(name, "seconds") => {
            Err(Problem::Unit { name: name.clone(), unit: "seconds" })
        }
        Format::Bytes if !names::ends_in(name, "bytes") => {
            Err(Problem::Unit { name: name.clone(), unit: "bytes" })
        }
        _ => Ok(()),
    }
}

fn are_states(states: &[String], kind: Type) -> Result<(), Problem> {
    if kind == Type::Counter {
        return Err(Problem::NoCounter("`states`"));
    }
    if states.len() > MOST_STATES {
        return Err(Problem::TooMany { what: "states", most: MOST_STATES });
    }
    let distinct: BTreeSet<&String> = states.iter().collect();
    let fits = |state: &String| !state.is_empty() && state.chars().count() <= LONGEST;
    if states.is_empty() || distinct.len() != states.len() || !states.iter().all(fits) {
        return Err(Problem::States);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
