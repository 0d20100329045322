//! XIP: the process.

mod ffi;
pub mod maps;
