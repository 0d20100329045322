//! BGP's whole configuration, as `bgp.yang` describes it: statements, their checks, and the configuration that follows from them.

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
