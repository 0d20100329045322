//! Routing policy: acceptance, preference, announcement and redistribution of routes.
//!
//! A policy is a list of terms in order, each with conditions (`from`, `except`) and actions (`then`), in Junos's words
//! ([`source`]). [`PolicySet::compile`] makes a [`Program`] of each policy, whose instructions are verified: no jump leads
//! backwards, each constant exists, each variable has the right type. [`Program::run`] decides on a route without
//! allocating. A protocol brings a table of variables ([`vocabulary`]) and its routes ([`Route`]).
//!
//! Speed lies in the data: an AS-path expression is a deterministic automaton ([`as_path`]), all prefix lists are one trie,
//! walked at most once a route ([`prefix_list`]), communities are sorted numbers ([`community`]).
//!
//! Source: XORP paper, section 5.1 (policy); requirements X10 to X23.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod as_path;
mod bind;
pub mod community;
mod compile;
mod draft;
pub mod edit;
mod error;
pub mod limits;
mod machine;
pub mod prefix_list;
pub mod program;
pub mod source;
#[cfg(test)]
mod test_model;
#[cfg(test)]
mod tests;
pub mod vocabulary;

pub use compile::PolicySet;
pub use draft::Draft;
pub use error::{NameError, PolicyError, unknown};
pub use machine::{Answers, Changes, Decision, Edit, Route, Step, Verdict};
pub use program::Program;
