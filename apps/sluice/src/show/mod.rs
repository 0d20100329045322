//! `sluice show`: the state of the router, as a table or as JSON. Commands made of a call and a table are in the
//! `commands.toml` of their component; the rest is here.

pub mod configuration;
pub mod degraded;
pub mod differences;
pub mod forwarding;
pub mod interfaces;
pub mod memory;
pub mod metrics;
pub mod platform;
pub mod policy;
pub mod routes;
pub mod targets;
