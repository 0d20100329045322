//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod aspas;
mod caches;
mod handover;
mod session;
mod wire;
mod world;
