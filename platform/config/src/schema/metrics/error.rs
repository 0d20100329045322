//! The reasons to refuse a `metrics.toml`: the line, the error, and the remedy.

use super::{LONGEST, Type};
use sluice_base::component::format::UnknownFormat;
use thiserror::Error;

/// The reason why a `metrics.toml` is not taken.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("metrics.toml:{line}: {problem}")]
pub struct MetricsError {
    /// The line, from 1.
    pub line: usize,
    /// The error.
    pub problem: Problem,
}

impl MetricsError {
    /// With the line in which the octet `offset` of `text` is.
    pub(super) fn new(text: &str, offset: usize, problem: Problem) -> Self {
        let before = text.as_bytes().iter().take(offset).filter(|octet| **octet == b'\n').count();
        MetricsError { line: before + 1, problem }
    }
}

/// An error in a `metrics.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Problem {
    /// The file has a newer format.
    #[error(transparent)]
    Format(#[from] UnknownFormat),
    /// Not TOML, or with members missing, of the wrong type, or unknown.
    #[error("{0}")]
    Text(String),
    /// More of something than there may be.
    #[error("there are more than {most} {what}; leave some out")]
    TooMany {
        /// The counted things.
        what: &'static str,
        /// The largest number allowed.
        most: usize,
    },
    /// Two metrics of one name.
    #[error("there is a metric `{name}` already; give this one another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// An invalid name, or a name of a different package.
    #[error(
        "`{name}` is no name for a metric of this package: it begins with `{prefix}` and a letter, has small letters, digits and `_`, \
         and ends in no `_`"
    )]
    Name {
        /// The name.
        name: String,
        /// The required prefix.
        prefix: String,
    },
    /// A name with an ending reserved for a meaning.
    #[error("`{name}` ends in `_{ending}`, {}", ending_remedy(.ending, *.kind))]
    Ending {
        /// The name.
        name: String,
        /// The ending.
        ending: &'static str,
        /// The metric's type.
        kind: Type,
    },
    /// A name that does not say the unit.
    #[error("`{name}` is printed in {unit}; let its name end in `_{unit}`")]
    Unit {
        /// The name.
        name: String,
        /// The unit.
        unit: &'static str,
    },
    /// A name that no label can have.
    #[error("`{0}` is no name for a label: small letters, digits and `_`, a letter first")]
    Label(String),
    /// A label that states have by themselves.
    #[error("a metric with `states` has the label `state` by itself; leave it out of `labels`")]
    StateLabel,
    /// A help text that not every reader takes.
    #[error("`help` is one line of 1 to {LONGEST} characters without quotes and backslashes")]
    Help,
    /// A malformed call.
    #[error("`call` is TARGET/INTERFACE/METHOD, as `bgp/bgp.v1.Bgp/GetNeighbors`; `{0}` is not")]
    Call(String),
    /// A malformed path.
    #[error("`{0}` is no path: names of fields with dots between them, as `neighbors.families`")]
    Path(String),
    /// A metric without the value required by its type.
    #[error("{who} needs `value`: where the value is in a row")]
    NoValue {
        /// The type that needs the value.
        who: &'static str,
    },
    /// Something that a counter cannot have.
    #[error("a counter has no {0}: what goes up and down is a gauge")]
    NoCounter(&'static str),
    /// Two ways to read the value.
    #[error("`states` and `format` do not go together; leave one out")]
    StatesAndFormat,
    /// Invalid states.
    #[error("`states` are texts of 1 to {LONGEST} characters, at least one, none twice")]
    States,
}

/// Returns the file's text in a form for a line of a log, without control characters.
pub(super) fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().take(LONGEST).map(one).collect()
}

fn ending_remedy(ending: &str, kind: Type) -> &'static str {
    match (ending, kind) {
        ("total", Type::Counter) => "which samples of a counter get by themselves; leave it out",
        _ => "which has a meaning in other types of metrics; let it end otherwise",
    }
}
