//! The router manager: the process.
