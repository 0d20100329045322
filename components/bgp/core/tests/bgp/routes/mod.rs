//! The routes that a neighbor is sent, by capabilities, options and rules.

mod add_path;
mod aggregates;
mod as_options;
mod default_originate;
mod export;
mod filters;
mod multipath;
mod reflection;
mod xids;
