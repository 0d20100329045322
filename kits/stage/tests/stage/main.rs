//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod deletion;
mod expect;
mod live;
mod pipelines;
