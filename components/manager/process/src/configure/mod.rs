//! Configurations: the schema of every package, people and their roles, editors and their candidates, the start
//! configuration.

pub mod candidate;
pub mod editors;
pub mod file;
pub mod model;
pub mod people;
pub mod ports;
pub mod service;
pub mod sharing;
pub mod start;
pub mod upgrade;
