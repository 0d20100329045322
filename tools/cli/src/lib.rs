//! The command line as data.
//!
//! What an operator may type is a [`Grammar`]: commands with words, arguments and options, each with help. Everything else comes from it:
//! what a line means ([`Grammar::read`]), what may follow at the cursor ([`Grammar::offer`]), manual pages, completion scripts. The
//! same grammar serves the interactive shell and a single command of a Unix shell, where an option may also be written with two
//! dashes. Statements of the configuration are completed from the schema of the router that runs ([`statement`]), so that a module that
//! is dropped in is known at once; a package brings commands of its own as text ([`package`]),
//! and metrics, which are made of what components answer ([`metrics`]).
//!
//! Nothing here does I/O: live values (neighbors, interfaces, entries of lists) are asked for by [`Live`], and whoever drives this
//! fetches them.

pub mod builtin;
mod compose;
mod filter;
mod grammar;
mod kind;
mod line;
pub mod metrics;
pub mod package;
pub mod render;
pub mod spelling;
pub mod statement;
#[cfg(test)]
mod tests;

pub use compose::GroupHelp;
pub use filter::{FilterError, Filters, filters_offer};
pub use grammar::{
    Argument, Candidate, Choice, Command, Grammar, Keyword, Misread, Offer, Read, Values, meant,
};
pub use kind::{Kind, Live};
pub use line::{Line, Word, quoted, split};
