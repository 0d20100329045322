//! Policies tried out: what a policy does with a route, step by step, and with the routes of a trace.
//!
//! The policies are those of a configuration in JSON ([`Trial`]). A route is written in words ([`route`]) or read from a trace in
//! MRT ([`trace`]). Either passes through the same machine and the same octets as in a router, so that the answer is the
//! router's.

#![warn(clippy::disallowed_macros)]

pub mod explain;
pub mod offer;
pub mod report;
pub mod route;
mod subject;
pub mod trace;
mod trial;

pub use subject::Subject;
pub use trial::{Question, Report, Trial, TrialError};
