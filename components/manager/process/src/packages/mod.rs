//! Packages that come and go while the router runs.
//!
//! A package is laid aside first. A thread makes the schema and the rights as they would be with it, and reads the running
//! configuration with them. If all that is valid, one rename installs the package and one pointer makes the router use it; no
//! process but the package's own notices.

mod change;
pub mod error;

pub use error::PackageChangeError;
