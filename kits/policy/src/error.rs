//! Errors of policies: the place in the configuration, and the remedy.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The most characters of a value in an error.
const LONGEST_SHOWN: usize = 60;

/// The reason why policies are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// The statement in the configuration: names and keys below `policy`.
    pub place: Vec<String>,
    /// The error, and the expected text.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("policy")?;
        self.place.iter().try_for_each(|word| write!(f, " {word}"))?;
        write!(f, ": {}", self.message)
    }
}

impl core::error::Error for PolicyError {}

/// The reason why a name stands for no usable policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameError {
    /// There is no such policy; the text has the most similar name, or all names.
    Unknown(String),
    /// The policy has parameters: only policies can use it.
    HasParameters(String),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Unknown(text) => f.write_str(text),
            NameError::HasParameters(name) => {
                write!(f, "`{name}` has parameters; use a policy without parameters that calls `{name}`")
            }
        }
    }
}

impl core::error::Error for NameError {}

/// Returns the beginning of a text, for an error.
pub(crate) fn shown(text: &str) -> &str {
    let end = text.char_indices().nth(LONGEST_SHOWN).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Returns the message about an unknown name, with the most similar known one.
pub fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str> + Clone) -> String {
    let name = shown(name);
    match nearest(name, known.clone()) {
        Some(similar) => format!("there is no {what} `{name}`; did you mean `{similar}`?"),
        None => {
            let first: Vec<&str> = known.take(10).collect();
            let known = if first.is_empty() { "none".to_owned() } else { first.join(", ") };
            format!("there is no {what} `{name}`; there are: {known}")
        }
    }
}

/// Returns the most similar known name, within an edit distance of 2.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let all = known.into_iter().map(|name| (distance(wrong, name), name));
    all.filter(|(distance, name)| *distance <= 2 && *distance < name.len()).min().map(|(_, name)| name)
}

/// Returns the number of insertions, deletions and replacements from a name to another name (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let known = ["local-preference", "metric", "tag"];
        assert_eq!(nearest("local-preferance", known), Some("local-preference"));
        assert_eq!(nearest("metirc", known), Some("metric"));
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(shown(&"ä".repeat(100)).chars().count(), 60);
    }
}
