//! Readers of real inputs: compressed files of the shared data folder, packet captures, archives, recorded state; and tshark as a second decoder.
//!
//! A dev-dependency only. No code here runs on a router. A reader stops at the first unknown record and returns the
//! records before it.

pub mod capture;
pub mod golden;
pub mod heap;
pub mod long;
pub mod recording;
pub mod shared;
pub mod skip;
pub mod tar;
pub mod tshark;
pub mod workspace;

pub use shared::{read, shared};
pub use skip::skipped;
