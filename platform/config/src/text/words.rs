//! The words of marks in a text, and paths as words.

use crate::error::Place;
use crate::text::{Word, quoted};
use std::sync::Arc;

/// The word before an inactive statement.
pub(crate) const INACTIVE: &str = "inactive:";

/// The verb of an annotation.
pub(crate) const ANNOTATE: &str = "annotate";

/// The verb that makes a statement inactive.
pub(crate) const DEACTIVATE: &str = "deactivate";

/// The verb that puts an inactive statement in force again.
pub(crate) const ACTIVATE: &str = "activate";

/// A path as the words of a statement.
pub(crate) fn as_words(path: &[Arc<str>]) -> Vec<Word> {
    path.iter().map(|word| Word { text: word.to_string(), place: Place::default() }).collect()
}

/// Words as they are written.
pub(crate) fn written(path: &[Arc<str>]) -> String {
    path.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
