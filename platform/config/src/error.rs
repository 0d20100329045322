//! Errors with a place.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A place in a configuration text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters of what is there.
    pub length: u32,
}

/// The reason why a configuration, or a change of one, is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigError {
    /// The file, as named by the operator; `statement` for an error in a single statement.
    pub file: String,
    /// The place.
    pub place: Place,
    /// The error.
    pub message: String,
    /// The expected words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// A suggestion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Box<str>>,
    /// The line of the text.
    pub source_line: Box<str>,
}

impl ConfigError {
    pub(crate) fn new(file: &str, text: &str, place: Place, message: impl Into<String>) -> Self {
        let index = place.line.saturating_sub(1) as usize;
        ConfigError {
            file: file.into(),
            place,
            message: message.into(),
            expected: None,
            hint: None,
            source_line: text
                .lines()
                .nth(index)
                .filter(|line| line.len() <= LONGEST_LINE)
                .unwrap_or_default()
                .into(),
        }
    }

    /// Returns the error without the line of the text, for a log: a log has more readers, and a secret may stand beside
    /// the error.
    pub fn without_line(self) -> Self {
        ConfigError { source_line: Box::default(), ..self }
    }

    pub(crate) fn expecting(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    pub(crate) fn hinting(mut self, hint: Option<String>) -> Self {
        self.hint = hint.map(Into::into);
        self
    }
}

/// Octets of the longest line that an error repeats.
const LONGEST_LINE: usize = 400;
/// Characters of the longest part of an error's text that is shown whole.
const LONGEST_PART: usize = 1000;

/// A text from outside, made safe for a terminal: control characters, and characters that change the order or the look
/// of their neighbors, are escaped, and a long text is cut.
struct Shown<'t>(&'t str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, c) in self.0.chars().enumerate() {
            if number == LONGEST_PART {
                return write!(f, "... (cut)");
            }
            match c {
                '\t' => write!(f, "\t")?,
                c if is_harmful(c) => write!(f, "{}", c.escape_unicode())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Returns true for controls of terminals, and for invisible characters that reorder, hide or join their neighbors
/// (Unicode category Cf, and the separators of lines and paragraphs).
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, length } = self.place;
        write!(f, "{}:{line}:{column}: {}", Shown(&self.file), Shown(&self.message))?;
        // The likely word before the list of all that are possible.
        if let Some(hint) = &self.hint {
            write!(f, "; {}", Shown(hint))?;
        }
        if let Some(expected) = &self.expected {
            write!(f, "; expected {}", Shown(expected))?;
        }
        if !self.source_line.is_empty() {
            let shown: String =
                self.source_line.chars().map(|c| if is_harmful(c) && c != '\t' { '?' } else { c }).collect();
            let before: String = shown
                .chars()
                .take(column.saturating_sub(1) as usize)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            let length = (length.max(1) as usize).min(LONGEST_LINE);
            write!(f, "\n  {shown}\n  {before}{}", "^".repeat(length))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The errors of a text, in order: at least one, at most [`ConfigErrors::MOST`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The most errors of a text.
    pub const MOST: usize = 20;

    pub(crate) fn new(errors: Vec<ConfigError>) -> Self {
        ConfigErrors(errors)
    }

    /// The errors.
    pub fn all(&self) -> &[ConfigError] {
        &self.0
    }

    /// Returns the errors without the lines of the text, for a log.
    pub fn without_lines(self) -> Self {
        ConfigErrors(self.0.into_iter().map(ConfigError::without_line).collect())
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        ConfigErrors(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let between = if number == 0 { "" } else { "\n" };
            write!(f, "{between}{error}")?;
        }
        if self.0.len() == Self::MOST {
            write!(f, "\nthere may be more errors: these are the first {}", Self::MOST)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Returns a reason of libyang's in the project's words; `None` where the expected values are explanation enough.
pub(crate) fn translated(reason: &str) -> Option<String> {
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let last_quoted = |text: &str| text.rsplit('"').nth(1).map(str::to_owned);
    let begins = |words: &[&str]| words.iter().any(|word| reason.starts_with(word));
    if reason.is_empty() || reason.contains("no matching subtype") || begins(&["Unsatisfied pattern"]) {
        return None;
    }
    if begins(&["Unsatisfied range"]) || reason.contains("min/max bounds") {
        return Some("it is out of range".into());
    }
    if begins(&["Unsatisfied length"]) {
        return Some("it is too short or too long".into());
    }
    if begins(&["Invalid leafref value"]) {
        let value = quoted(reason)?;
        return Some(format!("there is no `{value}` that it could refer to"));
    }
    if begins(&["Invalid", "Failed to convert"]) && reason.contains(" value ") {
        return None;
    }
    if begins(&["Must condition", "When condition"]) {
        let condition = last_quoted(reason)?;
        return Some(format!("it does not fit to the rest: the schema wants `{condition}`"));
    }
    if begins(&["Unique data leaf"]) {
        let leaf = quoted(reason)?;
        return Some(format!("two entries have the same `{leaf}`, which is to be another in each"));
    }
    Some(reason.to_owned())
}

/// An error in a tree.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The place: names and keys from the top.
    pub path: Vec<Arc<str>>,
    pub message: String,
    pub expected: Option<String>,
}

/// The reason why there is no schema.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// libyang could not start.
    #[error("libyang does not start: {0}")]
    Library(String),
    /// A module is not valid.
    #[error("module {name}: {reason}")]
    Module {
        /// Its name.
        name: String,
        /// The error.
        reason: String,
    },
    /// A folder of packages cannot be read.
    #[error("cannot read the packages in {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A leaf does not declare the impact of its change.
    #[error("module {module}: {path} has no sluice:impact; add one of none, soft, refilter, reset, restart")]
    NoImpact {
        /// The module.
        module: String,
        /// The leaf.
        path: String,
    },
}

/// Returns a suggestion for a word, as a question: the nearest of `names`, if any is near.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let allowed = 1 + word.chars().count() / 4;
    let found = names.map(|name| (distance(word, name), name)).filter(|(far, _)| *far <= allowed).min()?;
    Some(format!("did you mean `{}`?", found.1))
}

/// Returns the edit distance of two words: letters inserted, removed, replaced, or swapped with their neighbor.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let near = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { near.min(rows[i - 2][j - 2] + 1) } else { near }
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_harmless_and_short() {
        let text = format!("a \u{1b}[2J\u{202e}b;\n{};\n", "x".repeat(20 << 20));
        let place = |line, length| Place { line, column: 1, length };
        let error = ConfigError::new("f\u{7}", &text, place(1, 3), "`\u{1b}[2J\u{202e}b\u{200b}` is unknown");
        let said = error.to_string();
        assert_eq!(said, "f\\u{7}:1:1: `\\u{1b}[2J\\u{202e}b\\u{200b}` is unknown\n  a ?[2J?b;\n  ^^^");
        let word = "x".repeat(20 << 20);
        let long =
            ConfigError::new("f", &text, place(2, 20 << 20), format!("`{word}` is unknown")).to_string();
        assert!(long.len() < 2000 && long.contains("(cut)"), "{} octets", long.len());
    }
}
