//! Secrets in a text: written, or hidden.

/// True if secrets are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrets {
    /// As they are.
    Shown,
    /// As [`HIDDEN`](crate::HIDDEN).
    Hidden,
}

/// The text shown in place of a secret; no secret can have the text.
pub const HIDDEN: &str = "<hidden>";
