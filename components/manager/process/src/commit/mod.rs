//! Commits: a configuration runs everywhere or nowhere, is stored, and is copied into the configuration file.

pub mod candidate;
pub mod carry;
pub mod confirm;
pub mod copy;
pub mod degraded;
pub mod editing;
pub mod editors;
pub mod lockout;
pub mod operator_path;
pub mod refused;
pub mod request;
pub mod shared;
pub mod steps;
pub mod store;
pub mod transaction;
