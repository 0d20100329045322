//! `sluice show`: what the router does, as a table or as JSON. What one call and a table say all of is in `commands.toml` of its
//! component; here is the rest.

pub mod configuration;
pub mod interfaces;
pub mod metrics;
pub mod platform;
pub mod routes;
pub mod targets;
