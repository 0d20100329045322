//! Packages as files: the files of a package ([`files`]), the archive in which a package travels ([`archive`]), the
//! signature of the maker ([`signature`]), and the folder of a host in which packages are installed ([`store`]).
//!
//! Packages come from strangers: no file outside the package is read or written, links and special files are refused, and
//! numbers and sizes are bounded before anything is kept.

pub mod archive;
pub mod error;
pub mod files;
pub mod program;
pub mod signature;
pub mod store;

pub use error::PackageFileError;
pub use files::{Contents, MOST_FILES, MOST_OCTETS};
pub use signature::{SecretKey, Signed, Trust};
pub use store::{Staged, Store};
