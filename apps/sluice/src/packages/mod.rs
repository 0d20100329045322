//! Commands of components and packages.

pub mod check;
pub mod commands;
