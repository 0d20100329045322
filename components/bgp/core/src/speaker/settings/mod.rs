//! BGP's whole configuration, described by `bgp.yang`: statements, checks, and the resulting configuration.

mod addresses;
mod check;
mod config;
pub(super) mod error;
mod inheritance;
mod injection;
mod ranges;
mod remarks;
pub(super) mod statements;

pub use error::{Owner, SettingsError};
pub use statements::{Scheduling, Settings};
