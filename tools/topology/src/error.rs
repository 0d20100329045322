//! What can be wrong with a specification or a file.

use std::path::PathBuf;
use thiserror::Error;

/// The reason why there is no topology.
#[derive(Error, Debug)]
pub enum TopologyError {
    /// The word is no specification.
    #[error("{0}")]
    Spec(String),
    /// A file, or a part of a file, does not match its format.
    #[error("{name}: line {line}: {problem}")]
    Line {
        /// The file, or its description.
        name: String,
        /// The line, counted from 1; the one after the last where something is missing.
        line: usize,
        /// The error.
        problem: Problem,
    },
    /// A file cannot be read or unpacked.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// The error in a line of a file.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// There are fewer fields than the format has.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A field is not a number of its range.
    #[error("`{text}` is not {what}")]
    Number {
        /// The field.
        text: String,
        /// The expected value.
        what: &'static str,
    },
    /// A link's end is no node of the file.
    #[error("there is no node `{0}`")]
    UnknownNode(String),
    /// A node comes twice.
    #[error("node `{0}` was there before")]
    RepeatedNode(String),
    /// A link from a node to itself.
    #[error("`{0}` is linked to itself")]
    SelfLink(String),
    /// Two nodes are linked twice, where that has no meaning.
    #[error("`{0}` and `{1}` were linked before")]
    RepeatedLink(String, String),
    /// More nodes or links than a topology may have.
    #[error("more than {0} {1}")]
    TooMany(usize, &'static str),
    /// The file ends before the announced number of entries.
    #[error("the file announces {said} {what} and has {found}")]
    Count {
        /// The announced number.
        said: usize,
        /// The counted things.
        what: &'static str,
        /// The number that there are.
        found: usize,
    },
    /// The text is no XML.
    #[error("{0}")]
    Xml(String),
}
