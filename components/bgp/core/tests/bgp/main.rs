//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod add_path;
mod aggregates;
mod as_options;
mod bmp;
mod causes;
mod damping;
mod default_originate;
mod export;
mod filters;
mod handover;
mod hits;
mod injection;
mod limits;
mod listen_ranges;
mod messages;
mod model;
mod multipath;
mod pace;
mod policies;
mod presence;
mod reflection;
mod restart;
mod scenarios;
mod sessions;
mod tshark;
mod validation;
mod wire;
mod world;
mod xids;
