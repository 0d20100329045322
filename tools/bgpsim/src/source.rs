//! Where the routes come from.

use crate::scenario::Scenario;
use crate::scenario::ScenarioError;
use crate::table::{Size, Table};
use crate::trace::Trace;
use crate::workload::Families;
use anyhow::Result;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The workload source that the user named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A real table, from a file or from any available source.
    Table(Option<PathBuf>),
    /// A trace.
    Trace(PathBuf),
    /// A made-up table.
    Synthetic(Option<Scenario>),
}

/// The content of the source.
#[derive(Debug)]
pub enum Content {
    /// A table.
    Table(Table),
    /// A trace's octets.
    Trace(Vec<u8>),
}

/// A text names no source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SourceError {
    /// The scenario is unknown.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The word is none of the sources.
    #[error("expected table, table:FILE, mrt:FILE, synthetic or synthetic:SCENARIO")]
    Word,
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(s: &str) -> Result<Self, SourceError> {
        match s.split_once(':') {
            None if s == "table" => Ok(Source::Table(None)),
            None if s == "synthetic" => Ok(Source::Synthetic(None)),
            Some(("table", file)) => Ok(Source::Table(Some(file.into()))),
            Some(("mrt", file)) => Ok(Source::Trace(file.into())),
            Some(("synthetic", scenario)) => Ok(Source::Synthetic(Some(scenario.parse()?))),
            _ => Err(SourceError::Word),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Table(None) => f.write_str("table"),
            Source::Table(Some(file)) => write!(f, "table {}", file.display()),
            Source::Trace(file) => write!(f, "trace {}", file.display()),
            Source::Synthetic(_) => f.write_str("synthetic table"),
        }
    }
}

impl Source {
    /// The scenario in the name.
    pub fn scenario(&self) -> Option<Scenario> {
        match self {
            Source::Synthetic(scenario) => *scenario,
            _ => None,
        }
    }

    /// Reads or generates the source: `routes` of the families, with a fifth of IPv6 if both families are in use.
    pub fn load(&self, routes: usize, families: Families, sharing: usize, seed: u64) -> Result<Content> {
        let v6 = match (families.v4, families.v6) {
            (true, true) => routes / 5,
            (_, v6) => routes * usize::from(v6),
        };
        let size = Size { v4: routes - v6, v6 };
        match self {
            Source::Synthetic(_) => Ok(Content::Table(Table::synthetic(size, sharing, seed)?)),
            Source::Table(file) => {
                let (table, _) = sluice_load::source::find(file.as_deref())?;
                Ok(Content::Table(Table::real(&table).thinned(size)))
            }
            Source::Trace(file) => sluice_load::source::unpacked(file).map(Content::Trace),
        }
    }
}

impl Content {
    /// The trace, if the source is a trace.
    pub fn trace(&self) -> Result<Option<Trace<'_>>> {
        match self {
            Content::Table(_) => Ok(None),
            Content::Trace(octets) => Trace::read(octets).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |text: &str, expected: Option<Source>| assert_eq!(text.parse().ok(), expected, "{text}");
        check("table", Some(Source::Table(None)));
        check("table:a:b", Some(Source::Table(Some("a:b".into()))));
        check("mrt:x.gz", Some(Source::Trace("x.gz".into())));
        check("synthetic:7", Some(Source::Synthetic(Some(Scenario::Numbered(7)))));
        check("synthetic:lost", Some(Source::Synthetic(Some(Scenario::Lost))));
        for text in ["", "mrt", "synthetic:9", "tables"] {
            check(text, None);
        }
    }
}
