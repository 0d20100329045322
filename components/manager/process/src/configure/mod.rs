//! Configurations: the schema of every package, editors and their candidates, the start configuration.

pub mod editors;
pub mod model;
pub mod service;
pub mod start;
pub mod upgrade;
