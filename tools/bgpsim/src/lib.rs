//! The simulation client: N peers of any BGP daemon that say a table or a trace, and M that listen, verify and time.
//!
//! What is said, by whom and in which order is planned before anything is sent ([`workload`]), and encoded once ([`stream`]), so that
//! sending is nothing but writing ready octets. What receivers should hear is part of the plan ([`tally`]).

pub mod aloof;
pub mod brake;
pub mod cli;
mod ffi;
pub mod index;
pub mod message;
pub mod meter;
pub mod order;
pub mod reader;
pub mod relay;
pub mod report;
pub mod routes;
pub mod run;
pub mod scenario;
pub mod sender;
pub mod session;
pub mod source;
pub mod stay;
pub mod stream;
pub mod table;
pub mod tally;
pub mod trace;
pub mod workload;
#[cfg(test)]
mod workload_tests;

pub use cli::BgpsimArgs;
