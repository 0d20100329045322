//! Configurations: the schema of every package, people and their roles, editors and their candidates, the start
//! configuration.

pub mod admission;
pub mod builtin;
pub mod commands;
pub mod file;
pub mod model;
pub mod people;
pub mod ports;
pub mod sharing;
pub mod start;
pub mod trial;
pub mod upgrade;
