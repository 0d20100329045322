//! Readers of real inputs: compressed files of the shared data folder, packet captures, archives; and tshark as a second decoder.
//!
//! A dev-dependency only. Nothing here is on a router; a reader stops at the first thing that it does not understand and
//! hands out what came before.

pub mod capture;
pub mod heap;
pub mod shared;
pub mod skip;
pub mod tar;
pub mod tshark;

pub use shared::{read, shared};
pub use skip::skipped;
