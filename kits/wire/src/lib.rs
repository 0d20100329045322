//! Octets to values and back: the cursor that decoders read from and the checks that protocols share.
//!
//! A decoder returns what is there, never what it means. Its errors carry the offset and what was expected.
#![no_std]

mod cursor;

pub use cursor::{Cursor, Truncated};
