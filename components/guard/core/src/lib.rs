//! The rules of a guard: a call passes if every limited argument has a permitted value ([`check`]) and the calls are not too
//! many ([`Bucket`]).
//!
//! The limits are those of `rights.toml` ([`sluice_clients::Limit`]). A guard fails closed: an absent argument, an argument of
//! another type, and an address where a text is expected are not permitted.
#![no_std]

extern crate alloc;

mod bucket;
mod check;

pub use bucket::Bucket;
pub use check::{Argument, Breach, check};
