//! The reasons for which a package does not come or go.

use crate::start_error::StartError;
use crate::supervise::replace::error::ReplaceError;
use sluice_package::PackageFileError;
use sluice_xrl::XrlError;
use thiserror::Error;

/// The reason for which a package does not come or go. Nothing was changed.
#[derive(Debug, Error)]
pub enum PackageChangeError {
    /// The files are not those of a package, or the folder of packages cannot be written.
    #[error("{0}")]
    Files(#[from] PackageFileError),
    /// The package is there already.
    #[error("package `{name}` {version} is installed already; `sluice package upgrade` replaces it")]
    Installed {
        /// Its name.
        name: String,
        /// The installed version.
        version: String,
    },
    /// There is no package to replace or to remove.
    #[error("there is no package `{0}` in the folder of packages; `sluice package list` names them")]
    NotInstalled(String),
    /// The package is in use.
    #[error("package `{name}` is configured at `{place}`; `delete {place}` and commit, then remove it")]
    Configured {
        /// Its name.
        name: String,
        /// The statement.
        place: String,
    },
    /// Nobody of trust signed the package.
    #[error(
        "package `{name}` is {signed}; with --unsigned it is taken nevertheless, or the key's file goes into {folder}"
    )]
    Unsigned {
        /// Its name.
        name: String,
        /// The result of its signature check.
        signed: String,
        /// The folder of trust.
        folder: String,
    },
    /// The router cannot use the package.
    #[error("package `{name}` is refused: {reason}")]
    Refused {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// Another package could not be used any more.
    #[error("package `{other}` would be refused then: {reason}")]
    Other {
        /// The other package.
        other: String,
        /// Why.
        reason: String,
    },
    /// The configuration would not be valid, or would mean something else.
    #[error("{which} would not be valid then: {reason}")]
    Configuration {
        /// The running configuration, or somebody's candidate.
        which: String,
        /// The error, with the statement.
        reason: String,
    },
    /// The component of the new version does not run; the version before goes on.
    #[error("component {component} of the new version does not start, the version before goes on: {error}")]
    Replace {
        /// The component.
        component: String,
        /// Why not.
        error: ReplaceError,
    },
    /// A component did not take the changed rights.
    #[error("{component} did not take the changed rights, nothing is changed: {error}")]
    Rights {
        /// The component.
        component: String,
        /// Why not.
        error: XrlError,
    },
    /// The router's own part.
    #[error("{0}")]
    Model(Box<StartError>),
    /// The thread that looks at a package ended.
    #[error("the check of the package came to no end: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

impl From<StartError> for PackageChangeError {
    fn from(error: StartError) -> Self {
        PackageChangeError::Model(Box::new(error))
    }
}
