//! XIP: the process.

pub mod maps;
