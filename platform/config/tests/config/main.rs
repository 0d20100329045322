//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod addresses;
mod changes;
mod instances;
mod packages;
mod policy;
mod reading;
mod world;
