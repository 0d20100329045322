//! A module with something of everything.

/// The module `example`.
pub const EXAMPLE: &str = include_str!("../example.yang");

/// A path's words.
pub fn path(words: &str) -> Vec<String> {
    words.split_whitespace().map(Into::into).collect()
}
