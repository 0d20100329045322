//! The command line as data.
//!
//! The commands for operators form a [`Grammar`]: commands with words, arguments and options, each with help.
//! Everything else is derived from the grammar: the meaning of a line ([`Grammar::read`]), completions at the cursor
//! ([`Grammar::offer`]), manual pages, completion scripts. The same grammar serves the interactive shell and a single
//! command of a Unix shell, where an option may also be written with two dashes. Statements of the configuration are
//! completed from the schema of the running router ([`statement`]), so that a dropped-in module is known at once; a
//! package brings commands of its own as text ([`package`]), and metrics, which are made of components' answers
//! ([`metrics`]).
//!
//! Nothing here does I/O: live values (neighbors, interfaces, entries of lists) are requested by [`Live`], and the
//! caller fetches the values.

#![warn(clippy::disallowed_macros)]

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
