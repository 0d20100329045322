//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod announced;
mod bench;
mod digests;
mod model;
mod next_hops;
mod plugged;
mod policies;
mod presence;
mod recursion;
mod scenarios;
mod xids;
