//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod digests;
mod engines;
mod joining;
mod shared;
mod world;
mod xdp;
mod xdp_engine;
mod xdp_forwarder;
mod xdp_tables;
