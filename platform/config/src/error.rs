//! Errors with a place.

use serde::{Deserialize, Serialize};
use std::fmt;
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

/// Why a configuration, or a change of one, is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigError {
    /// The file, as the operator named it; `statement` if this is about one that was given by itself.
    pub file: String,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was probably meant.
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
            source_line: text.lines().nth(index).unwrap_or_default().into(),
        }
    }

    /// The same without the line of the text, for a log: others read that, and a secret may stand beside what is wrong.
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

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, length } = self.place;
        write!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        if !self.source_line.is_empty() {
            let before: String = self
                .source_line
                .chars()
                .take(column.saturating_sub(1) as usize)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n  {}\n  {before}{}", self.source_line, "^".repeat(length.max(1) as usize))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Why there is no schema.
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
        /// What is wrong.
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
    /// A leaf says nothing about what its change costs.
    #[error("module {module}: {path} has no sluice:impact; add one of none, soft, refilter, reset, restart")]
    NoImpact {
        /// The module.
        module: String,
        /// The leaf.
        path: String,
    },
}

/// What was probably meant by a word, as a question: the nearest of `names`, if one is near.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let allowed = 1 + word.chars().count() / 4;
    let found = names.map(|name| (distance(word, name), name)).filter(|(far, _)| *far <= allowed).min()?;
    Some(format!("did you mean `{}`?", found.1))
}

/// How many letters have to be put in, taken out, replaced, or swapped with their neighbor, to make `b` of `a`.
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
