//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod calls;
mod finder;
mod flow;
mod keys;
mod limits;
mod routes;
mod support;
mod text;
