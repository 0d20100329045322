//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod bmp;
mod causes;
mod damping;
mod handover;
mod hits;
mod injection;
mod limits;
mod listen_ranges;
mod messages;
mod model;
mod pace;
mod policies;
mod presence;
mod restart;
mod routes;
mod scenarios;
mod sessions;
mod tshark;
mod validation;
mod wire;
mod world;
