//! Errors with a place.

use std::fmt;

/// A place in a configuration text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Length in characters of what is there.
    pub length: u32,
}

/// Why a configuration is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The file, as the operator named it.
    pub file: String,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub expected: Option<String>,
    /// The line of the text.
    pub source_line: String,
}

impl ConfigError {
    pub(crate) fn new(file: &str, text: &str, place: Place, message: impl Into<String>) -> Self {
        let index = place.line.saturating_sub(1) as usize;
        ConfigError {
            file: file.into(),
            place,
            message: message.into(),
            expected: None,
            source_line: text.lines().nth(index).unwrap_or_default().into(),
        }
    }

    pub(crate) fn expecting(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
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
