//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod balancer;
mod configuration;
mod frames;
mod golden;
mod machine;
mod maglev;
mod many;
mod roster;
mod store;
mod stream;
mod stream_values;
mod switch;
mod world;
