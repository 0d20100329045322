//! Frames between elements: addresses, authenticated contents, and the keys.

pub mod announce;
pub mod frame;
pub mod header;
pub mod hello;
pub mod key;
pub mod neighbors;
pub mod replay;
pub mod signed;
pub mod sip;
