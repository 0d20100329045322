//! The command line: from words to a command, completion, flags.

pub mod call;
pub mod complete;
pub mod completions;
pub mod flags;
pub mod front;
pub mod policy_words;
