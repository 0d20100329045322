//! The integration tests of this crate, a module for each subject.

#![allow(clippy::unwrap_used)] // a test stops where a value is missing

mod cache;
mod forest;
mod machine;
mod naive;
mod neighbors_hostile;
mod neighbors_segment;
mod neighbors_world;
mod outsiders;
mod principals;
mod program_values;
mod router;
mod wire_messages;
mod wire_packets;
mod wire_properties;
mod wire_tshark;
mod wire_vectors;
mod world;
mod zfilter;
