//! The output of commands, and the commands of components.
//!
//! A component brings most of its commands as text (`commands.toml`): a call and a table. Where these are not enough, the component has a
//! crate of its own for the command line (`components/NAME/cli`) with a [`ComponentCommands`]: a grammar, and a function that carries a
//! command out with a [`Call`] and an [`Output`].

#![warn(clippy::disallowed_macros)]

mod commands;
mod failure;
mod layout;
mod output;
mod wide;

pub use commands::{Call, ComponentCommands, Done, Hits, Notice, Notices, PolicyHits};
pub use failure::Failure;
pub use layout::{Align, Layout};
pub use output::{Output, Paint, Table, Wanted, addr, complain, fail, net, say, say_lines};
pub use sluice_cli::render::{bytes, counted, span};
pub use wide::{FORMAT as WIDE, widen};
