//! The simulation client: N peers of any BGP daemon that announce a table or a trace, and M that receive, verify and
//! measure.
//!
//! The content, the senders and the order of messages are planned before the first message is sent ([`workload`]), and
//! encoded once ([`stream`]). Sending only writes ready octets. The plan also has the messages that receivers should
//! receive ([`tally`]).

#![warn(clippy::disallowed_macros)]

pub mod cli;
mod ffi;
pub mod index;
pub mod message;
pub mod meter;
pub mod order;
pub mod peers;
pub mod report;
pub mod routes;
pub mod run;
pub mod scenario;
pub mod source;
pub mod stay;
pub mod stream;
pub mod table;
pub mod tally;
pub mod trace;
pub mod wire;
pub mod workload;
#[cfg(test)]
mod workload_tests;

pub use cli::BgpsimArgs;
pub use peers::{aloof, brake, reader, relay, sender, session};
