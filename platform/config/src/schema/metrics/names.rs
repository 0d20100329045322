//! Which names and texts a metric may have (OpenMetrics 1.0, "Metric and label names", "Suffixes").

use super::error::shown;
use super::{LONGEST, Problem, STATE, Type};

/// Endings reserved by OpenMetrics for samples of types other than gauges. A family with such an ending could share a
/// sample with a second family.
const TAKEN: [&str; 7] = ["total", "created", "count", "sum", "bucket", "gcount", "gsum"];

/// Returns the prefix of a package's metrics: the package's name in small letters, `_` for every further character, and
/// `_`.
pub fn prefix(package: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let mut prefix: String = package.chars().map(fit).collect();
    prefix.push('_');
    prefix
}

/// Returns true if the last word of `name` is `word`.
pub(super) fn ends_in(name: &str, word: &str) -> bool {
    name.strip_suffix(word).is_some_and(|before| before.ends_with('_'))
}

/// Small letters, digits and `_`, a letter first.
fn is_name(text: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.len() <= LONGEST && text.chars().all(known) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

pub(super) fn metric(name: &str, prefix: &str, kind: Type) -> Result<(), Problem> {
    let rest = name.strip_prefix(prefix);
    if rest.is_none_or(|rest| !is_name(rest)) || name.ends_with('_') {
        return Err(Problem::Name { name: shown(name), prefix: prefix.into() });
    }
    match TAKEN.into_iter().find(|ending| ends_in(name, ending)) {
        Some(ending) => Err(Problem::Ending { name: name.into(), ending, kind }),
        None => Ok(()),
    }
}

pub(super) fn label(name: &str, has_states: bool) -> Result<(), Problem> {
    if has_states && name == STATE {
        return Err(Problem::StateLabel);
    }
    if is_name(name) { Ok(()) } else { Err(Problem::Label(shown(name))) }
}

pub(super) fn help(text: &str) -> Result<(), Problem> {
    let bad = |c: char| c.is_control() || c == '"' || c == '\\';
    let length = text.chars().count();
    if text.trim().is_empty() || length > LONGEST || text.contains(bad) {
        return Err(Problem::Help);
    }
    Ok(())
}

/// Names of fields, with dots between them.
pub(super) fn path(text: &str) -> Result<(), Problem> {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_field = |field: &str| !field.is_empty() && field.chars().all(known);
    if text.len() <= LONGEST && text.split('.').all(is_field) {
        return Ok(());
    }
    Err(Problem::Path(shown(text)))
}
