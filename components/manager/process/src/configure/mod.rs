//! Configurations: the schema of all packages, editors and their candidates, the configuration that the router starts with.

pub mod editors;
pub mod model;
pub mod service;
pub mod start;
pub mod upgrade;
